package roll

import (
	"slices"

	"github.com/firestore-tally/tally/internal/document"
)

// TurnCadences is for how many cadences a revision keeps its turn after its last roll-up.
const TurnCadences = 10

// maxTurns is how many revisions may have turns besides the one that rolled up last. Within
// TurnCadences cadences there are two or three. Each makes the others wait.
const maxTurns = 4

// Turns returns the last roll-up by each of the revisions that are at work, the oldest first. A
// client that may write the document can make up turns. If there are more than there can be
// revisions, none of them counts.
func (r *Roller) Turns(l *Look) []document.Turn {
	if l.AsOf.IsZero() {
		return nil
	}

	tally := l.RollUp.Tally
	turns := slices.DeleteFunc(slices.Clone(tally.Turns), func(t document.Turn) bool {
		age := l.AsOf.Sub(t.AsOf)
		return age < 0 || age > TurnCadences*r.Cadence(l)
	})
	if len(turns) > maxTurns {
		turns = nil
	}
	return append(turns, document.Turn{Routes: tally.Routes, AsOf: l.AsOf})
}

// NextTurns returns the turns of the other revisions once the look's roll-up is written.
func (r *Roller) NextTurns(l *Look) []document.Turn {
	return slices.DeleteFunc(r.Turns(l), func(t document.Turn) bool { return t.Routes == l.Counter.Template.Hash() })
}
