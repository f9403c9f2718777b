// Package counter finds the counter that an argument of a command names.
package counter

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/firestore-tally/tally/cmd/tally/draft"
	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/reason"
	"github.com/firestore-tally/tally/internal/tool/terminal"
	"github.com/firestore-tally/tally/rollup/route"
)

// A Counter is a counter as an argument names it: as a whole, or by some of its sources.
type Counter struct {
	route.Counter
	Sources []*route.Route // that the argument names; all of the template's if it names none
	Path    string         // what messages call it: the document above the sources, or else the roll-up
	Frozen  bool           // its document says so; session.existing sets it, and nothing else does
}

// Of returns the counter that an argument names: the roll-up, a shard, the collection of the
// shards, the document above the shards, or only the ids in the roll-up's path. A roll-up that is
// also a document of another counter names its own. The counter may not exist. The error is
// errNoRoute if no route serves such a path, and none serves one that is like it.
func Of(routes route.Routes, arg string) (Counter, error) {
	if err := CheckIDs(arg); err != nil { // with invalid bytes the SDK would try forever
		return Counter{}, err
	}
	if c, ok := ofRollUp(routes, arg); ok {
		return c, nil
	}
	for _, template := range routes.Templates() {
		if why, ok := template.Misnamed(arg); ok {
			return Counter{}, errors.New(why)
		}
	}
	if c, ok := ofShards(routes, arg); ok {
		return c, nil
	}
	c, ok, err := ofDocumentAbove(routes, arg)
	if ok || err != nil {
		return c, err
	}

	path, err := ofIDs(routes, arg)
	if err != nil {
		return Counter{}, err
	}
	c, _ = ofRollUp(routes, path) // it is one
	return c, nil
}

// ofShards returns the counter of a collection of shards, or of one of these.
func ofShards(routes route.Routes, path string) (Counter, bool) {
	for _, r := range routes {
		for _, collection := range []string{path, Above(path)} {
			if c, ok := r.Counter(collection); ok {
				return New(c, r), true
			}
		}
	}
	return Counter{}, false
}

// ofRollUp returns the counter of a roll-up.
func ofRollUp(routes route.Routes, path string) (Counter, bool) {
	for _, template := range routes.Templates() {
		if c, ok := template.Counter(path); ok {
			return New(c, template.Routes...), true
		}
	}
	return Counter{}, false
}

// ofDocumentAbove returns the counter whose sources are below a document. It is an error if there
// are several such counters.
func ofDocumentAbove(routes route.Routes, path string) (c Counter, ok bool, err error) {
	var found route.Counter
	var sources []*route.Route
	for _, r := range routes {
		pattern := r.Pattern()
		collection := pattern.CollectionID()
		c, ok := r.Counter(path + "/" + collection)
		if !ok {
			continue
		}
		if sources != nil && c != found {
			return Counter{}, false, fmt.Errorf("%s has several counters: name the roll-up of one, such as %s or %s", path, found.RollUp, c.RollUp)
		}
		found, sources = c, append(sources, r)
	}

	if sources == nil {
		return Counter{}, false, nil
	}
	return New(found, sources...), true, nil
}

// CheckIDs returns an error if an id of a path cannot be one in Firestore.
func CheckIDs(path string) error {
	for id := range strings.SplitSeq(path, "/") {
		if err := document.CheckID(id); err != nil {
			return fmt.Errorf("%q is not a path such as counters/likes: an id %w", path, err)
		}
	}
	return nil
}

// ofIDs returns the path of the roll-up that has the ids of an argument for its captures. If the
// routes have several templates, only a bare id will do: it names the counter that tally create
// would make.
func ofIDs(routes route.Routes, arg string) (string, error) {
	ids := strings.Split(arg, "/")
	templates := routes.Templates()
	var paths, created []string
	for _, template := range templates {
		path, ok := withIDs(template, ids)
		if !ok {
			continue
		}
		paths = append(paths, path)
		if !template.Existing && slices.ContainsFunc(template.Routes, (*route.Route).HasShards) {
			created = append(created, path)
		}
	}

	switch {
	case len(paths) == 1 && len(templates) == 1:
		return paths[0], nil
	case len(ids) == 1 && len(created) == 1:
		return created[0], nil
	case len(ids) == 1 && len(paths) > 0:
		return "", fmt.Errorf("the routes make roll-ups of several kinds, so %q may be %s: name a path", arg, strings.Join(paths, " or "))
	default:
		return "", notServed(routes, arg, ids)
	}
}

// withIDs returns a template's path with the ids in place of its captures. It reports false if
// there are more or fewer ids than captures.
func withIDs(template *route.Template, ids []string) (string, bool) {
	path := template.Segments()
	next := 0
	for i, s := range path {
		if !s.Capture {
			continue
		}
		if next == len(ids) {
			return "", false
		}
		path[i] = route.Segment{Name: ids[next]}
		next++
	}
	return path.String(), next == len(ids)
}

// ErrNoRoute says that no route serves a path, and none serves a path that is like it.
var ErrNoRoute = errors.New("no route serves")

// notServed returns the error for a path that names no counter. If a field of the document says
// which counter it belongs to, the error says so. Else it names the nearest path, a route that
// would serve this one, or the nearest route.
func notServed(routes route.Routes, arg string, ids []string) error {
	for _, r := range routes {
		pattern := r.Pattern()
		for _, documents := range []string{arg, arg + "/" + pattern.CollectionID()} {
			if r.By != nil && r.Covers(documents+"/id") {
				return fmt.Errorf("%s which counter each belongs to: name one, as in %s", keysOf(r, documents), r.Template)
			}
		}
		if r.By != nil && r.Covers(arg) {
			return fmt.Errorf("%s which counter it belongs to: name that one, as in %s", keysOf(r, arg), r.Template)
		}
	}

	nearest, meant, distance := nearestPath(routes, arg, ids)
	if distance <= max(2, len(arg)/3) {
		return fmt.Errorf("no route serves %s; the nearest is %s; did you mean %s?", arg, nearest, meant)
	}

	shard := arg + "/shard" // of a collection
	if len(ids)%2 == 0 {
		shard = arg + "/shards/shard"
	}
	fits, err := route.Parse(draft.For(shard, "count"))
	if len(ids) > 1 && err == nil {
		return fmt.Errorf("%w %s; this one would: %s", ErrNoRoute, arg, fits)
	}
	return fmt.Errorf("%w %s; the nearest is %s", ErrNoRoute, arg, nearest)
}

// keysOf names the fields that say to which counter a document of the route belongs, with the verb.
func keysOf(r *route.Route, document string) string {
	if len(r.By) == 1 {
		return fmt.Sprintf("the field %s of %s says", r.By[0].Field, document)
	}
	return fmt.Sprintf("the fields %s and %s of %s say", r.By[0].Field, r.By[1].Field, document)
}

// nearestPath returns the path that is most like an argument, of those that routes serve with its
// ids for their captures. It also returns the path's route, and its distance from the argument.
func nearestPath(routes route.Routes, arg string, ids []string) (nearest *route.Route, meant string, distance int) {
	distance = math.MaxInt
	for _, r := range routes {
		pattern := r.Pattern()
		forms := []route.Path{pattern[:len(pattern)-2], pattern[:len(pattern)-1], pattern, r.Template.Segments()}
		if r.By != nil {
			forms = forms[3:] // a path of documents does not name one of their counters
		}
		for _, form := range forms {
			for i, s := range form {
				if s.Capture && i < len(ids) {
					form[i] = route.Segment{Name: ids[i]}
				}
			}
			path := form.String()
			d := reason.Distance(arg, path)
			if d < distance && path != "" {
				nearest, meant, distance = r, path, d
			}
		}
	}
	return nearest, meant, distance
}

// New returns the counter c, of which the sources are named.
func New(c route.Counter, sources ...*route.Route) Counter {
	path := Above(sources[0].Shards(c))
	elsewhere := func(r *route.Route) bool { return r.By != nil || Above(r.Shards(c)) != path }
	if path == "" || slices.ContainsFunc(sources, elsewhere) {
		path = c.RollUp
	}
	return Counter{Counter: c, Sources: sources, Path: path}
}

// Above returns the path of the document that a collection is in, "" if it is in none.
func Above(collection string) string {
	return collection[:max(0, strings.LastIndexByte(collection, '/'))]
}

// Source returns the one source that is named, for a command that changes its shards.
func (c Counter) Source() (*route.Route, error) {
	var withShards []string
	for _, r := range c.Sources {
		if r.HasShards() {
			withShards = append(withShards, r.Shards(c.Counter))
		}
	}

	if len(withShards) == 0 {
		return nil, c.noShards(c.Sources[0])
	}
	if len(c.Sources) == 1 {
		return c.Sources[0], nil
	}
	examples := withShards[:min(len(withShards), 2)]
	return nil, fmt.Errorf("%s has several sources: name one, such as %s", c.Path, strings.Join(examples, " or "))
}

// Noun returns what one of the documents is called that make the totals of a template: shard, or
// document if some of them are the app's own.
func Noun(t *route.Template) string {
	for _, r := range t.Routes {
		if !r.HasShards() {
			return "document"
		}
	}
	return "shard"
}

// Counted returns a cell that says how many documents made the totals of a counter of the template;
// "" if their number tells nothing.
func Counted(t *route.Template, numShards int64) string {
	if !t.TellsNumber() {
		return ""
	}
	return "\t" + terminal.Plural(numShards, Noun(t))
}

// noShards returns the error for a source that has no shards.
func (c Counter) noShards(r *route.Route) error {
	documents := "documents of " + r.Shards(c.Counter)
	where, _ := r.Where(c.Counter)
	conditions := make([]string, len(where))
	for i, condition := range where {
		conditions[i] = condition.String()
	}
	if where != nil {
		documents += " where " + strings.Join(conditions, " and ")
	}
	if i := slices.IndexFunc(r.Totals, route.Total.All); i >= 0 {
		return fmt.Errorf("%s counts documents: add or delete %s instead", r.Totals[i].Name, documents)
	}

	var totals []string
	for _, total := range r.Totals {
		totals = append(totals, total.String())
	}
	if r.OfRollUps() {
		return fmt.Errorf("%s has no shards: it holds %s of %s, where another route has its totals: change what that one counts instead", c.Path, strings.Join(totals, ", "), r.Shards(c.Counter))
	}
	return fmt.Errorf("%s has no shards: it holds %s of the app's own documents: write %s instead", c.Path, strings.Join(totals, ", "), documents)
}

// Total returns the total of that name, or if the name is "", the only total. It also returns the
// total's source, for a command that changes its shards.
func (c Counter) Total(name string) (*route.Route, route.Total, error) {
	var names []string
	var found route.Total
	for _, r := range c.Sources {
		for _, total := range r.Totals {
			names = append(names, total.Name)
			if name == total.Name || name == "" {
				c.Sources, found = []*route.Route{r}, total
			}
		}
	}

	switch {
	case name != "" && found.Name == "":
		return nil, found, fmt.Errorf("--total %s: %s has %s", name, c.Path, strings.Join(names, ", "))
	case name == "" && len(names) > 1:
		return nil, found, fmt.Errorf("%s has several totals: name one by --total: %s", c.Path, strings.Join(names, ", "))
	}
	r, err := c.Source()
	return r, found, err
}
