package apps

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/test/emulatortest"
	"github.com/firestore-tally/tally/internal/tool/local/eventrelay"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestCounters(t *testing.T) {
	t.Parallel()
	const shards = "counters/c/shards/"
	values := func(values ...any) func(*database) {
		return func(w *database) {
			for i, v := range values {
				w.set(fmt.Sprint(shards, i), map[string]any{"count": v})
			}
		}
	}
	for _, test := range []struct {
		name   string
		write  func(w *database)
		rollUp string
		want   map[string]any
		logged []string // parts of one line
	}{
		{"negative", values(-7, 2), "rollups/c", count(int64(-5), 2), nil},
		{"float", values(0.5, 0.25), "rollups/c", count(0.75, 2), nil},
		{"mixed", values(1, 0.5), "rollups/c", count(1.5, 2), nil},
		{"above 2^53", values(1<<53, 1), "rollups/c", count(int64(1<<53+1), 2), nil},
		{"beyond int64", values(math.MaxInt64, math.MaxInt64), "rollups/c", count(float64(1<<64), 2), nil},
		{"text", values(5, "7"), "rollups/c", count(int64(5), 2), []string{`"severity":"WARNING"`, shards + "1", "a string, not a number"}},
		{"NaN", values(5, math.NaN()), "rollups/c", count(int64(5), 2), []string{`"severity":"WARNING"`, shards + "1", "is NaN"}},
		{"infinite", values(5, math.Inf(-1)), "rollups/c", count(int64(5), 2), []string{`"severity":"WARNING"`, shards + "1", "is -Inf"}},
		{"a shard deleted", func(w *database) { values(1, 2, 4)(w); w.delete(shards + "1") }, "rollups/c", count(int64(5), 2), nil},
		{"all shards deleted", func(w *database) { values(1, 2)(w); w.delete(shards + "0"); w.delete(shards + "1") }, "rollups/c", count(int64(0), 0), nil},
		{"a parent document", func(w *database) { w.set("counters/c", map[string]any{"num_shards": 10}); values(3)(w) }, "rollups/c", count(int64(3), 1), nil},
		{"two fields, some with one",
			func(w *database) {
				w.set("posts/p/counters/c/shards/0", map[string]any{"likes": 1})
				w.set("posts/p/counters/c/shards/1", map[string]any{"views": 2})
				w.set("posts/p/counters/c/shards/2", map[string]any{"likes": 10, "views": 20})
			},
			"posts/p/rollups/c", map[string]any{"likes": int64(11), "views": int64(22), "num_shards": int64(2)}, nil},
		{"ids of many characters", func(w *database) {
			w.set("counters/größe 三 👍🏽.%2F?#:/shards/٣", map[string]any{"count": 3})
		},
			"rollups/größe 三 👍🏽.%2F?#:", count(int64(3), 1), nil},
		{"ids that no header can carry", func(w *database) {
			for _, id := range []string{" ", "ann ", "٣ ", "tab\t", "a\tb"} {
				w.set("counters/ann /shards/"+id, map[string]any{"count": 3})
			}
		},
			"rollups/ann ", count(int64(15), 5), nil},
		{"ids with control characters", func(w *database) {
			for i, id := range []string{"\x00", "a\nb", "a\r\nCe-Id: x", "\x7f"} {
				path := "counters/a\nb\x01/shards/" + id
				w.set(path, map[string]any{"count": 3})
				// The emulator loses the event of such a document.
				if err := w.relay.Deliver(newEvent(w.t, fmt.Sprint("control-", i), w.project(), path)); err != nil {
					w.t.Error(err)
				}
			}
		},
			"rollups/a\nb\x01", count(int64(12), 4), nil},
		{"documents that an event has no room for", func(w *database) {
			text := strings.Repeat("x", 300<<10) // once in an event, but not twice
			for i, id := range []string{"0", "ann "} {
				w.set(shards+id, map[string]any{"count": 3, "text": text})
				w.wantRollUp("rollups/c", count(int64(5*i+3), int64(i+1)))
				w.set(shards+id, map[string]any{"count": 5, "text": text})
				w.wantRollUp("rollups/c", count(int64(5*i+5), int64(i+1)))
			}
		},
			"rollups/c", count(int64(10), 2), nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newDatabase(t, emulatortest.Project(t), "(default)", counters, eventrelay.Faults{}, defaultPattern, nestedPattern)
			test.write(w)
			w.wantRollUp(test.rollUp, test.want)
			w.wantAcknowledged()
			if test.logged != nil && logs.lines(test.logged...) == nil {
				t.Errorf("no log line with %q", test.logged)
			}
		})
	}
}

// Increments from many clients, with events that come twice, late, out of order and again after
// they were acknowledged.
func TestEventsGoWrong(t *testing.T) {
	t.Parallel()
	faults := eventrelay.Faults{Seed: 1, Duplicates: 0.3, LostAcks: 0.3, Delay: 300 * time.Millisecond}
	w := newDatabase(t, emulatortest.Project(t), "(default)", counters, faults, defaultPattern)
	const clients, each = 8, 40
	var all sync.WaitGroup
	var mu sync.Mutex
	for c := range clients {
		all.Go(func() {
			for i := range each {
				shard := w.client.Doc(fmt.Sprintf("counters/c/shards/%d", (c+i)%5))
				result, err := shard.Set(t.Context(), map[string]any{"count": firestore.Increment(c - 3)}, firestore.MergeAll)
				mu.Lock()
				if err != nil {
					t.Error(err)
				} else {
					w.written(result, nil)
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	w.wantRollUp("rollups/c", count(int64(each*(0+1+2+3+4-1-2-3)), 5))
	ctx, cancel := context.WithTimeout(t.Context(), emulatortest.Eventually())
	defer cancel()
	if err := w.relay.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	if s := w.relay.Stats(); s.Redelivered == 0 || s.Duplicated == 0 {
		t.Errorf("nothing went wrong: %+v", s)
	}
	w.wantRollUp("rollups/c", count(int64(each*4), 5))
}

func TestNamedDatabase(t *testing.T) {
	t.Parallel()
	project := emulatortest.Project(t)
	w := newDatabase(t, project, "other", counters, eventrelay.Faults{}, defaultPattern)
	w.set("counters/c/shards/0", map[string]any{"count": 3})
	w.wantRollUp("rollups/c", count(int64(3), 1))
	doc, err := emulatortest.ClientDatabase(t, project, "(default)").Doc("rollups/c").Get(t.Context())
	if status.Code(err) != codes.NotFound {
		t.Errorf("got %v, %v; want no roll-up in the default database", doc.Data(), err)
	}
}

// What can never be served is acknowledged, so that it is not delivered for a day. The first of its
// kind is logged at ERROR under its id.
func TestGarbage(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(e *eventrelay.Event, project string){
		"truncated":    func(e *eventrelay.Event, _ string) { e.Body = e.Body[:len(e.Body)-3] },
		"no-document":  func(e *eventrelay.Event, _ string) { e.Body = nil; e.Header.Del("Ce-Document") },
		"not-protobuf": func(e *eventrelay.Event, _ string) { e.Body = []byte("{}") },
		"json": func(e *eventrelay.Event, _ string) {
			e.Header.Set("Content-Type", "application/json")
			e.Body = []byte("{}")
		},
		"another-type": func(e *eventrelay.Event, _ string) {
			e.Header.Set("Ce-Type", "google.cloud.storage.object.v1.finalized")
		},
		"foreign-path": func(e *eventrelay.Event, project string) { *e = newEvent(t, "e", project, "users/u/shards/0") },
		"a-counter":    func(e *eventrelay.Event, project string) { *e = newEvent(t, "e", project, "counters/c") },
		"no-source": func(e *eventrelay.Event, project string) {
			e.Header.Del("Ce-Source")
			e.Header.Set("Ce-Type", project) // otherwise an earlier run has logged its kind
		},
		"another-project": func(e *eventrelay.Event, project string) {
			*e = newEvent(t, "e", "another-"+project, "counters/c/shards/0")
		},
		"another-database": func(e *eventrelay.Event, project string) {
			*e = newEventOf(t, "e", project, "third", "counters/c/shards/0")
		},
		"percent-signs": func(e *eventrelay.Event, project string) { *e = newEvent(t, "e", project, "%d%s/%n/%v/100%") },
	} {
		t.Run(name, func(t *testing.T) {
			project := emulatortest.Project(t)
			id := name + "-of-" + project
			e := newEvent(t, id, project, "counters/c/shards/0")
			spoil(&e, project)
			for _, subject := range []string{"documents/c", "documents/c "} { // the second is pushed
				e.Header.Set("Ce-Id", id+subject)
				e.Header.Set("Ce-Subject", subject)
				if status := postEvent(t, at(counters, project), e); status < 200 || status > 299 {
					t.Errorf("status %d, want 2xx", status)
				}
			}

			if lines := logs.lines(`"severity":"ERROR"`, `"event_id":"`+id); len(lines) != 1 { // not one for each event
				t.Errorf("got %d ERROR lines, want 1: %s", len(lines), lines)
			}
			docs, err := emulatortest.ClientDatabase(t, project, "(default)").CollectionGroup("rollups").Documents(t.Context()).GetAll()
			if err != nil || len(docs) > 0 {
				t.Errorf("garbage wrote %d roll-ups (%v)", len(docs), err)
			}
		})
	}
}

// A caller that goes away while its event is handed over or held must harm no other event: not one
// that is held at the same time, and not the next one, which may be the last for hours.
func TestCallersGoAway(t *testing.T) {
	t.Parallel()
	client := emulatortest.Client(t)
	project := strings.Split(client.Doc("a/b").Path, "/")[1]
	// A connection that a caller leaves must not be met again by another: net/http may tell that one
	// the first one's error.
	send := func(ctx context.Context, c *http.Client, id, counter string) error {
		ctx, cancel := context.WithTimeout(ctx, emulatortest.Eventually())
		defer cancel()
		e := newEvent(t, id, project, "counters/"+counter+"/shards/0")
		req, err := e.Request(ctx, at(callers, project))
		if err != nil {
			return err
		}
		res, err := c.Do(req)
		if err != nil {
			return err
		}
		defer res.Body.Close()
		if res.StatusCode != http.StatusOK {
			return fmt.Errorf("status %s", res.Status)
		}
		return nil
	}
	hasty, calm := newHTTPClient(t), newHTTPClient(t)
	for i := range 100 {
		var all sync.WaitGroup
		for j := range 8 {
			all.Go(func() {
				impatient, cancel := context.WithTimeout(t.Context(), time.Duration(i*8+j)*10*time.Microsecond)
				defer cancel()
				_ = send(impatient, hasty, fmt.Sprintf("impatient-%d-%d", i, j), "impatient")
			})
		}
		all.Go(func() {
			if err := send(t.Context(), calm, fmt.Sprint("patient-", i), "patient"); err != nil {
				t.Errorf("round %d: an event failed with others: %v", i, err)
			}
		})
		all.Wait()
	}
	if err := send(t.Context(), calm, "last", "last"); err != nil {
		t.Errorf("the last event: %v", err)
	}
}

// newHTTPClient returns a client with connections of its own.
func newHTTPClient(t *testing.T) *http.Client {
	transport := new(http.Transport)
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func TestBurst(t *testing.T) {
	t.Parallel()
	before := burstMeter.Counts()
	w := &database{t: t, client: emulatortest.Client(t)}
	project := strings.Split(w.client.Doc("a/b").Path, "/")[1]
	for i := range 10 {
		w.set(fmt.Sprintf("counters/c/shards/%d", i), map[string]any{"count": 100})
	}
	const events = 1000
	began := time.Now()
	var all sync.WaitGroup
	for i := range events {
		e := newEvent(t, fmt.Sprint("burst-", i), project, fmt.Sprintf("counters/c/shards/%d", i%10))
		all.Go(func() {
			if status := postEvent(t, at(burst, project), e); status < 200 || status > 299 {
				t.Errorf("status %d", status)
			}
		})
	}
	all.Wait()
	w.wantRollUp("rollups/c", count(int64(1000), 10))
	took := time.Since(began)
	after := burstMeter.Counts()

	// One at once, one after each cadence, and one whose events came during the last sum.
	mostRollUps := 2 + int64(took/burstCadence)
	if rollUps := after.Writes - before.Writes; rollUps < 1 || rollUps > mostRollUps || after.Reads-before.Reads != 2*rollUps || after.Deletes != 0 {
		t.Errorf("%d events on one counter were billed from %+v to %+v in %v, want at most %d roll-ups of 2 reads and 1 write", events, before, after, took, mostRollUps)
	}
}
