package rollup_test

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"strings"
	"time"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/value"
	"github.com/firestore-tally/tally/rollup/route"
)

// layOutGroups draws the routes of a run whose documents name their counters. A document is in up
// to three, and two routes lead to one of them.
func (s *simulation) layOutGroups() {
	s.existing, s.orders = true, make(map[string]map[string]any)
	options := " : existing"
	if s.every {
		options += " : every " + slowCadence.String()
	}
	options += s.drawSlowly()
	routes := 1 + int(s.chance(0.8, "further routes", upTo(2)))
	source, largest := "orders/{order}", ", maximum(amount) as largest"
	if s.across = s.chance(0.4, "across parents", upTo(1)) == 1; s.across {
		source, largest = "regions/{region}/orders/{order}", ""
	}

	s.layOutRevisions(routes, options, func(counts, paid string) []string {
		return []string{
			source + " by shop -> shops/{shop} : count() as " + counts + ", sum(amount) where paid == true as revenue" + largest,
			source + " by from -> shops/{from} : count() where paid == true as " + paid,
			source + " by buyer -> buyers/{buyer} : sum(amount) where paid == true as spent, count() as " + counts,
		}
	})
}

// theParents are the paths of collections of orders in a run across parents. The last one is of
// orders that do not count.
var theParents = []string{"regions/1/orders", "regions/2/orders", "regions/1/orders/0/orders", "regions/2/depots/1/orders", "depots/1/orders"}

// orderPath draws the path of an order.
func (s *simulation) orderPath(name string) string {
	if !s.across {
		return fmt.Sprint("orders/", s.chance(0.8, name+" order", upTo(3)))
	}
	parent := theParents[s.chance(0.7, name+" is below", upTo(int64(len(theParents)-1)))]
	return fmt.Sprint(parent, "/", s.chance(0.3, name+" order", upTo(1)))
}

// layOutRevisions makes the revisions of a run: of the lines, that many are their routes. The
// revisions differ in the names of the fields that count all documents, and the paid ones.
func (s *simulation) layOutRevisions(routes int, options string, lines func(counts, paid string) []string) {
	s.revisions = nil
	for _, names := range [][2]string{{"orders", "sold"}, {"placed", "sold"}, {"orders", "gone"}} {
		parsed, err := route.Parse(strings.Join(lines(names[0], names[1])[:routes], options+"\n") + options)
		if err != nil {
			panic(err)
		}
		s.revisions = append(s.revisions, parsed)
	}
	if routes == 1 { // the last differs from the first in paid only, which no route has
		s.revisions = s.revisions[:2]
	}
	s.routes = s.revisions[0]
}

// collection is where the roll-ups of a run's first counters are.
func (s *simulation) collection() string {
	collection, _, _ := strings.Cut(s.routes[0].Template.String(), "/")
	return collection
}

// The shops and buyers that orders name in addition to the counters of a run.
const (
	ghost  = "ghost" // has no document, most often
	buyer1 = "ann"
	buyer2 = "bob"
)

// addGroups adds the counters that only runs with groups have.
func (s *simulation) addGroups() {
	if s.orders == nil {
		return
	}
	if s.shops != nil {
		s.counters = s.daysOf("a", "b", ghost)
		return
	}
	s.counters = []*simulatedCounter{s.newCounter("a"), s.newCounter("b"), s.newCounter(ghost)}
	if len(s.routes) == 3 {
		s.counters = append(s.counters, s.counterAt("buyers/"+buyer1), s.counterAt("buyers/"+buyer2))
	}
}

// neverComes is how likely the app makes no document of its own for a counter.
func (s *simulation) neverComes(c *simulatedCounter) float64 {
	if strings.HasSuffix(c.RollUp, "/"+ghost) {
		return 0.7
	}
	return 0
}

// commitOrder creates a document with groups, changes it or deletes it. The message is about it.
func (s *simulation) commitOrder(m *message, name string, amount int64, deletes bool, malformed int64) {
	path := s.orderPath(name)
	groups := []any{"a", "b", ghost, int64(7), "a/b", ""}
	buyers := []any{buyer1, buyer2, nil}
	amounts := []any{amount, "text", math.NaN()}
	paid := []any{true, false, "true"}

	s.mu.Lock()
	defer s.mu.Unlock()
	s.outcome.events++
	before := s.orders[path]
	after := maps.Clone(before)
	if after == nil {
		after = map[string]any{"shop": "a", "from": "a", "buyer": buyer1, "paid": true, "amount": amount}
		if s.shops != nil {
			after["at"] = s.days.times()[0]
		}
	}
	change := func(p float64, field string, to []any) {
		if n := s.chance(p, name+" changes "+field, upTo(int64(len(to)))); n > 0 {
			after[field] = to[(n-1)%int64(len(to))]
		}
	}
	change(0.4, "shop", groups[:s.among(name, len(groups))])
	change(0.3, "from", groups[:s.among(name, len(groups))])
	change(0.3, "buyer", buyers)
	if s.shops != nil {
		times := s.days.times()
		change(0.4, "at", times[:s.among(name+" at", len(times))])
	}
	change(0.3, "paid", paid)
	if malformed > 0 || s.chance(0.5, name+" changes amount", upTo(1)) == 1 {
		after["amount"] = amounts[malformed]
	}
	after["edit"] = int64(m.n)

	if deletes {
		after = nil
		m.commit = s.store.Delete(path)
		delete(s.orders, path)
	} else {
		m.commit = s.store.Put(path, after)
		s.orders[path] = after
	}
	s.tell("%s is %v: event %d", path, after, m.n)
	m.written = &written{path, before, after}
	m.about = nil
	for _, c := range s.counters {
		was, is := contributions(c.Counter, path, before), contributions(c.Counter, path, after)
		if was == nil && is == nil {
			continue
		}
		m.about = append(m.about, affected{simulatedCounter: c, same: adds(c.Counter, path, before) == adds(c.Counter, path, after)})
		s.committed(c, m.commit)
	}
}

// among draws from how many groups a document takes its own: mostly from the counters.
func (s *simulation) among(name string, all int) int {
	if s.chance(0.2, name+" is anywhere", upTo(1)) == 1 {
		return all
	}
	return 2
}

// A contribution is what one document adds to a counter by one route.
type contribution struct {
	paid   bool
	amount string // as text, so that NaN equals itself
}

// byOf returns the field of a route's key; "" if it has none.
func byOf(r *route.Route) document.Field {
	if r.By == nil {
		return ""
	}
	return r.By[0].Field
}

// adds says what a document adds to the totals of a counter: nothing if it does not belong to it,
// or if its totals do not see the document.
func adds(c route.Counter, path string, fields map[string]any) (all string) {
	for _, r := range c.Template.Routes {
		of, ok := r.Belongs(path, func(f document.Field) any { held, _ := f.In(fields); return held })
		if fields == nil || !ok || of.RollUp != c.RollUp {
			continue
		}
		t := r.Total([]route.Shard{{Path: path, Fields: fields}}, time.Time{})
		if t.NumShards() > 0 {
			all += fmt.Sprintln(r, t.Values, t.Shards, t.Malformed)
		}
	}
	return all
}

// contributions returns what a document adds to a counter, by field By; nil if it does not belong
// to it.
func contributions(c route.Counter, path string, fields map[string]any) map[document.Field]contribution {
	var all map[document.Field]contribution
	for _, r := range c.Template.Routes {
		if !belongs(r, c, path, fields) {
			continue
		}
		if all == nil {
			all = make(map[document.Field]contribution)
		}
		add := contribution{paid: fields["paid"] == true}
		if byOf(r) != "from" {
			add.amount = fmt.Sprintf("%T %[1]v", fields["amount"])
		}
		all[byOf(r)] = add
	}
	return all
}

// groupTruth is what the documents of a counter hold that belong to it by one field.
type groupTruth struct {
	documents, paid int64
	revenue         int64 // of those that are paid
	largest         value.Value
}

// groupsOf returns the truth about a counter's documents. The mutex is held.
func (s *simulation) groupsOf(c route.Counter) map[document.Field]groupTruth {
	if s.orders == nil {
		return nil
	}
	all := make(map[document.Field]groupTruth)
	for _, r := range c.Template.Routes {
		g := groupTruth{largest: value.Null}
		for path, fields := range s.orders {
			if belongs(r, c, path, fields) {
				g.add(fields)
			}
		}
		all[byOf(r)] = g
	}
	return all
}

func (g *groupTruth) add(fields map[string]any) {
	g.documents++
	amount, isNumber := fields["amount"].(int64)
	if isNumber && (g.largest.IsNull() || amount > int64(g.largest.Float64())) {
		g.largest = value.Int(amount)
	}
	if fields["paid"] != true {
		return
	}
	g.paid++
	if isNumber {
		g.revenue += amount
	}
}

// counted is how many documents a roll-up says a route counted.
func (g groupTruth) counted(r *route.Route) int64 {
	if byOf(r) == "from" {
		return g.paid
	}
	return g.documents
}

// totals returns what a roll-up is to hold by a route.
func (g groupTruth) totals(r *route.Route) map[string]value.Value {
	var all []value.Value
	if g.documents == 0 { // as of a counter that never had any
		g.largest = value.Null
	}
	switch byOf(r) {
	case "shop":
		all = []value.Value{value.Int(g.documents), value.Int(g.revenue), g.largest}
	case "from":
		all = []value.Value{value.Int(g.paid)}
	case "buyer":
		all = []value.Value{value.Int(g.revenue), value.Int(g.documents)}
	default: // a run with levels, before the first document
		all = []value.Value{value.Int(0), value.Int(0)}
	}
	totals := make(map[string]value.Value)
	for i, t := range r.Totals {
		totals[t.Name] = all[i]
	}
	return totals
}

// A written is a document at a path before and after a write; nil: there is none.
type written struct {
	path          string
	before, after map[string]any
}

func (w written) Known() bool { return true }

func (w written) Updated() bool { return w.before != nil && w.after != nil }

func (w written) Changed(f document.Field) bool {
	before, was := f.In(w.before)
	after, is := f.In(w.after)
	return was != is || !reflect.DeepEqual(before, after)
}

func (w written) Has(f document.Field, after bool) bool {
	_, has := w.Value(f, after)
	return has
}

func (w written) Value(f document.Field, after bool) (any, bool) {
	if after {
		return f.In(w.after)
	}
	return f.In(w.before)
}

func (w written) Held(f document.Field) (before, after any) {
	before, _ = f.In(w.before)
	after, _ = f.In(w.after)
	return before, after
}
