// Package document names what Tally keeps in Firestore, and encodes the map that Tally adds to a
// roll-up document. Packages rollup and shards both import it. They share nothing else but the type
// of the totals, in package value.
//
//	rollups/likes  {count: 7, tally: {as_of: …, num_shards: 2, paced_until: …, routes: "5f0c…", totals: ["count"], former: [], took: 15000, turns: []}}
package document

import (
	"math"
	"slices"
	"time"
)

// TallyField is the field of a roll-up document that holds its Tally. It is exempt from indexing,
// because an index of a timestamp that only grows is slow
// (https://firebase.google.com/docs/firestore/solutions/shard-timestamp).
const TallyField = "tally"

// Fields of a counter's own document, by which it tells clients and Tally's firestore.rules about
// its shards.
const (
	NumShardsField      = "num_shards"
	NumShardsCamelField = "numShards"     // what Firebase's Swift, Objective-C, Kotlin and Java samples write
	OncePerUserField    = "once_per_user" // true: each user has one vote
	FrozenField         = "frozen"        // true: clients may not write
)

// CounterFields are all of them.
var CounterFields = []string{NumShardsField, NumShardsCamelField, OncePerUserField, FrozenField}

// Collections that Tally keeps for itself.
const (
	AuditCollection  = "rollup_audit"     // at the database's root: the place of the audit
	ClaimsCollection = "rollup_claims"    // at the database's root: who sums a counter whose sums take long
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

	// PacedUntil is the time that the roll-ups written so far use up, at one a cadence.
	PacedUntil time.Time

	// Routes is the hash of the routes that the totals were made by. AsOf covers nothing for
	// others.
	Routes string

	// Totals are the names of the totals that AsOf speaks for; Former those that earlier routes
	// kept.
	Totals, Former []string

	// Took is how long the sum took, by the clock of who summed, in microseconds.
	Took time.Duration

	// Turns are the last roll-ups by other routes that may still be at work, as after a change of
	// routes, the oldest first. None of them speaks for the totals.
	Turns []Turn
}

// A Turn is the last roll-up by some routes.
type Turn struct {
	Routes string // their hash
	AsOf   time.Time
}

// Encode returns t as the value of TallyField, with the types that Firestore's SDK takes and gives.
func (t Tally) Encode() map[string]any {
	return map[string]any{
		"as_of":       t.AsOf,
		"num_shards":  t.NumShards,
		"paced_until": t.PacedUntil,
		"routes":      t.Routes,
		"totals":      anys(t.Totals),
		"former":      anys(t.Former),
		"took":        t.Took.Microseconds(),
		"turns":       encodeTurns(t.Turns),
	}
}

// DecodeTally returns what the value of TallyField says. A part that is missing or of another type
// is zero. But a double stands for the integer that it equals: security rules take 2 and 2.0 for
// equal, so a client that may write other fields of the document may have made one of the other.
func DecodeTally(value any) Tally {
	fields, _ := value.(map[string]any)

	var t Tally
	t.AsOf, _ = fields["as_of"].(time.Time)
	t.NumShards = integer(fields["num_shards"])
	t.PacedUntil, _ = fields["paced_until"].(time.Time)
	t.Routes, _ = fields["routes"].(string)
	t.Totals = texts(fields["totals"])
	t.Former = texts(fields["former"])
	took, _ := fields["took"].(int64)
	t.Took = time.Duration(took) * time.Microsecond
	t.Turns = decodeTurns(fields["turns"])
	return t
}

// Covers reports whether AsOf speaks for the total of that name.
func (t Tally) Covers(name string) bool { return slices.Contains(t.Totals, name) }

// exactDoubles bounds the integers that a double tells from their neighbors.
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
