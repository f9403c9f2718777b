//go:build unix

package e2e

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/cloud/alarm"
	"github.com/firestore-tally/tally/internal/tool/local"
	"github.com/firestore-tally/tally/internal/tool/local/eventrelay"
	"github.com/firestore-tally/tally/internal/tool/local/taskqueue"
	"github.com/firestore-tally/tally/rollup/route"
)

// startQueue starts a queue in a region, which rings the alarms of the world's functions: late,
// twice, and again after a lost answer. It returns the variables that name it to the functions.
func (w *world) startQueue(region string) (variables []string) {
	w.queue = taskqueue.New(eventrelay.Options{
		Initial: 50 * time.Millisecond, Max: time.Second, Timeout: time.Minute,
		Faults: eventrelay.Faults{Seed: *seed, Duplicates: 0.3, LostAcks: 0.1, Delay: time.Second},
	})
	w.t.Cleanup(w.queue.Close)
	server := httptest.NewServer(w.queue)
	w.t.Cleanup(server.Close)

	for name, value := range local.QueueVariables(w.project) {
		variables = append(variables, name+"="+strings.Replace(value, "/locations/local/", "/locations/"+region+"/", 1))
	}
	return append(variables, alarm.EmulatorHost+"="+server.Listener.Addr().String())
}

// A counter is rolled up once in 5 s, and its events are deferred to alarms. Functions processes
// are killed and frozen meanwhile. Each version that a listener sees is exact all the same.
func TestDeferred(t *testing.T) {
	t.Parallel()
	w := newWorld(t, options{
		counters: 4, queued: true, routes: route.Default + " : cadence 5s",
		proxies: []func(*proxy){near, near, near},
	})
	w.during(func() {
		for n := range form(6, 40) {
			w.pass(time.Duration(w.random.Int64N(int64(2 * time.Second))))
			p, release := w.processes[w.random.IntN(len(w.processes))], func() {}
			switch n % 3 {
			case 0:
				release = w.caught(p)
				w.kill(p)
			case 1:
				w.kill(p)
			default:
				p.freeze(t)
				w.pass(5 * time.Second)
				p.thaw(t)
			}
			release()
		}
		w.covered()
	})

	events, alarms := w.relay.Stats(), w.queue.Stats()
	t.Logf("alarms: %+v", alarms)
	if alarms.LostCreates+alarms.Calls.Duplicated+alarms.Calls.LostAcks == 0 {
		t.Errorf("alarms met no fault: %+v", alarms)
	}
	if rollUps := w.rollUps(); 2*rollUps > events.Events {
		t.Errorf("%d roll-ups of %d events: few were deferred", rollUps, events.Events)
	}
}

// The functions move to another region, whose queue is empty. An alarm stood in the old queue for a
// member who leaves the window later, and no event says so. The first audit after the move makes
// the alarm again.
func TestMoveOfAlarms(t *testing.T) {
	t.Parallel()
	const routes = "rooms/{room}/members/{user} -> rooms/{room} : count() where seen > now - 1m as online : existing"
	w := newWorld(t, options{routes: routes, queued: true, proxies: []func(*proxy){near}})
	p, room := w.processes[0], w.client.Doc("rooms/a")
	if _, err := room.Create(w.ctx, map[string]any{}); err != nil {
		t.Fatal(err)
	}
	w.schedule(routes) // so an audit knows the old queue
	if _, err := room.Collection("members").Doc("ann").Create(w.ctx, map[string]any{"seen": firestore.ServerTimestamp}); err != nil {
		t.Fatal(err)
	}
	w.awaitOnline(room, 1)
	if err := w.relay.Wait(w.ctx); err != nil { // no event comes any more
		t.Fatal(err)
	}
	if w.queue.Left() == 0 {
		t.Fatal("no alarm stands in the old queue")
	}

	w.queue.Close()
	w.alarms = w.startQueue("elsewhere")
	p.env = append(p.env, w.alarms...)
	w.kill(p)
	w.schedule(routes)
	w.awaitOnline(room, 0)
	if made := w.queue.Stats().Created; made == 0 {
		t.Error("no alarm was made in the new queue")
	}
}

// awaitOnline waits until a room says that so many are online.
func (w *world) awaitOnline(room *firestore.DocumentRef, want int64) {
	w.t.Helper()
	snapshots := room.Snapshots(w.ctx)
	defer snapshots.Stop()
	for {
		doc, err := snapshots.Next()
		if err != nil {
			w.t.Fatal(err)
		}
		if online, isThere := doc.Data()["online"].(int64); isThere && online == want {
			return
		}
	}
}

// rollUps returns how many roll-ups the functions have written.
func (w *world) rollUps() (n int) {
	for _, p := range w.processes {
		for _, s := range p.proxy.rollUps() {
			if s.err == nil {
				n++
			}
		}
	}
	return n
}
