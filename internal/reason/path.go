package reason

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/value"
	"github.com/firestore-tally/tally/rollup/route"
)

// uncovered says of a document that no route covers that it looks like a shard, if it does.
func uncovered(routes route.Routes, d Document) []Reason {
	if !isShard(d.Path, d.Fields) {
		return nil
	}
	pattern, template := Generalized(d.Path)
	_, written, _ := numbers(d.Fields)
	why := ", which looks like a shard" + suggest("to sum it, add the route", pattern+" -> "+template+" : "+strings.Join(written, ", "), routes)
	return []Reason{{Kind: Uncovered, About: pattern, Why: why}}
}

// Similar returns the reasons for which no route covers the document at path: its collection is
// named nearly as that of a route. A document that holds totals is none of a route's sources.
func Similar(routes route.Routes, path string) (all []Reason) {
	holds := func(t *route.Template) bool { _, ok := t.Counter(path); return ok }
	if routes.Covers(path) || slices.ContainsFunc(routes.Templates(), holds) {
		return nil
	}
	for _, r := range routes {
		has, want := differing(path, r.Pattern())
		if Nearly(has, want) {
			all = append(all, Reason{Kind: Misplaced, Route: r, Like: has, About: has, Why: fmt.Sprintf(": the document is in %s, and the route says %s: %s", has, want, r)})
		}
	}
	return all
}

// WithEmptySource returns a Misplaced reason of which it is known that the route's own source has
// no documents.
func (r Reason) WithEmptySource() Reason {
	r.Why = fmt.Sprintf(", and the source %s has no documents%s", r.Route.Pattern(), r.Why)
	return r
}

// differing returns the one collection in which a path differs from a pattern, as each has it. They
// are empty if it differs in none, or in more.
func differing(path string, pattern route.Path) (has, want string) {
	ids := strings.Split(path, "/")
	if len(ids) != len(pattern) {
		return "", ""
	}
	for i, s := range pattern {
		switch {
		case s.Capture || s.Name == ids[i]:
		case i%2 == 1 || has != "":
			return "", ""
		default:
			has, want = ids[i], s.Name
		}
	}
	return has, want
}

// Home returns the document of the app's own without which a counter gets no roll-up: the one that
// holds its totals, or the one within which Tally makes that. It returns "" if there is none.
func Home(c route.Counter) string {
	switch {
	case c.Template.Within:
		return c.Owner()
	case c.Template.Existing:
		return c.RollUp
	}
	return ""
}

// MissingHome returns the reason of a document of a counter's whose home is missing.
func MissingHome(c route.Counter) Reason {
	which := "which"
	if home := Home(c); home != c.RollUp {
		which = "within " + home + ", which"
	}
	why := fmt.Sprintf("%s, %s does not exist: the totals come with the next change, or an audit, after the app has created that document", c.RollUp, which)
	return Reason{Kind: Homeless, About: Home(c), Why: why}
}

// unsummed says of a shard with numbers that its route sums none of them.
func unsummed(routes route.Routes, r *route.Route, d Document) []Reason {
	names, _, totals := numbers(d.Fields)
	if !r.HasShards() || names == nil || slices.ContainsFunc(r.Fields(), d.has) {
		return nil
	}

	others := slices.DeleteFunc(slices.Clone(routes), func(other *route.Route) bool { return other == r })
	why := fmt.Sprintf("%s, not %s", strings.Join(names, ", "), joinOr(r.Fields())) + suggest("to sum it, the route is", r.With(totals), others)
	return []Reason{{Kind: Unsummed, Route: r, About: fmt.Sprint(names), Why: why}}
}

// uncounted says of a document that it has no field count, if a total is the sum of that field by
// another name. How many documents there are is count(), which may be meant.
func uncounted(r *route.Route, d Document) (all []Reason) {
	for _, t := range r.Totals {
		if t.Aggregate == route.Sum && t.Field == "count" && t.Name != "count" && !d.has(t.Field) {
			name := route.Quote(t.Name)
			why := fmt.Sprintf("no field count, and %s is the sum of that field; count() as %s is how many documents there are", name, name)
			all = append(all, Reason{Kind: Uncounted, Route: r, Field: t.Field, About: t.Name, Why: why})
		}
	}
	return all
}

// suggest suggests a route if it may join the others.
func suggest(why, r string, others route.Routes) string {
	_, err := route.Parse(others.String() + "\n" + r)
	if err != nil {
		return ""
	}
	return "; " + why + " " + r
}

// numbers returns the names of the fields that hold numbers, how a route spells them, and the
// totals that are their sums.
func numbers(fields map[string]any) (names, written []string, totals []route.Total) {
	for _, name := range sortedNames(fields) {
		if _, ok := value.Number(fields[name]); ok {
			total := route.Total{Aggregate: route.Sum, Field: document.FieldOf(name), Name: name}
			names, written, totals = append(names, name), append(written, total.String()), append(totals, total)
		}
	}
	return names, written, totals
}

// joinOr returns fields in a sentence.
func joinOr(fields []document.Field) string {
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = string(f)
	}
	return strings.Join(names, " or ")
}

var wholeNumber = regexp.MustCompile(`^\d+$`)

// IsShardNumber reports whether an id can be that of a counter's own shard.
func IsShardNumber(id string) bool { return wholeNumber.MatchString(id) }

// isShard reports whether a document looks like a shard. A shard has numbers and nothing else, and
// none of its fields is called num_shards. Either the name of its collection holds the word shard,
// or it is below another document and its id is a number.
func isShard(path string, fields map[string]any) bool {
	for name, field := range fields {
		if _, ok := value.Number(field); !ok || name == "num_shards" || name == "numShards" {
			return false
		}
	}
	ids := strings.Split(path, "/")
	id, collection := ids[len(ids)-1], ids[len(ids)-2]
	return len(fields) > 0 && (len(ids) > 2 && wholeNumber.MatchString(id) || strings.Contains(strings.ToLower(collection), "shard"))
}

// Generalized returns a pattern for the documents like the one at path, and a template for their
// roll-ups, as a route spells them: for posts/7/shards/0 they are posts/{post}/shards/{shard} and
// post_totals/{post}.
func Generalized(path string) (pattern, template string) {
	ids := strings.Split(path, "/")
	var sources, rollUps []string
	for i := 0; i < len(ids); i += 2 {
		collection, one := route.Quote(ids[i]), strings.TrimSuffix(ids[i], "s")
		capture := "{" + route.Quote(one) + "}"
		if strings.HasPrefix(ids[i+1], "{") { // in an answer to tally init
			capture = ids[i+1]
		}
		if slices.Contains(sources, capture) {
			capture = "{" + route.Quote(fmt.Sprintf("%s%d", one, i/2+1)) + "}"
		}
		sources = append(sources, collection, capture)

		switch {
		case len(ids) == 2:
			rollUps = []string{"totals", collection}
		case i == 0:
			rollUps = []string{route.Quote(one + "_totals"), capture}
		case i < len(ids)-2:
			rollUps = append(rollUps, collection, capture)
		}
	}
	return strings.Join(sources, "/"), strings.Join(rollUps, "/")
}
