package rules

import (
	"flag"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/tool/rules"
	values "github.com/firestore-tally/tally/internal/value"
	"github.com/firestore-tally/tally/rollup/route"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

var (
	lawSeed    = flag.Uint64("law.seed", 1, "of the routes and attacks of TestLaw")
	lawSets    = flag.Int("law.sets", 60, "how many random sets of routes TestLaw makes")
	lawAll     = flag.Bool("law.all", false, "TestEachCondition tries each condition under all routes that make one of its kind, and TestLaw makes each request that the routes of lawRoutes plan")
	lawAttacks = flag.Int("law.attacks", 40, "how many requests TestLaw makes for each set of routes")
)

// A law is what docs/design/rules.md says under the-law, for some routes: which accepted requests
// of a client break it. It knows the routes, and nothing of how the rules are written.
type law struct {
	routes  route.Routes
	answers rules.Answers

	// Whatever the rules left to a person was answered so that anybody may do it. The law then says
	// nothing of who changes a document, and still everything of what the document holds.
	answered bool
}

// writer returns who creates the documents at a path: the narrowest of what its routes say.
func (l law) writer(sources route.Routes) rules.Writer {
	order := []rules.Writer{rules.Servers, rules.Undecided, rules.Owner, rules.Users}
	narrowest := rules.Users
	for _, r := range sources {
		w, answered := l.answers.Sources[r.String()]
		if !answered {
			w = rules.Guess(r)
		}
		if slices.Index(order, w) < slices.Index(order, narrowest) {
			narrowest = w
		}
	}
	return narrowest
}

// isOwn reports whether a key names the user who writes the document.
func isOwn(k route.Key) bool {
	return k.Function == route.Text && (k.Field == "author" || k.Field == "buyer" || k.Field == "followed")
}

// writers are fields that say who wrote a document.
var writers = []string{"author", "buyer", "by", "from"}

// isShards reports whether the document at a path is a shard: one of a collection that is called
// so, which some route adds up.
func (l law) isShards(path string) bool {
	return strings.Contains(path, "/shards/") && slices.ContainsFunc(l.sources(path), (*route.Route).HasShards)
}

// sources returns the routes that count the document at a path.
func (l law) sources(path string) route.Routes {
	return slices.DeleteFunc(slices.Clone(l.routes), func(r *route.Route) bool { return !r.Covers(path) })
}

// counter returns the counter whose totals the document at a path holds, or would hold if its ids
// were such as keys give. Rules do not know which months there are.
func (l law) counter(path string) (route.Counter, bool) {
	ids := strings.Split(path, "/")
	for _, t := range l.routes.Templates() {
		same := func(s route.Segment, id string) bool { return s.Capture || s.Name == id }
		if slices.EqualFunc(t.Segments(), ids, same) {
			return route.Counter{Template: t, RollUp: path}, true
		}
	}
	return route.Counter{}, false
}

// broken says how a write by a user breaks the law, "" if it does not. The document was one thing
// before, and is another after; nil: it is missing. now is an instant after the write. home tells
// whether a document is there.
func (l law) broken(u user, path string, before, after map[string]any, now time.Time, home func(path string) bool) string {
	sources := l.sources(path)
	counter, holds := l.counter(path)
	switch {
	case u == signedOut, u == anonymous && l.answered:
		return "by no user who may write"
	case len(sources) == 0 && !holds:
		return "a document of no route"
	case before == nil && after != nil && slices.ContainsFunc(strings.Split(path, "/"), isUnsafe):
		return "an id that no event carries"
	}
	if holds {
		if why := l.brokenTotals(counter.Template, before, after); why != "" {
			return why
		}
	}
	for _, name := range writers {
		is, isText := after[name].(string)
		if isText && is != string(u) && is != before[name] && !l.isShards(path) {
			return "in the name of " + is
		}
	}
	if len(sources) == 0 {
		return ""
	}
	id := path[strings.LastIndex(path, "/")+1:]
	of, _, _ := strings.Cut(id, "_")
	isOthers := func(r *route.Route) bool { return slices.ContainsFunc(r.By, isOwn) && of != string(u) }
	if after != nil && holds && before == nil && l.writer(sources) == rules.Users && slices.ContainsFunc(sources, isOthers) {
		return "a document under an id that was another's"
	}
	if why := l.brokenWriter(u, path, sources, before, after, holds); why != "" || after == nil {
		return why
	}
	for _, r := range sources {
		if why := l.brokenValues(u, path, r, before, after, now, counter.Template); why != "" {
			return why
		}
		c, byPath := r.Counter(path[:strings.LastIndex(path, "/")])
		if byPath && len(r.Windows()) > 0 && r.Template.Existing && !home(c.RollUp) {
			return "a time in a window of a document that is not there"
		}
	}
	return ""
}

// isHidden reports whether the documents of a template are the app's, or some total tells more than
// shards, and the number of documents that an app shows. Then no user reads it, except one
// whose id is in its path.
func (l law) isHidden(t *route.Template) bool {
	return t.Existing || slices.ContainsFunc(t.Routes, func(r *route.Route) bool {
		pattern := r.Pattern()
		collection := pattern.CollectionID()
		writer := l.writer(slices.DeleteFunc(slices.Clone(l.routes), func(o *route.Route) bool { return !o.Pattern().Shallow().Same(pattern.Shallow()) }))
		isShown := writer == rules.Owner || writer == rules.Users && collection == "comments"
		return slices.ContainsFunc(r.Totals, func(total route.Total) bool {
			isBelow := r.By == nil && strings.Contains(t.String(), "{")
			counts := total.Aggregate == route.Count && isWindowed(total) && isShown && isBelow
			return !(collection == "shards" && r.Plain() || counts)
		})
	})
}

// isWindowed reports whether a total takes documents by their time alone.
func isWindowed(t route.Total) bool {
	return !slices.ContainsFunc(t.Where, func(c route.Condition) bool {
		_, isWindow := c.Value.(route.Ago)
		return !isWindow
	})
}

func isUnsafe(id string) bool {
	return len(id) > 200 || id != strings.TrimSpace(id) || strings.ContainsAny(id, "\n\x00")
}

// brokenTotals says how a client wrote what only Tally writes.
func (l law) brokenTotals(t *route.Template, before, after map[string]any) string {
	creator := l.answers.Homes[t.String()]
	switch {
	case !t.Existing:
		return "a document of Tally's"
	case after == nil:
		return "a document with totals deleted"
	case before == nil && creator != rules.Users && !l.answered:
		return "a document with totals made"
	case before != nil && !l.answered:
		return "a document with totals changed"
	}
	for _, name := range append(t.Totals(), document.TallyField) {
		was, is := before[name], after[name]
		isNew := before == nil && (is == nil || is == int64(0))
		if !reflect.DeepEqual(was, is) && !isNew {
			return fmt.Sprintf("%s from %v to %v", name, was, is)
		}
	}
	return ""
}

// brokenWriter says how somebody wrote a document that another writes.
func (l law) brokenWriter(u user, path string, sources route.Routes, before, after map[string]any, holds bool) string {
	id := path[strings.LastIndex(path, "/")+1:]
	if l.isShards(path) {
		return brokenShard(id, sources, before, after)
	}
	switch l.writer(sources) {
	case rules.Servers:
		return "a document of servers"
	case rules.Owner:
		if id != string(u) {
			return "another's document"
		}
	case rules.Users, rules.Undecided:
		if l.writer(sources) == rules.Undecided && !l.answered {
			return "a document that no one may write yet"
		}
		if before != nil && !l.answered || after == nil {
			return "a document of somebody changed"
		}
	}
	return ""
}

// brokenShard says how a shard changed otherwise than by one more in some of its fields.
func brokenShard(id string, sources route.Routes, before, after map[string]any) string {
	if after == nil || len(id) != 1 || id[0] < '0' || id[0] > '9' {
		return "a shard deleted, or of another id"
	}
	for name := range after {
		was, _ := before[name].(int64)
		is, isInt := after[name].(int64)
		if !slices.ContainsFunc(sources, func(r *route.Route) bool { return slices.Contains(r.Fields(), document.FieldOf(name)) }) {
			return "a field of a shard that no route adds up"
		}
		if before[name] != nil && after[name] == nil || !isInt || is-was < 0 || is-was > 1 {
			return fmt.Sprintf("%s from %v to %v", name, before[name], after[name])
		}
	}
	return ""
}

// brokenValues says what a document holds that makes a total what a client likes.
func (l law) brokenValues(u user, path string, r *route.Route, before, after map[string]any, now time.Time, home *route.Template) string {
	isUsers := l.writer(l.sources(path)) == rules.Users || l.writer(l.sources(path)) == rules.Undecided
	for _, k := range r.By {
		was, _ := k.Field.In(before)
		is, _ := k.Field.In(after)
		stays := reflect.DeepEqual(was, is)
		at, isTime := is.(time.Time)
		switch {
		case before != nil && !stays && (k.Function.OfTime() || l.answered && isUsers):
			return fmt.Sprintf("moved from %v to %v", was, is)
		case k.Function.OfTime() && isTime && !stays && at.Before(now.Add(-time.Minute)):
			return fmt.Sprintf("of the day of %v", at)
		case isOwn(k) && is != string(u) && !(l.answered && before != nil && stays):
			return fmt.Sprintf("%s is %v", k.Field, is)
		case !stays && is != nil && (k.Function == route.Reference || k.Function == route.Number):
			return fmt.Sprintf("%s is %v, which no one decided", k.Field, is)
		}
	}
	held := func(f document.Field) bool {
		if l.isShards(path) {
			return true
		}
		return home != nil && slices.ContainsFunc(home.Totals(), func(name string) bool { return f.Within(document.FieldOf(name)) })
	}
	for _, t := range r.Totals {
		var times []document.Field
		if t.Aggregate.OfTimes() {
			times = append(times, t.Field)
		}
		for _, k := range r.By {
			if k.Function.OfTime() {
				times = append(times, k.Field)
			}
		}
		counts, granted, stays := true, false, before != nil
		same := func(f document.Field) bool {
			was, _ := f.In(before)
			is, _ := f.In(after)
			return f == "" || reflect.DeepEqual(was, is)
		}
		for _, k := range r.By {
			stays = stays && same(k.Field)
		}
		for _, c := range t.Where {
			stays = stays && same(c.Field)
			if isTimed(c) {
				times = append(times, c.Field)
			}
			if _, window := c.Value.(route.Ago); window {
				continue
			}
			counts = counts && c.Holds(after)
			granted = granted || !isTimed(c) && !begins(c) && !held(c.Field)
		}
		for _, f := range times {
			v, _ := f.In(after)
			at, isTime := v.(time.Time)
			switch {
			case held(f):
			case isTime && at.After(now) && !same(f):
				return fmt.Sprintf("%s is %v, later than %v", f, at, now)
			case before == nil && v == nil:
				return fmt.Sprintf("no %s", f)
			}
		}
		if !counts || granted && stays && same(t.Field) {
			continue
		}
		if granted && !route.HoldAll(t.Where[:0], before) || granted && before == nil {
			return fmt.Sprintf("%s is so by a client", t)
		}
		if granted {
			return fmt.Sprintf("%s stays so by a client", t)
		}
		v, has := t.Field.In(after)
		was, _ := t.Field.In(before)
		if t.Field != "" && !t.Aggregate.OfTimes() && !held(t.Field) && (before == nil || has && !reflect.DeepEqual(v, was)) {
			return fmt.Sprintf("%s is %v", t.Field, v)
		}
	}
	return ""
}

// isTimed reports whether a condition compares a time.
func isTimed(c route.Condition) bool {
	_, isWindow := c.Value.(route.Ago)
	_, isInstant := c.Value.(time.Time)
	return isWindow || isInstant
}

// begins reports whether documents meet a condition until somebody does something.
func begins(c route.Condition) bool {
	list, isList := c.Value.([]any)
	if !isList {
		list = []any{c.Value}
	}
	return !c.Operator.Range() && slices.ContainsFunc(list, func(v any) bool { return v == nil || v == false })
}

// A world is a database with routes, and what is in it, as a model keeps it.
type world struct {
	*database
	law
	rand *rand.Rand
	docs map[string]map[string]any
}

// eve attacks. All others are honest.
const eve user = "eve"

// ids are what captures stand for, besides users.
var ids = []string{"p1", "p2", "gone", "x", "0", "3", "11", "eve_1", "eve_b_1", "bad ", long}

// long is an id of which no event has room.
var long = strings.Repeat("x", 201)

func newWorld(t *testing.T, rules string, l law, random uint64) *world {
	w := &world{newDatabaseUnder(t, rules, nil), l, rand.New(rand.NewPCG(random, 1)), make(map[string]map[string]any)}
	seed := make(map[string]map[string]any)
	for _, t := range l.routes.Templates() { // homes that a server made
		if t.Existing {
			for _, id := range []string{"p1", "p2", "eve", "bob", "bad ", long} {
				seed[instance(t.Segments(), func(int) string { return id })] = map[string]any{"author": "bob", "buyer": "bob", "shop": "p1"}
			}
		}
	}
	for _, r := range l.routes { // what others have written, and eve herself in some places
		for _, id := range []string{"p1", "p2", "eve", "gone"} {
			for _, last := range []string{"bob", "cid", "3", "p2", "x", "eve"} {
				path := instance(r.Pattern(), func(i int) string {
					if i == len(r.Pattern())-1 {
						return last
					}
					return id
				})
				isOther := last != "eve" || (id == "p2" || id == "eve") && len(r.Pattern()) > 2
				if seed[path] == nil && isOther {
					seed[path] = w.others(path)
				}
			}
		}
	}
	w.serve(seed)
	w.settle()
	return w
}

// instance returns the path of a document that a pattern matches.
func instance(pattern route.Path, id func(i int) string) string {
	var all []string
	for i, s := range pattern {
		name := s.Name
		if s.Capture {
			name = id(i)
		}
		all = append(all, name)
	}
	return strings.Join(all, "/")
}

// others returns what a document of others holds: it counts in every total that it can. Those of id
// 3 and of eve's own place lack the last condition of each state, and one of id x the first.
func (w *world) others(path string) map[string]any {
	held := make(map[string]any)
	for _, r := range w.sources(path) {
		for _, f := range r.Reads() {
			put(held, f, int64(1))
		}
		for _, t := range r.Totals {
			for i, c := range t.Where {
				isState := func(c route.Condition) bool { return !isTimed(c) }
				lacksLast := strings.HasSuffix(path, "/3") || strings.Contains(path, "/eve/")
				isLacking := lacksLast && !slices.ContainsFunc(t.Where[i+1:], isState) ||
					strings.HasSuffix(path, "/x") && !slices.ContainsFunc(t.Where[:i], isState)
				v := c.Value
				if list, isList := v.([]any); isList {
					v = list[0]
				}
				if c.Operator.Range() {
					v = within(c)
				}
				_, isWindow := v.(route.Ago)
				switch {
				case isWindow:
					v = time.Now().Add(-time.Second).Truncate(time.Microsecond)
				case isLacking && !w.isShards(path):
					continue
				}
				put(held, c.Field, v)
			}
			if t.Aggregate.OfTimes() {
				put(held, t.Field, time.Unix(100, 0).UTC())
			}
		}
		for _, k := range r.By {
			put(held, k.Field, keyed(r, k, "bob", time.Unix(100, 0).UTC()))
		}
	}
	if c, ok := w.counter(path); ok {
		for _, name := range c.Template.Totals() {
			delete(held, name)
		}
	}
	return held
}

// within returns a value that a range takes.
func within(c route.Condition) any {
	isAbove := c.Operator == route.GreaterThan || c.Operator == route.GreaterThanOrEqual
	switch v := c.Value.(type) {
	case int64:
		if isAbove {
			return v + 1
		}
		return v - 1
	case float64:
		if isAbove {
			return v * 2
		}
		return v / 2
	case string:
		if isAbove {
			return v + "😀"
		}
		return ""
	case time.Time:
		if isAbove {
			return v.Add(time.Microsecond)
		}
		return v.Add(-time.Microsecond)
	}
	return c.Value
}

// put puts a value into a field, which may be in a map.
func put(fields map[string]any, f document.Field, v any) {
	names := f.Names()
	for _, name := range names[:len(names)-1] {
		inner, ok := fields[name].(map[string]any)
		if !ok {
			inner = make(map[string]any)
			fields[name] = inner
		}
		fields = inner
	}
	fields[names[len(names)-1]] = v
}

// encoded returns a map as a test writes fields.
func (w *world) encoded(m map[string]any) fields {
	if m == nil {
		return nil
	}
	f := fields{}
	for name, v := range m {
		switch v := v.(type) {
		case int64:
			f[name] = int(v)
		case map[string]any:
			f[name] = w.encoded(v)
		case document.Reference:
			f[name] = &firestorepb.Value{ValueType: &firestorepb.Value_ReferenceValue{ReferenceValue: w.path(string(v))}}
		default:
			f[name] = v
		}
	}
	return f
}

// decoded returns fields as the SDK decodes them.
func decoded(m map[string]*firestorepb.Value) map[string]any {
	all := make(map[string]any)
	for name, v := range m {
		switch t := v.ValueType.(type) {
		case *firestorepb.Value_IntegerValue:
			all[name] = t.IntegerValue
		case *firestorepb.Value_MapValue:
			all[name] = decoded(t.MapValue.Fields)
		case *firestorepb.Value_TimestampValue:
			all[name] = t.TimestampValue.AsTime()
		case *firestorepb.Value_NullValue:
			all[name] = nil
		case *firestorepb.Value_ReferenceValue:
			_, path, _ := strings.Cut(t.ReferenceValue, "/documents/")
			all[name] = document.Reference(path)
		default:
			all[name] = plain(v)
		}
	}
	return all
}

// serve has a server write documents; nil deletes one.
func (w *world) serve(documents map[string]map[string]any) {
	w.t.Helper()
	var ws []*firestorepb.Write
	for path, held := range documents {
		if held == nil {
			ws = append(ws, remove(path))
			delete(w.docs, path)
			continue
		}
		ws = append(ws, set(path, w.encoded(held)))
		w.docs[path] = held
	}
	if err := w.commit(server, ws...); err != nil {
		w.t.Fatal(err)
	}
}

// settle rolls everything up, until nothing changes any more, as Tally does.
func (w *world) settle() {
	for {
		changed := make(map[string]map[string]any)
		now := time.Now()
		for c, parts := range w.counters() {
			rollUp, exists := w.docs[c.RollUp]
			if c.Template.Existing && !exists {
				continue
			}
			held := maps.Clone(rollUp)
			if held == nil {
				held = make(map[string]any)
			}
			var totals []route.Totals
			for _, r := range c.Template.Routes {
				totals = append(totals, r.Total(parts[r], now).Totals)
			}
			for name, v := range route.JoinTotals(totals).Values {
				held[name] = v.Firestore()
			}
			held[document.TallyField] = map[string]any{"num_shards": int64(2), "took": int64(15000)}
			if !reflect.DeepEqual(held, rollUp) {
				changed[c.RollUp] = held
			}
		}
		if len(changed) == 0 {
			return
		}
		w.serve(changed)
	}
}

// counters returns the documents of each counter, by route.
func (w *world) counters() map[route.Counter]map[*route.Route][]route.Shard {
	all := make(map[route.Counter]map[*route.Route][]route.Shard)
	add := func(c route.Counter, r *route.Route, s ...route.Shard) {
		if all[c] == nil {
			all[c] = make(map[*route.Route][]route.Shard)
		}
		all[c][r] = append(all[c][r], s...)
	}
	for _, path := range slices.Sorted(maps.Keys(w.docs)) {
		held := w.docs[path]
		for _, r := range w.sources(path) {
			c, ok := r.Belongs(path, func(f document.Field) any { key, _ := f.In(held); return key })
			if ok {
				add(c, r, route.Shard{Path: path, Fields: held})
			}
		}
		if c, ok := w.counter(path); ok {
			add(c, c.Template.Routes[0])
		}
	}
	return all
}

// attack makes one request as a client, and says how it broke the law. A server writes now and
// then.
func (w *world) attack() (why string, accepted bool) {
	if w.rand.IntN(12) == 0 {
		w.moderate()
	}
	u := eve
	if w.rand.IntN(15) == 0 {
		u = signedOut
	}
	if w.rand.IntN(8) == 0 {
		return w.read(u)
	}

	var ws []*firestorepb.Write
	var said []string
	for range 1 + w.rand.IntN(5)/4 {
		write, what := w.write()
		ws, said = append(ws, write), append(said, what)
	}
	return w.request(u, ws, strings.Join(said, "; "))
}

// request makes one request as a client, and says how it broke the law.
func (w *world) request(u user, ws []*firestorepb.Write, said string) (why string, accepted bool) {
	before := maps.Clone(w.docs)
	err := w.commit(u, ws...)
	if slices.Contains([]codes.Code{codes.PermissionDenied, codes.InvalidArgument, codes.NotFound}, status.Code(err)) {
		return "", false
	}
	if err != nil {
		w.t.Fatalf("%s: %v", said, err)
	}
	targets := make(map[string]bool)
	for _, write := range ws {
		targets[target(write)] = true
	}
	w.look(slices.Sorted(maps.Keys(targets)))

	now := time.Now().Add(time.Second)
	home := func(path string) bool { return before[path] != nil }
	for path := range targets {
		if reflect.DeepEqual(before[path], w.docs[path]) && before[path] != nil {
			if w.isShards(path) {
				return "an event for nothing: " + said, true
			}
			continue
		}
		why := w.broken(u, path, before[path], w.docs[path], now, home)
		if why != "" {
			return fmt.Sprintf("%s %s: %s: %s", u, path, why, said), true
		}
	}
	return w.brokenLevels(before, said), true
}

// brokenLevels says how a total of totals changed by more than the totals below it, or how a
// document came back with totals into a counter of others. A document that is new begins with what
// is below.
func (w *world) brokenLevels(before map[string]map[string]any, said string) string {
	w.settle()
	was := &world{law: w.law, docs: before}
	former := was.counters()
	for c, parts := range w.counters() {
		for _, r := range c.Template.Routes {
			for _, t := range r.Totals {
				if t.Aggregate != route.Sum || len(t.Where) > 0 || !w.isTotal(r, t.Field) {
					continue
				}
				shards := slices.Concat(parts[r], former[c][r])
				isOthers := r.By != nil && !slices.ContainsFunc(r.By, isOwn)
				var below float64
				seen := make(map[string]bool)
				for _, s := range shards {
					if !seen[s.Path] {
						below += math.Abs(number(w.docs[s.Path], t.Field) - number(before[s.Path], t.Field))
						if isOthers && before[s.Path] == nil && number(w.docs[s.Path], t.Field) != 0 {
							return fmt.Sprintf("%s comes back with its %s: %s", s.Path, t.Field, said)
						}
					}
					seen[s.Path] = true
				}
				moved := number(w.docs[c.RollUp], document.FieldOf(t.Name)) - number(before[c.RollUp], document.FieldOf(t.Name))
				isNew := c.Template.Existing && before[c.RollUp] == nil
				if math.Abs(moved) > below && !isNew {
					return fmt.Sprintf("%s: %s moved by %v, what is below by %v: %s", c.RollUp, t.Name, moved, below, said)
				}
			}
		}
	}
	return ""
}

// isTotal reports whether a field of a route's documents is a total.
func (w *world) isTotal(r *route.Route, f document.Field) bool {
	return slices.ContainsFunc(w.routes.Templates(), func(t *route.Template) bool {
		return r.Pattern().Contains(t.Segments()) && slices.Contains(t.Totals(), string(f))
	})
}

func number(held map[string]any, f document.Field) float64 {
	v, _ := f.In(held)
	n, ok := values.Number(v)
	if !ok {
		return 0
	}
	return n.Float64()
}

// look reads documents into the model.
func (w *world) look(paths []string) {
	w.t.Helper()
	for _, path := range paths {
		doc, err := w.api.GetDocument(server.context(w.t.Context()), &firestorepb.GetDocumentRequest{Name: w.path(path)})
		switch {
		case status.Code(err) == codes.NotFound:
			delete(w.docs, path)
		case err != nil:
			w.t.Fatal(err)
		default:
			w.docs[path] = decoded(doc.Fields)
		}
	}
}

// moderate has a server delete a document, make one again under its id, or approve one.
func (w *world) moderate() {
	paths := slices.Sorted(maps.Keys(w.docs))
	path := paths[w.rand.IntN(len(paths))]
	switch w.rand.IntN(3) {
	case 0:
		w.serve(map[string]map[string]any{path: nil})
	case 1:
		w.serve(map[string]map[string]any{path: w.others(path)})
	case 2:
		held := maps.Clone(w.docs[path])
		maps.Copy(held, w.others(path))
		w.serve(map[string]map[string]any{path: held})
	}
	w.settle()
}

// any returns one of some.
func any1[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

// aim returns the path of a document to attack.
func (w *world) aim() string {
	if w.rand.IntN(3) == 0 { // one that is there
		paths := slices.Sorted(maps.Keys(w.docs))
		return paths[w.rand.IntN(len(paths))]
	}
	var patterns []route.Path
	for _, r := range w.routes {
		patterns = append(patterns, r.Pattern(), r.Pattern(), r.Template.Segments())
	}
	pattern := any1(w.rand, patterns...)
	path := instance(pattern, func(i int) string {
		if pattern[i].Deep && w.rand.IntN(4) == 0 {
			return any1(w.rand, "p1/z/p2", "p1/"+pattern.CollectionID()+"/x")
		}
		if i < len(pattern)-1 {
			return any1(w.rand, append([]string{"p1", "p1", "p2", "eve"}, ids...)...)
		}
		return any1(w.rand, append([]string{"eve", "eve", "eve", "eve_1", "3", "bob", "p1"}, ids...)...)
	})
	if w.rand.IntN(40) == 0 {
		path += "/x/eve"
	}
	return path
}

// write returns a write that is honest, except for what it twists, and says what it is.
func (w *world) write() (*firestorepb.Write, string) {
	path := w.aim()
	held := make(map[string]any)
	var transforms []transformation
	for _, r := range w.sources(path) {
		w.honest(r, path, held, &transforms)
	}
	c, holds := w.counter(path)
	if holds && w.docs[path] != nil {
		held = make(map[string]any)
	}
	var names []document.Field
	for _, r := range w.sources(path) {
		names = append(names, r.Reads()...)
	}
	if holds {
		for _, name := range append(c.Template.Totals(), document.TallyField, "tally.num_shards", "num_shards") {
			names = append(names, document.Field(name))
		}
	}
	names = append(names, "x", "by")

	for range w.rand.IntN(3) {
		f := any1(w.rand, names...)
		v := any1[any](w.rand, int64(1), int64(-1000), int64(1000000), int64(0), int64(2), 2.0, 1.0, nil, "x", "eve", "bob", "p2", true, false,
			time.Now().Add(24*time.Hour), time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), w.value(f), w.value(f), w.value(f))
		transforms = slices.DeleteFunc(transforms, func(t transformation) bool { return document.Field(t.FieldPath) == f })
		put(held, f, v)
		if w.rand.IntN(6) == 0 {
			put(held, f, nil)
			transforms = append(transforms, any1(w.rand, increment(string(f), 1000), serverTime(string(f)), maximum(string(f), 1000), minimum(string(f), -1000)))
		}
	}

	var write *firestorepb.Write
	switch w.rand.IntN(6) {
	case 0:
		write = remove(path)
	case 1, 2, 3:
		write = set(path, w.encoded(held))
		write.UpdateTransforms = transforms
	default:
		var masked []string
		for name, v := range held {
			if inner, isMap := v.(map[string]any); isMap {
				for in := range inner {
					masked = append(masked, name+"."+in)
				}
				continue
			}
			masked = append(masked, name)
		}
		write = merge(path, w.encoded(held), masked...)
		write.UpdateTransforms = transforms
	}
	return write, fmt.Sprint(path, " ", write.UpdateMask.GetFieldPaths(), " ", held, " ", transforms, " delete=", write.GetDelete() != "")
}

// value returns a value that a condition of a route asks for, or what a field has in a double.
func (w *world) value(f document.Field) any {
	var all []any
	for _, r := range w.routes {
		for _, t := range r.Totals {
			for _, c := range t.Where {
				if c.Field == f {
					all = append(all, asked(c)...)
				}
			}
		}
	}
	for _, path := range slices.Sorted(maps.Keys(w.docs)) {
		if n, isInt := w.docs[path][string(f)].(int64); isInt {
			all = append(all, float64(n))
		}
	}
	if all == nil {
		return int64(7)
	}
	return any1(w.rand, all...)
}

// keyed returns a value of the kind that a key takes.
func keyed(r *route.Route, k route.Key, id string, at time.Time) any {
	switch {
	case k.Function == route.Number:
		return int64(len(id))
	case k.Function.OfTime():
		return at
	case k.Function == route.Reference:
		template := r.Template.Segments()
		return document.Reference(template[0].Name + "/" + id)
	default:
		return id
	}
}

// honest adds to a document what an app writes for a route.
func (w *world) honest(r *route.Route, path string, held map[string]any, transforms *[]transformation) {
	for _, k := range r.By {
		id := any1(w.rand, "eve", "p1")
		if isOwn(k) {
			id = "eve"
		}
		if k.Function.OfTime() {
			*transforms = append(*transforms, serverTime(string(k.Field)))
			continue
		}
		put(held, k.Field, keyed(r, k, id, time.Time{}))
	}
	if w.isShards(path) {
		for _, f := range r.Fields() {
			n, _ := w.docs[path][string(f)].(int64)
			put(held, f, n+1)
		}
	}
	for _, t := range r.Totals {
		times := []document.Field{}
		if t.Aggregate.OfTimes() {
			times = append(times, t.Field)
		}
		for _, c := range t.Where {
			switch v := c.Value.(type) {
			case route.Ago:
				times = append(times, c.Field)
			case nil, bool:
				if v != true {
					put(held, c.Field, v)
				} else {
					put(held, c.Field, false)
				}
			}
		}
		for _, f := range times {
			already := slices.ContainsFunc(*transforms, func(t transformation) bool { return t.FieldPath == string(f) })
			if !already {
				*transforms = append(*transforms, serverTime(string(f)))
			}
		}
	}
}

// read reads as a client, and says what it should not have read.
func (w *world) read(u user) (why string, accepted bool) {
	path := w.aim()
	if w.rand.IntN(2) == 0 {
		return w.get(u, path)
	}
	return w.list(u, path, any1[int32](w.rand, 1, 100, 101, 0), any1[int32](w.rand, 0, 0, 1))
}

// get gets a document as a client, and says why it should not have got it.
func (w *world) get(u user, path string) (why string, accepted bool) {
	if get(path)(w.database, u) != nil {
		return "", false
	}
	sources := w.sources(path)
	counter, holds := w.counter(path)
	own := w.writer(sources) == rules.Owner
	switch {
	case !holds && len(sources) == 0:
		return "got a document of no route: " + path, true
	case holds && w.isHidden(counter.Template) && !slices.Contains(strings.Split(path, "/"), string(u)):
		return fmt.Sprintf("%s got the totals %s", u, path), true
	case len(sources) == 0 || w.isShards(path):
		return "", true
	case own && path[strings.LastIndex(path, "/")+1:] != string(u):
		return fmt.Sprintf("%s got another's %s", u, path), true
	case !own && !holds && !w.isAnswered(sources):
		return fmt.Sprintf("%s got %s, as no one decided", u, path), true
	case u == signedOut:
		return "got signed out: " + path, true
	}
	return "", true
}

// isAnswered reports whether somebody said who writes the documents of each route.
func (l law) isAnswered(sources route.Routes) bool {
	return !slices.ContainsFunc(sources, func(r *route.Route) bool { return l.answers.Sources[r.String()] == "" })
}

// list lists the collection of a document as a client, and says why it should not have been listed.
func (w *world) list(u user, path string, limit, offset int32) (why string, accepted bool) {
	parts := strings.Split(path, "/")
	n := len(parts)
	l := list{parent: strings.Join(parts[:n-2], "/"), collection: parts[n-2], limit: limit, offset: offset}
	if l.query(w.database, u) != nil {
		return "", false
	}
	sources := w.sources(path)
	counter, holds := w.counter(path)
	said := fmt.Sprintf("%s listed those like %s, limit %d, offset %d", u, path, limit, offset)
	switch {
	case !holds && len(sources) == 0, offset > 0, holds && w.isHidden(counter.Template):
		return said, true
	case w.isShards(path):
		return "", true
	case limit == 0 || limit > 100 || u == signedOut && limit > 20, len(sources) > 0:
		return said, true
	}
	return "", true
}

// probes makes requests until one is accepted that breaks the law, and says how. One that is
// accepted and breaks nothing is made no more: it breaks the law under no other rules.
func (w *world) probes(all []*probe) (attack *probe, why string) {
	former := maps.Clone(w.docs)
	for _, p := range all {
		if p.harmless {
			continue
		}
		why, accepted := p.run()
		if accepted {
			w.restoreTo(former)
		}
		if why != "" {
			return p, why
		}
		p.harmless = accepted
	}
	return nil, ""
}

// restoreTo has a server make the documents what they were.
func (w *world) restoreTo(former map[string]map[string]any) {
	back := make(map[string]map[string]any)
	for path := range w.docs {
		if !reflect.DeepEqual(w.docs[path], former[path]) {
			back[path] = former[path]
		}
	}
	for path, held := range former {
		if w.docs[path] == nil {
			back[path] = held
		}
	}
	if len(back) > 0 {
		w.serve(back)
	}
}

// nameless matches a capture in a path.
var nameless = regexp.MustCompile(`{[^}]+}`)

// A probe is one request. It says how the request broke the law, and whether it was accepted.
type probe struct {
	path      string         // of its document, without the names of its captures
	operation string         // get, list, write or delete
	field     document.Field // that is not honest; "": all are
	run       func() (why string, accepted bool)
	harmless  bool // it was accepted, and broke nothing
}

// plan returns requests of each path of the routes. Each breaks the law in one way, and is honest
// otherwise.
func (w *world) plan() (all []*probe) {
	var patterns []route.Path
	add := func(p route.Path) {
		if !slices.ContainsFunc(patterns, p.Same) {
			patterns = append(patterns, p)
		}
	}
	for _, r := range w.routes {
		add(r.Pattern())
		add(r.Template.Segments())
	}
	for _, p := range patterns {
		in := func(other, last string) string {
			return instance(p, func(i int) string {
				if i == len(p)-1 {
					return last
				}
				return other
			})
		}
		var paths []string
		for _, last := range []string{"eve", "eve_1", "fresh", "gone", "anonymous", "anonymous_1", "bob", "p1", "3", "11", "eve_b_1", "eve_ ", "eve_" + long, long} {
			paths = append(paths, in("p1", last))
		}
		paths = append(paths, in("gone", "eve"), in("gone", "eve_1"))
		for _, bad := range []string{"bad ", long} {
			for at := 1; at < len(p)-1; at += 2 { // one of the ids above
				for _, last := range []string{"eve", "eve_1", "3"} {
					paths = append(paths, instance(p, func(i int) string {
						switch i {
						case at:
							return bad
						case len(p) - 1:
							return last
						default:
							return "p1"
						}
					}))
				}
			}
			if len(p) == 2 {
				paths = append(paths, in("", bad))
			}
		}
		slices.Sort(paths)
		listed := make(map[string]bool) // collections; a list of one asks for no document in particular
		for _, path := range slices.Compact(paths) {
			all = append(all, w.probesOf(path)...)
			collection := path[:strings.LastIndex(path, "/")]
			if !listed[collection] {
				listed[collection] = true
				all = append(all, w.lists(path)...)
			}
		}
		for _, path := range slices.Compact([]string{in("p1", "fresh"), in("p1", "eve"), in("p1", "eve_1"), in("p1", "p1"), in("p1", "3"), in("p1", "x"), in("p2", "eve"), in("eve", "eve")}) {
			all = append(all, w.twists(path)...)
		}
		for i := range all {
			if all[i].path == "" {
				all[i].path = nameless.ReplaceAllString(p.String(), "{}")
			}
		}
	}
	return all
}

// some returns about one in five requests of a plan, others for each seed; at night it returns all.
// They are drawn at random: a plan has the same five or six requests for each document, of which
// each fifth would be the same one.
func some(plan []*probe) []*probe {
	if *lawAll {
		return plan
	}
	draw := rand.New(rand.NewPCG(*lawSeed, uint64(len(plan))))
	return slices.DeleteFunc(plan, func(*probe) bool { return draw.IntN(5) > 0 })
}

// users are who makes honest requests of a document: a user, of some documents also no one, and
// somebody who may not write.
func (w *world) users(path string) []user {
	id := path[strings.LastIndex(path, "/")+1:]
	switch {
	case !slices.Contains([]string{"eve", "fresh", "3", "bob", "p1", "anonymous", "anonymous_1"}, id):
		return []user{eve}
	case w.answered:
		return []user{eve, signedOut, anonymous}
	default:
		return []user{eve, signedOut}
	}
}

// probesOf returns honest requests of a document.
func (w *world) probesOf(path string) (all []*probe) {
	add := func(operation string, run func() (string, bool)) {
		all = append(all, &probe{operation: operation, run: run})
	}
	for _, u := range w.users(path) {
		send := func(write func() *firestorepb.Write, what string) {
			add("write", func() (string, bool) { return w.request(u, writes(write()), what+" "+path) })
		}
		send(func() *firestorepb.Write { return w.whole(u, path, "", nil) }, "set")
		if w.docs[path] != nil { // else a merge makes what a set makes
			send(func() *firestorepb.Write { return w.partial(u, path, "", nil) }, "merge into")
		}
		send(func() *firestorepb.Write { return w.partial(u, path, "x", int64(1)) }, "merge x into")
		send(func() *firestorepb.Write { return set(path, w.encoded(w.docs[path])) }, "write again")
		add("delete", func() (string, bool) { return w.request(u, writes(remove(path)), "delete "+path) })
		add("get", func() (string, bool) { return w.get(u, path) })
	}
	return all
}

// lists returns requests that list the collection of a document.
func (w *world) lists(path string) (all []*probe) {
	for _, u := range w.users(path) {
		for _, l := range []list{{limit: 100}, {}, {limit: 101}, {limit: 1, offset: 1}} {
			all = append(all, &probe{operation: "list", run: func() (string, bool) { return w.list(u, path, l.limit, l.offset) }})
		}
	}
	return all
}

// twists returns requests of which one field is not honest.
func (w *world) twists(path string) (all []*probe) {
	add := func(f document.Field, write func() *firestorepb.Write, what string) {
		all = append(all, &probe{operation: "write", field: f, run: func() (string, bool) {
			return w.request(eve, writes(write()), what+" "+path)
		}})
	}
	for _, f := range w.fieldsOf(path) {
		values := []any{int64(-1000), int64(5), 0.0, 1.0, "bob", "eve", "p2", nil, time.Now().Add(24 * time.Hour)}
		for _, r := range w.sources(path) {
			for _, t := range r.Totals {
				for _, c := range t.Where {
					values = append(values, asked(c)...)
				}
			}
		}
		if n, isInt := f.In(w.docs[path]); isInt {
			i, _ := n.(int64)
			values = append(values, float64(i), i+1, i+2)
		}
		sent := make(map[string]bool) // values; several conditions may ask for one
		for _, v := range values {
			text := fmt.Sprintf("%T %v", v, v)
			if sent[text] {
				continue
			}
			sent[text] = true
			add(f, func() *firestorepb.Write { return w.whole(eve, path, f, v) }, fmt.Sprint(f, "=", v, " in a set of"))
			if w.docs[path] != nil {
				add(f, func() *firestorepb.Write { return w.partial(eve, path, f, v) }, fmt.Sprint(f, "=", v, " in a merge into"))
			}
		}
	}

	for _, at := range w.times(path) {
		add(document.Field(at.FieldPath), func() *firestorepb.Write {
			write := w.partial(eve, path, document.Field(at.FieldPath), nil)
			write.UpdateTransforms = append(write.UpdateTransforms, at)
			return write
		}, at.FieldPath+" is now in")
	}
	for _, r := range w.sources(path) {
		for _, t := range r.Totals {
			add("", func() *firestorepb.Write {
				held, times := w.app(eve, path, "", nil)
				for _, c := range t.Where {
					for _, v := range asked(c) {
						put(held, c.Field, v)
					}
				}
				return transform(set(path, w.encoded(held)), times...)
			}, "all that "+t.Name+" asks for in a set of")
		}
	}
	return all
}

// asked returns values that meet a condition.
func asked(c route.Condition) []any {
	switch v := c.Value.(type) {
	case []any:
		var all []any
		for _, one := range v {
			all = append(all, asked(route.Condition{Field: c.Field, Operator: route.Equal, Value: one})...)
		}
		return all
	case route.Ago:
		return nil
	case int64:
		if !c.Operator.Range() {
			return []any{v, float64(v)}
		}
	}
	if c.Operator.Range() {
		return []any{within(c)}
	}
	return []any{c.Value}
}

// fieldsOf returns the fields of a document that totals read, that hold them, and another.
func (w *world) fieldsOf(path string) []document.Field {
	fields := []document.Field{"x", "tally", "by"}
	if strings.Contains(path, "messages/") {
		fields = append(fields, "from")
	}
	for _, r := range w.sources(path) {
		fields = append(fields, r.Reads()...)
	}
	if c, holds := w.counter(path); holds {
		for _, name := range append(c.Template.Totals(), "tally.num_shards", "tally.took") {
			fields = append(fields, document.Field(name))
		}
	}
	slices.Sort(fields)
	return slices.Compact(fields)
}

// times returns the times that an honest document has.
func (w *world) times(path string) (all []transformation) {
	for _, r := range w.sources(path) {
		w.honest(r, path, make(map[string]any), &all)
	}
	return all
}

// app returns what an honest app writes into a document, except for a field.
func (w *world) app(u user, path string, f document.Field, v any) (map[string]any, []transformation) {
	held := make(map[string]any)
	times := w.times(path)
	isOf := func(field string) func(transformation) bool {
		return func(t transformation) bool { return t.FieldPath == field }
	}
	for _, r := range w.sources(path) {
		w.honest(r, path, held, new([]transformation))
		for _, k := range r.By {
			if isOwn(k) {
				put(held, k.Field, string(u))
			}
		}
		if w.isShards(path) {
			continue
		}
		for _, f := range r.Reads() { // an edit leaves all that is there
			former, has := f.In(w.docs[path])
			if has {
				put(held, f, former)
				times = slices.DeleteFunc(times, isOf(string(f)))
			}
		}
	}
	if f != "" {
		put(held, f, v)
	}
	return held, slices.DeleteFunc(times, isOf(string(f)))
}

// whole returns a write that replaces a document. It keeps what Tally wrote.
func (w *world) whole(u user, path string, f document.Field, v any) *firestorepb.Write {
	held, times := w.app(u, path, f, v)
	if f != "" {
		if c, holds := w.counter(path); holds && w.docs[path] != nil {
			for _, name := range append(c.Template.Totals(), document.TallyField) {
				if is, has := w.docs[path][name]; has && !f.Within(document.FieldOf(name)) {
					held[name] = is
				}
			}
		}
	}
	return transform(set(path, w.encoded(held)), times...)
}

// partial returns a write that changes some fields of a document.
func (w *world) partial(u user, path string, f document.Field, v any) *firestorepb.Write {
	held, times := w.app(u, path, f, v)
	var masked []string
	for name, is := range held {
		inner, isMap := is.(map[string]any)
		if !isMap {
			masked = append(masked, name)
		}
		for in := range inner {
			masked = append(masked, name+"."+in)
		}
	}
	return transform(merge(path, w.encoded(held), masked...), times...)
}

// lawRoutes are routes that meet in one path, by which clients made totals up before each path had
// one block.
var lawRoutes = map[string]string{
	"karma":             "posts/{post}/likes/{user} -> posts/{post} : count() as likes : existing; posts/{post} by author -> users/{author} : sum(likes) as karma, count() as posts : existing",
	"karma of shops":    "posts/{post}/likes/{user} -> posts/{post} : count() as likes : existing; posts/{post} by shop -> shops/{shop} : sum(likes) as likes : existing",
	"trending":          "songs/{song}/likes/{user} -> songs/{song} : count() as likes : existing; songs/{song}/likes/{user} -> charts/{song} : count() where at > now - 24h as trending : existing",
	"two groups":        "orders/{order} by shop -> shops/{shop} : count() as orders : existing; orders/{order} by buyer -> buyers/{buyer} : count() where at > now - 30d as recent : existing",
	"two shards":        "posts/{post}/shards/{shard} -> post_totals/{post} : likes, views; posts/{post}/shards/{shard} -> post_sums/{post} : likes as again",
	"across parents":    "posts/{post}/comments/{comment} by author -> users/{author} : count() as comments : existing; posts/{post}/comments/{comment} -> posts/{post} : count() as comments : existing",
	"across and below":  "posts/{post}/comments/{comment} by author -> users/{author} : count() as comments : existing; posts/{post}/comments/{comment}/comments/{reply} -> posts/{post}/comments/{comment} : count() as replies : existing",
	"a window in a map": "rooms/{room}/members/{user} -> rooms/{room} : count() where meta.seen > now - 2m as online : existing",
}

// fenced matches the blocks of a page, each with its language.
var fenced = regexp.MustCompile("(?ms)^```(\\w*)$\n(.*?)^```$")

// docsRoutes returns the blocks of routes on a page that has some, without the default route.
func docsRoutes(t *testing.T, name string) []string {
	t.Helper()
	var found []string
	for _, m := range fenced.FindAllStringSubmatch(docsPage(t, name), -1) {
		language, text := m[1], m[2]
		if language != "" && language != "text" {
			continue
		}
		routes, err := route.Parse(text)
		isDefault := func(r *route.Route) bool { return r.String() == route.Default } // TestAnyCommits attacks it
		if err == nil && !slices.ContainsFunc(routes, isDefault) {
			found = append(found, text)
		}
	}
	if found == nil {
		t.Fatalf("no routes on %s", name)
	}
	return found
}

// random begins the names of sets of routes that TestLaw makes at random.
const random = "random "

// Under the rules that tally init writes, no client makes a total up: with the routes of the docs,
// with those by which clients once could, and with random ones.
func TestLaw(t *testing.T) {
	t.Parallel()
	sets := maps.Clone(lawRoutes)
	for _, name := range []string{"recipes.md", "routes.md"} {
		for i, text := range docsRoutes(t, name) {
			sets[fmt.Sprintf("%s %d", name, i)] = text
		}
	}
	for i := range *lawSets {
		sets[fmt.Sprintf("%s%d", random, i)] = randomRoutes(rand.New(rand.NewPCG(*lawSeed, uint64(i))))
	}
	for name, text := range sets {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			routes, err := route.Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			l := law{routes: routes, answers: randomAnswers(rand.New(rand.NewPCG(*lawSeed, 7)), routes)}
			text := rules.For(firestoreRules(t), routes, l.answers)
			if i, isRandom := strings.CutPrefix(name, random); isRandom && strings.ContainsAny(i[len(i)-1:], "13579") {
				l.answered = true
				text = decided.ReplaceAllString(text, "mayWrite()$1")
			}
			w := newWorld(t, text, l, *lawSeed)
			if lawRoutes[name] != "" {
				if _, why := w.probes(some(w.plan())); why != "" {
					t.Errorf("%s\n%s\n%v", why, text, l.answers)
				}
				return
			}
			accepted := 0
			for range *lawAttacks {
				why, ok := w.attack()
				if why != "" {
					t.Fatalf("seed %d: %s\n%s\n%v", *lawSeed, why, text, l.answers)
				}
				if ok {
					accepted++
				}
			}
			t.Logf("%d of %d requests accepted", accepted, *lawAttacks)
		})
	}
}

// randomAnswers answers some of what tally init asks.
func randomAnswers(r *rand.Rand, routes route.Routes) rules.Answers {
	a := rules.Answers{Sources: make(map[string]rules.Writer), Homes: make(map[string]rules.Writer)}
	for _, one := range routes {
		if r.IntN(4) == 0 {
			a.Sources[one.String()] = any1(r, rules.Owner, rules.Users, rules.Servers)
		}
	}
	for _, t := range routes.Templates() {
		if r.IntN(2) == 0 {
			a.Homes[t.String()] = any1(r, rules.Users, rules.Servers, rules.Undecided)
		}
	}
	return a
}

// randomRoutes returns routes that go together: of few collections, so that they meet.
func randomRoutes(r *rand.Rand) string {
	var text string
	for range 40 {
		next := strings.TrimPrefix(text+"\n"+randomRoute(r), "\n")
		routes, err := route.Parse(next)
		if err == nil {
			text = next
		}
		if len(routes) == 5 {
			break
		}
	}
	return text
}

// randomRoute returns a route of any kind that there is, or a text that is none.
func randomRoute(r *rand.Rand) string {
	pattern := any1(r, "a/{a}/b/{user}", "a/{a}/b/{x}", "a/{a}/b/{x}/c/{user}", "a/{a}/shards/{shard}", "a/{a}", "d/{d}", "d/{user}",
		"a/{else}/members/{user}", "a/{a}/comments/{if}", "ñ/{x}", "d/{d}/bookings/{null}")
	captures := nameless.FindAllString(pattern, -1)
	above := "" // of the template, with all captures that it must have
	for i, c := range captures[:len(captures)-1] {
		above += fmt.Sprintf("%c/%s/", "apq"[i], c)
	}

	by, home, option := "", above+any1(r, "t/all", "s/all"), ""
	switch r.IntN(9) {
	case 0, 1, 2: // by path alone
		home = any1(r, strings.TrimSuffix(above, "/"), "a/{a}", "t/{a}", home, "a/{a}/b/{x}", "a/{a}/b/{user}")
		option = any1(r, " : existing", " : existing", "")
	case 3:
		key := any1(r, "author", "shop", "buyer", "m.shop", "ref(author)", "number(n)", "author as user", "number(m.n)")
		name := strings.TrimRight(key[max(strings.LastIndexAny(key, "(. "), -1)+1:], ")")
		by, home, option = key, above+any1(r, "a", "u", "users", "d")+"/{"+name+"}", " : existing"
	case 4: // in the same collection
		by, option = any1(r, "parent", "m.parent"), " : existing"
		home = pattern[:strings.LastIndex(pattern, "{")] + "{parent}"
	case 5:
		period := any1(r, "day", "week", "month")
		zone := any1(r, "", `, "Europe/Berlin"`, `, "America/New_York"`)
		by = fmt.Sprintf("%s(%s%s)", period, any1(r, "at", "m.at", "startsAt"), zone)
		home, option = above+period+"s/{"+period+"}", " : within"
	case 6:
		by, home, option = any1(r, "author", "shop", "ref(shop)")+", "+any1(r, "day", "week")+"(at) as day", above+"u/{author}/days/{day}", " : within "+above+"u/{author}"
		if strings.Contains(by, "shop") {
			home, option = strings.ReplaceAll(home, "author", "shop"), strings.ReplaceAll(option, "author", "shop")
		}
	case 8: // across parents
		by, option = any1(r, "author", "shop", "m.shop as shop", "ref(author)", "number(n) as shop"), " : existing"
		name := any1(r, "author", "shop")
		home = strings.Join(strings.Split(above, "/")[:max(0, 2*len(captures)-4)], "/") + any1(r, "/u/{", "/a/{") + name + "}"
		home = strings.TrimPrefix(home, "/")
	case 7:
		by, home, option = "author, "+any1(r, "shop", "number(shop)"), above+"u/{author}/shops/{shop}", " : existing"
	}
	if by != "" {
		by = " by " + by
	}

	var totals []string
	for i := range 1 + r.IntN(3) {
		total := any1(r, "count()", "count()", "sum(n)", "sum(likes)", "average(n)", "maximum(likes)", "latest(at)", "earliest(m.at)", "count", "sum(t0)", "sum(t1)", "minimum(`é`)")
		if r.IntN(2) == 0 {
			total = strings.TrimSuffix(total, "()")
			if total == "count" {
				total += "()"
			}
			total += " where " + randomConditions(r)
		}
		totals = append(totals, total+fmt.Sprint(" as t", i))
	}
	return pattern + by + " -> " + home + " : " + strings.Join(totals, ", ") + option
}

// randomConditions returns conditions of one total.
func randomConditions(r *rand.Rand) string {
	state := func() string {
		return any1(r, "ok == true", "read == false", "gone == null", `kind == "x"`, `kind in ["x", "y"]`, "n in [2, 3]", "n in [-1.5, 2]", `kind in [true, 2, "x"]`,
			`kind in [null, "x"]`, "n == 9223372036854775807", "n == 1e20", "n == 0", "`é` == \"é\"", `kind == "it's"`, `kind == "it’s"`, "m.ok == true", "m.n in [1, 2]",
			`kind in [timestamp("2026-01-31T12:00:00Z"), 1]`)
	}
	ranged := func() string {
		return any1(r, "at > now - 1h", "m.at > now - 1h", "startsAt >= now - 2d", "likes > 3", "n >= 2.5", "n < 3", "n > -9223372036854775808", `kind > "b"`, "kind > \"\uffee\"",
			`at >= timestamp("2026-01-31T12:00:00Z")`, `at < timestamp("2036-01-31T12:00:00Z")`, "n > 1 and n < 9")
	}
	switch r.IntN(3) {
	case 0:
		return state()
	case 1:
		return ranged()
	default:
		return state() + " and " + ranged()
	}
}
