package rules

import (
	"fmt"
	"math"
	"regexp"
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

// totalConditions returns the conditions that keep clients from the totals that a document holds: a
// new document has none, or those of no documents at all.
func (b *block) totalConditions(isNew bool) []term {
	if b.home == nil {
		return nil
	}
	var terms []term
	if isNew {
		for _, name := range b.home.Totals() {
			terms = append(terms, term{text: b.beginFunction(name) + "(" + quoted(name) + ")"})
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

// beginFunction returns the function of the rules by which a total begins: sums and counts of
// nothing are 0, the others null.
func (b *block) beginFunction(name string) string {
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
		if areShards(r) && pattern[:len(pattern)-2].Same(b.path) {
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
	if b.shards() == nil {
		terms = append(terms, term{text: "namesWriter(" + list(b.keyed()) + ")"})
	}
	if isNamedLike(b.path, "inbox", "mail", "message") { // elsewhere "from" is a time or a place, too
		terms = append(terms, term{text: "(isLeft('from') || request.resource.data.get('from', request.auth.uid) == request.auth.uid)"})
	}
	var states []state
	for _, s := range b.sources {
		terms = append(terms, b.group(s, isNew)...)
		for _, t := range s.Totals {
			terms = append(terms, b.times(t)...)
			terms = append(terms, b.amounts(t)...)
			states = b.addState(states, s, t)
		}
	}
	for _, one := range states {
		terms = append(terms, one.term(isNew && !b.ownID()))
	}
	return terms
}

// keyed returns the fields that say who wrote a document and are keys, of which there are other
// conditions.
func (b *block) keyed() []string {
	var fields []string
	for _, s := range b.sources {
		for _, k := range s.By {
			if slices.Contains(writerFields, string(k.Field)) {
				fields = append(fields, string(k.Field))
			}
		}
	}
	return fields
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
// id there is the writer's own, and a time is the present one. An edit moves no document,
// except one whose id is the user's.
func (b *block) group(s source, isNew bool) []term {
	var terms []term
	for _, k := range s.By {
		isMoved := k.Function.OfTime() || !b.ownID()
		switch {
		case b.isHeld(k.Field) && k.Function.OfTime():
		case k.Function.OfTime() && !isFutureTime(k.Field):
			terms = append(terms, term{text: "isDated(" + fieldPath(k.Field) + ")"})
		case !isNew && isMoved:
			terms = append(terms, term{text: "isLeft(" + fieldPath(k.Field) + ")"})
		case k.Function.OfTime():
			terms = append(terms, undecided(askHowFar(k.Field)))
		case k.Function == route.Text:
			terms = append(terms, b.key(s, k.Field, isNew)...)
		case b.ownID():
			terms = append(terms, b.unlessLeft(k.Field, b.keyQuestion(s.Template, k)))
		default:
			terms = append(terms, undecided(b.keyQuestion(s.Template, k)))
		}
	}
	return terms
}

// keyQuestion asks which counters a reference or a number may name, and proposes an answer. A
// reference leads to the writer's own document, or to one that exists. Only servers know users'
// numbers, and can put them into the users' tokens.
func (b *block) keyQuestion(t *route.Template, k route.Key) string {
	held, last := after(k.Field), k.Field.Names()[len(k.Field.Names())-1]
	home, plain := homeOf(t, k)
	switch {
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
	path := documents + "/"
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
	case isOwn(by) && isNew && isTotals && !b.ownID():
		// Likes outlive their post. A user who creates a post of the same id would have them.
		return conditions(after(by)+own, b.id()+".split('_')[0]"+own)
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
// client that names a later time would be in a window for longer, and the latest for good. An edit
// may leave the time as it was.
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
		switch {
		case b.isHeld(f):
		case isFutureTime(f):
			terms = append(terms, b.unlessLeft(f, askHowFar(f)))
		default:
			terms = append(terms, term{text: "isNow(" + fieldPath(f) + ")"})
		}
	}
	return terms
}

// askHowFar asks about a time that lies ahead by its nature.
func askHowFar(f document.Field) string {
	return fmt.Sprintf("how far ahead %s may lie, such as %s < request.time + duration.value(30, 'd')", f, after(f))
}

// unlessLeft returns the term that nothing meets until a person decides, except an edit that leaves
// the field as it was.
func (b *block) unlessLeft(f document.Field, what string) term {
	body := "return isLeft(" + fieldPath(f) + ")\n" + inAllow + "  || false;" + decideAs + what + "\n"
	name := "mayHold_" + notInWords.ReplaceAllString(string(f), "_")
	for i, other := range b.questions {
		if other.text == body {
			return term{text: other.name + "()"}
		}
		if other.name == name {
			name += fmt.Sprint("_", i)
		}
	}
	b.questions = append(b.questions, function{name, body})
	return term{text: name + "()"}
}

// notInWords matches what the names of functions in rules do not have.
var notInWords = regexp.MustCompile(`[^A-Za-z0-9]+`)

// isTime reports whether a condition compares a time.
func isTime(c route.Condition) bool {
	_, isWindow := c.Value.(route.Ago)
	_, isInstant := c.Value.(time.Time)
	return isWindow || isInstant
}

// amounts returns the condition on what a client writes that a total adds up or compares, if the
// total asks for no state. A person must say which amounts these may be.
func (b *block) amounts(t route.Total) []term {
	if t.Field == "" || t.Aggregate.OfTimes() || b.isHeld(t.Field) || len(b.stateConditions(t)) > 0 {
		return nil
	}
	return []term{b.unlessLeft(t.Field, fmt.Sprintf("what users may write into %s, such as %s in [1, 2, 3, 4, 5]", t.Field, after(t.Field)))}
}

// stateConditions returns the conditions by which a total asks for a state, such as approved ==
// true.
func (b *block) stateConditions(t route.Total) []route.Condition {
	isNone := func(c route.Condition) bool { return isTime(c) || isBeginning(c) || b.isHeld(c.Field) }
	return slices.DeleteFunc(slices.Clone(t.Where), isNone)
}

// A state is what totals ask for. Only servers put documents into it, and an edit of a document
// that is in it leaves all fields that these totals read.
type state struct {
	asked []route.Condition
	left  []string // conditions that an edit leaves the fields
}

// addState adds the state for which a total asks, if any.
func (b *block) addState(states []state, s source, t route.Total) []state {
	asked := b.stateConditions(t)
	if len(asked) == 0 {
		return states
	}

	var fields []document.Field
	for _, c := range t.Where {
		fields = append(fields, c.Field)
	}
	for _, k := range s.By {
		if b.ownID() { // an edit of another leaves it anyway
			fields = append(fields, k.Field)
		}
	}
	if t.Field != "" {
		fields = append(fields, t.Field)
	}
	var left []string
	for _, f := range fields {
		if !b.isHeld(f) {
			left = append(left, "isLeft("+fieldPath(f)+")")
		}
	}

	i := slices.IndexFunc(states, func(one state) bool { return slices.EqualFunc(one.asked, asked, route.Condition.Equal) })
	if i < 0 {
		i, states = len(states), append(states, state{asked: asked})
	}
	states[i].left = append(states[i].left, left...)
	slices.Sort(states[i].left)
	states[i].left = slices.Compact(states[i].left)
	return states
}

// term returns the condition that a document does not come into the state.
func (s state) term(isNew bool) term {
	var texts []string
	for _, c := range s.asked {
		texts = append(texts, c.String())
	}
	who := "who writes " + strings.Join(texts, " and ")
	outside, ok := negated(s.asked)
	switch {
	case !ok:
		return undecided(who + "; security rules cannot say it")
	case !isNew:
		outside = "(" + strings.Join(s.left, " && ") + " || " + outside + ")"
	}
	return term{outside, who + "; here only servers do"}
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

// stateOf returns a condition as rules spell it. It reports false if they cannot: what they say
// must hold wherever the condition does, as Firestore's queries compare.
// docs/design/rules.md has what they compare otherwise, under compared-alike.
func stateOf(c route.Condition) (string, bool) {
	field := afterOr(c.Field)
	if c.Operator == route.In {
		return oneOf(field, c.Value)
	}
	value, ok := literal(c.Value)
	if !c.Operator.Range() {
		return field + " == " + value, ok
	}

	kind := "number"
	if text, isText := c.Value.(string); isText {
		kind, ok = "string", ok && inOneOrder(text)
	}
	return fmt.Sprintf("%s is %s && %[1]s %[3]s %[4]s", field, kind, string(c.Operator), value), ok
}

// oneOf returns the condition that a field equals one of several values. Rules find no 2.0 in [2].
func oneOf(field string, list any) (string, bool) {
	all, _ := list.([]any)
	var equal, others []string
	for _, one := range all {
		value, ok := literal(one)
		if !ok {
			return "", false
		}
		switch one.(type) {
		case int64, float64:
			equal = append(equal, field+" == "+value)
		default:
			others = append(others, value)
		}
	}

	if others != nil {
		equal = append(equal, field+" in ["+strings.Join(others, ", ")+"]")
	}
	if len(equal) == 1 {
		return equal[0], true
	}
	return "(" + strings.Join(equal, " || ") + ")", true
}

// negated returns the condition that not all of the states hold. It reports false if rules cannot
// say one.
func negated(states []route.Condition) (string, bool) {
	if len(states) == 1 && states[0].Operator == route.Equal {
		value, ok := literal(states[0].Value)
		return afterOr(states[0].Field) + " != " + value, ok
	}
	var all []string
	for _, c := range states {
		text, ok := stateOf(c)
		if !ok {
			return "", false
		}
		all = append(all, text)
	}

	text := strings.Join(all, " && ")
	if len(all) == 1 && strings.HasPrefix(text, "(") {
		return "!" + text, true
	}
	return "!(" + text + ")", true
}

// literal returns the value of a condition as rules spell it. It reports false if they do not have
// it: a time, a text that they cannot quote, or a number that they would round.
func literal(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return quoted(v), canQuote(v)
	case bool:
		return strconv.FormatBool(v), true
	case int64:
		return strconv.FormatInt(v, 10), -exact <= v && v <= exact
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), math.Abs(v) <= exact
	default:
		return "", false
	}
}

// exact is the largest integer up to which doubles have every integer. Rules compare an integer and
// a double as doubles.
const exact = 1 << 53

// inOneOrder reports whether rules, which compare texts by the units of UTF-16, order every text
// before or after this one as Firestore does, which compares bytes of UTF-8. The two differ where
// one text has a surrogate and the other a character behind the surrogates.
func inOneOrder(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r >= 0xD800 })
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
	above, ok := b.inRules(len(b.path) - 1)
	if !ok {
		return nil
	}
	home, ok := s.Counter(strings.TrimPrefix(above, documents+"/"))
	plain := func(segment route.Segment) bool { return segment.Capture || plainName.MatchString(segment.Name) }
	if !ok || slices.ContainsFunc(s.Template.Segments(), func(segment route.Segment) bool { return !plain(segment) }) {
		return nil
	}
	return conditions("exists(" + documents + "/" + home.RollUp + ")")
}
