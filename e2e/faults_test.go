//go:build unix

package e2e

import (
	"context"
	"syscall"
	"testing"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/firestore-tally/tally/internal/test/emulatortest"
	"github.com/firestore-tally/tally/internal/tool/local/emulator"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// near is the proxy of a process that is near Firestore and meets no faults.
func near(*proxy) {}

// pass lets d pass.
func (w *world) pass(d time.Duration) {
	w.t.Helper()
	select {
	case <-time.After(d):
	case <-w.ctx.Done():
		w.t.Fatal(context.Cause(w.ctx))
	}
}

// caught waits until a call of the process is on its way, so that the process holds events, and
// keeps the call there until release.
func (w *world) caught(p *process) (release func()) {
	w.t.Helper()
	h := p.proxy.hold(w.methods[w.random.IntN(len(w.methods))], false)
	awaitOf(w, p, h.arrived)
	return func() { close(h.release) }
}

// Functions processes are killed, by turns with a call on its way and at random moments, and others
// take their places.
func TestKilled(t *testing.T) {
	t.Parallel()
	kills := form(6, 50)
	w := newWorld(t, options{counters: kills + 1, width: 1, proxies: []func(*proxy){near, near}})
	w.during(func() {
		for n := range kills {
			w.pass(time.Duration(w.random.Int64N(int64(2 * cadence))))
			w.moveOn()
			w.pass(time.Duration(w.random.Int64N(int64(2 * cadence))))
			p, release := w.processes[w.random.IntN(len(w.processes))], func() {}
			if n%2 == 0 {
				release = w.caught(p)
			}
			w.kill(p)
			release()
		}
		w.covered()
	})
	w.wantFailed()
}

// The emulator is paused and goes on.
func TestFirestorePaused(t *testing.T) {
	t.Parallel()
	e := emulatortest.Own(t, emulator.Options{})
	group := -e.Pid()
	t.Cleanup(func() { signal(t, group, syscall.SIGCONT) }) // if the test failed meanwhile
	w := newWorld(t, options{addr: e.Addr(), counters: 3, proxies: []func(*proxy){near, near}})
	w.during(func() {
		for range form(1, 6) {
			w.covered()
			signal(t, group, syscall.SIGSTOP)
			w.pass(5 * time.Second)
			signal(t, group, syscall.SIGCONT)
			w.covered()
		}
	})
}

// Firestore is there for clients, and refuses each call of the functions. After the outage all
// totals become right by the events that are delivered again, without an audit.
func TestFirestoreDown(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]*outage{
		"unavailable": {err: status.Error(codes.Unavailable, "injected")},
		"internal":    {err: status.Error(codes.Internal, "injected")},
		"no quota":    {err: status.Error(codes.ResourceExhausted, "injected")},
		"silent":      {err: status.Error(codes.DeadlineExceeded, "injected"), hangs: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, options{counters: 3, proxies: []func(*proxy){near, near}})
			w.during(func() {
				w.covered()
				w.setOutage(o)
				w.pass(form(20*time.Second, 5*time.Minute))
				w.setOutage(nil)
				w.covered()
			})
			w.wantFailed()
			if o.refused.Load() == 0 {
				t.Error("no call met the outage")
			}
		})
	}
}

// setOutage begins an outage for all functions processes, or ends it.
func (w *world) setOutage(o *outage) {
	for _, p := range w.processes {
		p.proxy.outage.Store(o)
	}
}

// Firestore answers with errors, having done the work or not.
func TestFirestoreErrors(t *testing.T) {
	t.Parallel()
	n := form(30, 120)
	all := []*faults{newFaults(*seed), newFaults(*seed + 1)}
	w := newWorld(t, options{counters: n, width: 2, proxies: []func(*proxy){
		func(p *proxy) { p.faults = all[0] },
		func(p *proxy) { p.faults = all[1] },
	}})
	w.during(func() {
		for i, times := 0, form(1, 10); i < n || !all[0].all(times) || !all[1].all(times); i++ {
			w.pass(time.Duration(w.random.Int64N(int64(cadence))))
			w.moveOn()
		}
	})
	t.Logf("injected %v and %v", all[0], all[1])
}

// One functions process is far from Firestore, another near it.
func TestFar(t *testing.T) {
	t.Parallel()
	w := newWorld(t, options{counters: 2, proxies: []func(*proxy){func(p *proxy) { p.delay = 150 * time.Millisecond }, near}})
	w.during(func() {
		for range form(8, 100) {
			w.covered()
		}
		// And alone, too.
		w.relay.SetTargets([]string{w.processes[0].url()})
		for range form(2, 10) {
			w.covered()
		}
	})
	if len(w.processes[0].proxy.rollUps()) == 0 {
		t.Error("the process that is far from Firestore has sent no roll-up")
	}
}

// A functions process is frozen for 10 s with its roll-up on the way to Firestore, where that
// arrives only when another process has rolled the counter up.
func TestFrozenWriting(t *testing.T) {
	t.Parallel()
	w := newWorld(t, options{counters: 1, proxies: []func(*proxy){near, near}})
	c, frozen, other := w.counters[0], w.processes[0], w.processes[1]
	w.during(func() {
		for range form(1, 5) {
			w.covered()
			h := frozen.proxy.hold(commit, false)
			stale := rollUpIn(awaitOf(w, frozen, h.arrived).(*firestorepb.CommitRequest))
			frozen.freeze(t)
			w.pass(10 * time.Second)
			if err := c.await(w.ctx, stale.asOf.Add(1)); err != nil {
				t.Fatal(err)
			}
			before := len(frozen.proxy.rollUps())
			close(h.release)
			await(w, h.done)
			wantRefused(t, frozen.proxy.rollUps()[before:], stale.asOf)
			frozen.thaw(t)
			w.covered()
		}
	})
	w.wantFailed()
	wantFrozen(t, frozen)
	if len(other.proxy.rollUps()) == 0 {
		t.Error("the other process has rolled nothing up")
	}
}

// wantFailed checks that a delivery failed by itself: that more were made again than those whose
// acknowledgement the relay lost on purpose.
func (w *world) wantFailed() {
	w.t.Helper()
	if s := w.relay.Stats(); s.Redelivered <= s.LostAcks {
		w.t.Errorf("no delivery failed except for lost acknowledgements: %+v", s)
	}
}

// wantFrozen checks that at least one of the processes was frozen.
func wantFrozen(t *testing.T, processes ...*process) {
	t.Helper()
	for _, p := range processes {
		if p.freezes > 0 {
			return
		}
	}
	t.Error("no process was frozen")
}

// A functions process is frozen between its snapshot and its write until another process has rolled
// the counter up.
func TestFrozenAfterSnapshot(t *testing.T) {
	t.Parallel()
	w := newWorld(t, options{counters: 1, proxies: []func(*proxy){near, near}})
	c, frozen := w.counters[0], w.processes[0]
	stale := 0
	w.during(func() {
		// A process that was frozen for too long gives up, and writes nothing.
		for n := 0; n < form(3, 20) || stale == 0; n++ {
			w.covered()
			h := frozen.proxy.hold(aggregate, true)
			awaitOf(w, frozen, h.arrived)
			frozen.freeze(t)
			before := len(frozen.proxy.rollUps())
			now := time.Now()
			if err := c.await(w.ctx, now); err != nil {
				t.Fatal(err)
			}
			write := frozen.proxy.hold(commit, false)
			close(h.release)
			frozen.thaw(t)
			awaitOf(w, frozen, write.arrived)
			close(write.release)
			await(w, write.done)
			for _, s := range frozen.proxy.rollUps()[before:] {
				if s.asOf.Before(now) {
					stale++
					wantRefused(t, []sent{s}, s.asOf)
				}
			}
			w.covered()
		}
	})
	wantFrozen(t, frozen)
}

// wantRefused checks that a roll-up as of t was sent and refused.
func wantRefused(t *testing.T, all []sent, asOf time.Time) {
	t.Helper()
	if len(all) == 0 {
		t.Errorf("the stale roll-up as of %v was not sent", asOf)
	}
	for _, s := range all {
		if !s.asOf.Equal(asOf) {
			t.Errorf("sent a roll-up as of %v, want %v", s.asOf, asOf)
		}
		switch code := status.Code(s.err); code {
		case codes.FailedPrecondition, codes.Aborted, codes.AlreadyExists:
			t.Logf("a stale roll-up was refused: %v", s.err)
		default:
			t.Errorf("a stale roll-up was answered %v: %v", code, s.err)
		}
	}
}

// awaitOf waits for a value that comes when a process sums or writes. Meanwhile the others are
// frozen: one that rolls a counter up goes first for as long as it does.
func awaitOf[T any](w *world, p *process, from <-chan T) T {
	w.t.Helper()
	for _, other := range w.processes {
		if other != p {
			other.freeze(w.t)
			defer other.thaw(w.t)
		}
	}
	return await(w, from)
}

// await waits for a value.
func await[T any](w *world, from <-chan T) (v T) {
	w.t.Helper()
	select {
	case v = <-from:
	case <-w.ctx.Done():
		w.t.Fatal(context.Cause(w.ctx))
	}
	return v
}

// A functions process is frozen for 10 s: by turns with a call on its way, so that it holds events,
// and at any moment.
func TestFrozen(t *testing.T) {
	t.Parallel()
	freezes := form(1, 6)
	w := newWorld(t, options{counters: freezes + 2, width: 2, proxies: []func(*proxy){near, near}})
	w.during(func() {
		for n := range freezes {
			w.pass(time.Duration(w.random.Int64N(int64(2 * cadence))))
			w.moveOn()
			w.pass(time.Duration(w.random.Int64N(int64(2 * cadence))))
			p := w.processes[n%len(w.processes)]
			release := func() {}
			if n%2 == 0 {
				release = w.caught(p)
			}
			p.freeze(t)
			release()
			w.pass(10 * time.Second)
			p.thaw(t)
			w.covered()
		}
	})
	w.wantFailed()
	wantFrozen(t, w.processes...)
}
