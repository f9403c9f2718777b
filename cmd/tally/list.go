package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/firestorestore"
	"github.com/firestore-tally/tally/shards"
	"github.com/spf13/cobra"
	"google.golang.org/api/iterator"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A listed counter is one line of tally ls.
type listed struct {
	Counter string  `json:"counter"`
	RollUp  *rollUp `json:"rollup"` // null: there is none, or it is not one
}

func listCommand() *cobra.Command {
	var t target
	var collection, page string
	var limit int
	c := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List counters with their roll-ups, page by page",
		Long: `List the counters of a collection in order of their ids, with what their roll-ups say; also counters that have shards and no document of their own. It bills two
reads for each.`,
		Example: `  tally ls
  tally ls --limit 20 --page TOKEN
  tally ls --collection posts/7/counters --rollup 'posts/7/rollups/{counter}'
  tally ls --json | jq '.counters[] | select(.rollup.total > 1000)'`,
		Args: cobra.NoArgs,
	}
	c.Flags().StringVar(&collection, "collection", defaultCollection, "collection of counters")
	c.Flags().IntVar(&limit, "limit", 100, "counters on a page, up to 300")
	c.Flags().StringVar(&page, "page", "", "page to show, as the page before names it")
	return t.command(c, viewer, func(ctx context.Context, _ []string) error {
		if limit < 1 || limit > 300 {
			return fmt.Errorf("--limit %d: want 1 to 300", limit)
		}
		in := t.client.Collection(collection)
		if in == nil {
			return fmt.Errorf("--collection %q is not the path of a collection", collection)
		}
		var docs []*firestore.DocumentRef
		next, err := iterator.NewPager(in.DocumentRefs(ctx), limit, page).NextPage(&docs)
		if page != "" && status.Code(err) == codes.InvalidArgument {
			return fmt.Errorf("--page %q is not what tally ls printed for %s: %w", page, collection, err)
		}
		if err != nil && err != iterator.Done {
			return err
		}
		counters, err := t.list(ctx, docs)
		if err != nil {
			return err
		}
		if next != "" && !t.json {
			defer fmt.Fprintf(t.logs, "more: --page %s\n", next)
		}
		lines := []string{"COUNTER\tTOTAL\tSHARDS\tAS OF"}
		for _, c := range counters {
			line := c.Counter + "\t-\t-\t-"
			if c.RollUp != nil {
				line = fmt.Sprintf("%s\t%v\t%d\t%s", c.Counter, c.RollUp.Total, c.RollUp.NumShards, c.RollUp.AsOf.Format(time.RFC3339Nano))
			}
			lines = append(lines, line)
		}
		return t.print(map[string]any{"counters": counters, "next_page": next}, "%s", strings.Join(lines, "\n"))
	})
}

// list reads the roll-ups of counters.
func (t *target) list(ctx context.Context, docs []*firestore.DocumentRef) ([]listed, error) {
	counters := make([]listed, len(docs))
	var refs []*firestore.DocumentRef
	for i, doc := range docs {
		counters[i].Counter = firestorestore.Path(doc)
		path := t.rollUpOf(counters[i].Counter)
		if path == "" {
			return nil, fmt.Errorf("no roll-ups are known for %s: --rollup names them, as in --rollup 'rollups/{counter}'", counters[i].Counter)
		}
		ref := t.client.Doc(path)
		if ref == nil {
			return nil, fmt.Errorf("--rollup: %q is not the path of a document", path)
		}
		refs = append(refs, ref)
	}
	found, err := t.client.GetAll(ctx, refs)
	if err != nil {
		return nil, err
	}
	for i, doc := range found {
		if r, err := shards.RollUpIn(doc, t.field); err == nil {
			counters[i].RollUp = rollUpJSON(r)
		}
	}
	return counters, nil
}
