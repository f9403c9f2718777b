package trial

import "context"

// rounds is how often instant asks.
const rounds = 3

// instant asks whether a sum has what was written before the first read of its transaction, and not
// what was written after that.
func (r *run) instant(ctx context.Context) finding {
	f := finding{expected: "all that was written before the read, and nothing that was written after it"}
	p := r.parts[0]
	for range rounds {
		writes, inDoubt := p.Writes()
		if inDoubt > 0 {
			return f.notLooked("%s in doubt, so the right sum is unknown", counted(inDoubt, "increment"))
		}

		snapshot, err := r.store.View(ctx, p.counter)
		if err != nil {
			return f.failed(err)
		}
		err = r.write(ctx, p)
		if err != nil {
			return f.failed(err)
		}
		totals, err := snapshot.Sum(ctx)
		if err != nil {
			return f.failed(err)
		}

		sum, _ := totals.Values[p.total].Int64()
		if sum != int64(len(writes)) {
			return f.no("a sum of %d, where %d were written before the read", sum, len(writes))
		}
	}
	return f.yes("that, %d times", rounds)
}
