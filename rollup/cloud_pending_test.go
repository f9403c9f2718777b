package rollup_test

import (
	"context"
	"fmt"
	"time"

	"github.com/firestore-tally/tally/rollup"
)

// slowCadence is the cadence of the runs whose instances leave marks for a schedule.
const slowCadence = 30 * time.Second

// ticks is how often the schedule comes in such a run, beside once when all is quiet.
const ticks = 20

// schedule drains the marks again and again, each time by an instance of its own.
func (s *simulation) schedule() {
	for n := range ticks {
		name := fmt.Sprint("tick ", n+1)
		time.Sleep(slowCadence + s.chanceOf(s.weather.slow, name+" late", time.Millisecond, time.Minute) + jitter(name))
		s.actors.Go(func() {
			i := s.newHelper(name)
			_, _ = i.drain() // may fail or crash
		})
	}
}

func (i *instance) drain() (rollup.DrainReport, error) {
	return rollup.Drain(i.ctx, i, rollup.Routes{likes.Route}, 2, time.Now().Add(time.Minute), i.options())
}

// drainAll drains what is left when all is quiet. No mark may stay.
func (s *simulation) drainAll() {
	for range 2 { // a counter that was rolled up a moment ago waits
		time.Sleep(slowCadence)
		if report, err := s.newHelper("last tick").drain(); err != nil || report.Left {
			s.breach("the last drain: %+v: %v", report, err)
		}
	}
	_ = s.store.Marks(context.Background(), func(m rollup.Mark) error {
		s.breach("a mark of %s is left", m.Shards)
		return nil
	})
}

func (i *instance) Mark(ctx context.Context, c rollup.Counter) error {
	return i.change(ctx, c, "mark", func(ctx context.Context, name string) error {
		i.mu.Lock()
		defer i.mu.Unlock()
		i.tell("%s: %s is marked", name, c.RollUp)
		i.counter(c).marked = i.store.Now()
		return i.store.Mark(ctx, c)
	})
}

func (i *instance) Marks(ctx context.Context, f func(rollup.Mark) error) error {
	call := i.begin("marks", rollup.Counter{RollUp: "all"}, hangs)
	if err := call.there(ctx); err != nil {
		return err
	}
	var marks []rollup.Mark
	if err := i.store.Marks(ctx, func(m rollup.Mark) error { marks = append(marks, m); return nil }); err != nil {
		return err
	}
	if err := call.back(ctx); err != nil {
		return err
	}
	for _, m := range marks {
		if err := f(m); err != nil {
			return err
		}
	}
	return nil
}

func (i *instance) Marked(ctx context.Context, c rollup.Counter) (bool, error) {
	call := i.begin("marked", c, hangs)
	if err := call.there(ctx); err != nil {
		return false, err
	}
	marked, err := i.store.Marked(ctx, c)
	if err != nil {
		return false, err
	}
	return marked, call.back(ctx)
}

func (i *instance) Unmark(ctx context.Context, m rollup.Mark) error {
	c, _ := likes.Route.Counter(m.Shards)
	return i.change(ctx, c, "unmark", func(ctx context.Context, name string) error {
		i.mu.Lock()
		defer i.mu.Unlock()
		err := i.store.Unmark(ctx, m)
		if err == nil {
			i.counter(c).marked = time.Time{}
		}
		i.tell("%s: the mark of %s is removed: %v", name, m.Shards, err)
		return err
	})
}
