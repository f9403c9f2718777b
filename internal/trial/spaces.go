package trial

import (
	"context"
	"fmt"
	"slices"
)

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

	trimmed, err := r.written(ctx, r.parts[i], "-space", "0")
	if err != nil {
		return f.failed(err)
	}
	err = r.covered(ctx, trimmed)
	if err != nil {
		return f.failed(err)
	}
	spaced, err := r.written(ctx, r.parts[i], "-space ", "0 ")
	if err != nil {
		return f.failed(err)
	}

	err = r.covered(ctx, spaced)
	other, _ := trimmed.watch.Last()
	switch {
	case err == nil:
		return f.yes("%q", spaced.counter.RollUp)
	case ctx.Err() != nil:
		return f.failed(context.Cause(ctx))
	case !other.AsOf.Before(spaced.last()):
		return f.no("only %q changed", trimmed.counter.RollUp)
	}
	return f.no("no roll-up changed within %v", r.limit(spaced))
}

// written returns a part like another one, for the trial's id with an end, that has one document.
func (r *run) written(ctx context.Context, like *part, end, id string) (*part, error) {
	p, err := newPart(like.kind, like.route, r.ID+end)
	if err != nil {
		return nil, err
	}
	err = r.begin(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("listening to %q: %w", p.counter.RollUp, err)
	}
	return p, r.put(ctx, p, id)
}
