package billing_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/test/memstore"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
)

const (
	likesOfPosts = "posts/{post}/likes/{user} -> posts/{post} : count() as likes : existing\n"
	karmaOf      = "posts/{post} by author -> users/{author} : sum(likes) as karma : existing"
	postsOf      = "posts/{post} by author -> users/{author} : count() as posts : existing"
)

// Totals of totals take what docs/performance.md says, for each like: an event for each roll-up
// below, and at most one roll-up more a cadence. A route above that uses none of the totals is
// rolled up for nothing, and looks for nothing.
func TestLevels(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}

	for _, test := range []struct {
		name   string
		above  string
		posts  int
		likes  float64 // a second, of all posts together
		most   float64 // roll-ups above, for each one below
		idling bool
	}{
		{"one post, a like a minute", karmaOf, 1, 1.0 / 60, 1, false},
		{"one post, 1 like/s", karmaOf, 1, 1, 1, false},
		{"one post, 100 likes/s", karmaOf, 1, 100, 1, false},
		{"100 posts, 10 likes/s together", karmaOf, 100, 10, 0.15, false},
		{"one post, 1 like/s, and the author's posts are counted", postsOf, 1, 1, 0.02, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLevels(t, likesOfPosts+test.above, test.posts)
				changes := int(max(1000, 100*test.likes))
				random := rand.New(rand.NewPCG(1, 2))
				start := time.Now()
				for i := range changes {
					time.Sleep(time.Duration(random.ExpFloat64() / test.likes * float64(time.Second)))
					l.like(fmt.Sprintf("posts/%d/likes/%d", random.IntN(test.posts), i))
				}
				took := time.Since(start).Seconds()
				time.Sleep(time.Minute)
				l.working.Wait()

				n := float64(changes)
				below, above := float64(l.below.writes.Load()), float64(l.above.writes.Load())
				t.Logf("| %s | %.2f | %.2f | %.2f | %.2f |", test.name, float64(l.events.Load())/n, below/n, above/n, float64(l.above.looks.Load())/n)
				if want := int64(changes) + l.below.writes.Load(); l.events.Load() != want {
					t.Errorf("%d events of %d likes and %.0f roll-ups", l.events.Load(), changes, below)
				}
				if above > test.most*below+5 || above > took+5 {
					t.Errorf("%.0f roll-ups above in %.0f s, of %.0f below", above, took, below)
				}
				if looks := l.above.looks.Load(); test.idling && looks > 20 {
					t.Errorf("%d looks at what no total changes", looks)
				}
				if got := l.store.Get("users/ann"); !test.idling && got["karma"] != int64(changes) {
					t.Errorf("karma %v of %d likes", got["karma"], changes)
				}
			})
		})
	}
}

// levels are posts of one author, and an instance that their events reach after a moment. A roll-up
// of a post is a change of it.
type levels struct {
	*testing.T
	store        memstore.Store
	below, above counts
	routes       route.Routes
	coalescer    *rollup.Coalescer
	events       atomic.Int64
	working      sync.WaitGroup
}

type counts struct{ looks, writes atomic.Int64 }

func newLevels(t *testing.T, text string, posts int) *levels {
	routes, err := route.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	l := &levels{T: t, routes: routes}
	for i := range posts {
		l.store.Put(fmt.Sprint("posts/", i), map[string]any{"author": "ann"})
	}
	l.store.Put("users/ann", nil)
	l.coalescer = rollup.NewCoalescer(levelled{&l.store, l}, rollup.Options{Cadence: time.Second, Burst: 5, Timeout: 4 * time.Second, Hold: 8 * time.Second, Logger: slog.New(slog.DiscardHandler)})
	return l
}

// like creates a like.
func (l *levels) like(path string) { l.tell(path, nil, map[string]any{}, l.store.Put(path, nil)) }

// tell has the event of a change come.
func (l *levels) tell(path string, before, after map[string]any, at time.Time) {
	source, ok := l.routes.Source(path)
	if !ok {
		return
	}
	id := fmt.Sprint("event ", l.events.Add(1))
	l.working.Go(func() {
		time.Sleep(20 * time.Millisecond)
		_, err := l.coalescer.HandleEvent(l.Context(), rollup.Event{ID: id, UpdateTime: at, Time: at}, source.Concerned(change{before, after})...)
		if err != nil {
			l.Error(err)
		}
	})
}

// levelled is a store whose roll-ups are changes.
type levelled struct {
	*memstore.Store
	l *levels
}

func (s levelled) of(c route.Counter) *counts {
	if strings.HasPrefix(c.RollUp, "posts/") {
		return &s.l.below
	}
	return &s.l.above
}

func (s levelled) View(ctx context.Context, c route.Counter) (rollup.Snapshot, error) {
	s.of(c).looks.Add(1)
	time.Sleep(50 * time.Millisecond)
	return s.Store.View(ctx, c)
}

func (s levelled) Write(ctx context.Context, c route.Counter, r rollup.RollUp) error {
	before := s.Get(c.RollUp)
	err := s.Store.Write(ctx, c, r)
	if err == nil {
		s.of(c).writes.Add(1)
		s.l.tell(c.RollUp, before, s.Get(c.RollUp), s.Now())
	}
	return err
}

// A change of a document; nil: there is none.
type change struct{ before, after map[string]any }

func (c change) Known() bool { return true }

func (c change) Updated() bool { return c.before != nil && c.after != nil }

func (c change) Changed(f document.Field) bool {
	before, _ := f.In(c.before)
	after, _ := f.In(c.after)
	return !reflect.DeepEqual(before, after)
}

func (c change) Has(f document.Field, after bool) bool {
	_, has := c.Value(f, after)
	return has
}

func (c change) Value(f document.Field, after bool) (any, bool) {
	if after {
		return f.In(c.after)
	}
	return f.In(c.before)
}

func (c change) Held(f document.Field) (before, after any) {
	before, _ = f.In(c.before)
	after, _ = f.In(c.after)
	return before, after
}
