// Package document names what Tally keeps in Firestore, and encodes the map that Tally adds to a
// roll-up document. Packages rollup and shards both import it. Other than this package, they share
// only the type of the totals, in package value.
//
//	rollups/likes  {count: 7, tally: {as_of: …, num_shards: 2, paced_until: …, routes: "5f0c…", totals: ["count"], former: [], took: 15000, turns: []}}
package document

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/firestore-tally/tally/internal/value"
)

// TallyField is the field of a roll-up document that holds its Tally. Deployments exempt it from
// indexing, because an index of a timestamp that only grows takes about 500 writes a second
// (https://firebase.google.com/docs/firestore/solutions/shard-timestamp).
const TallyField = "tally"

// LongestPath is Firestore's limit for the path of a document, in bytes
// (https://firebase.google.com/docs/firestore/quotas#collections_documents_and_fields).
const LongestPath = 6 << 10

// These are the fields of a counter's own document. They tell clients and Tally's firestore.rules
// about the counter's shards.
const (
	NumShardsField      = "num_shards"
	NumShardsCamelField = "numShards"   // what Firebase's Swift, Objective-C, Kotlin and Java samples write
	AutoShardsField     = "auto_shards" // true: Tally raises the number of shards when they are written too often
	FrozenField         = "frozen"      // true: clients may not write
)

// DefaultNumShards is how many shards a counter has if its document tells no number. The security
// rules of Tally's own say the same.
const DefaultNumShards = 10

// CounterFields are all of these fields.
var CounterFields = []string{NumShardsField, NumShardsCamelField, AutoShardsField, FrozenField}

// numShardsFields are the names under which a counter's document may say how many shards there are.
// If it has both, the first counts.
var numShardsFields = []string{NumShardsField, NumShardsCamelField}

// NumShards returns how many shards a counter's document says there are, as it stands there, and
// the field that says so. The field is empty if none does.
func NumShards(fields map[string]any) (value any, field string) {
	for _, name := range numShardsFields {
		value, there := fields[name]
		if there {
			return value, name
		}
	}
	return nil, ""
}

// NumShardsFields returns the fields by which a counter's document says that there are n shards:
// num_shards and numShards, whichever it has, or num_shards if it has neither.
func NumShardsFields(has map[string]any, n int64) map[string]any {
	fields := map[string]any{}
	for _, name := range numShardsFields {
		_, there := has[name]
		if there {
			fields[name] = n
		}
	}

	if len(fields) == 0 {
		fields[NumShardsField] = n
	}
	return fields
}

// Collections that Tally keeps for itself.
const (
	AuditCollection  = "rollup_audit"     // at the database's root: where audits and ticks go on, and notes for audits
	NotePrefix       = "note-"            // begins the ids of notes for audits there
	ClaimsCollection = "rollup_claims"    // at the database's root: claims of counters whose sums take long
	TokensCollection = "increment_tokens" // below a counter: increments that count once
)

// A Tally is what a roll-up document says about its totals. It is always written whole. Times are
// Firestore's, in microseconds.
type Tally struct {
	// AsOf is the promise: every write committed at or before it is in the totals, and none after
	// it.
	AsOf time.Time

	// NumShards is how many documents were counted.
	NumShards int64

	// PacedUntil is the instant up to which the roll-ups written so far have used up time. Each
	// uses up one cadence.
	PacedUntil time.Time

	// Routes is the hash of the routes that made the totals. For other routes AsOf promises
	// nothing.
	Routes string

	// Totals are the names of the totals for which AsOf holds. Former are the names of totals that
	// earlier routes kept.
	Totals, Former []string

	// Before are the values that a roll-up found in the fields of its totals and replaced, although
	// no roll-up had written them. They are finite numbers and timestamps, by names of Totals and
	// Former. They stay as long as the name does: docs/design/rules.md#nothing-is-lost.
	Before map[string]value.Value

	// Took is how long the sum took, by the clock of the instance that summed. It is stored in
	// microseconds.
	Took time.Duration

	// Rings is when an alarm rings because a document may have left a window by then: see package
	// rollup. It is zero if nothing leaves, and not later than AsOf if there is no such alarm. Only
	// Routes rely on it.
	Rings time.Time

	// Turns are the last roll-ups by other routes, the oldest first. After a change of routes,
	// revisions with other routes may still be at work. Their roll-ups promise nothing about these
	// totals.
	Turns []Turn

	// OwnerlessSince is since when the counter's owner has been missing; zero if it was there, or if
	// the counter needs none. The owner is the document within which a route says that Tally makes
	// the roll-up.
	OwnerlessSince time.Time
}

// A Turn describes the last roll-up that a revision with certain routes made.
type Turn struct {
	Routes string // their hash
	AsOf   time.Time
}

// Encode returns t as the value of TallyField, with the types that Firestore's SDK takes and gives.
func (t Tally) Encode() map[string]any {
	fields := map[string]any{
		"as_of":       t.AsOf,
		"num_shards":  t.NumShards,
		"paced_until": t.PacedUntil,
		"routes":      t.Routes,
		"totals":      anys(t.Totals),
		"former":      anys(t.Former),
		"took":        t.Took.Microseconds(),
		"turns":       encodeTurns(t.Turns),
	}
	if !t.Rings.IsZero() {
		fields["rings"] = t.Rings
	}
	if !t.OwnerlessSince.IsZero() {
		fields["ownerless_since"] = t.OwnerlessSince
	}
	if len(t.Before) > 0 {
		fields["before"] = encodeBefore(t.Before)
	}
	return fields
}

// DecodeTally returns what the value of TallyField says. A part that is missing or of another type
// is zero, with one exception: a double stands for the integer that it equals. To security rules 2
// and 2.0 are equal, so a client that may write other fields of the document can turn one into the
// other.
func DecodeTally(value any) Tally {
	fields, _ := value.(map[string]any)

	var t Tally
	t.AsOf, _ = fields["as_of"].(time.Time)
	t.NumShards = integer(fields["num_shards"])
	t.PacedUntil, _ = fields["paced_until"].(time.Time)
	t.Routes, _ = fields["routes"].(string)
	t.Totals = texts(fields["totals"])
	t.Former = texts(fields["former"])
	t.Took = time.Duration(integer(fields["took"])) * time.Microsecond
	t.Rings, _ = fields["rings"].(time.Time)
	t.Turns = decodeTurns(fields["turns"])
	t.OwnerlessSince, _ = fields["ownerless_since"].(time.Time)
	t.Before = t.decodeBefore(fields["before"])
	return t
}

// Equal reports whether t and other say the same. Numbers are compared as security rules compare
// them, so a client that turns 2 into 2.0 changes nothing.
func (t Tally) Equal(other Tally) bool {
	sameTimes := t.AsOf.Equal(other.AsOf) && t.PacedUntil.Equal(other.PacedUntil) && t.Rings.Equal(other.Rings) && t.OwnerlessSince.Equal(other.OwnerlessSince)
	sameNumbers := t.NumShards == other.NumShards && t.Took == other.Took
	sameNames := t.Routes == other.Routes && slices.Equal(t.Totals, other.Totals) && slices.Equal(t.Former, other.Former)
	sameBefore := maps.EqualFunc(t.Before, other.Before, value.Equal)
	return sameTimes && sameNumbers && sameNames && sameBefore && slices.EqualFunc(t.Turns, other.Turns, Turn.equal)
}

func (t Turn) equal(other Turn) bool { return t.Routes == other.Routes && t.AsOf.Equal(other.AsOf) }

// Covers reports whether AsOf holds for the total of that name.
func (t Tally) Covers(name string) bool { return slices.Contains(t.Totals, name) }

// Wrote reports whether a roll-up has written the field of that name, by these routes or by earlier
// ones. Without an AsOf there was no roll-up, whatever names a client has made up.
func (t Tally) Wrote(name string) bool { return !t.AsOf.IsZero() && t.names(name) }

// names reports whether Totals or Former have the name.
func (t Tally) names(name string) bool {
	return slices.Contains(t.Totals, name) || slices.Contains(t.Former, name)
}

// exactDoubles is the bound below which a double can hold every integer.
const exactDoubles = 1 << 53

// integer returns a number that is an integer, whatever its type; 0 for any other value.
func integer(value any) int64 {
	if n, ok := value.(int64); ok {
		return n
	}

	double, _ := value.(float64)
	if double != math.Trunc(double) || math.Abs(double) >= exactDoubles {
		return 0
	}
	return int64(double)
}

func encodeTurns(turns []Turn) []any {
	list := make([]any, len(turns))
	for i, t := range turns {
		list[i] = map[string]any{"routes": t.Routes, "as_of": t.AsOf}
	}
	return list
}

func decodeTurns(value any) []Turn {
	list, _ := value.([]any)
	var turns []Turn
	for _, v := range list {
		fields, _ := v.(map[string]any)
		routes, named := fields["routes"].(string)
		asOf, dated := fields["as_of"].(time.Time)
		if named && dated {
			turns = append(turns, Turn{routes, asOf})
		}
	}
	return turns
}

func encodeBefore(before map[string]value.Value) map[string]any {
	fields := make(map[string]any, len(before))
	for name, v := range before {
		fields[name] = v.Firestore()
	}
	return fields
}

// decodeBefore returns what the value of before says. It leaves out whatever no roll-up writes
// there: other names, other kinds, and numbers that are not finite.
func (t Tally) decodeBefore(v any) map[string]value.Value {
	fields, _ := v.(map[string]any)
	var before map[string]value.Value
	for name, field := range fields {
		held, ok := value.Of(field)
		if !ok || !held.SaysSomething() || !t.names(name) {
			continue
		}
		if before == nil {
			before = make(map[string]value.Value)
		}
		before[name] = held
	}
	return before
}

func anys(texts []string) []any {
	list := make([]any, len(texts))
	for i, text := range texts {
		list[i] = text
	}
	return list
}

func texts(value any) []string {
	list, _ := value.([]any)
	var texts []string
	for _, v := range list {
		if text, ok := v.(string); ok {
			texts = append(texts, text)
		}
	}
	return texts
}
