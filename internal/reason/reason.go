// Package reason says why totals do not have a document. [Of] is a function from routes and a
// document to a list of reasons, which reads nothing. The functions log such reasons, tally doctor
// looks for them in that log, tally dev tells them as documents are written, and tally explain
// answers with them. So each is in the same words everywhere.
package reason

import (
	"slices"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/value"
	"github.com/firestore-tally/tally/rollup/route"
)

// A Document is one of which reasons are asked.
type Document struct {
	Path string // below the database's root

	// Holds returns the kind of a field in value.KindOf's words, "" if the document lacks the
	// field, and its value as route.Change has it.
	Holds func(document.Field) (kind string, held any)

	// Fields are all fields of the document, as Holds has values. They are nil in the functions,
	// which know only the fields that routes read.
	Fields map[string]any
}

// DocumentOf returns the document at path with all its fields.
func DocumentOf(path string, fields map[string]any) Document {
	holds := func(f document.Field) (kind string, held any) {
		held, has := f.In(fields)
		if !has {
			return "", nil
		}
		return value.KindOf(held), held
	}
	if fields == nil {
		fields = map[string]any{}
	}
	return Document{Path: path, Holds: holds, Fields: fields}
}

func (d Document) kind(f document.Field) string { kind, _ := d.Holds(f); return kind }
func (d Document) held(f document.Field) any    { _, held := d.Holds(f); return held }
func (d Document) has(f document.Field) bool    { return d.kind(f) != "" }

// Counter returns the counter to which the document belongs by a route. It reports false if there
// is none; Of says why.
func (d Document) Counter(r *route.Route) (route.Counter, bool) { return r.Belongs(d.Path, d.held) }

// A Kind is what is the matter with a document.
type Kind string

// The kinds. Those that the functions log are their messages.
const (
	Ungrouped Kind = "a document belongs to no counter" // because of a key
	Timeless  Kind = "a document is in no window"       // because of the kind of the field of its time

	Uncovered Kind = "uncovered" // no route covers it, and it looks like a shard
	Misplaced Kind = "misplaced" // its collection is named nearly as that of a route
	Absent    Kind = "absent"    // it lacks a field that the route reads
	Through   Kind = "through"   // a path leads through something that is no map
	Mistyped  Kind = "mistyped"  // a condition compares the field with another kind
	Unmet     Kind = "unmet"     // a condition is not met, as may be meant
	Malformed Kind = "malformed" // no finite number is in a field that is summed; the functions log the sum
	Unseen    Kind = "unseen"    // a minimum, maximum, earliest or latest leaves it out, because of its kind
	Unsummed  Kind = "unsummed"  // it is a shard with numbers, and none of them is summed
	Uncounted Kind = "uncounted" // it has no field count, and count() may be meant
	Needless  Kind = "needless"  // it counts, by a key that other fields say, too
	Homeless  Kind = "homeless"  // a document of the app's that its counter needs is missing
)

// A Reason says of one document why totals do not have it as its author may have meant.
type Reason struct {
	Kind  Kind
	Route *route.Route   // nil if no route covers the document
	Field document.Field // that decides; "" if none does
	Like  string         // of an Absent field: one that the document has, with nearly the same name
	About string         // one of few for each route, so that each can be told once
	Why   string         // without the document, such as "its shop is a number, not a string"
}

// Repeats reports whether the reason is worth telling again after a while, of another document.
func (r Reason) Repeats() bool { return r.Kind == Ungrouped || r.Kind == Timeless }

// Text says the reason of the document at a path, in a sentence without its end.
func (r Reason) Text(path string) string {
	switch r.Kind {
	case Ungrouped, Timeless:
		return Logged(r.Kind, path, r.Route.String(), r.Why)
	case Uncovered, Misplaced:
		return "no route covers " + path + r.Why
	case Unsummed, Uncounted:
		return path + " has " + r.Why
	case Homeless:
		return path + " belongs to " + r.Why
	default:
		return path + ": " + r.Why
	}
}

// Logged says the reason of the document at a path that the functions have logged.
func Logged(kind Kind, path, route, why string) string {
	if kind == Timeless {
		return path + " is in no window of " + route + ": " + why
	}
	return path + " belongs to no counter of " + route + ": " + why
}

// Of returns the reasons of a document, in the order of the routes. There are none if all totals
// that the document may make have it.
func Of(routes route.Routes, d Document) []Reason {
	if !routes.Covers(d.Path) {
		return uncovered(routes, d)
	}

	var all []Reason
	for _, r := range routes {
		if !r.Covers(d.Path) {
			continue
		}
		all = slices.Concat(all, Omissions(r, d))
		if d.Fields != nil {
			all = slices.Concat(all, needlessKeys(r, d), unseenValues(r, d), unsummed(routes, r, d), uncounted(r, d), conditions(r, d), absentFields(routes, r, d))
		}
	}
	return all
}

// Omissions returns the reasons for which a document is in no counter, or in no window, of a route
// that covers it. The functions log these. They need only the fields that the route reads.
func Omissions(r *route.Route, d Document) []Reason {
	return slices.Concat(ungrouped(r, d), timeless(r, d))
}
