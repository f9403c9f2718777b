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
	"github.com/firestore-tally/tally/internal/eventrelay"
	"github.com/firestore-tally/tally/internal/firestorestore"
	"github.com/firestore-tally/tally/rollup"
	"github.com/googleapis/google-cloudevents-go/cloud/firestoredata"
	"google.golang.org/protobuf/proto"
)

// hints say once, in a sentence, what a newcomer gets wrong.
type hints struct {
	say func(format string, args ...any)

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

// event says so when a shard has numbers, and none that its route sums.
func (h *hints) event(routes rollup.Routes, e eventrelay.Event) {
	path := e.Header.Get("Ce-Document")
	_, route, ok := routes.Match(path)
	if !ok || route.Counts() {
		return
	}
	var data firestoredata.DocumentEventData
	if proto.Unmarshal(e.Body, &data) != nil {
		return
	}
	var has []string
	for name, value := range data.GetValue().GetFields() {
		if slices.Contains(route.Fields(), name) {
			return
		}
		switch value.GetValueType().(type) {
		case *firestoredata.Value_IntegerValue, *firestoredata.Value_DoubleValue:
			has = append(has, name)
		}
	}
	slices.Sort(has)
	if len(has) == 0 || !h.first("fields", route, has) {
		return
	}
	text := fmt.Sprintf("%s has %s, not %s", path, strings.Join(has, ", "), strings.Join(route.Fields(), ", "))
	source, _, _ := strings.Cut(route.String(), " : ")
	fitting := source + " : " + strings.Join(has, ", ")
	others := slices.DeleteFunc(slices.Clone(routes), func(r *rollup.Route) bool { return r == route })
	if fits(others, fitting) {
		text += "; to sum it, the route is " + fitting
	}
	h.say("%s", shown(text))
}

// fits reports whether the routes may be joined by another.
func fits(routes rollup.Routes, another string) bool {
	_, err := rollup.ParseRoutes(routes.String() + "\n" + another)
	return err == nil
}

const (
	// lookEvery is the shortest time between two looks for shards without a route. lookShare keeps it to a
	// hundredth of the emulator's time: with 10,000 documents a look takes some 0.3 s.
	lookEvery = 5 * time.Second
	lookShare = 100

	// deepest is how many collections below each other are looked at.
	deepest = 3
)

// lookAround looks for shards without a route, again and again until ctx ends. Nothing else would tell of
// them: there are no events for what no route covers, and servers are past the rules.
func (h *hints) lookAround(ctx context.Context, client *firestore.Client, routes rollup.Routes) {
	for {
		began := time.Now()
		h.look(ctx, client.Collections(ctx), routes, 1) // what fails is looked at next time
		if sleep(ctx, max(lookEvery, lookShare*time.Since(began))) != nil {
			return
		}
	}
}

// look looks at the first document of each of the collections, and of those below it. It reports whether
// there are any.
func (h *hints) look(ctx context.Context, collections *firestore.CollectionIterator, routes rollup.Routes, depth int) (any bool) {
	for {
		collection, err := collections.Next()
		if err != nil {
			return any
		}
		any = true
		documents := collection.DocumentRefs(ctx) // also those that are missing and have collections
		documents.PageInfo().MaxSize = 1
		ref, err := documents.Next()
		if err != nil || depth < deepest && h.look(ctx, ref.Collections(ctx), routes, depth+1) {
			continue // a shard has no collections
		}
		path := firestorestore.Path(ref)
		if _, _, ok := routes.Match(path); ok {
			continue
		}
		if doc, err := ref.Get(ctx); err == nil && isShard(path, doc.Data()) {
			h.uncovered(routes, path, slices.Sorted(maps.Keys(doc.Data())))
		}
	}
}

var wholeNumber = regexp.MustCompile(`^\d+$`)

// isShard reports whether a document looks like a shard: it has numbers and nothing else, not that of its
// shards, and a number for its id, or its collection calls it a shard.
func isShard(path string, fields map[string]any) bool {
	for name, value := range fields {
		if _, ok := rollup.NumberOf(value); !ok || name == "num_shards" || name == "numShards" {
			return false
		}
	}
	ids := strings.Split(path, "/")
	id, collection := ids[len(ids)-1], ids[len(ids)-2]
	return len(fields) > 0 && (wholeNumber.MatchString(id) || strings.Contains(strings.ToLower(collection), "shard"))
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
	ids := strings.Split(r.Path, "/")
	for i := 1; i < len(ids); i += 2 {
		ids[i] = "*"
	}
	if !h.first("refused", r.Method, r.Database, ids, r.Lines, r.User != "") {
		return
	}
	path := r.Path
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
	h.say("%s", shown(fmt.Sprintf("refused: %s of %s by %s; %s", r.Method, path, who, by)))
}

// shortened returns the text if it is short, or its beginning.
func shortened(text string) string {
	const most = 80
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return text
}
