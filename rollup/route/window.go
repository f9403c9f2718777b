package route

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// A window takes the documents whose time in a field is later than a while ago: "where at > now -
// 24h". What now is, each roll-up says: it is the instant of its snapshot.

// Ago is the value of a condition that makes a window: now, less this long. Its operator is
// GreaterThan or GreaterThanOrEqual.
type Ago time.Duration

const (
	// shortestWindow is the least length of a window. Each document that leaves costs a roll-up, a
	// few seconds later.
	shortestWindow = time.Minute

	// LongestWindow is the greatest length of a window: a year, and what people add to one.
	LongestWindow = 400 * day

	day = 24 * time.Hour
)

// ParseAgo returns the length of a window that a text says: a duration such as 90m or 24h, or
// days such as 30d. It returns false if the text says none, or one that is too short, too long or
// finer than a second.
func ParseAgo(text string) (Ago, bool) {
	length, err := time.ParseDuration(text)
	if days, is := strings.CutSuffix(text, "d"); is {
		var n int
		n, err = strconv.Atoi(days)
		length = time.Duration(min(n, 1000)) * day
	}

	fits := length >= shortestWindow && length <= LongestWindow && length%time.Second == 0
	return Ago(length), err == nil && fits
}

// String returns the length as a route spells it.
func (a Ago) String() string {
	length := time.Duration(a)
	if length > day && length%day == 0 {
		return strconv.FormatInt(int64(length/day), 10) + "d"
	}
	text := length.String()
	if length%time.Minute == 0 {
		text = strings.TrimSuffix(text, "0s")
	}
	if length%time.Hour == 0 {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// At returns the condition as it is at an instant. Only a window's bound depends on that.
func (c Condition) At(instant time.Time) Condition {
	ago, is := c.Value.(Ago)
	if is {
		c.Value = instant.Add(-time.Duration(ago)).UTC()
	}
	return c
}

// At returns conditions as they are at an instant.
func At(conditions []Condition, instant time.Time) []Condition {
	fixed := slices.Clone(conditions)
	for i, c := range fixed {
		fixed[i] = c.At(instant)
	}
	return fixed
}

// IsWindow reports whether the condition makes a window.
func (c Condition) IsWindow() bool {
	_, is := c.Value.(Ago)
	return is
}

// Leaves returns when a document leaves the window that the condition makes. At is the document's
// time.
func (c Condition) Leaves(at time.Time) Leaving {
	length := time.Duration(c.Value.(Ago))
	leaves := at.Add(length)
	if c.Operator == GreaterThanOrEqual {
		leaves = leaves.Add(time.Microsecond)
	}
	return Leaving{length, leaves}
}

// A Leaving says that a document leaves a window.
type Leaving struct {
	Window time.Duration // how long the window is
	At     time.Time     // the first instant at which the document is not in it any more
}

// A Window is what a total with a window takes.
type Window struct {
	Condition             // makes the window
	Where     []Condition // all conditions of the total, with that one
}

// windows returns the windows of totals, each once.
func windows(totals []Total) []Window {
	var all []Window
	for _, t := range totals {
		i := slices.IndexFunc(t.Where, Condition.IsWindow)
		known := slices.ContainsFunc(all, func(w Window) bool { return slices.EqualFunc(w.Where, t.Where, Condition.Equal) })
		if i >= 0 && !known {
			all = append(all, Window{t.Where[i], t.Where})
		}
	}
	return all
}

// Windows returns the windows of the route's totals, each once. Callers must not change the list.
func (r *Route) Windows() []Window { return r.windows }

// Windowed reports whether a total has a window.
func (t *Template) Windowed() bool {
	return slices.ContainsFunc(t.Routes, func(r *Route) bool { return len(r.windows) > 0 })
}

// Windowed returns the routes that have a total with a window.
func (rs Routes) Windowed() Routes {
	return slices.DeleteFunc(slices.Clone(rs), func(r *Route) bool { return len(r.windows) == 0 })
}

// leaving returns when the first of a route's documents leaves each window in which there are
// some. Windows are as they are at an instant.
func (r *Route) leaving(shards []Shard, instant time.Time) []Leaving {
	var all []Leaving
	for _, w := range r.windows {
		where := At(w.Where, instant)
		var first time.Time
		for _, s := range shards {
			v, _ := w.Field.In(s.Fields)
			at, isTime := v.(time.Time)
			if isTime && HoldAll(where, s.Fields) && (first.IsZero() || at.Before(first)) {
				first = at
			}
		}
		if !first.IsZero() {
			all = append(all, w.Leaves(first))
		}
	}
	return all
}
