package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/cloud/firestorestore"
	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/rollup/route"
	"google.golang.org/api/iterator"
)

// exists reports whether the counter's document says that the counter is frozen. It returns
// errUnknown if the counter does not exist: it has no document above its sources, no shard and no
// roll-up.
func exists(ctx context.Context, client *firestore.Client, c counter) (frozen bool, err error) {
	found, err := client.GetAll(ctx, []*firestore.DocumentRef{client.Doc(c.path), client.Doc(c.RollUp)})
	if err != nil {
		return false, err
	}
	doc, rollUp := found[0], found[1]
	if doc.Exists() || rollUp.Exists() {
		return doc.Data()[document.FrozenField] == true, nil
	}

	for _, r := range c.sources {
		if _, some := r.Where(c.Counter); !some {
			continue
		}
		shard, err := documents(client, c, r).Select().Limit(1).Documents(ctx).GetAll()
		if err != nil || len(shard) > 0 {
			return false, err
		}
	}
	return false, unknownCounter(ctx, client, c)
}

// documents returns the query for a counter's documents of a source.
func documents(client *firestore.Client, c counter, r *route.Route) firestore.Query {
	where, _ := r.Where(c.Counter)
	return firestorestore.Where(client, client.Collection(r.Shards(c.Counter)).Query, where)
}

// errUnknown is what exists returns for a counter that does not exist.
var errUnknown = errors.New("no such counter")

// suggestFrom is how many counters are looked through for one with a similar name.
const suggestFrom = 1000

// unknownCounter returns the error for a counter that does not exist. The error names a counter
// with a similar name, if there is one.
func unknownCounter(ctx context.Context, client *firestore.Client, c counter) error {
	doc := client.Doc(c.path)
	var others []*firestore.DocumentRef
	_, err := iterator.NewPager(doc.Parent.DocumentRefs(ctx), suggestFrom, "").NextPage(&others)
	if err != nil && !errors.Is(err, iterator.Done) {
		return err
	}

	nearest, distance := "", max(2, len(doc.ID)/3)+1
	for _, other := range others {
		if d := route.Distance(strings.ToLower(doc.ID), strings.ToLower(other.ID)); d < distance {
			nearest, distance = other.ID, d
		}
	}

	if nearest != "" {
		return fmt.Errorf("%w: %s; did you mean %s?", errUnknown, c.path, strings.TrimSuffix(c.path, doc.ID)+nearest)
	}
	if _, err := c.source(); err != nil { // tally create would refuse it, too
		return fmt.Errorf("%w: %s; tally ls lists what there is", errUnknown, c.path)
	}
	return fmt.Errorf("%w: %s; tally create makes it, tally ls lists what there is", errUnknown, c.path)
}
