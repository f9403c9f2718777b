package rollup

import (
	"slices"

	"github.com/firestore-tally/tally/internal/document"
)

// turnsKept is for how many cadences a revision keeps its turn after its last roll-up.
const turnsKept = 10

// maxTurns is how many revisions may have turns besides the one that rolled up last. Within
// turnsKept cadences there are two or three. Each makes the others wait.
const maxTurns = 4

// turns returns the last roll-up by each of the revisions that are at work, the oldest first. A
// client that may write the document can make up turns. If there are more than there can be
// revisions, none of them counts.
func (r *roller) turns(l *look) []document.Turn {
	if l.asOf.IsZero() {
		return nil
	}

	tally := l.rollUp.Tally
	turns := slices.DeleteFunc(slices.Clone(tally.Turns), func(t document.Turn) bool {
		age := l.asOf.Sub(t.AsOf)
		return age < 0 || age > turnsKept*r.cadence(l)
	})
	if len(turns) > maxTurns {
		turns = nil
	}
	return append(turns, document.Turn{Routes: tally.Routes, AsOf: l.asOf})
}

// nextTurns returns the turns of the other revisions once the look's roll-up is written.
func (r *roller) nextTurns(l *look) []document.Turn {
	return slices.DeleteFunc(r.turns(l), func(t document.Turn) bool { return t.Routes == l.counter.Template.Hash() })
}
