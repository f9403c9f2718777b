package route

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"
)

// A Template says where roll-ups are. Each roll-up has the totals of all of the template's routes,
// summed in one snapshot and written in one write. A Template is immutable.
type Template struct {
	Routes []*Route // the routes that name it, in their order

	// Every is how often the schedule rolls the counters up. Zero: events have them rolled up,
	// live.
	Every time.Duration

	// Cadence is how much time one roll-up of a counter uses up. Zero: as the functions are
	// configured. A template with Every has none.
	Cadence time.Duration

	// Existing says that the documents are the app's own. Tally updates the totals in the documents
	// that exist, and never creates or removes one.
	Existing bool

	// Within says that Tally creates and removes the documents, although a route has keys. It creates
	// one only while the counter's owner exists: see [Counter.Owner]. Each document has the ids of
	// its path in Labels.
	Within bool

	owner     int      // how many segments of a roll-up's path are the owner's
	segments  Path     // as the first route spells it
	canonical string   // the segments without the names of their captures
	names     []string // of the totals, sorted
	times     []string // of the totals that are timestamps
	hash      string
}

// A Counter is one counter of a database: a roll-up document, and the documents that are summed for
// it. Counters can be compared with ==.
type Counter struct {
	Template *Template
	RollUp   string // path of the roll-up document below the database's root, such as "rollups/likes"
}

// Owner returns the path of the document of the app's within which Tally makes the counter's
// roll-up. If that document is missing, there is no roll-up. Owner returns "" if the counter needs
// none.
func (c Counter) Owner() string {
	ids := strings.SplitN(c.RollUp, "/", c.Template.owner+1)
	return strings.Join(ids[:c.Template.owner], "/")
}

// Labels returns the fields in which the counter's roll-up has the ids of its path, by their names;
// nil if it has none. Queries go by them, as for all days of one shop, or all shops of one day. An
// id that stands nowhere else needs none: that of a document of the app's is in its name.
func (c Counter) Labels() map[string]string {
	if !c.Template.Within {
		return nil
	}

	labels := make(map[string]string)
	ids := strings.Split(c.RollUp, "/")
	for i, s := range c.Template.segments {
		if s.Capture {
			labels[s.Name] = ids[i]
		}
	}
	return labels
}

// Labels returns the names of the fields in which each roll-up has the ids of its path, in the
// order of the path: the names of the captures, if the routes say within.
func (t *Template) Labels() []string {
	var names []string
	for _, s := range t.segments {
		if s.Capture && t.Within {
			names = append(names, s.Name)
		}
	}
	return names
}

// Hash returns a text that differs between templates that make different totals. It is a hash of
// the sources, the roll-up path and the totals. The options and the names of the captures make no
// difference: another name of a label changes no total.
func (t *Template) Hash() string { return t.hash }

// Scheduled reports whether the routes say "every", so that the schedule keeps the roll-ups. Events
// keep all others.
func (t *Template) Scheduled() bool { return t.Every > 0 }

// FoundByHomes reports whether the counters are found by the documents that hold their totals. They
// are the app's own, and the documents of a route do not lie below each other by counter. The
// counters of other templates are also found by the paths of their documents.
func (t *Template) FoundByHomes() bool {
	return t.Existing && slices.ContainsFunc(t.Routes, func(r *Route) bool { return r.By != nil })
}

// Timed reports whether each roll-up is of a day, a week or a month.
func (t *Template) Timed() bool { return t.Routes[0].Time() != "" }

// Segments returns the segments of the roll-ups' paths.
func (t *Template) Segments() Path { return slices.Clone(t.segments) }

// Totals returns the names of the totals, sorted.
func (t *Template) Totals() []string { return slices.Clone(t.names) }

// OfTimes reports whether the total of that name is a timestamp, and not a number.
func (t *Template) OfTimes(name string) bool { return slices.Contains(t.times, name) }

// String returns the path of the roll-ups, with captures in braces.
func (t *Template) String() string { return t.segments.String() }

// Counter returns the counter whose roll-up document is at path (below the database's root), if the
// template gives it.
func (t *Template) Counter(path string) (Counter, bool) {
	same, ok := t.segments.translate(path, t.segments)
	return Counter{Template: t, RollUp: path}, ok && same == path && t.named(path) // if a capture comes twice, both ids must be the same
}

// named reports whether the ids in a path are such as the keys give, as far as all routes of the
// template say: that of a number is in decimals, and a day is one that there is.
func (t *Template) named(path string) bool {
	for _, k := range t.Routes[0].By {
		if k.space() == "" {
			continue
		}
		_, ok := k.conditions(strings.Split(path, "/")[:k.at+1])
		if !ok {
			return false
		}
	}
	return true
}

// Misnamed says which id in a path is none that its key gives, if no roll-up of the template is at
// that path for this reason only.
func (t *Template) Misnamed(path string) (why string, ok bool) {
	same, like := t.segments.translate(path, t.segments)
	if !like || same != path {
		return "", false
	}

	ids := strings.Split(path, "/")
	for _, k := range t.Routes[0].By {
		_, named := k.conditions(ids[:k.at+1])
		if !named && k.example() != "" {
			return fmt.Sprintf("%q in %s is not an id that %s gives, such as %s", ids[k.at], path, k.unnamed(), k.example()), true
		}
	}
	return "", false
}

// Reads returns how many reads the sum of a counter with so many documents is billed, or somewhat
// more. An aggregation bills one for each 1,000 documents, and so does a query that Walks. Another
// query of the best document, or of the first that leaves a window, bills one, and the option
// documents one for each document.
func (t *Template) Reads(documents int64) float64 {
	var queries, each float64 // each: at most, for one document
	for _, one := range t.Routes {
		var thorough float64 // queries that may go through all documents
		for _, q := range one.queries {
			if q.Best == "" || q.Walks() {
				thorough++
			}
		}
		if one.Documents {
			thorough = 1000
		}
		queries += float64(len(one.queries) + len(one.windows))
		each = max(each, thorough/1000)
	}
	return queries + each*float64(max(documents, 0))
}

// seal computes the names of the totals and the hash, which follow from the routes.
func (t *Template) seal() {
	var sources []string
	for _, r := range t.Routes {
		for _, total := range r.Totals {
			sources = append(sources, fmt.Sprintf("%s %s %s\n", spell(r.pattern, r.template), r.identity(), total.identity()))
			t.names = append(t.names, total.Name)
			if total.Aggregate.OfTimes() {
				t.times = append(t.times, total.Name)
			}
		}
	}

	slices.Sort(sources)
	slices.Sort(t.names)

	sum := sha256.Sum256([]byte(t.canonical + "\n" + strings.Join(sources, "")))
	t.hash = hex.EncodeToString(sum[:8])
}

// spell returns the text of segments in which each capture is named by its position in a template.
// The last capture of a pattern is not in the template. It is named -1.
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
