package app

import (
	"net/http"
	"testing"
)

// An event that comes without documents is noted for the audit, if its document may have left a
// counter. Others are not, nor is each of many.
func TestLargeEventsAreNoted(t *testing.T) {
	w := newWorld(t, ordersByShop+"\ncounters/{counter}/shards/{shard} -> rollups/{counter} : count")
	s := w.stores["(default)"]
	w.run(func() {
		for _, test := range []struct {
			id, path string
			large    bool
			notes    int // so far
		}{
			{"small", "orders/1", false, 0},
			{"of a shard", "counters/likes/shards/0", true, 0},
			{"first", "orders/1", true, 1},
			{"second", "orders/2", true, 1},
		} {
			e := w.changed(test.id, test.path, fields{"shop": "a"}, fields{"shop": "b"})
			if test.large {
				e.Body = nil
			}
			if status, _ := w.deliver(request(w.t, e)); status != http.StatusOK || len(s.notes) != test.notes {
				w.t.Errorf("%s: status %d and %d notes, want 200 and %d", test.id, status, len(s.notes), test.notes)
			}
		}
	})
}
