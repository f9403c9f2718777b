package app

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
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
			{"created", "orders/2", true, 0},
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

// An event without its documents, of a route whose roll-ups are among its own sources, is noted by
// the counter's name. It causes no look.
func TestLargeEventsOfCircles(t *testing.T) {
	w := newWorld(t, "TALLY_ROUTES=comments/{comment} by parent -> comments/{parent} : count() as replies : existing; stories/{story} -> stories/all : count() as stories : existing")
	s := w.stores["(default)"]
	w.run(func() {
		for path, f := range map[string]fields{"comments/a": {"parent": "a"}, "stories/all": {}, "stories/1": {}} {
			s.Put(path, f)
		}
		for i, path := range []string{"comments/a", "stories/1", "stories/all", "comments/gone"} {
			e := w.changed(fmt.Sprint("e", i), path, fields{"parent": "a"}, fields{"parent": "a", "text": "x"})
			e.Body = nil
			if status, _ := w.deliver(request(w.t, e)); status != http.StatusOK {
				w.t.Errorf("%s: status %d", path, status)
			}
		}
		note, err := s.LoadNote(w.t.Context(), "note-counters")
		named := slices.Sorted(maps.Keys(note.Counters))
		if err != nil || !slices.Equal(named, []string{"comments/a", "stories/all"}) || len(s.looks) > 0 {
			w.t.Errorf("the note names %v after looks at %v: %v", named, s.looks, err)
		}
	})
}

// An event that no route covers is acknowledged without effect. Audits are told, because the routes
// may be others again: once a minute, and in its database only. If that fails, the event must come
// again.
func TestDroppedIsNoted(t *testing.T) {
	w := newWorld(t, "TALLY_DATABASES=(default),other")
	first, other := w.stores["(default)"], w.stores["other"]
	w.run(func() {
		drop := func(id, of, database string) int {
			status, _ := w.deliver(event(w.t, id, of, database, "pages/p/shards/0"))
			return status
		}
		first.failNotes = errors.New("unavailable")
		if status := drop("fails", project, "(default)"); status != http.StatusInternalServerError {
			w.t.Errorf("status %d of an event that could not be noted, want 500", status)
		}
		first.failNotes = nil
		for _, id := range []string{"a", "b"} {
			if status := drop(id, project, "(default)"); status != http.StatusOK {
				w.t.Errorf("%s: status %d", id, status)
			}
		}
		if status := drop("unserved", "another", "other"); status != http.StatusOK {
			w.t.Errorf("unserved: status %d", status)
		}
		if len(first.notes) != 2 || first.notes[1] != "note-all" || len(other.notes) != 0 {
			w.t.Errorf("notes %v, elsewhere %v; want one after the one that failed", first.notes, other.notes)
		}
	})
}
