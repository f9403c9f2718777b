package app

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/firestore-tally/tally/internal/tool/local/eventrelay"
	"github.com/firestore-tally/tally/rollup/route"
	"github.com/googleapis/google-cloudevents-go/cloud/firestoredata"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// What the app makes of documents that belong to counters by a field.

const ordersByShop = "TALLY_ROUTES=orders/{order} by shop -> shops/{shop} : count() as orders, sum(amount) as revenue : existing"

// fields are a document's, of strings, int64s, times, nulls, references and maps, which stay empty;
// nil: there is no document.
type fields map[string]any

// A reference is the path of a document.
type reference string

// changed returns the event of a change to a document, and puts what it holds now into the store.
func (w *world) changed(id, path string, before, after fields) eventrelay.Event {
	w.t.Helper()
	s := w.stores["(default)"]
	at := s.Now()
	if after != nil {
		at = s.Put(path, maps.Clone(after))
	} else {
		s.Delete(path)
	}

	document := func(of fields) *firestoredata.Document {
		if of == nil {
			return nil
		}
		d := &firestoredata.Document{Name: "projects/" + project + "/databases/(default)/documents/" + path, Fields: make(map[string]*firestoredata.Value)}
		d.UpdateTime = timestamppb.New(at)
		for name, value := range of {
			switch value := value.(type) {
			case string:
				d.Fields[name] = &firestoredata.Value{ValueType: &firestoredata.Value_StringValue{StringValue: value}}
			case map[string]any:
				d.Fields[name] = &firestoredata.Value{ValueType: &firestoredata.Value_MapValue{MapValue: new(firestoredata.MapValue)}}
			case []any:
				d.Fields[name] = &firestoredata.Value{ValueType: &firestoredata.Value_ArrayValue{ArrayValue: new(firestoredata.ArrayValue)}}
			case reference:
				d.Fields[name] = &firestoredata.Value{ValueType: &firestoredata.Value_ReferenceValue{ReferenceValue: string(value)}}
			case time.Time:
				d.Fields[name] = &firestoredata.Value{ValueType: &firestoredata.Value_TimestampValue{TimestampValue: timestamppb.New(value)}}
			case nil:
				d.Fields[name] = &firestoredata.Value{ValueType: &firestoredata.Value_NullValue{}}
			case int:
				d.Fields[name] = &firestoredata.Value{ValueType: &firestoredata.Value_IntegerValue{IntegerValue: int64(value)}}
			case int64:
				d.Fields[name] = &firestoredata.Value{ValueType: &firestoredata.Value_IntegerValue{IntegerValue: value}}
			}
		}
		return d
	}
	e, err := eventrelay.NewEvent(id, at, document(before), document(after))
	if err != nil {
		w.t.Fatal(err)
	}
	return e
}

// looked returns the counters that were looked at since the n-th look, in order.
func (s *store) looked(n int) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var counters []string
	for _, c := range s.looks[n:] {
		counters = append(counters, c.counter)
	}
	slices.Sort(counters)
	return counters
}

// A time that the server set may be null in the event. The event then concerns the day that the
// document has, which is read once.
func TestHiddenTime(t *testing.T) {
	w := newWorld(t, "TALLY_ROUTES=orders/{order} by shop, day(at) -> shops/{shop}/days/{day} : count() as orders, sum(amount) as revenue : existing")
	s := w.stores["(default)"]
	w.run(func() {
		day := time.Date(2026, 11, 27, 0, 0, 0, 0, time.UTC)
		for _, day := range []string{"2026-11-26", "2026-11-27"} {
			s.Put("shops/a/days/"+day, map[string]any{"name": "x"})
		}
		at := func(t any, amount int64) fields { return fields{"shop": "a", "at": t, "amount": amount} }
		for i, step := range []struct {
			before, after fields // as the event has them
			has           any    // the time that the document has
			want          []string
		}{
			{nil, at(nil, 5), day, []string{"shops/a/days/2026-11-27"}},
			{at(day, 5), at(nil, 6), day.Add(-1), []string{"shops/a/days/2026-11-26", "shops/a/days/2026-11-27"}},
			{at(nil, 6), at(nil, 7), day.Add(-1), []string{"shops/a/days/2026-11-26"}},
			{at(nil, 7), at(day, 7), day, []string{"shops/a/days/2026-11-27"}},
			{at(day, 7), at(day, 7), day, nil},
			{at(nil, 7), rolledUp(at(nil, 7)), day, nil},
			{nil, at(nil, 7), nil, nil},
			{nil, at("today", 7), "today", nil},
		} {
			looks := len(s.looks)
			e := w.changed(fmt.Sprint("e", i), "orders/1", step.before, step.after)
			s.Put("orders/1", map[string]any{"shop": "a", "at": step.has, "amount": step.after["amount"]})
			if status, _ := w.deliver(request(w.t, e)); status != http.StatusOK {
				w.t.Errorf("step %d: status %d", i, status)
			}
			if got := slices.Compact(s.looked(looks)); !slices.Equal(got, step.want) {
				w.t.Errorf("step %d: looked at %v, want %v", i, got, step.want)
			}
		}
		if s.saved > 0 {
			w.t.Errorf("%d notes, want none", s.saved)
		}
	})
}

// rolledUp returns a document as a roll-up leaves it.
func rolledUp(f fields) fields {
	after := maps.Clone(f)
	after["tally"] = map[string]any{"num_shards": int64(1)}
	return after
}

// An event concerns the counters of its old and its new document, and no other.
func TestGroups(t *testing.T) {
	w := newWorld(t, ordersByShop)
	s := w.stores["(default)"]
	w.run(func() {
		for _, shop := range []string{"a", "b"} {
			s.Put("shops/"+shop, map[string]any{"name": shop})
		}
		for i, step := range []struct {
			path          string
			before, after fields
			want          []string // that are looked at
			a, b          int64    // the shops' orders
		}{
			{"orders/1", nil, fields{"shop": "a", "amount": int64(5)}, []string{"shops/a"}, 1, 0},
			{"orders/2", nil, fields{"shop": "a", "amount": int64(7)}, []string{"shops/a"}, 2, 0},
			{"orders/1", fields{"shop": "a", "amount": int64(5)}, fields{"shop": "b", "amount": int64(5)}, []string{"shops/a", "shops/b"}, 1, 1},
			{"orders/1", fields{"shop": "b", "amount": int64(5)}, fields{"shop": "b", "amount": int64(5), "note": "x"}, nil, 1, 1},
			{"orders/1", fields{"shop": "b", "amount": int64(5)}, fields{"amount": int64(5)}, []string{"shops/b"}, 1, 0},
			{"orders/1", fields{"amount": int64(5)}, fields{"shop": "b/c", "amount": int64(5)}, nil, 1, 0},
			{"orders/1", fields{"shop": "b/c", "amount": int64(5)}, fields{"shop": "b", "amount": int64(5)}, []string{"shops/b"}, 1, 1},
			{"orders/1", fields{"shop": "b", "amount": int64(5)}, nil, []string{"shops/b"}, 1, 0},
		} {
			looks := len(s.looks)
			e := w.changed(fmt.Sprint("e", i), step.path, step.before, step.after)
			if status, _ := w.deliver(request(w.t, e)); status != http.StatusOK {
				w.t.Errorf("step %d: status %d", i, status)
			}
			if got := s.looked(looks); !slices.Equal(got, step.want) {
				w.t.Errorf("step %d: looked at %v, want %v", i, got, step.want)
			}
			for shop, want := range map[string]int64{"shops/a": step.a, "shops/b": step.b} {
				if got, ok := s.Get(shop)["orders"].(int64); got != want || !ok && want > 0 {
					w.t.Errorf("step %d: %s has %v orders, want %d", i, shop, s.Get(shop)["orders"], want)
				}
			}
			time.Sleep(2 * time.Second) // none is absorbed
		}
	})
}

// An event that concerns two counters fails if one of them does, and its line names both.
func TestLineOfTwoCounters(t *testing.T) {
	w := newWorld(t, ordersByShop)
	s := w.stores["(default)"]
	w.run(func() {
		s.Put("shops/a", map[string]any{})
		s.Put("shops/b", map[string]any{})
		s.view = func(ctx context.Context, c route.Counter, _ int) error {
			if c.RollUp == "shops/b" {
				return hang(ctx)
			}
			return nil
		}
		e := w.changed("moved", "orders/1", fields{"shop": "a"}, fields{"shop": "b"})
		if status, after := w.deliver(request(w.t, e)); status != http.StatusInternalServerError || after != 8*time.Second {
			w.t.Errorf("status %d after %v, want 500 after 8 s", status, after)
		}
		if orders := s.Get("shops/a")["orders"]; orders != int64(0) {
			w.t.Errorf("the counter that did not fail has %v", orders)
		}
	})
	if lines := w.log.lines("event not acknowledged", `"event_id":"moved"`, `"counter":"shops/a, shops/b"`); len(lines) != 1 {
		t.Errorf("got %d lines of both counters, want 1:\n%s", len(lines), &w.log)
	}
}

// A document that belongs to no counter, before and after, costs nothing: not even a connection.
// The log has each reason once in ten minutes.
func TestNoGroup(t *testing.T) {
	w := newWorld(t, ordersByShop)
	w.run(func() {
		for i, after := range []fields{{}, {"shop": int64(7)}, {"shop": ""}, {"shop": "a/b"}, {"shop": ".."}, nil} {
			e := w.changed(fmt.Sprint("e", i), "orders/1", fields{"shop": "__x__"}, after)
			if status, took := w.deliver(request(w.t, e)); status != http.StatusOK || took != 0 {
				w.t.Errorf("%v: status %d after %v, want 200 at once", after, status, took)
			}
		}
	})
	if n := w.opened.Load(); n != 0 {
		t.Errorf("%d databases were opened", n)
	}
	if lines := w.log.lines(`"event_id"`); len(lines) > 0 {
		t.Errorf("the log has\n%s", &w.log)
	}
}

// The log says why a document belongs to no counter, and why it is in no window: each reason once
// in ten minutes. It says nothing of a deletion, or of a document without a window's time.
func TestOmissionsAreLogged(t *testing.T) {
	const window = "TALLY_ROUTES=orders/{order} -> totals/orders : count() where at > now - 24h as lately"
	for _, test := range []struct {
		variables []string
		field     string
		values    []any // nil: the document lacks the field
		message   string
		want      map[string]int
	}{
		{[]string{ordersByShop}, "shop", []any{nil, int64(7), "", "a/b", reference("shops/a"), []any{"a", "b"}}, "a document belongs to no counter", map[string]int{
			"it has no field shop":                  2,
			"its shop is a number, not a string":    2,
			"its shop is empty":                     2,
			"which holds a slash":                   2,
			"its shop is a reference, not a string": 2,

			`"reason":"an array","why":"its shop is an array, and a document is in one group`: 2,
		}},
		{[]string{window, "TALLY_QUEUE=projects/p/locations/l/queues/tally", "TALLY_QUEUE_URL=https://tally.example/RollUpOnWrite", "CLOUD_TASKS_EMULATOR_HOST=127.0.0.1:1"},
			"at", []any{nil, "2026-01-01", int64(7)}, "a document is in no window", map[string]int{
				`"reason":"at is a string","why":"its at is a string, not a timestamp"`: 2,
				`"reason":"at is a number","why":"its at is a number, not a timestamp"`: 2,

				`"reason":`: 4,
			}},
	} {
		w := newWorld(t, test.variables...)
		w.run(func() {
			n := 0
			for range 3 {
				for _, value := range test.values {
					after := fields{test.field: value}
					if value == nil {
						after = fields{}
					}
					for _, change := range [][2]fields{{nil, after}, {after, after}, {after, nil}} {
						n++
						w.deliver(request(w.t, w.changed(fmt.Sprint("e", n), fmt.Sprint("orders/", n), change[0], change[1])))
					}
				}
				time.Sleep(7 * time.Minute)
			}
		})
		for why, want := range test.want {
			lines := w.log.lines(`"severity":"INFO","message":"`+test.message+`"`, `"document":"orders/`, why)
			if len(lines) != want {
				t.Errorf("%s: %d lines, want %d:\n%s", why, len(lines), want, &w.log)
			}
		}
	}
}

// An event that comes without documents concerns the counter that its document is in now. Where the
// path alone says that, nothing is read.
func TestGroupOfLargeEvent(t *testing.T) {
	w := newWorld(t, ordersByShop+"\ncounters/{counter}/shards/{shard} -> rollups/{counter} : count")
	s := w.stores["(default)"]
	w.run(func() {
		s.Put("shops/b", map[string]any{})
		for i, test := range []struct {
			path  string
			after fields
			reads int
			looks []string
		}{
			{"orders/1", fields{"shop": "b", "amount": int64(5)}, 1, []string{"shops/b"}},
			{"orders/2", fields{"amount": int64(5)}, 1, nil},
			{"orders/3", nil, 1, nil}, // it is deleted by now; the audit finds what it left
			{"counters/likes/shards/0", fields{"count": int64(5)}, 0, []string{"rollups/likes"}},
		} {
			looks, reads := len(s.looks), s.reads
			e := w.changed(fmt.Sprint("e", i), test.path, fields{"shop": "a"}, test.after)
			e.Body = nil
			if status, _ := w.deliver(request(w.t, e)); status != http.StatusOK || s.reads-reads != test.reads {
				w.t.Errorf("%s: status %d after %d reads, want 200 after %d", test.path, status, s.reads-reads, test.reads)
			}
			if got := s.looked(looks); !slices.Equal(got, test.looks) {
				w.t.Errorf("%s: looked at %v, want %v", test.path, got, test.looks)
			}
		}
	})
	if got := s.Get("shops/b")["revenue"]; got != int64(5) {
		t.Errorf("revenue %v, want 5", got)
	}
}

// When its document cannot be read, such an event fails and is delivered again. However long the
// read takes, the event is held no longer than any other.
func TestGroupThatCannotBeRead(t *testing.T) {
	const half, whole = 4 * time.Second, 8 * time.Second
	answers := func(context.Context) error { return nil }
	refuses := func(context.Context) error { return errors.New("unavailable") }
	late := func(ctx context.Context) error {
		select {
		case <-time.After(half - time.Second):
			return nil
		case <-ctx.Done():
			return hang(ctx)
		}
	}
	for _, test := range []struct {
		name       string
		read, look func(context.Context) error
		after      time.Duration
	}{
		{"refused", refuses, answers, 0},
		{"no answer", hang, answers, half},
		{"a late answer, and none to the look", late, hang, whole},
	} {
		w := newWorld(t, ordersByShop)
		s := w.stores["(default)"]
		w.run(func() {
			s.Put("shops/b", map[string]any{})
			var fixed atomic.Bool
			unless := func(fails func(context.Context) error) func(context.Context) error {
				return func(ctx context.Context) error {
					if fixed.Load() {
						return nil
					}
					return fails(ctx)
				}
			}
			s.read = unless(test.read)
			s.view = func(ctx context.Context, _ route.Counter, _ int) error { return unless(test.look)(ctx) }
			e := w.changed("large", "orders/1", nil, fields{"shop": "b"})
			e.Body = nil
			if status, after := w.deliver(request(w.t, e)); status != http.StatusInternalServerError || after != test.after {
				w.t.Errorf("%s: status %d after %v, want 500 after %v", test.name, status, after, test.after)
			}
			if lines := w.log.lines(`"severity":"WARNING"`, "event not acknowledged", `"event_id":"large"`); len(lines) != 1 {
				w.t.Errorf("%s: got %d lines, want 1:\n%s", test.name, len(lines), &w.log)
			}

			fixed.Store(true)
			if status, _ := w.deliver(request(w.t, e)); status != http.StatusOK || s.Get("shops/b")["orders"] != int64(1) {
				w.t.Errorf("%s: delivered again: status %d and %v", test.name, status, s.Get("shops/b"))
			}
		})
	}
}

// The event of a document that holds totals and no tally concerns its own counter, too: a user may
// have made them up.
func TestForgedHomeConcernsItself(t *testing.T) {
	w := newWorld(t, "TALLY_ROUTES=posts/{post}/likes/{user} -> posts/{post} : count() as likes : existing\nposts/{post} by author -> users/{author} : sum(likes) as karma : existing")
	s := w.stores["(default)"]
	w.run(func() {
		s.Put("users/ann", map[string]any{})
		forged := fields{"author": "ann", "likes": int64(1e6)}
		for i, after := range []fields{forged, rolledUp(forged)} {
			s.Put("posts/7", after)
			e := w.changed(fmt.Sprint("e", i), "posts/7", nil, after)
			if status, _ := w.deliver(request(w.t, e)); status != http.StatusOK {
				w.t.Errorf("status %d", status)
			}
			if got := s.Get("posts/7")["likes"]; got != int64(0) {
				w.t.Errorf("the post has %v likes", got)
			}
		}
	})
}
