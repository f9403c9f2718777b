package rollup

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// walkPage is about how many counters are found at a time. It bounds the memory of an audit.
const walkPage = 100

// page finds the next counters of a template. find is the method of the store that finds them.
func (r *roller) page(ctx context.Context, t *Template, from string, find func(context.Context, *Template, string, int) (Page, error)) (Page, error) {
	ctx, cancel := context.WithTimeout(ctx, r.options.Timeout)
	defer cancel()
	page, err := find(ctx, t, from, walkPage)
	if err != nil {
		return page, fmt.Errorf("rollup: finding the counters of %v: %w", t, err)
	}
	return page, nil
}

// A Place is how far one walk has come. The zero Place is the beginning.
type Place struct {
	From   string // where the store's walk goes on
	Done   bool   // the walk has come to the last counter
	Failed bool   // the page from here on could not be read; the next audit tries again
}

// A Cursor says where one audit, or one call of Keep, stopped. The next one reads it from the
// database. Tick and Complete are times of local clocks, and serve estimates only.
type Cursor struct {
	Routes string  // the routes that Places belong to; with others the work begins anew
	Places []Place // one for each walk

	// Only audits use these.
	Tick     time.Time     // when the audit that saved this began
	Complete time.Time     // when an audit last came to the last counter; zero: none did
	Cycle    time.Duration // how long the last walk of all counters took, up to Complete; 0: unknown

	// Only Keep uses Changed. It has the paths of the roll-ups of the counters that had changed at
	// their last visit, in the order in which they are due.
	Changed []string

	UpdateTime time.Time // when it was saved, as Firestore says; zero: never
}

// on returns the cursor from which to walk the routes, which need that many places. If c belongs to
// other routes, all walks begin anew. If each walk of c is done or has failed, those that are done
// begin anew.
func (c Cursor) on(routes Routes, places int) Cursor {
	if c.Routes != routes.String() || len(c.Places) != places {
		return Cursor{Routes: routes.String(), Places: make([]Place, places), Tick: c.Tick, UpdateTime: c.UpdateTime}
	}
	c.Places = slices.Clone(c.Places)
	left := slices.ContainsFunc(c.Places, func(p Place) bool { return !p.Done && !p.Failed })
	for i, p := range c.Places {
		if !left && p.Done {
			c.Places[i] = Place{}
		}
		c.Places[i].Failed = false
	}
	return c
}

// complete reports whether every walk came to its last counter.
func (c Cursor) complete() bool {
	return !slices.ContainsFunc(c.Places, func(p Place) bool { return !p.Done })
}

// completed notes that an audit has come to the last counter.
func (c *Cursor) completed(at time.Time) {
	if !c.Complete.IsZero() {
		c.Cycle = at.Sub(c.Complete)
	}
	c.Complete = at
}

// describe names where the walk goes on.
func (c Cursor) describe(routes Routes) string {
	i := slices.IndexFunc(c.Places, func(p Place) bool { return !p.Done })
	if i < 0 {
		return "at the beginning"
	}
	text := "counters of " + routes.Templates()[i].String()
	if from := c.Places[i].From; from != "" {
		text += fmt.Sprintf(", from %q on", from)
	}
	return text
}
