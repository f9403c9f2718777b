package clientrules

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/rollup/route"
)

// A block is what the rules say of one path: of all documents that its pattern matches. It joins
// what the routes say that count these documents, and what the template says whose totals the
// documents hold. Patterns that match the same documents are one path, however their captures are
// called.
type block struct {
	path    route.Path
	sources []source
	home    *route.Template // whose totals the documents hold; nil: none
	summed  []source        // the routes of these totals
	creator Writer          // of the documents that hold totals

	except   []string // conditions that leave out the documents of narrower paths
	crossing string   // a path that shares some documents with this one, while each has others, too
}

// A source is a route that counts the documents of a block.
type source struct {
	*route.Route
	writer Writer
}

// blocksOf returns a block for each path of the routes. A block whose path lies within that of
// another joins what both say, and the wider one leaves its documents out.
func blocksOf(routes route.Routes, answers Answers) []*block {
	var blocks []*block
	at := func(path route.Path) *block {
		i := slices.IndexFunc(blocks, func(b *block) bool { return b.path.Same(path) })
		if i < 0 {
			i, blocks = len(blocks), append(blocks, &block{path: path})
		}
		return blocks[i]
	}
	for _, r := range routes {
		b := at(r.Pattern())
		b.sources = append(b.sources, source{r, answers.writer(r)})
	}
	for _, t := range routes.Templates() {
		b := at(t.Segments())
		b.home, b.creator = t, answers.creator(t)
		for _, r := range t.Routes {
			b.summed = append(b.summed, source{r, answers.narrowest(routes, r.Pattern())})
		}
	}

	for i, b := range blocks {
		for _, other := range blocks[:i] {
			b.meet(other)
		}
	}
	return blocks
}

// writer returns who writes the documents of a route.
func (a Answers) writer(r *route.Route) Writer {
	if w, answered := a.Sources[r.String()]; answered {
		return w
	}
	return Guess(r)
}

// narrowest returns who writes the documents at a path, of all that its routes say.
func (a Answers) narrowest(routes route.Routes, path route.Path) Writer {
	var all []Writer
	for _, r := range routes {
		if r.Pattern().Same(path) {
			all = append(all, a.writer(r))
		}
	}
	return narrowest(all)
}

// creator returns who creates the app's documents that hold totals. Until somebody says, no client
// does.
func (a Answers) creator(t *route.Template) Writer {
	if w, answered := a.Homes[t.String()]; answered {
		return w
	}
	return Undecided
}

// meet has each of two blocks keep out of the documents of the other.
func (b *block) meet(other *block) {
	var here, there []string // conditions under which a document of one is a document of the other, too
	if len(b.path) != len(other.path) {
		return
	}
	for i, s := range b.path {
		o := other.path[i]
		switch {
		case s.Capture && o.Capture:
		case s.Capture:
			here = append(here, b.name(i)+" == "+quoted(o.Name))
		case o.Capture:
			there = append(there, other.name(i)+" == "+quoted(s.Name))
		case s.Name != o.Name:
			return
		}
	}

	switch {
	case len(here) > 0 && len(there) > 0:
		b.crossing, other.crossing = other.path.String(), b.path.String()
	case len(here) > 0:
		b.except = append(b.except, negated(here))
		other.join(b)
	case len(there) > 0:
		other.except = append(other.except, negated(there))
		b.join(other)
	}
}

// negated returns the condition that not all of the conditions hold, each of which is an equality.
func negated(equalities []string) string {
	if len(equalities) == 1 {
		return strings.Replace(equalities[0], " == ", " != ", 1)
	}
	return "!(" + strings.Join(equalities, " && ") + ")"
}

// join adds what a block of a wider path says. No wider path lies within another: patterns that
// meet are one, and so are templates.
func (b *block) join(wider *block) {
	b.sources = append(b.sources, wider.sources...)
	if b.home == nil && wider.home != nil {
		b.home, b.summed, b.creator = wider.home, wider.summed, wider.creator
	}
}

// plainName matches the names of collections and captures that rules take as they are.
var plainName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// taken are names that mean something else in rules.
var taken = []string{
	"allow", "database", "debug", "duration", "exists", "existsAfter", "false", "float", "function", "get", "getAfter", "hashing",
	"if", "in", "int", "is", "isAfter", "latlng", "let", "math", "match", "null", "path", "request", "resource", "return", "rules_version",
	"service", "string", "timestamp", "true",
}

// name returns the id of a document at a place of the path as rules spell it: the name of a
// capture, or a text. No two captures have one name.
func (b *block) name(i int) string {
	s := b.path[i]
	if !s.Capture {
		return quoted(s.Name)
	}
	name := strings.ReplaceAll(s.Name, ".", "_")
	again := func(before route.Segment) bool {
		return before.Capture && strings.ReplaceAll(before.Name, ".", "_") == name
	}
	if slices.Contains(taken, name) || slices.ContainsFunc(b.path[:i], again) {
		name += fmt.Sprint("_", i)
	}
	return name
}

// id returns the id of the document itself as rules spell it.
func (b *block) id() string { return b.name(len(b.path) - 1) }

// match returns the path as rules match it. It reports false if rules do not take the names as they
// are.
func (b *block) match() (string, bool) {
	var segments []string
	for i, s := range b.path {
		name := s.Name
		if s.Capture {
			name = b.name(i)
		}
		if !plainName.MatchString(name) {
			return "", false
		}
		if s.Capture {
			name = "{" + name + "}"
		}
		segments = append(segments, name)
	}
	return strings.Join(segments, "/"), true
}

// ids returns the conditions on the ids that a user chooses. A literal is none, and neither is the
// user's own id or the number of a shard.
func (b *block) ids() []term {
	var terms []term
	for i, s := range b.path {
		own := i == len(b.path)-1 && (b.ownID() || b.shards() != nil)
		if s.Capture && !own {
			terms = append(terms, term{text: "isId(" + b.name(i) + ")"})
		}
	}
	return terms
}

// ownID reports whether the id of each document is that of the user who writes it.
func (b *block) ownID() bool {
	return slices.ContainsFunc(b.sources, func(s source) bool { return s.writer == Owner && !ofShards(s.Route) })
}

// shards returns the fields of the shards that the documents are, nil if they are none.
func (b *block) shards() []document.Field {
	var fields []document.Field
	for _, s := range b.sources {
		if ofShards(s.Route) {
			fields = append(fields, s.Fields()...)
		}
	}
	slices.Sort(fields)
	return slices.Compact(fields)
}

// apart says why no document can meet all that is said of the path, "" if one can.
func (b *block) apart() string {
	shards := b.shards()
	nested := func(f document.Field) bool { return !f.Simple() }
	switch {
	case b.crossing != "":
		return "what clients read and write where " + b.crossing + " matches the same documents"
	case shards != nil && b.ownID():
		return "whether the id is a user's or a shard's number: routes of " + b.path.String() + " say both"
	case shards != nil && b.home != nil:
		return "what clients write into shards that hold totals"
	case slices.ContainsFunc(shards, nested):
		return "what clients write into shards whose field is in a map, or has a name that is no word"
	case !b.path[len(b.path)-1].Capture && (b.ownID() || shards != nil):
		return "who writes " + b.path.String() + ", whose id is no user's and no shard's"
	}
	return ""
}

// String returns the block as rules spell it.
func (b *block) String() string {
	text := b.comment()
	match, ok := b.match()
	if !ok {
		return text + "    //" + decideAs[len(" //"):] + "what clients write into " + b.path.String() + ", whose names security rules do not take as they are\n"
	}
	text += "    match /" + match + " {\n"

	apart := b.apart()
	if b.crossing != "" {
		return text + allow("read, write", []term{undecided(apart)}) + "    }\n"
	}
	text += b.reads()
	if apart != "" {
		return text + allow("create, update, delete", []term{undecided(apart)}) + "    }\n"
	}
	create, update, remove := b.creates(), b.updates(), b.deletes()
	switch {
	case create != nil && slices.Equal(create, update):
		text += b.lookups() + allow("create, update", create)
	default:
		text += b.lookups() + statement("create", create) + statement("update", update)
	}
	text += statement("delete", remove)
	if create == nil && update == nil && remove == nil {
		text += inBlock + "// Only servers write it.\n"
	}
	return text + "    }\n"
}

// statement returns the statement that allows an operation, "" if no client may do it.
func statement(operation string, terms []term) string {
	if terms == nil {
		return ""
	}
	return allow(operation, terms)
}

// comment says what the documents are, by the routes.
func (b *block) comment() string {
	var text strings.Builder
	for _, s := range b.sources {
		fmt.Fprintf(&text, "    // %s\n", s)
	}
	if b.home != nil {
		fmt.Fprintf(&text, "    // Here are the totals %s.\n", strings.Join(b.home.Totals(), ", "))
	}
	return text.String()
}

// who returns the narrowest of those who may do something, of whom each source and the home name
// one.
func (b *block) who(ofSource func(source) Writer, ofHome Writer) Writer {
	var all []Writer
	for _, s := range b.sources {
		all = append(all, ofSource(s))
	}
	if b.home != nil {
		all = append(all, ofHome)
	}
	return narrowest(all)
}

// creates returns what must hold for a client to create a document, nil if no client may.
func (b *block) creates() []term {
	home := Servers // Tally
	if b.home != nil && b.home.Existing {
		home = b.creator
	}
	who := b.who(func(s source) Writer { return s.creator() }, home)
	if who == Servers {
		return nil
	}
	terms := append(b.writers(who, "creates"), b.ids()...)
	terms = append(terms, b.untouched(true)...)
	return append(terms, b.values(true)...)
}

// updates returns what must hold for a client to change a document, nil if no client may.
func (b *block) updates() []term {
	who := b.who(func(s source) Writer { return s.changer() }, b.keeper())
	if who == Servers {
		return nil
	}
	terms := b.writers(who, "changes")
	if who != Undecided { // or the id was checked when the document was created
		terms = append(terms, b.ids()...)
	}
	terms = append(terms, b.untouched(false)...)
	return append(terms, b.values(false)...)
}

// deletes returns what must hold for a client to delete a document, nil if no client may.
func (b *block) deletes() []term {
	who := b.who(func(s source) Writer { return s.remover() }, b.keeper())
	if who == Servers {
		return nil
	}
	return b.writers(who, "deletes")
}

// creator returns who creates the documents of a source.
func (s source) creator() Writer {
	if ofShards(s.Route) {
		return Users
	}
	return s.writer
}

// changer returns who changes the documents of a source. Of those that any user creates the rules
// do not know whose they are.
func (s source) changer() Writer {
	if s.creator() == Users && !ofShards(s.Route) {
		return Undecided
	}
	return s.creator()
}

// remover returns who deletes the documents of a source. The client of a shard could not tell when
// the deletion counts.
func (s source) remover() Writer {
	if Fixed(s.Route) {
		return Servers
	}
	return s.changer()
}

// keeper returns who changes and deletes documents that hold totals.
func (b *block) keeper() Writer {
	if b.home == nil || !b.home.Existing || b.creator == Servers {
		return Servers
	}
	return Undecided
}

// writers returns the conditions on who does something.
func (b *block) writers(who Writer, does string) []term {
	var terms []term
	if who == Undecided {
		terms = append(terms, undecided(b.question(does)))
	} else {
		terms = append(terms, term{text: "mayWrite()"})
	}
	if b.ownID() {
		terms = append(terms, term{text: "request.auth.uid == " + b.id()})
	}
	return append(terms, conditions(b.except...)...)
}

// question asks who does something to the documents.
func (b *block) question(does string) string {
	text := "who " + does + " " + b.path.String()
	last := b.path[len(b.path)-1]
	author, above := b.author(), b.userAbove()
	switch {
	case does == "deletes" && b.home != nil:
		return text + b.stays()
	case does != "creates" && above != "":
		text += ", such as mayWrite() && request.auth.uid == " + above
	case does != "creates" && author != "":
		text += ", such as mayWrite() && resource.data." + author + " == request.auth.uid"
	case last.Capture && (isUser(last.Name) || b.home != nil && ofUsers(b.home)):
		text += ", such as mayWrite() && request.auth.uid == " + b.id()
	case does == "creates":
		text += ", such as mayWrite()"
	}
	return text
}

// userAbove returns the name of the capture that stands for the user above a document, as in
// users/{user}/messages/{message}. It returns "" if there is none.
func (b *block) userAbove() string {
	for i, s := range b.path[:len(b.path)-1] {
		if s.Capture && isUser(s.Name) {
			return b.name(i)
		}
	}
	return ""
}

// author returns the field that names the user to whom a document belongs, "" if no route does. A
// document that holds no totals is taken to have the field by.
func (b *block) author() string {
	for _, s := range b.sources {
		for _, k := range s.By {
			if k.Function == route.Text && isOwn(k.Field) {
				return strings.Join(k.Field.Names(), ".")
			}
		}
	}
	if b.home == nil {
		return "by"
	}
	return ""
}

// stays says what becomes of the sources of a document that is deleted.
func (b *block) stays() string {
	var names []string
	for _, r := range b.home.Routes {
		pattern := r.Pattern()
		names = append(names, pattern[len(pattern)-2].Name)
	}
	slices.Sort(names)
	return "; its " + strings.Join(slices.Compact(names), " and ") + " stay, and come back with its id"
}
