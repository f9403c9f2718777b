package schedule

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/firestore-tally/tally/rollup/route"
)

// walkPage is how many counters are found at a time, at most. It bounds the memory of an audit.
const walkPage = 100

// A walk goes through the counters of a template by their roll-ups, or through those of a route by
// their shards.
type walk struct {
	template *route.Template
	name     string // what it goes through, for errors
	find     func(ctx context.Context, from string, limit int) (Page, error)
}

// walksOf returns the walks of the roll-ups, one for each template, and the walks of the shards,
// one for each route whose counters are not FoundByHomes. The walks of the roll-ups find the
// counters whose roll-up has a tally or Unwritten totals, and those found by their homes. The walks
// of the shards find the others. So all walks together find each counter once. since says for a
// route how old a day may be that the walk of its shards finds, and recent that of a template.
func walksOf(routes route.Routes, store Store, since func(*route.Route) time.Time, recent func(*route.Template) func(string) time.Time) (byRollUps, byShards []walk) {
	for _, t := range routes.Templates() {
		find := func(ctx context.Context, from string, limit int) (Page, error) {
			page, err := rollUps(ctx, store, t, recent(t), from, limit)
			if !t.FoundByHomes() {
				page.Found = slices.DeleteFunc(page.Found, page.isLeftOut)
			}
			return page, err
		}
		byRollUps = append(byRollUps, walk{t, "roll-ups of " + t.String(), find})
	}

	for _, r := range routesFoundByShards(routes) {
		find := func(ctx context.Context, from string, limit int) (Page, error) {
			page, err := store.Missing(ctx, r, since(r), from, limit)
			page.Found = slices.DeleteFunc(page.Found, func(f FoundCounter) bool { return len(f.RollUp.Unwritten()) > 0 })
			return page, err
		}
		byShards = append(byShards, walk{r.Template, "shards of " + r.Pattern().String(), find})
	}
	return byRollUps, byShards
}

// rollUps finds the next roll-ups of a template: all, or those of recent times.
func rollUps(ctx context.Context, store Store, t *route.Template, since func(string) time.Time, from string, limit int) (Page, error) {
	if since == nil {
		return store.RollUps(ctx, t, from, limit)
	}
	return store.Recent(ctx, t, since, from, limit)
}

// page finds the next counters of a walk, up to limit, within a time.
func (w walk) page(ctx context.Context, from string, limit int, within time.Duration) (Page, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	page, err := w.find(ctx, from, limit)
	if err != nil {
		return page, fmt.Errorf("rollup: finding the %s: %w", w.name, err)
	}
	return page, nil
}

// describe names where the walks of one kind go on. If all of them are done, it returns "".
func describe(walks []walk, places []Place) string {
	i := slices.IndexFunc(places, func(p Place) bool { return !p.Done })
	if i < 0 {
		return ""
	}
	text := walks[i].name
	if from := places[i].From; from != "" {
		text += fmt.Sprintf(", from %q on", from)
	}
	return text
}

// describe names where the walks of both kinds go on.
func (c Cursor) describe(byRollUps, byShards []walk) string {
	texts := []string{describe(byRollUps, c.Places[:len(byRollUps)]), describe(byShards, c.Places[len(byRollUps):])}
	texts = slices.DeleteFunc(texts, func(text string) bool { return text == "" })
	return cmp.Or(strings.Join(texts, "; "), "at the beginning")
}
