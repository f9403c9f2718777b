package rollup

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// A walk finds the counters of a template: by their roll-ups or, if it has a route, by the shards
// of that, which finds counters without a roll-up too.
type walk struct {
	template *Template
	route    *Route
}

// walks returns what finds all counters of the routes.
func (rs Routes) walks() []walk {
	var walks []walk
	for _, t := range rs.Templates() {
		walks = append(walks, walk{template: t})
		for _, r := range t.Routes {
			walks = append(walks, walk{t, r})
		}
	}
	return walks
}

func (w walk) String() string {
	if w.route == nil {
		return "roll-ups of " + w.template.String()
	}
	return "shards of " + w.route.String()
}

// walkPage is how many counters or documents are found at a time, which bounds an audit's memory.
const walkPage = 100

// page finds the next counters of a walk.
func (r *roller) page(ctx context.Context, store AuditStore, w walk, from string) (page Page, err error) {
	ctx, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	if w.route == nil {
		page, err = store.RollUps(ctx, w.template, from, walkPage)
	} else {
		page, err = store.Counters(ctx, w.route, from, walkPage)
	}
	if err != nil {
		err = fmt.Errorf("rollup: finding the %v: %w", w, err)
	}
	return page, err
}

// A Place is how far one walk has come. The zero Place is the beginning.
type Place struct {
	From   string // where the store's walk goes on
	Done   bool   // it came to the last counter
	Failed bool   // a page could not be read; it is tried again
}

// A Cursor is what one audit leaves to the next, in the database. Its times are of local clocks and
// serve estimates only.
type Cursor struct {
	Routes string  // those that Places are of; on others an audit begins anew
	Places []Place // of the roll-ups of each template, each followed by those of its routes

	Tick     time.Time     // when the audit began that saved this
	Complete time.Time     // when an audit last came to the last counter; zero: none did
	Cycle    time.Duration // from the time before to then; 0: unknown

	UpdateTime time.Time // when it was saved, as Firestore says; zero: never
}

// on returns the cursor to walk the routes by: c, or another that begins anew when c is of other
// routes. When no walk of c is left but those whose page failed, the others begin anew.
func (c Cursor) on(routes Routes) Cursor {
	if n := len(routes.walks()); c.Routes != routes.String() || len(c.Places) != n {
		return Cursor{Routes: routes.String(), Places: make([]Place, n), Tick: c.Tick, UpdateTime: c.UpdateTime}
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

// completed notes that an audit came to the last counter.
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
	text := routes.walks()[i].String()
	if from := c.Places[i].From; from != "" {
		text += fmt.Sprintf(", from %q on", from)
	}
	return text
}
