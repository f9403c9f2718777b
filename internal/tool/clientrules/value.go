package clientrules

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/rollup/route"
)

// after returns a field of the document as it is after the write, as rules spell it. If it is
// missing, no condition on it holds.
func after(f document.Field) string {
	text := "request.resource.data"
	for _, name := range f.Names() {
		text += "[" + quoted(name) + "]"
	}
	return text
}

// afterOr returns the same, or null if the field is missing.
func afterOr(f document.Field) string {
	return "request.resource.data.get(" + fieldPath(f) + ", null)"
}

// fieldPath returns the name of a field as functions of the rules take it: a list of names if the
// field is in a map.
func fieldPath(f document.Field) string {
	names := f.Names()
	if len(names) == 1 {
		return quoted(names[0])
	}
	return list(names)
}

// untouched returns the conditions that keep clients from the totals that a document holds: a new
// document has none, or those of no documents at all.
func (b *block) untouched(isNew bool) []term {
	if b.home == nil {
		return nil
	}
	var terms []term
	if isNew {
		for _, name := range b.home.Totals() {
			terms = append(terms, term{text: b.begins(name) + "(" + quoted(name) + ")"})
		}
		return append(terms, term{text: "lacks(" + list(b.reserved()) + ")"})
	}

	terms = conditions("leaves(" + list(append(b.home.Totals(), b.reserved()...)) + ")")
	for _, name := range b.home.Totals() {
		if !b.total(name).Aggregate.OfTimes() {
			terms = append(terms, term{text: "keepsInt(" + quoted(name) + ")"})
		}
	}
	tally := func(name string) string { return "keepsInt(" + list([]string{document.TallyField, name}) + ")" }
	return append(terms, conditions(tally("num_shards"), tally("took"))...)
}

// begins returns the function of the rules by which a total begins: sums and counts of nothing are
// 0, the others null.
func (b *block) begins(name string) string {
	a := b.total(name).Aggregate
	if a == route.Sum || a == route.Count {
		return "isUncounted"
	}
	return "isEmpty"
}

// total returns a total that the documents hold.
func (b *block) total(name string) route.Total {
	for _, r := range b.home.Routes {
		i := slices.IndexFunc(r.Totals, func(t route.Total) bool { return t.Name == name })
		if i >= 0 {
			return r.Totals[i]
		}
	}
	return route.Total{}
}

// reserved returns the fields of a document with totals that clients never write: that of Tally,
// and in the document of a counter those that tell about its shards.
func (b *block) reserved() []string {
	fields := []string{document.TallyField}
	for _, r := range b.home.Routes {
		pattern := r.Pattern()
		if ofShards(r) && pattern[:len(pattern)-2].Same(b.path) {
			return append(fields, document.CounterFields...)
		}
	}
	return fields
}

// isHeld reports whether other conditions of the block say already what clients may write into a
// field: it is a total or a shard's.
func (b *block) isHeld(f document.Field) bool {
	if slices.Contains(b.shards(), f) {
		return true
	}
	if b.home == nil {
		return false
	}
	held := append(b.home.Totals(), document.TallyField)
	return slices.ContainsFunc(held, func(name string) bool { return f.Within(document.FieldOf(name)) })
}

// values returns the conditions on what a document holds, joined field by field over all routes
// that count it.
func (b *block) values(isNew bool) []term {
	terms := append(b.fixed(), b.existing()...)
	for _, s := range b.sources {
		terms = append(terms, b.group(s, isNew)...)
		for _, t := range s.Totals {
			terms = append(terms, b.times(t)...)
			terms = append(terms, b.grants(t)...)
		}
	}
	return terms
}

// fixed returns the conditions on shards. They hold nothing but the fields that some route reads.
func (b *block) fixed() []term {
	shards := b.shards()
	if shards == nil {
		return nil
	}

	var fields []string
	for _, s := range b.sources {
		for _, f := range s.Reads() {
			fields = append(fields, f.Names()[0])
		}
	}
	slices.Sort(fields)
	fields = slices.Compact(fields)

	terms := conditions("holdsOnly("+list(fields)+")", "isShard("+b.id()+", 10)")
	if len(shards) == 1 {
		return append(terms, term{text: "adds(" + quoted(string(shards[0])) + ")"})
	}
	var one []string
	for _, f := range shards {
		one = append(one, "adds("+quoted(string(f))+")")
	}
	terms = append(terms, term{text: "(" + strings.Join(one, " || ") + ")"})
	for _, f := range shards {
		terms = append(terms, term{text: fmt.Sprintf("(adds(%s) || isKept(%[1]s))", quoted(string(f)))})
	}
	return terms
}

// group returns the conditions on the fields that say to which counter a document belongs. A user's
// id there is the writer's own, and a day or month is the present one.
func (b *block) group(s source, isNew bool) []term {
	var terms []term
	for _, k := range s.By {
		switch {
		case k.Function.OfTime():
			terms = append(terms, b.serverTime(k.Field)...)
		case k.Function == route.Text:
			terms = append(terms, b.key(s, k.Field, isNew)...)
		default:
			terms = append(terms, undecided(b.whose(s.Template, k, isNew)))
		}
	}
	return terms
}

// whose asks which counters a reference or a number may name, and proposes an answer. A reference
// leads to the writer's own document, or to one that exists. Only servers know users' numbers, and
// can put them into the users' tokens.
func (b *block) whose(t *route.Template, k route.Key, isNew bool) string {
	held, last := after(k.Field), k.Field.Names()[len(k.Field.Names())-1]
	home, plain := homeOf(t, k)
	switch {
	case !isNew && !b.ownID():
		return fmt.Sprintf("whether %s may change, such as %s == resource.data%s", k.Field, held, strings.TrimPrefix(held, "request.resource.data"))
	case k.Function == route.Reference && ofUsers(t) && plain:
		return fmt.Sprintf("to whose document %s may refer, such as %s == %s$(request.auth.uid)", k.Field, held, home)
	case k.Function == route.Reference:
		return fmt.Sprintf("to which document %s may refer, such as exists(%s)", k.Field, held)
	case ofUsers(t):
		return fmt.Sprintf("whose number %s may be, if your server puts each user's into a claim, such as %s == request.auth.token[%s]", k.Field, held, quoted(last))
	case plain:
		return fmt.Sprintf("which document the number in %s may name, such as exists(%s$(string(%s)))", k.Field, home, held)
	default:
		return fmt.Sprintf("which numbers %s may hold, such as %s in [1, 2, 3]", k.Field, held)
	}
}

// homeOf returns the collection of the documents that a key names, as rules spell it. It reports
// false if the collection lies below others of its kind, or if rules do not take its name as it is.
func homeOf(t *route.Template, k route.Key) (string, bool) {
	path := "/databases/$(database)/documents/"
	for _, s := range t.Segments() {
		if s.Capture {
			return path, s.Name == k.Name
		}
		if !plainName.MatchString(s.Name) {
			break
		}
		path += s.Name + "/"
	}
	return "", false
}

// key returns the conditions on one field that says to which counter a document belongs.
func (b *block) key(s source, by document.Field, isNew bool) []term {
	const own = " == request.auth.uid"
	isTotals := b.home != nil // totals of totals
	switch {
	case isOwn(by) && isNew && isTotals && !b.path[len(b.path)-1].Capture:
		return []term{undecided(fmt.Sprintf("whose id %s may be: the totals of a deleted document come back with its id", by))}
	case isOwn(by) && isNew && isTotals && !b.ownID():
		// Likes outlive their post. A user who creates a post of the same id would have them.
		return conditions(after(by)+own, b.id()+".split('_')[0] == request.auth.uid")
	case isOwn(by) && isNew:
		return conditions(after(by) + own)
	case !isNew && !b.ownID():
		return conditions(after(by) + " == resource.data" + strings.TrimPrefix(after(by), "request.resource.data"))
	case isOwn(by):
		return conditions(after(by) + own)
	case ofUsers(s.Template) && !b.ownID():
		return []term{undecided(fmt.Sprintf("whose id %s may be, such as %s%s", by, after(by), own))}
	case isTotals && isNew:
		return []term{undecided(fmt.Sprintf("which %s the document may have: the totals of a deleted one come back with its id", by))}
	}
	return nil
}

// times returns the conditions that the times by which a total takes documents are the server's. A
// client that names a later time would be in a window for longer, and the latest for good.
func (b *block) times(t route.Total) []term {
	var fields []document.Field
	if t.Aggregate.OfTimes() {
		fields = append(fields, t.Field)
	}
	for _, c := range t.Where {
		if isTime(c) {
			fields = append(fields, c.Field)
		}
	}

	var terms []term
	for _, f := range fields {
		terms = append(terms, b.serverTime(f)...)
	}
	return terms
}

// serverTime returns the condition that the time in a field is the server's, unless it is one that
// lies ahead by its nature.
func (b *block) serverTime(f document.Field) []term {
	switch {
	case b.isHeld(f):
		return nil
	case liesAhead(f):
		return []term{undecided(fmt.Sprintf("how far ahead %s may lie, such as %s < request.time + duration.value(30, 'd')", f, after(f)))}
	default:
		return []term{{text: after(f) + " == request.time"}}
	}
}

// isTime reports whether a condition compares a time.
func isTime(c route.Condition) bool {
	_, isWindow := c.Value.(route.Ago)
	_, isInstant := c.Value.(time.Time)
	return isWindow || isInstant
}

// grants returns the condition that a total does not take the document yet. Where a total asks for
// a state, such as approved == true, only servers put documents into it. A total that takes every
// document makes an amount of what a client writes, so a person must say which amounts these may
// be.
func (b *block) grants(t route.Total) []term {
	var states, texts []string
	for _, c := range t.Where {
		if isTime(c) || isBeginning(c) || b.isHeld(c.Field) {
			continue
		}
		states, texts = append(states, stateOf(c)), append(texts, c.String())
	}
	if len(states) > 0 {
		return []term{{negatedState(states), "who writes " + strings.Join(texts, " and ") + "; here only servers do"}}
	}

	amount := t.Field != "" && !t.Aggregate.OfTimes() && !b.isHeld(t.Field)
	if !amount {
		return nil
	}
	return []term{undecided(fmt.Sprintf("what users may write into %s, such as %s in [1, 2, 3, 4, 5]", t.Field, after(t.Field)))}
}

// isBeginning reports whether a document is in a state by itself, until somebody takes it out of
// it, such as read == false and archived_at == null.
func isBeginning(c route.Condition) bool {
	begins := func(v any) bool { return v == nil || v == false }
	if c.Operator == route.In {
		values, _ := c.Value.([]any)
		return slices.ContainsFunc(values, begins)
	}
	return c.Operator == route.Equal && begins(c.Value)
}

// stateOf returns a condition as rules spell it.
func stateOf(c route.Condition) string {
	field := afterOr(c.Field)
	if !c.Operator.Range() {
		return field + " " + string(c.Operator) + " " + literal(c.Value)
	}
	kind := "number"
	if _, isText := c.Value.(string); isText {
		kind = "string"
	}
	return fmt.Sprintf("%s is %s && %[1]s %[3]s %[4]s", field, kind, string(c.Operator), literal(c.Value))
}

// negatedState returns the condition that not all of the states hold.
func negatedState(states []string) string {
	if len(states) == 1 && strings.Contains(states[0], " == ") && !strings.Contains(states[0], " && ") {
		return strings.Replace(states[0], " == ", " != ", 1)
	}
	return "!(" + strings.Join(states, " && ") + ")"
}

// literal returns the value of a condition as rules spell it.
func literal(v any) string {
	switch v := v.(type) {
	case string:
		return quoted(v)
	case []any:
		var all []string
		for _, one := range v {
			all = append(all, literal(one))
		}
		return "[" + strings.Join(all, ", ") + "]"
	case nil:
		return "null"
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	default:
		return fmt.Sprint(v)
	}
}

// These are how many documents the rules may read for a write of one document, and for a batch
// (https://firebase.google.com/docs/firestore/security/rules-conditions#access_call_limits).
const (
	maxLookups = 10
	maxInBatch = 20
)

// lookups returns a comment on what the rules read for each write, so that no one writes a batch
// that is too large. It is "" if they read nothing.
func (b *block) lookups() string {
	terms := b.existing()
	switch {
	case len(terms) == 0 || terms[0].decide != "":
		return ""
	case len(terms) == 1:
		return inBlock + fmt.Sprintf("// For each write the rules read the document with the totals: at most %d in a batch.\n", maxInBatch)
	default:
		return inBlock + fmt.Sprintf("// For each write the rules read %d documents: at most %d in a batch.\n", len(terms), maxInBatch)
	}
}

// existing returns the conditions that the documents with the totals of windows exist, each once.
func (b *block) existing() []term {
	var terms []term
	for _, s := range b.sources {
		for _, t := range b.exists(s) {
			if !slices.Contains(terms, t) {
				terms = append(terms, t)
			}
		}
	}
	if len(terms) > maxLookups {
		return []term{undecided(fmt.Sprintf("which of the %d documents with the totals must exist; rules read at most %d for a write", len(terms), maxLookups))}
	}
	return terms
}

// exists returns the condition that the document with the totals of a window exists. Without it,
// one request writes documents below 500 made-up ones, each at the same time: half of what an index
// of times takes in a second.
func (b *block) exists(s source) []term {
	if len(s.Windows()) == 0 || !s.Template.Existing || s.By != nil {
		return nil
	}
	var ids []string
	for i, segment := range b.path[:len(b.path)-1] {
		switch {
		case segment.Capture:
			ids = append(ids, "$("+b.name(i)+")")
		case plainName.MatchString(segment.Name):
			ids = append(ids, segment.Name)
		default:
			return nil
		}
	}
	home, ok := s.Counter(strings.Join(ids, "/"))
	plain := func(segment route.Segment) bool { return segment.Capture || plainName.MatchString(segment.Name) }
	if !ok || slices.ContainsFunc(s.Template.Segments(), func(segment route.Segment) bool { return !plain(segment) }) {
		return nil
	}
	return conditions("exists(/databases/$(database)/documents/" + home.RollUp + ")")
}
