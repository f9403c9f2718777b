package schedule

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/firestore-tally/tally/rollup/internal/roll"
)

// countLeftOut counts documents that a walk has left out because of their values.
func (f *findings) countLeftOut(n int, example string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.report.countForeign(n, example)
}

// countForeign counts documents that hold values of the app's in the fields of totals, and keeps
// the first example.
func (r *Report) countForeign(n int, example string) {
	r.ForeignKind += n
	r.ForeignKindExample = cmp.Or(r.ForeignKindExample, example)
}

// appendError adds err to a report's errors, up to ten. The log has every error.
func appendError(errors []string, err error) []string {
	const most = 10
	if len(errors) == most {
		return errors
	}
	return append(errors, err.Error())
}

// joinProblems returns the error of an audit, or of a call of Keep: its problems, the reason why
// ctx ended, and how many counters failed.
func joinProblems(ctx context.Context, problems []error, failed, counters int) error {
	if ctx.Err() != nil {
		problems = append(problems, context.Cause(ctx))
	}
	if failed > 0 {
		problems = append(problems, fmt.Errorf("rollup: %d of %d counters failed", failed, counters))
	}
	return errors.Join(problems...)
}

// findings are what an audit found so far.
type findings struct {
	roller *roll.Roller
	mu     sync.Mutex
	report Report
}

// countAction counts what was done to a counter. The mutex is held.
func (f *findings) countAction(ctx context.Context, did action, k *comparison, l *roll.Look) {
	switch did {
	case actionRepair:
		f.report.RolledUp++
		f.noteDifference(ctx, k, l)
	case actionTell:
		f.report.Differing++
		if k.paced {
			f.report.Paced++
		}
		f.noteDifference(ctx, k, l)
	case actionRemove:
		f.report.Removed++
	default:
		f.report.Unchanged++
	}
}

// countAudited counts a counter that the audit is done with. The mutex is held.
func (f *findings) countAudited(l *roll.Look) {
	f.report.Counters++
	if l.Totals.Malformed > 0 {
		f.report.Malformed++
	}
	counted := l.RollUp.Tally.AsOf.IsZero() && !l.Counter.Template.FoundByHomes() // when the walk of the roll-ups left it out
	if len(l.RollUp.Foreign) > 0 && !counted {
		f.report.countForeign(1, l.RollUp.ForeignExample(l.Counter.RollUp))
	}
}

// noteDifference logs how a counter differs, and counts it under the kind of its difference. The
// mutex is held.
func (f *findings) noteDifference(ctx context.Context, k *comparison, l *roll.Look) {
	log := f.roller.Options.Logger.With("counter", l.Counter.RollUp, "differs", explain(l),
		"num_shards", l.Totals.NumShards(), "as_of", l.AsOf, "read_time", l.ReadTime)

	unwritten := l.RollUp.UnwrittenExample(l.Counter.RollUp)
	if unwritten != "" {
		f.report.Unwritten++
		f.report.UnwrittenExample = cmp.Or(f.report.UnwrittenExample, unwritten)
	}

	switch k.difference(l) {
	case differenceUnwritten:
		log.WarnContext(ctx, "unwritten: no roll-up wrote the totals that the document holds")
	case differenceOrphaned:
		f.report.Orphaned++
		log.WarnContext(ctx, "orphaned: the roll-up of a counter without shards is not zeros")
	case differenceMissing:
		f.report.Missing++
		log.InfoContext(ctx, "missing: a counter without a roll-up")
	case differenceRerouted:
		f.report.Rerouted++
		log.InfoContext(ctx, "rerouted: the roll-up was made by other routes", "totals", l.RollUp.Tally.Totals)
	case differenceOutdated:
		f.report.Outdated++
		log.InfoContext(ctx, "outdated: the roll-up holds totals of earlier routes, or lacks the ids of its path", "former", l.RollUp.Tally.Former, "labels", l.RollUp.Labels)
	case differenceUntold:
		log.InfoContext(ctx, "untold: events came that did not tell which counter their document had left")
	case differenceLapsed:
		f.report.Lapsed++
		log.InfoContext(ctx, "lapsed: changes came while the counter was unkept")
	case differenceLate:
		f.report.Late++
		log.WarnContext(ctx, "left late: no alarm had the counter rolled up when documents left a window", "rings", l.RollUp.Tally.Rings)
	case differenceUnmarked:
		log.InfoContext(ctx, "unmarked: the roll-up lacks the time since when its owner has been missing, or has a wrong one", "ownerless_since", l.OwnerlessSince())
	case differenceSooner:
		log.InfoContext(ctx, "sooner: a document leaves before the alarm rings", "rings", l.RollUp.Tally.Rings, "leaves", f.roller.NextLeaveTime(l))
	case differenceDrift:
		f.report.Drift++
		log.ErrorContext(ctx, "drift: no event of a change came in time")
	case differenceRecent:
		log.InfoContext(ctx, "recent: a change whose event may be on its way")
	}
}

// explain says of each total that differs what the roll-up holds and what the shards give, such as
// "likes 3 → 4, last null → 2026-01-02T03:04:05Z".
func explain(l *roll.Look) string {
	var texts []string
	for _, name := range slices.Sorted(slices.Values(l.Differing())) {
		held := "none"
		if seen, ok := l.RollUp.Values[name]; ok {
			held = seen.String()
		}
		texts = append(texts, fmt.Sprintf("%s %s → %v", name, held, l.Totals.Values[name]))
	}

	held, counted := l.RollUp.Tally.NumShards, l.Totals.NumShards()
	if held != counted {
		texts = append(texts, fmt.Sprintf("tally.num_shards %d → %d", held, counted))
	}

	return strings.Join(texts, ", ")
}
