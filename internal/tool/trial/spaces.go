package trial

import (
	"context"
	"fmt"
	"slices"
)

// arrivals is how many documents have to arrive. An audit makes a roll-up, too, as if an event had
// arrived, but it does not come back so soon.
const arrivals = 2

// spaces asks under which id a document arrives at the functions whose ids end in a space. An id
// that ends in a space cannot be sent as a header, and so such an event comes in another form.
// There is a counter of the id without the space, too, so that an event which arrives there is
// seen.
func (r *run) spaces(ctx context.Context) finding {
	f := finding{expected: "a roll-up whose id has the space, too"}
	i := slices.IndexFunc(r.parts, (*part).live)
	if i < 0 {
		return f.notLooked(noEvents)
	}

	trimmed, err := r.sibling(ctx, r.parts[i], "-space")
	if err != nil {
		return f.failed(err)
	}
	spaced, err := r.sibling(ctx, r.parts[i], "-space ")
	if err != nil {
		return f.failed(err)
	}

	err = r.put(ctx, trimmed, "0")
	if err != nil {
		return f.failed(err)
	}
	err = r.covered(ctx, trimmed)
	if err != nil {
		return f.failed(err)
	}
	return r.arrive(ctx, f, spaced, trimmed)
}

// sibling returns a part like another one, with end appended to the trial's id.
func (r *run) sibling(ctx context.Context, like *part, end string) (*part, error) {
	p, err := newPart(like.kind, like.route, r.ID+end)
	if err != nil {
		return nil, err
	}
	return p, r.begin(ctx, p)
}

// arrive writes documents whose ids end in a space, and finds whether the roll-up of their counter
// follows, or that of the id without the space.
func (r *run) arrive(ctx context.Context, f finding, spaced, trimmed *part) finding {
	for n := range arrivals {
		err := r.put(ctx, spaced, fmt.Sprintf("%d ", n))
		if err != nil {
			return f.failed(err)
		}

		late := r.covered(ctx, spaced)
		other, _ := trimmed.Last()
		switch {
		case late == nil:
			continue
		case ctx.Err() != nil:
			return f.failed(context.Cause(ctx))
		case !other.AsOf.Before(spaced.LastCommit()):
			return f.no("only %q changed", trimmed.counter.RollUp)
		}
		return f.no("no roll-up changed within %v", r.limit(spaced))
	}
	return f.yes("%q", spaced.counter.RollUp)
}
