package schedule

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/firestore-tally/tally/rollup/internal/roll"
	"github.com/firestore-tally/tally/rollup/route"
)

const (
	// keepSaveEvery is the least time between two saves of the cursor. A call that is killed has
	// about that much work to do again. A cursor that has not changed is not saved, and visits to
	// one hot counter do not change it.
	keepSaveEvery = 30 * time.Second

	// maxPaths bounds the cursor's Changed and its Quiet, each in bytes. There is room for some
	// thousand paths, and the document must stay below 1 MiB. A counter that has no room there is
	// found again by its roll-up.
	maxPaths = 200_000
)

// load loads the cursor that the last call left. If that fails, all counters are found again from
// the first, so none is left out.
func (k *keeper) load(ctx context.Context) {
	loading, cancel := context.WithTimeout(ctx, k.Options.Timeout)
	defer cancel()
	cursor, err := k.store.LoadCursor(loading, Keeping)
	if err != nil {
		k.unsaved = true
		k.problems = append(k.problems, fmt.Errorf("rollup: loading the cursor: %w", err))
	}

	k.cursor = cursor.forRoutes(k.routes)
	k.loadTime, k.loadReadTime = time.Now(), k.cursor.ReadTime

	byRollUps, byShards := walksOf(k.routes, k.store, func(*route.Route) time.Time { return time.Time{} }, func(*route.Template) func(string) time.Time { return nil })
	found := &finder{class: classUnchanged, most: maxKept, share: rollUpsToFind}
	for i, w := range byRollUps {
		found.walks = append(found.walks, k.resume(w, k.cursor.Places[i]))
	}
	missing := &finder{class: classWithout, most: maxKept / 2, share: shardsToFind}
	for i, w := range byShards {
		missing.walks = append(missing.walks, k.resume(w, k.cursor.Places[len(byRollUps)+i]))
	}
	k.finders = []*finder{found, missing}
	for _, f := range k.finders {
		f.turn = int(k.Options.Random() * float64(len(f.walks))) // a call may find only one page
	}

	k.remember(k.cursor.Changed, classChanged)
	k.remember(k.cursor.Quiet, classUnchanged)
}

// remember has the call know the counters whose roll-ups have these paths. They are due at once. If
// the walk of their roll-ups is not due in this call, they are not due either.
func (k *keeper) remember(paths []string, of class) {
	for _, path := range paths {
		for _, w := range k.finders[0].walks {
			c, ok := w.template.Counter(path)
			if !ok || k.known[path] != nil {
				continue
			}
			due := k.began
			if !k.o.Until.IsZero() && w.due.After(k.o.Until) {
				due = w.due
			}
			k.push(&keptCounter{Counter: c, class: of, due: due})
		}
	}
}

// save saves where the next call goes on, if that has changed. If another call has saved its own
// place meanwhile, this one leaves saving to that one.
func (k *keeper) save(ctx context.Context) {
	c := k.cursor
	c.Places, c.Changed, c.Quiet = k.places(), k.paths(classChanged), k.unchangedPaths()
	news := !slices.Equal(c.Places, k.cursor.Places) ||
		!sameElements(c.Changed, k.cursor.Changed) || !sameElements(c.Quiet, k.cursor.Quiet)
	if k.unsaved || !news || ctx.Err() != nil {
		return
	}

	saving, cancel := context.WithTimeout(ctx, k.Options.Timeout)
	defer cancel()
	at, err := k.store.SaveCursor(saving, Keeping, c)
	switch {
	case errors.Is(err, roll.ErrConflict):
		k.unsaved = true
	case err != nil: // perhaps it was saved, and the next attempt will be refused
		k.mu.Lock()
		k.problems = append(k.problems, fmt.Errorf("rollup: saving the cursor: %w", err))
		k.mu.Unlock()
	default:
		c.UpdateTime = at
		k.cursor = c
	}
}

// sameElements reports whether two lists hold the same elements, in whatever order.
func sameElements(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// places returns where each walk goes on.
func (k *keeper) places() []Place {
	k.mu.Lock()
	defer k.mu.Unlock()

	var places []Place
	for _, f := range k.finders {
		for _, w := range f.walks {
			places = append(places, w.place)
		}
	}
	return places
}

// unchangedPaths returns the paths for the cursor's Quiet. There are none while counters wait for
// their first visit by this call. If the next call began with the counters that this call has
// visited, the others might wait forever.
func (k *keeper) unchangedPaths() []string {
	k.mu.Lock()
	now := time.Now()
	waits := false
	for _, e := range k.known {
		waits = waits || e.class == classUnchanged && !e.visited && !e.due.After(now)
	}
	k.mu.Unlock()

	if waits {
		return nil
	}
	return k.paths(classUnchanged)
}

// paths returns the paths of the roll-ups of the counters of a class, in the order in which they
// are due. It returns as many as the cursor has room for.
func (k *keeper) paths(of class) []string {
	k.mu.Lock()
	defer k.mu.Unlock()

	var all []*keptCounter
	for _, e := range k.known {
		if e.class == of {
			all = append(all, e)
		}
	}
	slices.SortFunc(all, func(a, b *keptCounter) int {
		return cmp.Or(a.due.Compare(b.due), strings.Compare(a.RollUp, b.RollUp))
	})

	var paths []string
	size := 0
	for _, e := range all {
		size += len(e.RollUp)
		if size > maxPaths {
			break
		}
		paths = append(paths, e.RollUp)
	}
	return paths
}
