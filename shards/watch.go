package shards

import (
	"context"
	"errors"
	"fmt"
	"iter"
)

// RollUps listens to the counter's roll-up document and yields what it says, at once and
// whenever it changes, until ctx ends or the caller stops. It bills one read for each
// version. Versions that follow one another faster than they are taken may be left out.
//
// While there is no roll-up document it yields an error that matches [ErrNoRollUp], and
// goes on; so it does after an error about one version, as [Counter.RollUp] returns. Any
// other error, the end of ctx included, is the last pair. The SDK connects again by itself
// when the connection breaks.
func (c *Counter) RollUps(ctx context.Context) iter.Seq2[RollUp, error] {
	return func(yield func(RollUp, error) bool) {
		if err := c.rollUpKnown(); err != nil {
			yield(RollUp{}, err)
			return
		}
		versions := c.rollUp.Snapshots(ctx)
		defer versions.Stop()
		for {
			doc, err := versions.Next()
			if err != nil {
				yield(RollUp{}, fmt.Errorf("shards: listen to roll-up %s: %w", c.rollUp.Path, errors.Join(err, ctx.Err())))
				return
			}
			if !yield(RollUpIn(doc, c.field)) {
				return
			}
		}
	}
}
