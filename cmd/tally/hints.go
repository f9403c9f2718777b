package main

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/emulator"
	"github.com/firestore-tally/tally/internal/firestorestore"
	"github.com/firestore-tally/tally/rollup"
	"google.golang.org/api/iterator"
)

// hints say once, in a sentence, what a newcomer gets wrong.
type hints struct {
	say   func(format string, args ...any)
	often func(more, text string) // says what there may be many of

	mu   sync.Mutex
	said map[string]bool // by what it is about
}

// first reports whether it is called with this for the first time.
func (h *hints) first(about ...any) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.said == nil {
		h.said = make(map[string]bool)
	}
	key := fmt.Sprintln(about...)
	said := h.said[key]
	h.said[key] = true
	return !said
}

// document says so when a document looks like a shard that no route covers, or when it has numbers, and
// none that its route sums.
func (h *hints) document(routes rollup.Routes, path string, fields map[string]any) {
	_, route, covered := routes.Match(path)
	if !covered {
		if isShard(path, fields) {
			h.uncovered(routes, path, slices.Sorted(maps.Keys(fields)))
		}
		return
	}
	fitting := *route
	fitting.Totals = nil
	var has []string
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if slices.Contains(route.Fields(), name) {
			return
		}
		if _, ok := rollup.NumberOf(fields[name]); ok {
			has = append(has, name)
			fitting.Totals = append(fitting.Totals, rollup.Total{Field: name, Name: name})
		}
	}
	if route.Counts() || len(has) == 0 || !h.first("fields", route, has) {
		return
	}
	text := fmt.Sprintf("%s has %s, not %s", path, strings.Join(has, ", "), strings.Join(route.Fields(), ", "))
	others := slices.DeleteFunc(slices.Clone(routes), func(r *rollup.Route) bool { return r == route })
	if fits(others, fitting.String()) {
		text += "; to sum it, the route is " + fitting.String()
	}
	h.say("%s", shown(text))
}

// fits reports whether the routes may be joined by another.
func fits(routes rollup.Routes, another string) bool {
	_, err := rollup.ParseRoutes(routes.String() + "\n" + another)
	return err == nil
}

const (
	// lookEvery is the shortest time between two looks. lookShare keeps it to a
	// hundredth of the emulator's time: with 10,000 documents a look takes some 0.5 s.
	lookEvery = 5 * time.Second
	lookShare = 100

	// deepest is how many collections below each other are looked at, and looked how many documents of each.
	deepest = 3
	looked  = 10
)

// lookAround looks for what document tells, again and again until ctx ends. Nothing else would: there are
// no events for what no route covers, or every so often, and servers are past the rules.
func (h *hints) lookAround(ctx context.Context, client *firestore.Client, routes rollup.Routes) {
	for {
		began := time.Now()
		h.look(ctx, client, client.Collections(ctx), routes, 1) // what fails is looked at next time
		if sleep(ctx, max(lookEvery, lookShare*time.Since(began))) != nil {
			return
		}
	}
}

// look looks at the first documents of each of the collections, and of those below them. It reports
// whether there are any.
func (h *hints) look(ctx context.Context, client *firestore.Client, collections *firestore.CollectionIterator, routes rollup.Routes, depth int) (any bool) {
	for {
		collection, err := collections.Next()
		if err != nil {
			return any
		}
		any = true
		var refs []*firestore.DocumentRef // also of those that are missing and have collections
		if _, err := iterator.NewPager(collection.DocumentRefs(ctx), looked, "").NextPage(&refs); err != nil {
			continue
		}
		docs, err := client.GetAll(ctx, refs)
		if err != nil {
			continue
		}
		for _, doc := range docs {
			path := firestorestore.Path(doc.Ref)
			_, _, covered := routes.Match(path)
			// A shard has no collections. To ask for them is what takes a look its time.
			if depth == deepest || covered && isShard(path, doc.Data()) || !h.look(ctx, client, doc.Ref.Collections(ctx), routes, depth+1) {
				h.document(routes, path, doc.Data())
			}
		}
	}
}

var wholeNumber = regexp.MustCompile(`^\d+$`)

// isShard reports whether a document looks like a shard: it has numbers and nothing else, not that of its
// shards, and its collection calls it a shard, or it is below another document and has a number for its id.
func isShard(path string, fields map[string]any) bool {
	for name, value := range fields {
		if _, ok := rollup.NumberOf(value); !ok || name == "num_shards" || name == "numShards" {
			return false
		}
	}
	ids := strings.Split(path, "/")
	id, collection := ids[len(ids)-1], ids[len(ids)-2]
	return len(fields) > 0 && (len(ids) > 2 && wholeNumber.MatchString(id) || strings.Contains(strings.ToLower(collection), "shard"))
}

// uncovered says that no route covers what looks like a shard, and which one would.
func (h *hints) uncovered(routes rollup.Routes, path string, fields []string) {
	pattern, template := generalized(path)
	if !h.first("uncovered", pattern) {
		return
	}
	text := fmt.Sprintf("no route covers %s, which looks like a shard", path)
	if route := pattern + " -> " + template + " : " + strings.Join(fields, ", "); fits(routes, route) {
		text += "; to sum it, add the route " + route
	}
	h.say("%s", shown(text))
}

// generalized returns a pattern for the documents like the one at path, and a template for their
// roll-ups: for posts/7/shards/0 they are posts/{post}/shards/{shard} and post_totals/{post}.
func generalized(path string) (pattern, template string) {
	ids := strings.Split(path, "/")
	var sources, rollUps []string
	for i := 0; i < len(ids); i += 2 {
		one := strings.TrimSuffix(ids[i], "s")
		capture := fmt.Sprintf("{%s}", one)
		if slices.Contains(sources, capture) {
			capture = fmt.Sprintf("{%s%d}", one, i/2+1)
		}
		sources = append(sources, ids[i], capture)
		switch {
		case len(ids) == 2:
			rollUps = []string{"totals", ids[0]}
		case i == 0:
			rollUps = []string{one + "_totals", capture}
		case i < len(ids)-2:
			rollUps = append(rollUps, ids[i], capture)
		}
	}
	return strings.Join(sources, "/"), strings.Join(rollUps, "/")
}

// refused says which request of a client the rules refused, and by which of them.
func (h *hints) refused(file string, r emulator.Refusal) {
	who := "nobody signed in"
	if r.User != "" {
		who = "user " + r.User
	}
	if !h.first("refused", r.Method, r.Database, r.Path, r.Fields, r.Lines, r.User != "") {
		return
	}
	path := r.Path
	if r.Fields != "" {
		path += " (" + r.Fields + ")"
	}
	if r.Database != firestore.DefaultDatabaseID {
		path = r.Database + ": " + path
	}
	by := "no rule of " + file + " allows it"
	if len(r.Lines) > 0 {
		by = file
	}
	for i, n := range r.Lines {
		if i > 0 {
			by += ","
		}
		by += fmt.Sprintf(" line %d", n)
		if rules := strings.Split(r.Rules, "\n"); 1 <= n && n <= len(rules) {
			by += ": " + shortened(strings.TrimSpace(rules[n-1]))
		}
	}
	h.often("refused requests", shown(fmt.Sprintf("refused: %s of %s by %s; %s", r.Method, path, who, by)))
}

// shortened returns the text if it is short, or its beginning.
func shortened(text string) string {
	const most = 80
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return text
}
