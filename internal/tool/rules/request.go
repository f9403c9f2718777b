package rules

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/rollup/route"
)

// A Kind says which part of what Tally needs a request is about.
type Kind string

// These are all kinds. The first three are about the app's own documents that hold totals. Each is
// the half of a pair: rules that refuse the same request without totals, too, say nothing by
// refusing it.
const (
	Edit   Kind = "edit"   // the document once it has totals
	Write  Kind = "write"  // a total into it
	Create Kind = "create" // it, with a total

	RollUp    Kind = "roll-up"   // a client writes a document that only Tally writes
	Board     Kind = "board"     // a client writes one of the same collection id elsewhere, which lists of all of them show
	Group     Kind = "group"     // a client lists all of a collection id, as a page with a board does
	Read      Kind = "read"      // a client reads a total
	Increment Kind = "increment" // a client counts
	Shard     Kind = "shard"     // a client deletes a shard
	Own       Kind = "own"       // a client touches what Tally keeps for itself
)

// Methods, as rules call them.
const (
	Get    = "get"
	List   = "list"
	Delete = "delete"
)

// A Request is one that a client may make, and that matters to Tally.
type Request struct {
	Kind      Kind
	Template  *route.Template // whose documents it is about; nil: those of a route, or Tally's own
	Method    string          // as rules call it
	Allow     bool            // rules should allow it
	SignedOut bool            // only by a client that is not signed in

	at            route.Path
	before, after fields
}

// Home reports whether the request is about one of the app's own documents.
func (r Request) Home() bool { return slices.Contains([]Kind{Edit, Write, Create}, r.Kind) }

// String returns the request in words, such as "update of rollups/{counter}".
func (r Request) String() string {
	switch r.Kind {
	case Edit:
		return "edits of " + r.at.String() + " once it has totals"
	case Write:
		return "writes of totals into " + r.at.String()
	case Create:
		return "create of " + r.at.String() + " with totals"
	}
	text := r.Method + " of " + r.at.String()
	if r.SignedOut {
		text += " by a client that is not signed in"
	}
	return text
}

// someID replaces captures in the path of a request.
const someID = "tally-trial"

// Where returns the path as a route spells it.
func (r Request) Where() string { return r.at.String() }

// Field returns the field that the request is about, the first of several.
func (r Request) Field() string { return slices.Sorted(maps.Keys(r.after))[0] }

// Data returns the fields of the document, as numbers and maps of them: before the request, nil if
// it is not there, and after it, nil if it writes nothing.
func (r Request) Data() (before, after map[string]any) {
	if r.Method != "create" {
		before = plain(r.before)
	}
	if r.Method == "create" || r.Method == "update" {
		after = plain(r.before)
		maps.Copy(after, plain(r.after))
	}
	return before, after
}

// plain returns fields that a request has as numbers, texts of times, and maps.
func plain(of fields) map[string]any {
	all := make(map[string]any)
	for name, v := range of {
		switch kind := v.ValueType.(type) {
		case *firestorepb.Value_MapValue:
			all[name] = plain(kind.MapValue.Fields)
		case *firestorepb.Value_TimestampValue:
			all[name] = kind.TimestampValue.AsTime().Format(time.RFC3339)
		default:
			all[name] = v.GetIntegerValue()
		}
	}
	return all
}

// Path returns the path of a document that the request is about.
func (r Request) Path() string {
	var ids []string
	for i, s := range r.at {
		switch {
		case !s.Capture:
			ids = append(ids, s.Name)
		case i == len(r.at)-1:
			ids = append(ids, "0") // a shard's id is a number, and rules may mind
		default:
			ids = append(ids, someID)
		}
	}
	return strings.Join(ids, "/")
}

// Requests returns the requests that matter to the routes.
func Requests(routes route.Routes) (all []Request) {
	for _, t := range routes.Templates() {
		all = append(all, ofTemplate(t)...)
	}
	var owned []string
	for _, r := range routes {
		pattern := r.Pattern()
		if r.HasShards() && (r.Documents || areShards(r)) && len(pattern) > 2 { // other documents are the app's, and clients may delete them
			all = append(all, ofShards(r)...)
		}
		tokens := append(pattern[:len(pattern)-2], route.Path{{Name: document.TokensCollection}, {Name: "token", Capture: true}}...)
		if len(tokens) > 2 && !slices.Contains(owned, tokens.String()) {
			owned = append(owned, tokens.String())
			all = append(all, ofOwn(tokens, "amount")...)
		}
	}
	all = append(all, ofOwn(route.Path{{Name: document.AuditCollection}, {Name: "cursor"}}, "path")...)
	return append(all, ofOwn(route.Path{{Name: document.ClaimsCollection}, {Name: "claim", Capture: true}}, "path")...)
}

// ofTemplate returns the requests about the documents that hold totals.
func ofTemplate(t *route.Template) (all []Request) {
	if t.Existing {
		return []Request{
			{Kind: Edit, Template: t, Method: "update", Allow: true, at: t.Segments()},
			{Kind: Write, Template: t, Method: "update", at: t.Segments()},
			{Kind: Create, Template: t, Method: "create", at: t.Segments()},
		}
	}

	before, after := make(fields), make(fields)
	for _, name := range written(t) {
		before[name], after[name] = valueOf(t, name, 1), valueOf(t, name, 2)
	}
	for _, method := range writeMethods {
		all = append(all, Request{Kind: RollUp, Template: t, Method: method, at: t.Segments(), before: before, after: after})
	}
	if t.Within {
		segments := t.Segments()
		elsewhere := append(route.Path{{Name: "tally_elsewhere"}, {Name: "document", Capture: true}}, segments[len(segments)-2:]...)
		all = append(all,
			Request{Kind: Board, Template: t, Method: "create", at: elsewhere, after: after},
			Request{Kind: Group, Template: t, Method: List, Allow: true, at: elsewhere, before: before})
	}
	return append(all, Request{Kind: Read, Template: t, Method: Get, Allow: true, at: t.Segments(), before: before})
}

// ofShards returns the requests about a route's shards: honest increments of a new shard and of one
// that has counted already, each by a user who is signed in and by one who is not, and deletions.
func ofShards(r *route.Route) (all []Request) {
	before := make(fields)
	for _, f := range r.Fields() {
		before[f.Names()[0]] = integer(1)
	}
	for _, f := range r.Fields() {
		name := f.Names()[0]
		create := Request{Kind: Increment, Method: "create", Allow: true, at: r.Pattern(), after: fields{name: integer(1)}}
		update := Request{Kind: Increment, Method: "update", Allow: true, at: r.Pattern(), before: before, after: fields{name: integer(2)}}
		for _, signedOut := range []bool{false, true} {
			create.SignedOut, update.SignedOut = signedOut, signedOut
			all = append(all, create, update)
		}
	}
	return append(all, Request{Kind: Shard, Method: Delete, at: r.Pattern(), before: before})
}

// ofOwn returns the requests about a document that Tally keeps for itself.
func ofOwn(at route.Path, field string) (all []Request) {
	for _, method := range append([]string{Get}, writeMethods...) {
		all = append(all, Request{Kind: Own, Method: method, at: at, before: fields{field: integer(1)}, after: fields{field: integer(2)}})
	}
	return all
}

// Harmless reports whether a wrong answer need not be one: an app may let only users count whom it
// signed in, and have its servers make the shards, or its servers alone count; and it may show no
// board, and no totals but those of shards.
func (r Request) Harmless() bool {
	isOther := func(r *route.Route) bool { return !r.HasShards() }
	switch r.Kind {
	case Increment:
		return r.SignedOut || r.Method == "create"
	case Read:
		return slices.ContainsFunc(r.Template.Routes, isOther)
	}
	return r.Kind == Group
}

// sentences are about wrong answers, and say what to do. PATH is spelled as in a route, and
// DOCUMENT is the one that was tried. OURS are the fields that Tally writes, and FIELDS those of
// them that USER could write.
var sentences = map[Kind]string{
	Edit: "USER may edit DOCUMENT until it has totals, and then no more, as if this lists or counts the fields of PATH: Tally adds 'OURS'. " +
		"Compare only what changes: request.resource.data.diff(resource.data).affectedKeys().hasOnly([…])",
	Write: "this lets users change FIELDS of PATH: USER may, in DOCUMENT, and only Tally may. A user makes up a total, which stays until the next roll-up. " +
		"Leave what Tally writes out: !request.resource.data.diff(resource.data).affectedKeys().hasAny(['OURS'])",
	Create: "this lets users create PATH with FIELDS: USER may, as DOCUMENT, and only Tally may. A user makes up a total, which nothing corrects before an audit. " +
		"Leave what Tally writes out: !request.resource.data.keys().hasAny(['OURS'])",
	RollUp:    "METHOD of PATH is allowed to USER, and only Tally may write it: a user makes up a total, which stays until the next roll-up",
	Board:     "METHOD of PATH is allowed to USER, and lists of all documents of that collection ID show it among Tally's",
	Group:     "METHOD of all GROUP at once is allowed to no one. If a page shows a board of them, it needs match /{path=**}/GROUP { allow list: if request.query.limit <= 100; }",
	Read:      "METHOD of PATH is allowed to no one, so no app shows the totals there",
	Increment: "METHOD of PATH by an increment is refused, so it counts nothing. If only servers do that, all is well",
	Shard:     "METHOD of PATH is allowed to USER, and takes the shard's part of the total with it",
	Own:       "METHOD of PATH is allowed to USER, and Tally keeps it for itself",
}

// Text returns a sentence about a wrong answer. It begins with the place in a file of rules.
func (a Answer) Text(file string) string {
	place := file
	for i, line := range a.Lines {
		place += strings.Repeat(" and ", min(i, 1)) + ":" + strconv.Itoa(line)
	}
	ours := ""
	if a.Template != nil {
		ours = strings.Join(written(a.Template), "', '")
	}

	method := a.Method
	if a.SignedOut {
		method = "signed out: " + method
	}
	group := a.at[len(a.at)-2:].String()
	fill := strings.NewReplacer("GROUP", group, "USER", a.User.String(), "DOCUMENT", a.Path, "PATH", a.at.String(),
		"FIELDS", strings.Join(a.Fields, ", "), "OURS", ours, "METHOD", method)
	return place + ": tried: " + fill.Replace(sentences[a.Kind])
}
