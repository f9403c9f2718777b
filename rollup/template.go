package rollup

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"
)

// A Template says where roll-ups are, and what each of them totals: all its routes' totals, in one
// snapshot and one write. It is immutable.
type Template struct {
	Routes []*Route // that name it, in their order

	// Every is how often the schedule rolls the counters up. Zero: events do, live.
	Every time.Duration

	// Existing says that the documents are the app's own: Tally updates the totals in one that
	// exists, and never creates or removes one.
	Existing bool

	segments Path     // as the first route spells it
	spelt    string   // the segments without the names of their captures
	names    []string // of the totals, sorted
	hash     string
}

// A Counter is one counter of one database: a roll-up document, and what is summed for it. It is
// comparable.
type Counter struct {
	Template *Template
	RollUp   string // path of the roll-up document below the database's root, such as "rollups/likes"
}

// Hash tells templates apart that make different totals. It is over what names the sources, the
// roll-up and the totals, not over the options nor over what the captures are called.
func (t *Template) Hash() string { return t.hash }

// Scheduled reports whether the schedule keeps the roll-ups, as the routes say by "every". Events
// keep all others.
func (t *Template) Scheduled() bool { return t.Every > 0 }

// Segments returns the segments of the roll-ups' paths.
func (t *Template) Segments() Path { return slices.Clone(t.segments) }

// Totals returns the names of the totals, sorted.
func (t *Template) Totals() []string { return slices.Clone(t.names) }

// String returns the path of the roll-ups, with captures in braces.
func (t *Template) String() string { return t.segments.String() }

// Counter returns the counter whose roll-up document is at path (below the database's root), if the
// template gives it.
func (t *Template) Counter(path string) (Counter, bool) {
	same, ok := t.segments.translate(path, t.segments)
	return Counter{Template: t, RollUp: path}, ok && same == path // a capture may come twice
}

// seal computes what follows from the routes.
func (t *Template) seal() {
	var sources []string
	for _, r := range t.Routes {
		for _, total := range r.Totals {
			sources = append(sources, fmt.Sprintf("%s %q %s\n", spell(r.pattern, r.template), r.By, total.identity()))
			t.names = append(t.names, total.Name)
		}
	}

	slices.Sort(sources)
	slices.Sort(t.names)

	sum := sha256.Sum256([]byte(t.spelt + "\n" + strings.Join(sources, "")))
	t.hash = hex.EncodeToString(sum[:8])
}

// spell spells segments with their captures renamed by their positions in a template, which does
// not have the last of a pattern.
func spell(segments, template Path) string {
	var b strings.Builder
	for _, s := range segments {
		if s.Capture {
			fmt.Fprintf(&b, "/{%d}", slices.Index(template, s))
		} else {
			fmt.Fprintf(&b, "/%q", s.Name)
		}
	}
	return b.String()
}
