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
	"github.com/firestore-tally/tally/internal/cloud/firestorestore"
	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/tool/local/emulator"
	"github.com/firestore-tally/tally/internal/tool/rulesfile"
	"github.com/firestore-tally/tally/internal/tool/rulestrial"
	"github.com/firestore-tally/tally/internal/value"
	"github.com/firestore-tally/tally/rollup/route"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// hints say once, in a sentence, what a newcomer gets wrong.
type hints struct {
	routes route.Routes

	addr, project string // of the emulator, and the app

	say  func(format string, args ...any)
	said sync.Map // keys: what was said; values: when, of what is said again

	written chan written // documents to look at

	mu       sync.Mutex
	homes    map[*route.Template]int // how many missing documents of each were told
	rules    appRules                // security rules that are in force
	refusals map[string]struct{}     // that they made and that were told
	findings []rulesfile.Finding     // in the rules, about the routes
	tried    map[string]tried        // by template
}

// follow notes the security rules that are in force from now on. What they refuse is told, even if
// former rules refused the same.
func (h *hints) follow(rules appRules) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.rules, h.refusals = rules, make(map[string]struct{})
}

// checkRules tells what in the rules that are in force does not go together with the routes, and
// has them tried again on the documents on which others were.
func (h *hints) checkRules() {
	h.mu.Lock()
	rules, again := h.rules, h.tried
	h.findings = rulesfile.Parse(rules.text).Findings(h.routes)
	h.tried = nil
	h.mu.Unlock()
	for _, document := range again {
		h.noteWritten(document.database, document.path)
	}

	for _, text := range rulesfile.Check(rules.name(), rules.text, h.routes) {
		if h.first("rules", text) {
			h.say("%s", text)
		}
	}
}

// causeOf returns why rules refused a request, in parentheses, if that is Tally's doing or easily
// overlooked. It returns "" if neither is known.
func (h *hints) causeOf(r emulator.Refusal) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if r.Unlimited {
		return " (the query has no limit)"
	}
	if !strings.Contains(r.Method, "update") || !slices.Contains(r.Document, document.TallyField) {
		return ""
	}
	for _, f := range h.findings {
		if !f.Locks || !slices.Contains(r.Lines, f.Line) {
			continue
		}
		if _, holds := f.Template.Counter(r.Path); holds {
			return fmt.Sprintf(" (this line lists or counts the document's fields, and Tally added tally, %s: compare request.resource.data.diff(resource.data).affectedKeys() instead)", strings.Join(f.Template.Totals(), ", "))
		}
	}
	return ""
}

// first reports whether it is called with this for the first time, and notes that it was.
func (h *hints) first(about ...any) bool {
	_, said := h.said.LoadOrStore(fmt.Sprintln(about...), nil)
	return !said
}

// firstThisHour reports whether it was not called with this in the last hour, and notes that it was
// now.
func (h *hints) firstThisHour(about ...any) bool {
	key, now := fmt.Sprintln(about...), time.Now()
	last, said := h.said.Load(key)
	if said && now.Sub(last.(time.Time)) < time.Hour {
		return false
	}
	h.said.Store(key, now)
	return true
}

// indexes tells which routes need indexes on a project. The emulator asks for none.
func (h *hints) indexes() {
	var need []string
	for _, r := range h.routes {
		if len(route.Routes{r}.Indexes()) > 0 {
			need = append(need, r.String())
		}
	}
	if len(need) > 0 {
		h.say("on a project, where tally deploy builds them first, composite indexes are needed by %s; tally indexes prints them", strings.Join(need, " and by "))
	}
}

// levels tells how deep totals of totals go, and which roll-ups are events of their own routes.
func (h *hints) levels() {
	depth, circles := h.routes.Depth(), h.routes.Circles()
	if depth != "" {
		h.say("totals of totals: %s", depth)
	}
	if circles != "" {
		h.say("%s; tally deploy says what changes cost", circles)
	}
}

// document reports a document that looks like a shard and that no route covers, and a document
// whose fields do not fit its routes.
func (h *hints) document(path string, fields map[string]any) {
	if !h.routes.Covers(path) {
		h.uncovered(path, fields)
		return
	}
	for _, route := range h.routes {
		if route.Covers(path) {
			h.ungrouped(route, path, fields)
			h.needless(route, path, fields)
			h.unseen(route, path, fields)
			h.timeless(route, path, fields)
			h.unsummed(route, path, fields)
			h.uncounted(route, path, fields)
		}
	}
}

// uncovered reports a document that no route covers, if it looks like a shard.
func (h *hints) uncovered(path string, fields map[string]any) {
	if !isShard(path, fields) {
		return
	}
	pattern, template := generalized(path)
	first := h.first("uncovered", pattern)
	if !first {
		return
	}

	_, written, _ := numbers(fields)
	h.suggest(fmt.Sprintf("no route covers %s, which looks like a shard", path),
		"to sum it, add the route", pattern+" -> "+template+" : "+strings.Join(written, ", "), h.routes)
}

// ungrouped reports a document that belongs to no counter of a route, because the field that
// should name its counter does not. It reports each reason once an hour.
func (h *hints) ungrouped(route *route.Route, path string, fields map[string]any) {
	u, ok := route.Ungrouped(path, holds(fields))
	if ok && h.firstThisHour("ungrouped", route, u.Reason) {
		h.say("%s belongs to no counter of %s: %s", path, route, u.Why)
	}
}

// namesDay matches a text that names a day or a month, maybe behind something else, such as
// north_2026-11-27.
var namesDay = regexp.MustCompile(`^(?:(.+)[_:.|-])?(\d{4}-\d\d)(-\d\d)?$`)

// needless reports a key that the app writes only to count by it: the document has the time of the
// day that the key names, and another field with the rest of it.
func (h *hints) needless(route *route.Route, path string, fields map[string]any) {
	for _, k := range route.By {
		held, _ := k.Field.In(fields)
		text, _ := held.(string)
		named := namesDay.FindStringSubmatch(text)
		if named == nil {
			continue
		}
		function, layout := "month", "2006-01"
		if named[3] != "" {
			function, layout = "day", time.DateOnly
		}
		at := fieldWith(fields, func(v any) bool {
			t, isTime := v.(time.Time)
			return isTime && t.UTC().Format(layout) == named[2]+named[3]
		})
		rest := fieldWith(fields, func(v any) bool { return named[1] != "" && v == named[1] })
		if at == "" || rest == "" && named[1] != "" || !h.first("needless", route, k.Field) {
			continue
		}

		keys := fmt.Sprintf("%s(%s)", function, at)
		if rest != "" {
			keys = rest + ", " + keys
		}
		h.say("%s: %s says no more than other fields do; by %s needs no such field (docs/migrate.md#from-a-field-that-names-a-day)", path, k.Field, keys)
	}
}

// fieldWith returns the first field, as a route spells it, whose value is as wanted; "" if there is
// none.
func fieldWith(fields map[string]any, wanted func(any) bool) string {
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if wanted(fields[name]) {
			return route.Quote(name)
		}
	}
	return ""
}

// holds returns the function that returns of what kind a field of a document is, and its value. The
// kind is "" if the document lacks the field.
func holds(fields map[string]any) func(document.Field) (kind string, held any) {
	return func(f document.Field) (kind string, held any) {
		held, has := f.In(fields)
		if !has {
			return "", nil
		}
		return value.KindOf(held), held
	}
}

// unseen reports a field whose value a minimum, maximum, earliest or latest leaves out, because
// it is of another kind. For sums and averages the functions warn.
func (h *hints) unseen(route *route.Route, path string, fields map[string]any) {
	tell := func(field document.Field, by, want string) {
		held, _ := field.In(fields)
		first := h.first("unseen", route, field, by)
		if first {
			h.say("%s: %s is %s, and %s sees only %s", path, field, value.KindOf(held), by, want)
		}
	}

	for _, q := range route.Queries() {
		held, _ := q.Field.In(fields)
		if q.Best == "" || held == nil {
			continue
		}
		_, seen := q.Best.Sees(held)
		switch {
		case seen:
		case q.Best.OfTimes():
			tell(q.Field, fmt.Sprintf("%s(%s)", q.Best, q.Field), "timestamps")
		default:
			tell(q.Field, fmt.Sprintf("%s(%s)", q.Best, q.Field), "numbers")
		}
	}
}

// timeless reports a document that is in no window of a route, because the field that should hold
// its time does not. It reports each reason once an hour.
func (h *hints) timeless(route *route.Route, path string, fields map[string]any) {
	for _, o := range route.Timeless(holds(fields)) {
		if h.firstThisHour("timeless", route, o.Reason) {
			h.say("%s is in no window of %s: %s", path, route, o.Why)
		}
	}
}

// maxHomes is how many missing documents of a template are reported. A client that writes sources
// can name any number of them.
const maxHomes = 10

// missingTarget reports a document whose totals have no place, because the app has not created the
// document that is to hold the totals, or within which Tally creates that. It reports each missing
// document once, and calls missing once for each document that may be missing.
func (h *hints) missingTarget(database, path string, fields map[string]any, missing func(path string) bool) {
	for _, r := range h.routes {
		c, ok := r.Belongs(path, func(f document.Field) any { _, held := holds(fields)(f); return held })
		if !ok {
			continue
		}
		home, which := c.RollUp, "which"
		if r.Template.Within {
			home, which = c.Owner(), "within "+c.Owner()+", which"
		}
		if home == "" || !r.Template.Existing && !r.Template.Within {
			continue
		}
		unasked := h.first("home", database, home)
		if !unasked || !missing(home) {
			continue
		}

		told := h.anotherHome(r.Template)
		if told > maxHomes {
			continue
		}
		text := fmt.Sprintf("%s belongs to %s, %s does not exist: the totals come with the next change, or an audit, after the app has created that document", path, c.RollUp, which)
		if database != firestore.DefaultDatabaseID {
			text = database + ": " + text
		}
		if told == maxHomes {
			text += "; others like it are not reported any more"
		}
		h.say("%s", text)
	}
}

// anotherHome returns how many missing documents of a template there are to tell, with another one.
func (h *hints) anotherHome(template *route.Template) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.homes == nil {
		h.homes = make(map[*route.Template]int)
	}
	h.homes[template]++
	return h.homes[template]
}

// left reports a document with totals that Tally made and that no route keeps up to date. It
// reports one document of each pattern.
func (h *hints) left(path string, fields map[string]any) {
	made, _ := fields[document.TallyField].(map[string]any)
	_, isRollUp := made["as_of"].(time.Time)
	kept := func(t *route.Template) bool { _, ok := t.Counter(path); return ok }
	if !isRollUp || slices.ContainsFunc(h.routes.Templates(), kept) {
		return
	}

	pattern, _ := generalized(path)
	first := h.first("left", pattern)
	if first {
		h.say("%s has totals that Tally made, and no route keeps them any more: they stay as they are", path)
	}
}

// numbers returns the names of the fields that hold numbers, how a route spells them, and the
// totals that are their sums.
func numbers(fields map[string]any) (names, written []string, totals []route.Total) {
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if _, ok := value.Number(fields[name]); ok {
			total := route.Total{Aggregate: route.Sum, Field: document.FieldOf(name), Name: name}
			names, written, totals = append(names, name), append(written, total.String()), append(totals, total)
		}
	}
	return names, written, totals
}

// unsummed reports a shard that has numbers, but none that its route sums.
func (h *hints) unsummed(summing *route.Route, path string, fields map[string]any) {
	names, _, totals := numbers(fields)
	if !summing.HasShards() || names == nil || hasAny(fields, summing.Fields()) {
		return
	}
	first := h.first("fields", summing, names)
	if !first {
		return
	}

	fitting := *summing
	fitting.Totals = totals
	others := slices.DeleteFunc(slices.Clone(h.routes), func(r *route.Route) bool { return r == summing })
	h.suggest(fmt.Sprintf("%s has %s, not %s", path, strings.Join(names, ", "), either(summing.Fields())),
		"to sum it, the route is", fitting.String(), others)
}

// uncounted reports a document without a field count, if a total is the sum of that field by
// another name. How many documents there are is count(), which may be meant.
func (h *hints) uncounted(r *route.Route, path string, fields map[string]any) {
	for _, t := range r.Totals {
		_, has := t.Field.In(fields)
		if has || t.Aggregate != route.Sum || t.Field != "count" || t.Name == "count" {
			continue
		}
		if h.first("uncounted", r, t.Name) {
			name := route.Quote(t.Name)
			h.say("%s has no field count, and %s is the sum of that field; count() as %s is how many documents there are", path, name, name)
		}
	}
}

// suggest says something, and suggests a route if it may join the others.
func (h *hints) suggest(text, why, r string, others route.Routes) {
	if _, err := route.Parse(others.String() + "\n" + r); err == nil {
		text += "; " + why + " " + r
	}
	h.say("%s", text)
}

// A servedDatabase is one that the functions serve.
type servedDatabase struct {
	id     string
	client *firestore.Client
}

// lookAt tells what is wrong with a document.
func (h *hints) lookAt(ctx context.Context, db servedDatabase, doc *firestore.DocumentSnapshot) {
	path := firestorestore.Path(doc.Ref)
	h.document(path, firestorestore.Data(doc))
	h.lookForHome(ctx, db, doc)
	h.left(path, doc.Data())
	h.tryRules(ctx, db.id, path)
	h.similar(ctx, db, path)
	h.amongShards(ctx, doc)
}

// lookForHome tells whether the documents that hold a document's totals are missing.
func (h *hints) lookForHome(ctx context.Context, db servedDatabase, doc *firestore.DocumentSnapshot) {
	path := firestorestore.Path(doc.Ref)
	h.missingTarget(db.id, path, firestorestore.Data(doc), func(path string) bool {
		_, err := db.client.Doc(path).Get(ctx)
		if err == nil {
			h.tryRules(ctx, db.id, path)
		}
		return status.Code(err) == codes.NotFound // without an answer there is no hint
	})
}

// A written is a document that an event is about.
type written struct{ database, path string }

// maxWritten is how many documents wait until they are looked at. If more are written meanwhile,
// nothing is told about these: the emulator has other things to do.
const maxWritten = 100

// noteWritten has a document looked at that was written. It does not block.
func (h *hints) noteWritten(database, path string) {
	select {
	case h.written <- written{database, path}:
	default:
	}
}

// lookAtWritten looks at each document that is written, one after another, until ctx ends.
func (h *hints) lookAtWritten(ctx context.Context, clients map[string]*firestore.Client) {
	for {
		select {
		case <-ctx.Done():
			return
		case w := <-h.written:
			client := clients[w.database]
			if client == nil {
				continue
			}
			doc, err := client.Doc(w.path).Get(ctx)
			if err != nil {
				continue // such as of a document that was deleted
			}
			h.lookAt(ctx, servedDatabase{w.database, client}, doc)
		}
	}
}

var wholeNumber = regexp.MustCompile(`^\d+$`)

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

// generalized returns a pattern for the documents like the one at path, and a template for their
// roll-ups, as a route spells them: for posts/7/shards/0 they are posts/{post}/shards/{shard} and
// post_totals/{post}.
func generalized(path string) (pattern, template string) {
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

// refused tells that the rules refused a client's request, and which statements of the rules did.
func (h *hints) refused(r emulator.Refusal) {
	if r.Database == rulestrial.Database {
		return
	}
	cause := h.causeOf(r)
	h.mu.Lock()
	rules := h.rules
	about := fmt.Sprintln(r.Method, r.Database, r.Path, r.Lines, r.User != "", cause)
	_, said := h.refusals[about]
	h.refusals[about] = struct{}{}
	h.mu.Unlock()
	if said {
		return
	}

	who := "a client that is not signed in"
	if r.User != "" {
		who = "user " + r.User
	}
	path := r.Path
	if r.Database != firestore.DefaultDatabaseID {
		path = r.Database + ": " + path
	}

	by := rules.quote(r.Lines)
	if r.Lines == nil {
		by = "nothing in " + rules.name() + " allows it"
	}
	if r.Lines == nil && rules.file == "" {
		by += "; firebase.json names a file of your own"
	}
	h.say("refused: %s of %s by %s; %s%s", r.Method, path, who, by, cause)
}
