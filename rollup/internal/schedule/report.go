package schedule

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/firestore-tally/tally/rollup/internal/roll"
)

// A Report says what an audit did and found.
type Report struct {
	Counters  int `json:"counters"`  // compared with their shards, or failed
	RolledUp  int `json:"rolled_up"` // written, because they differed
	Unchanged int `json:"unchanged"` // agreed, or were brought up to date by others
	Removed   int `json:"removed"`   // had been at zeros without shards for over an hour
	Differing int `json:"differing"` // differed and were left so: by a dry run, because of KeepRerouted or KeepUnwritten, or because of their pace
	Paced     int `json:"paced"`     // differed and were left so, because their pace allowed no roll-up before Until, or for a while; some of Differing
	Failed    int `json:"failed"`    // could not be compared, repaired or removed
	Unkept    int `json:"unkept"`    // cannot be rolled up until someone fixes them; see ErrUnkept

	Drift     int `json:"drift"`     // differed for longer than the grace; like the next six, some of RolledUp and Differing
	Lapsed    int `json:"lapsed"`    // lacked changes that came while they were unkept
	Late      int `json:"late"`      // were right, until documents left a window and no alarm had them rolled up
	Missing   int `json:"missing"`   // had no roll-up, such as new counters
	Orphaned  int `json:"orphaned"`  // had a roll-up that is not zeros, and no shards
	Rerouted  int `json:"rerouted"`  // had a roll-up that other routes made
	Outdated  int `json:"outdated"`  // were right, but held totals of earlier routes, which Prune takes away
	Malformed int `json:"malformed"` // counters with shards that are left out of their sums

	Unwritten   int `json:"unwritten,omitempty"`    // held totals that no roll-up wrote; like drift, some of RolledUp and Differing
	ForeignKind int `json:"foreign_kind,omitempty"` // documents that hold values of the app's in the fields of totals, which are left out

	UnwrittenExample   string `json:"unwritten_example,omitempty"`    // such as "posts/b: likes is 1234"
	ForeignKindExample string `json:"foreign_kind_example,omitempty"` // such as "posts/a: likes is an array"

	Complete   bool     `json:"complete"`   // every walk has come to its last counter, in this audit or since the last one that was complete
	Overlapped bool     `json:"overlapped"` // it stopped because another audit was at work
	Cursor     string   `json:"cursor"`     // where the next begins: walks, and places in them
	Errors     []string `json:"errors,omitempty"`

	UnkeptCounters []string `json:"unkept_counters,omitempty"` // up to ten of them, with the reason

	Waiting int           `json:"-"` // differences that are left to the trigger until their grace is over
	Cycle   time.Duration `json:"-"` // how long the last walk of all counters took; 0: unknown
	Since   time.Duration `json:"-"` // time since the audit before began; 0: unknown
}

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
		log.InfoContext(ctx, "the roll-up says since when the document that it is within has been missing", "ownerless_since", l.OwnerlessSince())
	case differenceSooner:
		log.InfoContext(ctx, "sooner: a document leaves before the alarm rings", "rings", l.RollUp.Tally.Rings, "leaves", f.roller.NextLeaves(l))
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
