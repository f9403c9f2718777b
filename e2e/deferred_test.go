//go:build unix

package e2e

import (
	"net/http/httptest"
	"testing"
	"time"

	"github.com/firestore-tally/tally/internal/cloud/alarm"
	"github.com/firestore-tally/tally/internal/tool/local"
	"github.com/firestore-tally/tally/internal/tool/local/eventrelay"
	"github.com/firestore-tally/tally/internal/tool/local/taskqueue"
	"github.com/firestore-tally/tally/rollup/route"
)

// startQueue starts a queue that rings the alarms of the world's functions: late, twice, and again
// after a lost answer. It returns the variables that name it to the functions.
func (w *world) startQueue() (variables []string) {
	w.queue = taskqueue.New(eventrelay.Options{
		Initial: 50 * time.Millisecond, Max: time.Second, Timeout: time.Minute,
		Faults: eventrelay.Faults{Seed: *seed, Duplicates: 0.3, LostAcks: 0.1, Delay: time.Second},
	})
	w.t.Cleanup(w.queue.Close)
	server := httptest.NewServer(w.queue)
	w.t.Cleanup(server.Close)

	for name, value := range local.QueueVariables(w.project) {
		variables = append(variables, name+"="+value)
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
