package shards

import (
	"context"
	"fmt"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/document"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Freeze closes the counter to clients: it writes frozen: true into the counter document, and
// creates that if it is missing. Tally's firestore.rules then refuse every client's write to the
// shards, increments and votes alike. Totals stay readable. Rules do not bind servers: this
// package and the Admin SDKs go on writing.
//
// A client's write that is committed before Freeze returns may still be accepted, and counts. One
// that a device kept while it was offline is refused when it is sent.
//
// Freeze can be called again, and several calls of Freeze and [Counter.Unfreeze] may run at once:
// the last to be committed holds. After an error the counter may be frozen or not. [Counter.Delete]
// deletes the counter document, so it opens the counter.
//
// A counter with [NumShards] is refused: it has no counter document. Rules that do not read the
// counter document, as those of an app may, cannot know that it is frozen.
//
// Freeze bills one write.
func (c *Counter) Freeze(ctx context.Context) error {
	return c.sayFrozen("freeze", func() error {
		_, err := c.doc.Set(ctx, map[string]any{document.FrozenField: true}, firestore.MergeAll)
		return err
	})
}

// Unfreeze opens the counter to clients again: it takes away what [Counter.Freeze] wrote. The
// counter document stays. It does nothing to a counter that is not frozen. It bills one write.
func (c *Counter) Unfreeze(ctx context.Context) error {
	return c.sayFrozen("unfreeze", func() error {
		_, err := c.doc.Update(ctx, []firestore.Update{{Path: document.FrozenField, Value: firestore.Delete}})
		if status.Code(err) == codes.NotFound {
			return nil // without a document it is open
		}
		return err
	})
}

func (c *Counter) sayFrozen(what string, say func() error) error {
	err := c.err
	switch {
	case err != nil:
		return err
	case c.fixed != 0:
		return fmt.Errorf("shards: %s %s: by option the counter has no counter document to say it in", what, c.doc.Path)
	}
	if err = say(); err != nil {
		return fmt.Errorf("shards: %s %s: %w", what, c.doc.Path, err)
	}
	return nil
}
