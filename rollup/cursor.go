package rollup

import (
	"fmt"
	"slices"
	"time"
)

// A Place is how far the walk of one route has come. The zero Place is the beginning.
type Place struct {
	By     By
	From   string // where the store's walk goes on
	Done   bool   // it came to the last counter
	Failed bool   // a page could not be read; it is tried again
}

// By is how an audit finds counters.
type By int

const (
	ByRollUp By = iota // by their roll-up documents
	ByShards           // by their shards, which finds counters without a roll-up
)

// A Cursor is what one audit leaves to the next, in the database. Its times are of local clocks and
// serve estimates only.
type Cursor struct {
	Routes string  // those that Places are of; on others an audit begins anew
	Places []Place // by route

	Tick     time.Time     // when the audit began that saved this
	Complete time.Time     // when an audit last came to the last counter; zero: none did
	Cycle    time.Duration // from the time before to then; 0: unknown

	UpdateTime time.Time // when it was saved, as Firestore says; zero: never
}

// on returns the cursor to walk the routes by: c, or another that begins anew when c is of other
// routes. When no route of c is left but those whose page failed, the others begin anew.
func (c Cursor) on(routes Routes) Cursor {
	if c.Routes != routes.String() || len(c.Places) != len(routes) {
		return Cursor{Routes: routes.String(), Places: make([]Place, len(routes)), Tick: c.Tick, UpdateTime: c.UpdateTime}
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

// complete reports whether every route came to its last counter.
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
	p := c.Places[i]
	text := map[By]string{ByRollUp: "roll-ups", ByShards: "shards"}[p.By] + " of " + routes[i].String()
	if p.From != "" {
		text += fmt.Sprintf(", from %q on", p.From)
	}
	return text
}
