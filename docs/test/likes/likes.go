package likes

import (
	"context"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/shards"
)

const numShards = 10

func Counter(client *firestore.Client) *shards.Counter {
	return shards.New(client, "counters/visits", shards.Field("Count"), shards.NumShards(numShards))
}

// Increment returns when it was committed.
func Increment(ctx context.Context, visits *shards.Counter) (time.Time, error) {
	return visits.Increment(ctx, 1)
}

// Exact sums the shards now.
func Exact(ctx context.Context, visits *shards.Counter) (shards.Total, error) {
	return visits.Get(ctx)
}

func Like(ctx context.Context, client *firestore.Client, post, uid string, likes bool) (*firestore.WriteResult, error) {
	like := client.Doc("posts/" + post + "/likes/" + uid)
	if !likes {
		return like.Delete(ctx)
	}
	return like.Set(ctx, map[string]any{"at": firestore.ServerTimestamp})
}

// Watch calls show with a total, now and whenever it changes, until ctx ends.
func Watch(ctx context.Context, doc *firestore.DocumentRef, field string, show func(int64)) error {
	documents := doc.Snapshots(ctx)
	defer documents.Stop()
	for {
		document, err := documents.Next()
		if err != nil {
			return err
		}
		total, _ := document.Data()[field].(int64) // 0 until the first roll-up
		show(total)
	}
}
