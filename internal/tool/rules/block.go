package rules

import (
	"cmp"
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

	overlaps  string     // another path that matches some of the documents, "" if none does
	questions []function // that the statements call, as unlessLeft made them
}

// A source is a route that counts the documents of a block.
type source struct {
	*route.Route
	writer   Writer
	answered bool // the writer is no guess
}

// blocksOf returns a block for each path of the routes.
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
		at(r.Pattern().Shallow())
	}
	for _, t := range routes.Templates() {
		b := at(t.Segments())
		b.home, b.creator = t, answers.creator(t)
		for _, r := range t.Routes {
			b.summed = append(b.summed, source{Route: r, writer: answers.narrowest(routes, r.Pattern())})
		}
	}

	for i, b := range blocks {
		for _, other := range blocks[:i] {
			if route.Overlap(b.path, other.path) { // such as posts/{post} and posts/featured
				b.overlaps, other.overlaps = other.path.String(), b.path.String()
			}
		}
		for _, r := range routes {
			b.count(r, answers)
		}
	}
	return blocks
}

// count adds a route to the sources of the block if it counts the documents. One across parents may
// count those of several blocks.
func (b *block) count(r *route.Route, answers Answers) {
	pattern := r.Pattern()
	switch {
	case pattern.Contains(b.path) && (r.Across() || pattern.Same(b.path)):
		_, answered := answers.Sources[r.String()]
		b.sources = append(b.sources, source{r, answers.writer(r), answered})
	case r.Across() && route.Overlap(pattern, b.path):
		b.overlaps = pattern.String()
	}
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
		if r.Pattern().Shallow().Same(path.Shallow()) {
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

// plainName matches the names of collections and captures that rules take as they are.
var plainName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// taken are names that mean something else in rules.
var taken = []string{
	"allow", "break", "case", "continue", "database", "debug", "default", "do", "duration", "else", "exists", "existsAfter", "false",
	"float", "for", "function", "get", "getAfter", "hashing", "if", "import", "in", "int", "is", "isAfter", "latlng", "let", "match",
	"math", "not", "null", "package", "path", "request", "resource", "return", "rules_version", "service", "string", "switch",
	"timestamp", "true", "var", "while",
}

// name returns the id of a document at a place of the path as rules spell it: the name of a
// capture, or a text.
func (b *block) name(i int) string {
	if s := b.path[i]; !s.Capture {
		return quoted(s.Name)
	}
	return b.captures()[i]
}

// captures returns the names that the captures of the path have in rules, by their places. No two
// captures have one name, and none has one that means something else.
func (b *block) captures() map[int]string {
	names := make(map[int]string)
	used := slices.Clone(taken)
	for i, s := range b.path {
		if !s.Capture {
			continue
		}
		name := strings.ReplaceAll(s.Name, ".", "_")
		for slices.Contains(used, name) {
			name += fmt.Sprint("_", i)
		}
		names[i], used = name, append(used, name)
	}
	return names
}

// id returns the id of the document itself as rules spell it.
func (b *block) id() string { return b.name(len(b.path) - 1) }

// match returns the path as rules match it. It reports false if rules do not take the names as they
// are: those of the path, or of a field.
func (b *block) match() (string, bool) {
	if slices.ContainsFunc(b.fields(), func(f document.Field) bool { return !canQuote(string(f)) }) {
		return "", false
	}
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

// fields returns the fields that the block may name: those that routes read, and the totals.
func (b *block) fields() []document.Field {
	var fields []document.Field
	for _, s := range b.sources {
		fields = append(fields, s.Reads()...)
	}
	if b.home != nil {
		for _, name := range b.home.Totals() {
			fields = append(fields, document.FieldOf(name))
		}
	}
	return fields
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
	return slices.ContainsFunc(b.sources, func(s source) bool { return s.writer == Owner && !areShards(s.Route) })
}

// shards returns the fields of the shards that the documents are, nil if they are none.
func (b *block) shards() []document.Field {
	var fields []document.Field
	for _, s := range b.sources {
		if areShards(s.Route) {
			fields = append(fields, s.Fields()...)
		}
	}
	slices.Sort(fields)
	return slices.Compact(fields)
}

// conflict says why no document can meet all that is said of the path, "" if one can.
func (b *block) conflict() string {
	shards := b.shards()
	nested := func(f document.Field) bool { return !f.Simple() }
	switch {
	case shards != nil && b.ownID():
		return "whether the id is a user's or a shard's number: routes of " + b.path.String() + " say both"
	case shards != nil && b.home != nil:
		return "what clients write into shards that hold totals"
	case slices.ContainsFunc(shards, nested):
		return "what clients write into shards whose field is in a map, or has a name that is no word"
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

	if b.overlaps != "" {
		what := "what clients read and write where " + b.overlaps + " matches the same documents"
		return text + allow("read, write", []term{undecided(what)}) + "    }\n"
	}
	reads := b.reads()
	text += reads
	conflict := b.conflict()
	if conflict != "" {
		return text + allow("create, update, delete", []term{undecided(conflict)}) + "    }\n"
	}
	create, update, remove := b.createTerms(), b.updateTerms(), b.deleteTerms()
	switch {
	case create != nil && slices.Equal(create, update):
		text += b.lookups() + allow("create, update", create)
	default:
		text += b.lookups() + statement("create", create) + statement("update", update)
	}
	text += statement("delete", remove)
	for _, q := range b.questions {
		text += inBlock + "function " + q.name + "() {\n" + inAllow + q.text + inBlock + "}\n"
	}
	isServers := create == nil && update == nil && remove == nil
	switch {
	case isServers && reads == "": // a block needs a statement
		text += inBlock + "allow read, write: if false; // only servers do\n"
	case isServers:
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

// allowed returns the narrowest of those who may do something, of whom each source and the home
// name one.
func (b *block) allowed(ofSource func(source) Writer, ofHome Writer) Writer {
	var all []Writer
	for _, s := range b.sources {
		all = append(all, ofSource(s))
	}
	if b.home != nil {
		all = append(all, ofHome)
	}
	return narrowest(all)
}

// createTerms returns what must hold for a client to create a document, nil if no client may.
func (b *block) createTerms() []term {
	home := Servers // Tally
	if b.home != nil && b.home.Existing {
		home = b.creator
	}
	writer := b.allowed(func(s source) Writer { return s.creator() }, home)
	if writer == Servers {
		return nil
	}
	terms := append(b.writers(writer, "creates"), b.ids()...)
	terms = append(terms, b.totalConditions(true)...)
	return append(terms, b.values(true)...)
}

// updateTerms returns what must hold for a client to change a document, nil if no client may.
func (b *block) updateTerms() []term {
	writer := b.allowed(func(s source) Writer { return s.changer() }, b.editor())
	if writer == Servers {
		return nil
	}
	terms := b.writers(writer, "changes")
	if writer != Undecided { // or the id was checked when the document was created
		terms = append(terms, b.ids()...)
	}
	terms = append(terms, b.totalConditions(false)...)
	return append(terms, b.values(false)...)
}

// deleteTerms returns what must hold for a client to delete a document, nil if no client may.
func (b *block) deleteTerms() []term {
	writer := b.allowed(func(s source) Writer { return s.remover() }, b.editor())
	if writer == Servers {
		return nil
	}
	return b.writers(writer, "deletes")
}

// creator returns who creates the documents of a source.
func (s source) creator() Writer {
	if areShards(s.Route) {
		return Users
	}
	return s.writer
}

// changer returns who changes the documents of a source. Of those that any user creates the rules
// do not know whose they are.
func (s source) changer() Writer {
	if s.creator() == Users && !areShards(s.Route) {
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

// editor returns who changes and deletes documents that hold totals.
func (b *block) editor() Writer {
	if b.home == nil || !b.home.Existing || b.creator == Servers {
		return Servers
	}
	return Undecided
}

// writers returns the conditions on who does something.
func (b *block) writers(writer Writer, does string) []term {
	var terms []term
	if writer == Undecided {
		terms = append(terms, undecided(b.question(does)))
	} else {
		terms = append(terms, term{text: "mayWrite()"})
	}
	if b.ownID() {
		terms = append(terms, term{text: "request.auth.uid == " + b.id()})
	}
	return terms
}

// question asks who does something to the documents, with a proposal.
func (b *block) question(does string) string {
	text := "who " + does + " " + b.path.String()
	if does == "deletes" && b.home != nil {
		return text + b.remaining()
	}

	own := b.ownCondition()
	condition := cmp.Or(b.belongs(), own)
	switch {
	case b.joins():
		condition = b.joined(does, own)
	case does == "creates":
		condition = own
	}
	switch {
	case condition != "":
		return text + ", such as mayWrite() && " + condition
	case does == "creates" && !b.joins():
		return text + ", such as mayWrite()"
	}
	return text
}

// ownCondition returns the condition that the id of a document is the user's, "" if its name does
// not say so. A number is no user's id.
func (b *block) ownCondition() string {
	last := b.path[len(b.path)-1]
	isNumber := func(k route.Key) bool { return k.Name == last.Name && k.Function == route.Number }
	byNumber := func(s source) bool { return slices.ContainsFunc(s.By, isNumber) }
	isUsers := isUser(last.Name) || b.home != nil && ofUsers(b.home)
	if !last.Capture || !isUsers || slices.ContainsFunc(b.summed, byNumber) {
		return ""
	}
	return "request.auth.uid == " + b.id()
}

// joined proposes who writes that somebody is a member: the user whom the document above names as
// its owner. Members may go, and change what totals read.
func (b *block) joined(does, own string) string {
	var read []string
	for _, s := range b.sources {
		for _, f := range s.Reads() {
			read = append(read, f.Names()[0])
		}
	}
	slices.Sort(read)
	above, ok := b.inRules(len(b.path) - 2)
	switch {
	case own != "" && does == "deletes":
		return own
	case own != "" && does == "changes" && read != nil:
		return own + " && request.resource.data.diff(resource.data).affectedKeys().hasOnly(" + list(slices.Compact(read)) + ")"
	case ok:
		return "get(" + above + ").data.owner == request.auth.uid"
	}
	return ""
}

// belongs proposes to whom a document belongs: to the user above it, or to whom it names. It
// returns "" if it names no user.
func (b *block) belongs() string {
	author := b.author()
	switch above := b.userAbove(); {
	case above != "":
		return "request.auth.uid == " + above
	case author != "":
		return "resource.data" + author + " == request.auth.uid"
	}
	return ""
}

// joins reports whether the documents make users members of something. No one is made one by a
// guess.
func (b *block) joins() bool { return joins(b.path) }

// documents is where all documents are, as rules spell it.
const documents = "/databases/$(database)/documents"

// inRules returns the path up to a segment as rules spell it. It reports false if they do not take
// the names as they are.
func (b *block) inRules(n int) (string, bool) {
	text := documents
	for i, s := range b.path[:n] {
		switch {
		case s.Capture:
			text += "/$(" + b.name(i) + ")"
		case plainName.MatchString(s.Name):
			text += "/" + s.Name
		default:
			return "", false
		}
	}
	return text, n > 0
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

// author returns the field that names the user to whom a document belongs, as rules spell it behind
// the document, "" if no route does. A document that holds no totals is taken to have the field by.
func (b *block) author() string {
	for _, s := range b.sources {
		for _, k := range s.By {
			if k.Function == route.Text && isOwn(k.Field) {
				return behind(k.Field)
			}
		}
	}
	if b.home == nil {
		return ".by"
	}
	return ""
}

// behind returns a field as rules spell it behind a document, by dots if its names are words.
func behind(f document.Field) string {
	names := f.Names()
	isOdd := func(name string) bool { return !plainName.MatchString(name) }
	if slices.ContainsFunc(names, isOdd) {
		return strings.TrimPrefix(after(f), "request.resource.data")
	}
	return "." + strings.Join(names, ".")
}

// remaining says what becomes of the sources of a document that is deleted.
func (b *block) remaining() string {
	var names []string
	for _, r := range b.home.Routes {
		pattern := r.Pattern()
		names = append(names, pattern.CollectionID())
	}
	slices.Sort(names)
	return "; its " + strings.Join(slices.Compact(names), " and ") + " remain, and would count for a new document with its id"
}
