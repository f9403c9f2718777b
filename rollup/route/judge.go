package route

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/firestore-tally/tally/internal/document"
)

// parseRoute parses one route, and checks everything that needs no other route.
func parseRoute(text source, tokens []token) (*Route, error) {
	p := parser{source: text, tokens: tokens}
	n, err := p.route()
	if err != nil {
		return nil, err
	}

	r := &Route{Template: new(Template)}
	r.Template.Routes = []*Route{r}

	r.pattern, err = text.path(n.pattern)
	if err != nil {
		return nil, err
	}
	r.template, err = text.path(n.template)
	if err != nil {
		return nil, err
	}
	r.Template.segments, r.Template.canonical = r.template, spell(r.template, r.template)

	r.By, err = text.keys(n)
	if err != nil {
		return nil, err
	}
	err = text.checkCaptures(n, r.By)
	if err != nil {
		return nil, err
	}
	r.place()
	r.leaveOut()
	r.circular = r.feeds(r)

	r.Totals, err = text.totals(n, r)
	if err != nil {
		return nil, err
	}
	r.queries, r.windows = queries(r.Totals, r.Time()), windows(r.Totals)
	r.reads = fieldsOf(r)
	err = text.setOptions(r, n.options)
	if err != nil {
		return nil, err
	}
	r.text = r.With(r.Totals)
	return r, text.checkWithin(r, n)
}

// maxSegments is Firestore's limit for a path: 100 collections, each below the one before
// (https://cloud.google.com/firestore/quotas).
const maxSegments = 200

// path returns the path of a document.
func (text source) path(nodes pathNode) (Path, error) {
	path := make(Path, len(nodes))
	for i, n := range nodes {
		if n.Capture && strings.ContainsAny(n.Name, "{}=*") {
			return nil, text.mistake(n.at, "%s", wantCapture)
		}
		if strings.ContainsAny(n.Name, "{}") {
			return nil, text.mistake(n.at, "%q: a literal segment cannot have braces", n.Name)
		}
		if err := document.CheckID(n.Name); err != nil {
			return nil, text.mistake(n.at, "segment %d %v", i+1, err)
		}
		path[i] = n.Segment
	}

	if len(path)%2 != 0 {
		return nil, text.mistake(nodes[0].at, "%q names a collection; a document's path has an even number of segments, and this has %d: name a document of it, as in %s/{id}", path, len(path), path)
	}
	if len(path) > maxSegments {
		return nil, text.mistake(nodes[0].at, "the path has %d segments; Firestore's limit is %d", len(path), maxSegments)
	}
	return path, nil
}

// keys returns the keys of a route. It returns none if the documents' paths alone say to which
// counter they belong.
func (text source) keys(n routeNode) ([]Key, error) {
	var keys []Key
	for i, node := range n.by {
		k, err := text.key(node, n)
		if err != nil {
			return nil, err
		}

		switch {
		case i == maxKeys:
			return nil, text.mistake(node.at, "a route has at most %d keys after \"by\"; let the app keep a field that says two of them", maxKeys)
		case slices.ContainsFunc(keys, func(other Key) bool { return other.Field == k.Field }):
			return nil, text.mistake(node.at, "%s is a key twice", quoteField(k.Field))
		case slices.ContainsFunc(keys, func(other Key) bool { return other.Name == k.Name }):
			return nil, text.mistake(node.at, "two keys are called {%s}; name one of them with \"as\"", k.Name)
		case k.Function.OfTime() && slices.ContainsFunc(keys, func(other Key) bool { return other.Function.OfTime() }):
			return nil, text.mistake(node.at, "only one of the keys can be a day, a week or a month")
		}
		for _, s := range n.pattern {
			if s.Capture && s.Name == k.Name {
				return nil, text.mistake(s.at, "the pattern's capture has the name of the key {%s}; give one of them another name, a key with \"as\"", k.Name)
			}
		}
		keys = append(keys, k)
	}

	says := slices.ContainsFunc(n.options, func(o optionNode) bool { return o.name.text == "existing" || o.name.text == "within" })
	if keys != nil && !says {
		return nil, text.mistake(n.by[0].at, "a route with \"by\" must say existing, because anyone who may write a source could make up roll-ups without end; the app creates the documents %s itself%s", pathOf(n.template), withinInstead(n, keys))
	}
	return keys, nil
}

// withinInstead is the part of an error that follows the advice to say existing. It says that Tally
// may create the documents if they are days, weeks or months.
func withinInstead(n routeNode, keys []Key) string {
	var owner Path
	timed := false
	for i, s := range n.template {
		isTime := slices.ContainsFunc(keys, func(k Key) bool { return k.Function.OfTime() && k.Name == s.Name })
		switch {
		case s.Capture && isTime:
			timed = true
		case s.Capture:
			owner = pathOf(n.template[:i+1])
		}
	}

	if !timed {
		return ""
	}
	if owner == nil {
		return "; or say within, and Tally creates them"
	}
	if len(owner) == len(n.template) {
		return "; or " + timeLast(owner, keys) + ", and Tally creates them while that document exists"
	}
	return fmt.Sprintf("; or say within %s, and Tally creates them while that document exists", owner)
}

// timeLast says how a template with an id behind that of a time is written so that Tally may create
// its documents.
func timeLast(template Path, keys []Key) string {
	var above, time Path
	for i := 0; i < len(template); i += 2 {
		pair := template[i : i+2]
		isTime := slices.ContainsFunc(keys, func(k Key) bool { return k.Function.OfTime() && k.Name == pair[1].Name })
		if isTime {
			time = pair
		} else {
			above = append(above, pair...)
		}
	}
	return fmt.Sprintf("end the path in the time, as in %s : within %s", slices.Concat(above, time), above)
}

// key returns one key of a route.
func (text source) key(n keyNode, route routeNode) (k Key, err error) {
	if n.function.kind != end {
		k.Function = Function(n.function.text)
	}
	k.Field, err = text.field(n.field)
	if err != nil {
		return k, err
	}

	if k.Function.OfTime() {
		k.zone = utc
	}
	if n.zone.kind != end {
		name, err := text.unquote(n.zone)
		if err != nil {
			return k, err
		}
		k.zone, err = zoneOf(name)
		if err != nil {
			return k, text.mistake(n.zone.from, "%s %v", quoteValue(name), err)
		}
	}

	if n.name.kind != end {
		k.Name = n.name.text
		return k, nil
	}
	names := k.names()
	k.Name = names[0]
	for _, name := range names { // the one that the template has
		if slices.ContainsFunc(route.template, func(s segmentNode) bool { return s.Capture && s.Name == name }) {
			k.Name = name
		}
	}
	return k, nil
}

// place finds the captures of the keys in the template.
func (r *Route) place() {
	for i, k := range r.By {
		r.By[i].at = slices.Index(r.template, Segment{Name: k.Name, Capture: true})
	}
	slices.SortFunc(r.By, func(a, b Key) int { return cmp.Compare(a.at, b.at) })
}

// checkCaptures checks that the pattern ends in a capture. It also checks that the template uses
// exactly the pattern's other captures and the keys, and if there are keys, each of them once. With
// keys, it may leave out the pattern's last but one: see checkAcross.
func (text source) checkCaptures(n routeNode, keys []Key) error {
	captured, err := text.captured(n.pattern)
	if err != nil {
		return err
	}
	for _, k := range keys {
		captured = append([]string{Segment{Name: k.Name, Capture: true}.String()}, captured...)
	}

	used, err := text.used(n, captured)
	if err != nil {
		return err
	}

	for i, k := range keys {
		name := Segment{Name: k.Name, Capture: true}.String()
		if !slices.Contains(used, name) {
			return text.mistake(n.template[0].at, "the roll-up path does not use %s, the key %s; all its groups would share one roll-up: end the path in %s, or write a total for each value, as in count() where %s == \"a\" as a", name, keys[i], name, keys[i].Field)
		}
	}
	for i, name := range used {
		if keys != nil && slices.Contains(used[:i], name) {
			return text.mistake(n.template[0].at, "the roll-up path uses %s twice; a route with \"by\" uses each capture once", name)
		}
	}
	for i, s := range n.pattern[:len(n.pattern)-1] {
		if s.Capture && !slices.Contains(used, s.String()) {
			return text.checkAcross(n, i, keys, used)
		}
	}
	return nil
}

// captured returns the captures of a pattern. The last one is the document's.
func (text source) captured(pattern pathNode) ([]string, error) {
	last := pattern[len(pattern)-1]
	if !last.Capture {
		return nil, text.mistake(last.at, "the source pattern ends in the literal %q; its last segment must capture the document, as {shard}", last.Name)
	}

	var captured []string
	for i, s := range pattern {
		if !s.Capture {
			continue
		}

		if i%2 == 0 {
			return nil, text.mistake(s.at, "the source pattern captures a collection's name, %v; only document ids can be captured: write a route for each collection", s)
		}
		if slices.Contains(captured, s.String()) {
			return nil, text.mistake(s.at, "the source pattern captures %v twice; give each capture a name of its own", s)
		}
		captured = append(captured, s.String())
	}
	return captured, nil
}

// used returns the captures that the template of a route uses. It may use all that are captured but
// the last, which is the document's.
func (text source) used(n routeNode, captured []string) ([]string, error) {
	last := n.pattern[len(n.pattern)-1]
	var used []string
	for i, s := range n.template {
		if !s.Capture {
			continue
		}

		if i%2 == 0 {
			return nil, text.mistake(s.at, "the roll-up path captures a collection's name, %v; only document ids can be captured, or the audit could not find the roll-ups", s)
		}
		if s.Segment == last.Segment {
			return nil, text.mistake(s.at, "the roll-up path uses the last capture %v; every document would get a roll-up of its own: keep the documents in one collection, with this ID in a field, too, as in %s", s, n.byField(s.Name))
		}
		if !slices.Contains(captured, s.String()) {
			did := meant(s.String(), captured[:len(captured)-1]...)
			if did == "" && n.by == nil {
				did = fmt.Sprintf(`; if a field of the documents holds it, put the field after the pattern: by %s`, s.Name)
			}
			if Function(s.Name).OfTime() && n.by != nil {
				did = fmt.Sprintf("; the %s of a timestamp is the key %[1]s(at)", s.Name)
			}
			return nil, text.mistake(s.at, "the roll-up path uses %v, which %s%s", s, n.captureProblem(), did)
		}
		used = append(used, s.String())
	}
	return used, nil
}

// captureProblem is the part of an error that follows a capture. It says why the template cannot
// use that capture.
func (n routeNode) captureProblem() string {
	if n.by != nil {
		return "is neither a key nor captured by the source pattern"
	}
	return "the source pattern does not capture"
}

// totals returns the totals of a route.
func (text source) totals(n routeNode, r *Route) ([]Total, error) {
	totals := make([]Total, len(n.totals))
	seen := make(map[string]bool)
	for i, n := range n.totals {
		t, err := text.total(n, r)
		if err != nil {
			return nil, err
		}

		at := n.at
		if n.name.kind != end {
			at = n.name.from
		}
		if t.Name == document.TallyField {
			return nil, text.mistake(at, "the total %q has the name of a field that Tally itself writes to the roll-up; rename it with \"as\"", t.Name)
		}
		if seen[t.Name] {
			return nil, text.mistake(at, "the total %q is named twice", t.Name)
		}
		seen[t.Name] = true
		totals[i] = t
	}
	return totals, nil
}

// total returns one total of a route, whose keys are known.
func (text source) total(n totalNode, r *Route) (t Total, err error) {
	t.Aggregate = Sum
	if n.function.kind != end {
		t.Aggregate = Aggregate(n.function.text)
	}

	if t.Aggregate != Count {
		t.Field, err = text.field(n.field)
		if err != nil {
			return t, err
		}
	}
	err = text.checkTimed(n, t, r)
	if err != nil {
		return t, err
	}
	err = text.checkBest(n, t, r)
	if err != nil {
		return t, err
	}
	t.Where, err = text.conditions(n, t, r)
	if err != nil {
		return t, err
	}

	t.Name, err = text.name(n, t)
	return t, err
}

// checkTimed checks that a route by times can have the total. A maximum would go
// through the best values of all days until one is of this day.
func (text source) checkTimed(n totalNode, t Total, r *Route) error {
	timed := r.Time()
	if timed == "" || !t.Aggregate.best() {
		return nil
	}
	if !t.Aggregate.OfTimes() {
		return text.mistake(n.at, "a route by days, weeks or months has no %s: its query would go through the values of all days; sum, count or average them, or let the app keep the %[1]s", t.Aggregate)
	}
	if t.Field != timed {
		return text.mistake(n.at, "a route by days, weeks or months has the %s of the key's own field, %s; the times of another one are in no order within a day", t.Aggregate, quoteField(timed))
	}
	return nil
}

// name returns the name of a total. If "as" does not name it, only a bare field and a bare count()
// have a name.
func (text source) name(n totalNode, t Total) (string, error) {
	if n.name.kind != end {
		if strings.Contains(n.name.text, ".") {
			return "", text.mistake(n.name.from, "%s is in a map; a total is a top-level field: as %s", n.name.text, Quote(n.name.text[strings.LastIndex(n.name.text, ".")+1:]))
		}
		return n.name.text, text.checkName(n.name.from, n.name.text)
	}
	if t.All() {
		return countName, nil
	}

	bare := n.function.kind == end && n.where == nil
	if bare && len(n.field.names) == 1 {
		return n.field.names[0], nil
	}

	name := string(t.Aggregate)
	if t.Field != "" {
		name = n.field.names[len(n.field.names)-1]
	}
	written := t.aggregated()
	if n.function.kind != end && n.where == nil {
		written = n.function.text + "(" + quoteField(t.Field) + ")"
	}
	return "", text.mistake(n.at, "%s has no name; write %[1]s as %s", written, Quote(name))
}

// field returns the field at a path.
func (text source) field(n fieldNode) (document.Field, error) {
	for _, name := range n.names {
		if err := text.checkName(n.at, name); err != nil {
			return "", err
		}
	}
	return document.FieldOf(n.names...), nil
}

// checkName checks the name of a field in its document or map.
func (text source) checkName(at int, name string) error {
	if strings.ContainsAny(name, ".`[]*~/()") {
		return text.mistake(at, "the field %q: want a name without any of . ` [ ] * ~ / ( )", name)
	}
	if err := document.CheckID(name); err != nil {
		return text.mistake(at, "a field's name %v", err)
	}
	return nil
}

// fieldsOf returns the fields that decide in which totals a document counts, and with what. Each
// field comes once.
func fieldsOf(r *Route) []document.Field {
	fields := r.Fields()
	add := func(f document.Field) {
		if f != "" && !slices.Contains(fields, f) {
			fields = append(fields, f)
		}
	}

	for _, t := range r.Totals {
		for _, c := range t.Where {
			add(c.Field)
		}
	}
	return fields
}

const (
	// shortestEvery is the least duration that "every" and "cadence" may have. Tally writes a
	// document at most about once a second.
	shortestEvery = time.Second

	// LongestCadence is the greatest duration that "cadence" may have. A total that is a day old is
	// kept by "every" as well.
	LongestCadence = 24 * time.Hour
)

// setOptions sets what the options of the route say.
func (text source) setOptions(r *Route, options []optionNode) error {
	seen := make(map[string]bool)
	for _, o := range options {
		name := o.name.text
		if seen[name] {
			return text.mistake(o.name.from, "the option %s is given twice", name)
		}
		seen[name] = true

		switch name {
		case "documents":
			if r.Counts() {
				return text.mistake(o.name.from, "count() needs no index and bills one read for each 1,000 documents; remove the option documents")
			}
			if !r.Plain() {
				return text.mistake(o.name.from, "documents is for plain sums of all documents; remove the option")
			}
			r.Documents = true
		case "existing":
			r.Template.Existing = true
		case "within":
			r.Template.Within, r.Template.owner = true, len(o.owner)
		case "every":
			every, err := time.ParseDuration(o.duration.text)
			if err != nil || every < shortestEvery {
				return text.mistake(o.duration.from, "every %s: want a duration of at least %v, such as 10s or 5m", o.duration.text, shortestEvery)
			}
			if len(windows(r.Totals)) > 0 {
				return text.mistake(o.name.from, "every is for totals without a window: when a document leaves a window, an alarm has that rolled up, and not the schedule; remove the option")
			}
			r.Template.Every = every
		case "cadence":
			cadence, err := time.ParseDuration(o.duration.text)
			if err != nil || cadence < shortestEvery || cadence > LongestCadence {
				return text.mistake(o.duration.from, "cadence %s: want a duration from %v to %.0fh, such as 10s or 5m", o.duration.text, shortestEvery, LongestCadence.Hours())
			}
			r.Template.Cadence = cadence
		}

		if seen["existing"] && seen["within"] {
			return text.mistake(o.name.from, "existing and within exclude each other: the app creates the documents of a route that says existing, and Tally those of one that says within")
		}
		if seen["every"] && seen["within"] {
			return text.mistake(o.name.from, "every is not for a route that says within; say cadence and a duration, and events keep its totals at that pace")
		}
		if seen["every"] && seen["cadence"] {
			return text.mistake(o.name.from, "every and cadence exclude each other: the schedule keeps a route that says every, and events keep one that says cadence")
		}
	}
	return nil
}

// checkWithin checks that the owner's path begins the template, and that a time is the only id that
// sources can make up.
func (text source) checkWithin(r *Route, n routeNode) error {
	i := slices.IndexFunc(n.options, func(o optionNode) bool { return o.name.text == "within" })
	if i < 0 {
		return nil
	}
	at, owner := n.options[i].name.from, pathOf(n.options[i].owner)

	if r.Time() == "" {
		return text.mistake(at, "within is for keys that are days, weeks or months, as in by day(at): anyone who may write a source could make up other roll-ups without end; say existing, and have the app create the documents %s", r.template)
	}
	if len(owner)%2 != 0 || len(owner) >= len(r.template) || !slices.Equal(owner, r.template[:len(owner)]) {
		return text.mistake(at, "within %s: want a document above %s, spelled as in that path%s", owner, r.template, ownedBy(r.template[:r.ownable()]))
	}

	for i, s := range r.template {
		if s.Capture {
			err := text.checkLabel(n.template[i].at, s)
			if err != nil {
				return err
			}
		}
	}
	for i, s := range r.template[len(owner):] {
		if !s.Capture || r.timeAt(len(owner)+i) {
			continue
		}
		if r.ownable() == len(r.template) {
			return text.mistake(at, "anyone who may write a source could make up a %v, and roll-ups without end; %s", s, timeLast(r.template, r.By))
		}
		return text.mistake(at, "anyone who may write a source could make up a %v, and roll-ups without end; want within %s, which the app creates", s, r.template[:r.ownable()])
	}
	return nil
}

// checkLabel checks that a roll-up can have a field that is called as a capture.
func (text source) checkLabel(at int, capture Segment) error {
	if capture.Name == document.TallyField {
		return text.mistake(at, "%v would be a field of the roll-up, and Tally itself writes one of that name; rename the capture, a key with \"as\"", capture)
	}
	if i := strings.LastIndex(capture.Name, "."); i >= 0 {
		return text.mistake(at, "%v would be a field of the roll-up, and a top-level field has no dots in its name; rename the capture, as in {%s}", capture, capture.Name[i+1:])
	}
	return text.checkName(at, capture.Name)
}

// ownedBy shows how the option within names an owner; "" if there need be none.
func ownedBy(owner Path) string {
	if len(owner) == 0 {
		return ""
	}
	return fmt.Sprintf(", as in within %s", owner)
}

// ownable returns how many segments the path of the owner has at least: those up to the last id
// that is not a time.
func (r *Route) ownable() int {
	for i, s := range slices.Backward(r.template) {
		if s.Capture && !r.timeAt(i) {
			return i + 1
		}
	}
	return 0
}

// pathOf returns the path that nodes spell.
func pathOf(nodes pathNode) Path {
	path := make(Path, len(nodes))
	for i, n := range nodes {
		path[i] = n.Segment
	}
	return path
}
