package rollup_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/test/memstore"
	"github.com/firestore-tally/tally/internal/value"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
)

// People come to rooms, send heartbeats for a while, and go. Each roll-up must say exactly who was
// online as of its time, and no one may be online for long after the last heartbeat has left the
// window. Meanwhile instances are killed, and answers of Firestore and of the queue are lost.
func TestLeavesInTime(t *testing.T) {
	for name, w := range map[string]*rooms{
		"all is well":              {},
		"answers are lost":         {lost: 0.2},
		"instances are killed":     {killed: 20 * time.Second},
		"answers and instances":    {lost: 0.2, killed: 20 * time.Second},
		"alarms ring late, twice":  {lost: 0.1, twice: true},
		"a window that is no grid": {window: 63 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w.t = t
				w.run()
			})
		})
	}
}

// rooms are a database with rooms, the instances that serve it, and the queue.
type rooms struct {
	t      *testing.T
	lost   float64       // how likely an answer is lost
	killed time.Duration // how often an instance is killed; 0: never
	twice  bool          // alarms ring a second time
	window time.Duration

	store memstore.Store
	work  sync.WaitGroup

	mu        sync.Mutex
	random    *rand.Rand
	template  *route.Template
	instances []*roomsInstance
	names     map[rollup.Alarm]bool
	seen      map[string]map[string][]time.Time // by room and user: commits of heartbeats, which are their times, too
	rollUps   map[string][]roomsRollUp
	delayed   map[string]time.Duration // of a room: the longest that its alarms were held up by kills
	lostAlarm map[string]bool          // the last answer about an alarm of the room was lost
	tasks     int
}

type roomsRollUp struct {
	asOf, commit time.Time
	online       value.Value
}

// A roomsInstance sees the rooms' store through calls whose answers are lost.
type roomsInstance struct {
	*memstore.Store
	*rooms
	ctx       context.Context
	kill      context.CancelFunc
	coalescer *rollup.Coalescer
}

const (
	roomsOpen  = 10
	roomsUsers = 5
	roomsLast  = 5 * time.Minute
)

func (w *rooms) run() {
	if w.window == 0 {
		w.window = time.Minute
	}
	w.random = rand.New(rand.NewPCG(1, 2))
	w.names, w.seen, w.rollUps, w.delayed, w.lostAlarm = make(map[rollup.Alarm]bool), make(map[string]map[string][]time.Time), make(map[string][]roomsRollUp), make(map[string]time.Duration), make(map[string]bool)
	w.template = mustCounter(fmt.Sprintf("rooms/{room}/members/{user} -> rooms/{room} : count() where seen > now - %v as online : existing", w.window), "rooms/0/members").Template
	for range 3 {
		w.instances = append(w.instances, w.start())
	}

	began := time.Now()
	for room := range roomsOpen {
		path := fmt.Sprint("rooms/", room)
		w.store.Put(path, nil)
		w.seen[path] = make(map[string][]time.Time)
		for user := range roomsUsers {
			w.work.Go(func() { w.visit(path, fmt.Sprint(user), w.between(0, roomsLast)) })
		}
	}
	if w.killed > 0 {
		w.work.Go(func() {
			for time.Since(began) < roomsLast+w.window {
				time.Sleep(w.killed)
				w.killOne()
			}
		})
	}
	w.work.Wait()
	time.Sleep(time.Hour)
	synctest.Wait()
	w.check()
}

func (w *rooms) between(least, most time.Duration) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return least + time.Duration(w.random.Int64N(int64(most-least)))
}

func (w *rooms) chance(p float64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.random.Float64() < p
}

func (w *rooms) start() *roomsInstance {
	i := &roomsInstance{Store: &w.store, rooms: w}
	i.ctx, i.kill = context.WithCancel(context.Background())
	o := rollup.Options{Cadence: cadence, Burst: 5, Timeout: hold / 2, Hold: hold, Alarms: i, Logger: slog.New(slog.DiscardHandler)}
	i.coalescer = rollup.NewCoalescer(i, o)
	return i
}

func (w *rooms) killOne() {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := w.random.IntN(len(w.instances))
	w.instances[n].kill()
	w.instances[n] = w.start()
}

func (w *rooms) instance() *roomsInstance {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.instances[w.random.IntN(len(w.instances))]
}

// visit has a user send heartbeats, and go.
func (w *rooms) visit(room, user string, after time.Duration) {
	time.Sleep(after)
	for n := range 1 + w.between(0, 4) {
		w.mu.Lock()
		at := w.store.Now().Truncate(time.Microsecond).UTC()
		commit := w.store.Put(room+"/members/"+user, map[string]any{"seen": at})
		w.seen[room][user] = append(w.seen[room][user], at)
		w.mu.Unlock()

		w.work.Go(func() {
			time.Sleep(w.between(10*time.Millisecond, 200*time.Millisecond))
			w.send(room, rollup.Event{ID: fmt.Sprint(room, user, n, at), UpdateTime: commit, Time: commit})
		})
		time.Sleep(w.between(10*time.Second, 30*time.Second))
	}
}

// send delivers an event until it is acknowledged.
func (w *rooms) send(room string, e rollup.Event) {
	counter, _ := w.template.Counter(room)
	for {
		i := w.instance()
		_, err := i.coalescer.HandleEvent(i.ctx, e, route.Concern{Counter: counter})
		if err == nil && i.ctx.Err() == nil {
			return
		}
		time.Sleep(10 * time.Second)
	}
}

// Create makes an alarm. It rings a little late, and again after 10 s until an instance is done.
func (i *roomsInstance) Create(ctx context.Context, a rollup.Alarm) error {
	time.Sleep(30 * time.Millisecond)
	i.mu.Lock()
	known := i.names[a]
	i.names[a] = true
	i.tasks++
	i.mu.Unlock()

	times := 1
	if i.twice {
		times = 2
	}
	if !known {
		for range times {
			i.work.Go(func() { i.rooms.ring(a) })
		}
	}
	if i.losesAlarm(a.RollUp) {
		return errors.New("the answer is lost")
	}
	return context.Cause(i.ctx)
}

// losesAlarm draws whether the answer about a room's alarm is lost. Two in a row are not: they
// leave the room to the schedule, and here is none.
func (w *rooms) losesAlarm(room string) bool {
	lost := w.chance(w.lost)
	w.mu.Lock()
	defer w.mu.Unlock()
	lost = lost && !w.lostAlarm[room]
	w.lostAlarm[room] = lost
	return lost
}

func (w *rooms) ring(a rollup.Alarm) {
	time.Sleep(a.At.Sub(w.store.Now()) + w.between(-500*time.Millisecond, time.Second))
	for began := time.Now(); ; {
		i := w.instance()
		_, err := i.coalescer.HandleAlarm(i.ctx, a, route.Routes(w.template.Routes))
		if err == nil && i.ctx.Err() == nil {
			return
		}
		time.Sleep(10 * time.Second)

		w.mu.Lock()
		w.delayed[a.RollUp] = max(w.delayed[a.RollUp], time.Since(began))
		w.mu.Unlock()
	}
}

func (i *roomsInstance) View(ctx context.Context, c route.Counter) (rollup.Snapshot, error) {
	time.Sleep(10 * time.Millisecond)
	v, err := i.Store.View(ctx, c)
	time.Sleep(10 * time.Millisecond)
	return v, errors.Join(err, context.Cause(i.ctx))
}

func (i *roomsInstance) Write(ctx context.Context, c route.Counter, r rollup.RollUp) error {
	time.Sleep(10 * time.Millisecond)
	if i.ctx.Err() != nil {
		return context.Cause(i.ctx)
	}
	err := i.Store.Write(ctx, c, r)
	if err == nil {
		i.note(c.RollUp, r)
	}
	time.Sleep(10 * time.Millisecond)
	if i.chance(i.lost) {
		return errors.New("the answer is lost")
	}
	return errors.Join(err, context.Cause(i.ctx))
}

// note notes a roll-up that was written, and checks it.
func (w *rooms) note(room string, r rollup.RollUp) {
	w.mu.Lock()
	defer w.mu.Unlock()
	asOf := r.Tally.AsOf
	if got, want := r.Values["online"], value.Int(w.online(room, asOf)); got != want {
		w.t.Errorf("%s: %v online as of %v, want %v", room, got, asOf, want)
	}
	w.rollUps[room] = append(w.rollUps[room], roomsRollUp{asOf, w.store.Now(), r.Values["online"]})
}

// online is how many were online in a room at an instant. The mutex is held.
func (w *rooms) online(room string, at time.Time) int64 {
	var n int64
	for _, seen := range w.seen[room] {
		for _, s := range seen {
			if !s.After(at) && s.After(at.Add(-w.window)) {
				n++
				break
			}
		}
	}
	return n
}

// check checks that everybody who left was rolled up in time.
func (w *rooms) check() {
	most := cadence + cadence + 5*time.Second // rounding, and the pace
	if w.lost > 0 {
		most += 10 * time.Second // what was done and not answered is done once more, after a pause
	}
	left := 0
	var longest time.Duration
	for room, users := range w.seen {
		for user, seen := range users {
			for n, s := range seen {
				leaves := s.Add(w.window)
				if n+1 < len(seen) && !seen[n+1].After(leaves) {
					continue // the next heartbeat came before
				}
				left++
				late := time.Duration(1<<63 - 1)
				for _, r := range w.rollUps[room] {
					if !r.asOf.Before(leaves) {
						late = r.commit.Sub(leaves)
						break
					}
				}
				longest = max(longest, late)
				if late > most+w.delayed[room] {
					w.t.Errorf("%s in %s left at %v, which was rolled up %v later; its alarms were held up for %v", user, room, leaves, late, w.delayed[room])
				}
			}
		}
		if tally := document.DecodeTally(w.store.Get(room)["tally"]); !tally.Rings.IsZero() {
			w.t.Errorf("%s is empty, and has an alarm for %v", room, tally.Rings)
		}
	}
	rollUps := 0
	for _, all := range w.rollUps {
		rollUps += len(all)
	}
	w.t.Logf("%d left, the slowest after %v; %d roll-ups, %d calls that make alarms", left, longest, rollUps, w.tasks)
	if left == 0 {
		w.t.Error("no one left")
	}
}
