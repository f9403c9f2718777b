package route

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/firestore-tally/tally/internal/document"
)

// parseRoute parses one route, and checks everything that needs no other route.
func parseRoute(text source, tokens []Token) (*Route, error) {
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
			return nil, text.mistake(n.at, "unusable capture")
		}
		if strings.ContainsAny(n.Name, "{}") {
			return nil, text.mistake(n.at, "braces in a segment", n.Name)
		}
		if err := document.CheckID(n.Name); err != nil {
			return nil, text.mistake(n.at, "unusable segment", i+1, err)
		}
		path[i] = n.Segment
	}

	if len(path)%2 != 0 {
		return nil, text.mistake(nodes[0].at, "path of a collection", path, len(path))
	}
	if len(path) > maxSegments {
		return nil, text.mistake(nodes[0].at, "too many segments", len(path), maxSegments)
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
			return nil, text.mistake(node.at, "too many keys", maxKeys)
		case slices.ContainsFunc(keys, func(other Key) bool { return other.Field == k.Field }):
			return nil, text.mistake(node.at, "key twice", quoteField(k.Field))
		case slices.ContainsFunc(keys, func(other Key) bool { return other.Name == k.Name }):
			return nil, text.mistake(node.at, "two keys of one name", k.Name)
		case k.Function.OfTime() && slices.ContainsFunc(keys, func(other Key) bool { return other.Function.OfTime() }):
			return nil, text.mistake(node.at, "two keys of time")
		}
		for _, s := range n.pattern {
			if s.Capture && s.Name == k.Name {
				return nil, text.mistake(s.at, "capture with the name of a key", k.Name)
			}
		}
		keys = append(keys, k)
	}

	says := slices.ContainsFunc(n.options, func(o optionNode) bool { return o.name.Text == "existing" || o.name.Text == "within" })
	if keys != nil && !says {
		return nil, text.mistake(n.by[0].at, "by without existing", pathOf(n.template), keys)
	}
	return keys, nil
}

// key returns one key of a route.
func (text source) key(n keyNode, route routeNode) (k Key, err error) {
	if n.function.Kind != End {
		k.Function = Function(n.function.Text)
	}
	k.Field, err = text.field(n.field)
	if err != nil {
		return k, err
	}

	if k.Function.OfTime() {
		k.zone = utc
	}
	if n.zone.Kind != End {
		name, err := text.unquote(n.zone)
		if err != nil {
			return k, err
		}
		k.zone, err = zoneOf(name)
		if err != nil {
			return k, text.mistake(n.zone.From, "unknown time zone", quoteValue(name), err)
		}
	}

	if n.name.Kind != End {
		k.Name = n.name.Text
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

	for _, k := range keys {
		name := Segment{Name: k.Name, Capture: true}.String()
		if !slices.Contains(used, name) {
			return text.mistake(n.template[0].at, "key that the template lacks", k.Name, k, k.Field)
		}
	}
	for i, name := range used {
		if keys != nil && slices.Contains(used[:i], name) {
			return text.mistake(n.template[0].at, "capture twice in the template", name)
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
		return nil, text.mistake(last.at, "pattern without a capture at its end", last.Name)
	}

	var captured []string
	for i, s := range pattern {
		if !s.Capture {
			continue
		}

		if i%2 == 0 {
			return nil, text.mistake(s.at, "captured collection in the pattern", s.Segment)
		}
		if slices.Contains(captured, s.String()) {
			return nil, text.mistake(s.at, "capture twice in the pattern", s.Segment)
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
			return nil, text.mistake(s.at, "captured collection in the template", s.Segment)
		}
		if s.Segment == last.Segment {
			return nil, text.mistake(s.at, "last capture in the template", s.Segment, n.pattern[len(n.pattern)-2].Segment, quoteField(document.FieldOf(s.Name)))
		}
		if !slices.Contains(captured, s.String()) {
			others := captured[:len(captured)-1]
			if n.by != nil {
				return nil, text.mistake(s.at, "neither a key nor a capture in the template", s.Segment, others)
			}
			return nil, text.mistake(s.at, "unknown capture in the template", s.Segment, others)
		}
		used = append(used, s.String())
	}
	return used, nil
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
		if n.name.Kind != End {
			at = n.name.From
		}
		if t.Name == document.TallyField {
			return nil, text.mistake(at, "total with the name of Tally's own field", t.Name)
		}
		if seen[t.Name] {
			return nil, text.mistake(at, "total twice", t.Name)
		}
		seen[t.Name] = true
		totals[i] = t
	}
	return totals, nil
}

// total returns one total of a route, whose keys are known.
func (text source) total(n totalNode, r *Route) (t Total, err error) {
	t.Aggregate = Sum
	if n.function.Kind != End {
		t.Aggregate = Aggregate(n.function.Text)
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
		return text.mistake(n.at, "best value of a day", t.Aggregate)
	}
	if t.Field != timed {
		return text.mistake(n.at, "best time of another field in a day", t.Aggregate, quoteField(timed))
	}
	return nil
}

// name returns the name of a total. If "as" does not name it, only a bare field and a bare count()
// have a name.
func (text source) name(n totalNode, t Total) (string, error) {
	if n.name.Kind != End {
		if strings.Contains(n.name.Text, ".") {
			return "", text.mistake(n.name.From, "total in a map", n.name.Text)
		}
		return n.name.Text, text.checkName(n.name.From, n.name.Text)
	}
	if t.All() {
		return countName, nil
	}

	bare := n.function.Kind == End && n.where == nil
	if bare && len(n.field.names) == 1 {
		return n.field.names[0], nil
	}

	name := string(t.Aggregate)
	if t.Field != "" {
		name = n.field.names[len(n.field.names)-1]
	}
	written := t.aggregated()
	if n.function.Kind != End && n.where == nil {
		written = n.function.Text + "(" + quoteField(t.Field) + ")"
	}
	return "", text.mistake(n.at, "total without a name", written, Quote(name))
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
		return text.mistake(at, "name with a character that no field has", name)
	}
	if err := document.CheckID(name); err != nil {
		return text.mistake(at, "unusable name of a field", err)
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
		name := o.name.Text
		if seen[name] {
			return text.mistake(o.name.From, "option twice", name)
		}
		seen[name] = true

		switch name {
		case "documents":
			if r.Counts() {
				return text.mistake(o.name.From, "documents with count()")
			}
			if !r.Plain() {
				return text.mistake(o.name.From, "documents with other than plain sums")
			}
			r.Documents = true
		case "existing":
			r.Template.Existing = true
		case "within":
			r.Template.Within, r.Template.owner = true, len(o.owner)
		case "every":
			every, err := time.ParseDuration(o.duration.Text)
			if err != nil || every < shortestEvery {
				return text.mistake(o.duration.From, "unusable every", o.duration.Text, shortestEvery)
			}
			if len(windows(r.Totals)) > 0 {
				return text.mistake(o.name.From, "every with a window")
			}
			r.Template.Every = every
		case "cadence":
			cadence, err := time.ParseDuration(o.duration.Text)
			if err != nil || cadence < shortestEvery || cadence > LongestCadence {
				return text.mistake(o.duration.From, "unusable cadence", o.duration.Text, shortestEvery, LongestCadence)
			}
			r.Template.Cadence = cadence
		}

		if seen["existing"] && seen["within"] {
			return text.mistake(o.name.From, "existing with within")
		}
		if seen["every"] && seen["within"] {
			return text.mistake(o.name.From, "every with within")
		}
		if seen["every"] && seen["cadence"] {
			return text.mistake(o.name.From, "every with cadence")
		}
	}
	return nil
}

// checkWithin checks that the owner's path begins the template, and that a time is the only id that
// sources can make up.
func (text source) checkWithin(r *Route, n routeNode) error {
	i := slices.IndexFunc(n.options, func(o optionNode) bool { return o.name.Text == "within" })
	if i < 0 {
		return nil
	}
	at, owner := n.options[i].name.From, pathOf(n.options[i].owner)

	if r.Time() == "" {
		return text.mistake(at, "within without a time", r.template)
	}
	if len(owner)%2 != 0 || len(owner) >= len(r.template) || !slices.Equal(owner, r.template[:len(owner)]) {
		return text.mistake(at, "within a document that is not above", owner, r.template, r.template[:r.ownable()])
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
		return text.mistake(at, "id that sources could make up", s, r.template, r.template[:r.ownable()], r.By)
	}
	return nil
}

// checkLabel checks that a roll-up can have a field that is called as a capture.
func (text source) checkLabel(at int, capture Segment) error {
	if capture.Name == document.TallyField {
		return text.mistake(at, "label with the name of Tally's own field", capture)
	}
	if i := strings.LastIndex(capture.Name, "."); i >= 0 {
		return text.mistake(at, "label in a map", capture, capture.Name[i+1:])
	}
	return text.checkName(at, capture.Name)
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
