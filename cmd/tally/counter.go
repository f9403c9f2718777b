package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"cloud.google.com/go/firestore"
	"github.com/agext/levenshtein"
	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/shards"
	"google.golang.org/api/iterator"
)

// A counter is what an argument names: a counter, or one of its sources.
type counter struct {
	rollup.Counter
	sources []*rollup.Route // that the argument names; all of the template's if it names none
	path    string          // what messages call it: the document above the sources, or else the roll-up
	frozen  bool            // as exists has read it
}

// counter returns the counter of an argument.
func (t *target) counter(arg string) (counter, error) {
	routes := t.config.Routes
	if err := checkIDs(arg); err != nil { // with invalid bytes the SDK would try for ever
		return counter{}, err
	}
	for _, r := range routes {
		for _, collection := range []string{arg, above(arg)} { // the shards', or that of a shard
			if c, ok := r.Counter(collection); ok {
				return newCounter(c, r), nil
			}
		}
	}
	for _, template := range routes.Templates() {
		if c, ok := template.Counter(arg); ok {
			return newCounter(c, template.Routes...), nil
		}
	}
	var found rollup.Counter
	var sources []*rollup.Route // below the document of the argument
	for _, r := range routes {
		c, ok := r.Counter(arg + "/" + r.Pattern()[len(r.Pattern())-2].Name)
		if ok && sources != nil && c != found {
			return counter{}, fmt.Errorf("%s has several counters: name the roll-up of one, such as %s or %s", arg, found.RollUp, c.RollUp)
		}
		if ok {
			found, sources = c, append(sources, r)
		}
	}
	if sources != nil {
		return newCounter(found, sources...), nil
	}
	return t.byID(arg, strings.Split(arg, "/"))
}

// checkIDs returns an error if an id of a path cannot be one in Firestore.
func checkIDs(path string) error {
	for id := range strings.SplitSeq(path, "/") {
		if err := document.CheckID(id); err != nil {
			return fmt.Errorf("%q is not a path such as counters/likes: an id %w", path, err)
		}
	}
	return nil
}

// byID returns the counter whose roll-up's path has the ids for its captures. Where several have, a
// bare id is that of the counter that tally create would make.
func (t *target) byID(arg string, ids []string) (counter, error) {
	templates := t.config.Routes.Templates()
	var paths, created []string
	for _, template := range templates {
		path, rest := template.Segments(), ids
		for i, s := range path {
			if s.Capture && len(rest) > 0 {
				path[i], rest = rollup.Segment{Name: rest[0]}, rest[1:]
			}
		}
		if len(rest) == 0 && !slices.ContainsFunc(path, func(s rollup.Segment) bool { return s.Capture }) {
			paths = append(paths, path.String())
			if !template.Existing && slices.ContainsFunc(template.Routes, hasShards) {
				created = append(created, path.String())
			}
		}
	}
	switch {
	case len(paths) == 1 && len(templates) == 1:
		return t.counter(paths[0])
	case len(ids) == 1 && len(created) == 1:
		return t.counter(created[0])
	case len(ids) == 1 && len(paths) > 0:
		return counter{}, fmt.Errorf("the routes make roll-ups of several kinds, so %q may be %s: name a path", arg, strings.Join(paths, " or "))
	}
	return counter{}, t.noRoute(arg, ids)
}

// noRoute returns the error for a path that no route serves, or not alone: a field of the document
// may say which counter it belongs to. It names the nearest route, or one that would serve the path.
func (t *target) noRoute(arg string, ids []string) error {
	for _, r := range t.config.Routes {
		if r.By != "" && r.Covers(arg) {
			return fmt.Errorf("the field %s of %s says which counter it belongs to: name that one, as in %s", r.By, arg, r.Template)
		}
	}

	var nearest *rollup.Route
	meant, distance := "", math.MaxInt
	for _, r := range t.config.Routes {
		pattern := r.Pattern()
		for _, form := range []rollup.Path{pattern[:len(pattern)-2], pattern[:len(pattern)-1], pattern, r.Template.Segments()} {
			for i, s := range form {
				if s.Capture && i < len(ids) {
					form[i] = rollup.Segment{Name: ids[i]}
				}
			}
			path := form.String()
			if d := levenshtein.Distance(arg, path, nil); d < distance && path != "" {
				nearest, meant, distance = r, path, d
			}
		}
	}
	if distance <= max(2, len(arg)/3) {
		return fmt.Errorf("no route serves %s; the nearest is %s; did you mean %s?", arg, nearest, meant)
	}
	err := fmt.Errorf("no route serves %s; the nearest is %s", arg, nearest)
	shard := arg + []string{"/shards/shard", "/shard"}[len(ids)%2]
	if fits, invalid := rollup.ParseRoutes(routeFor(shard, "count")); len(ids) > 1 && invalid == nil {
		err = fmt.Errorf("no route serves %s; this one would: %s", arg, fits)
	}
	if t.from == assumed {
		err = fmt.Errorf("%w; tally.yaml names others", err)
	}
	return err
}

// newCounter returns a counter of which sources are named.
func newCounter(c rollup.Counter, sources ...*rollup.Route) counter {
	path := above(sources[0].Shards(c))
	elsewhere := func(r *rollup.Route) bool { return above(r.Shards(c)) != path }
	if path == "" || slices.ContainsFunc(sources, elsewhere) {
		path = c.RollUp
	}
	return counter{Counter: c, sources: sources, path: path}
}

// above returns the path of the document that a collection is in, "" if it is in none.
func above(collection string) string {
	return collection[:max(0, strings.LastIndexByte(collection, '/'))]
}

// source returns the one source that is named, for a command that changes its shards.
func (c counter) source() (*rollup.Route, error) {
	if !slices.ContainsFunc(c.sources, hasShards) {
		return nil, c.noShards(c.sources[0])
	}
	if len(c.sources) > 1 {
		return nil, fmt.Errorf("%s has several sources: name one, such as %s or %s", c.path, c.sources[0].Shards(c.Counter), c.sources[1].Shards(c.Counter))
	}
	r := c.sources[0]
	if !hasShards(r) {
		return nil, c.noShards(r)
	}
	return r, nil
}

// hasShards reports whether the documents of a route are shards, which only increments change. Others
// are the app's own.
func hasShards(r *rollup.Route) bool {
	return r.Plain() && !slices.ContainsFunc(r.Totals, isOfVotes)
}

// noun returns what the documents are called that make the totals of a template: shards, or
// documents if some of them are the app's own.
func noun(t *rollup.Template) string {
	for _, r := range t.Routes {
		if !hasShards(r) {
			return "documents"
		}
	}
	return "shards"
}

// isOfVotes reports whether a total is of documents by which the web client's users vote: each of the
// user's own, with 1 or 0 in this field.
func isOfVotes(t rollup.Total) bool { return t.Field == "on" && t.Name != "on" }

// noShards returns the error for a source that has no shards.
func (c counter) noShards(r *rollup.Route) error {
	documents := "documents of " + r.Shards(c.Counter)
	for _, condition := range r.Where(c.Counter) {
		documents += " where " + condition.String()
	}
	if i := slices.IndexFunc(r.Totals, rollup.Total.All); i >= 0 {
		return fmt.Errorf("%s counts documents: add or delete %s instead", r.Totals[i].Name, documents)
	}
	if i := slices.IndexFunc(r.Totals, isOfVotes); i >= 0 {
		return fmt.Errorf("%s is the sum of votes: in %s each user writes one document", r.Totals[i].Name, r.Shards(c.Counter))
	}

	var totals []string
	for _, total := range r.Totals {
		totals = append(totals, total.String())
	}
	return fmt.Errorf("%s has no shards: it holds %s of the app's own documents: write %s instead", c.path, strings.Join(totals, ", "), documents)
}

// total returns the one total of that name, or the only one if the name is "", and its source, for
// a command that changes its shards.
func (c counter) total(name string) (*rollup.Route, rollup.Total, error) {
	var names []string
	var found rollup.Total
	for _, r := range c.sources {
		for _, total := range r.Totals {
			names = append(names, total.Name)
			if name == total.Name || name == "" {
				c.sources, found = []*rollup.Route{r}, total
			}
		}
	}
	switch {
	case name != "" && found.Name == "":
		return nil, found, fmt.Errorf("--total %s: %s has %s", name, c.path, strings.Join(names, ", "))
	case name == "" && len(names) > 1:
		return nil, found, fmt.Errorf("%s has several totals: name one by --total: %s", c.path, strings.Join(names, ", "))
	}
	r, err := c.source()
	return r, found, err
}

// shards returns the counter as package shards has it. A source that no document is above has no
// place for its number of shards, which is n then.
func (t *target) shards(c counter, r *rollup.Route, field document.Field, n int, opts ...shards.Option) *shards.Counter {
	collection := r.Shards(c.Counter)
	doc := above(collection)
	opts = append([]shards.Option{shards.Collection(collection), shards.Field(strings.Join(field.Names(), ".")), shards.Progress(t.report)}, opts...)
	if doc == "" {
		doc, opts = c.RollUp, append(opts, shards.NumShards(n))
	}
	return shards.New(t.client, doc, opts...)
}

// exists returns an error if the counter does not exist: if there is no document above its sources,
// no shard and no roll-up. It notes whether the document says that the counter is frozen.
func (t *target) exists(ctx context.Context, c *counter) error {
	found, err := t.client.GetAll(ctx, []*firestore.DocumentRef{t.client.Doc(c.path), t.client.Doc(c.RollUp)})
	if err != nil {
		return err
	}
	c.frozen = found[0].Data()[document.FrozenField] == true
	if found[0].Exists() || found[1].Exists() {
		return nil
	}
	for _, r := range c.sources {
		shard, err := t.documents(*c, r).Select().Limit(1).Documents(ctx).GetAll()
		if err != nil || len(shard) > 0 {
			return err
		}
	}
	return t.unknown(ctx, *c)
}

// documents returns the query for a counter's documents of a source.
func (t *target) documents(c counter, r *rollup.Route) firestore.Query {
	q := t.client.Collection(r.Shards(c.Counter)).Query
	for _, condition := range r.Where(c.Counter) {
		q = q.WherePath(condition.Field.Names(), "==", condition.Value)
	}
	return q
}

// errUnknown is what exists returns for a counter that does not exist.
var errUnknown = errors.New("no such counter")

// suggestFrom is how many counters are looked through for one with a similar name.
const suggestFrom = 1000

// unknown returns the error for a counter that does not exist.
func (t *target) unknown(ctx context.Context, c counter) error {
	doc := t.client.Doc(c.path)
	nearest, distance := "", max(2, len(doc.ID)/3)+1
	var others []*firestore.DocumentRef
	_, err := iterator.NewPager(doc.Parent.DocumentRefs(ctx), suggestFrom, "").NextPage(&others)
	if err != nil && !errors.Is(err, iterator.Done) {
		return err
	}
	for _, other := range others {
		if d := levenshtein.Distance(strings.ToLower(doc.ID), strings.ToLower(other.ID), nil); d < distance {
			nearest, distance = other.ID, d
		}
	}
	remedy := "; tally create makes it, tally ls lists what there is"
	if _, err := c.source(); err != nil { // create refuses it
		remedy = "; tally ls lists what there is"
	}
	if nearest != "" {
		remedy = fmt.Sprintf("; did you mean %s?", strings.TrimSuffix(c.path, doc.ID)+nearest)
	}
	return fmt.Errorf("%w: %s%s", errUnknown, c.path, remedy)
}
