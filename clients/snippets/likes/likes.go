package likes

import (
	"context"
	"errors"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/shards"
)

const numShards = 10

func Counter(client *firestore.Client) *shards.Counter {
	return shards.New(client, "counters/likes", shards.Field("Count"), shards.NumShards(numShards))
}

func Create(ctx context.Context, likes *shards.Counter) error {
	return likes.Create(ctx, numShards)
}

func Increment(ctx context.Context, likes *shards.Counter) error {
	_, err := likes.Increment(ctx, 1)
	return err
}

// Watch calls show with the total, now and whenever it changes, until ctx ends.
func Watch(ctx context.Context, likes *shards.Counter, show func(shards.Total)) error {
	for rollUp, err := range likes.RollUps(ctx) {
		switch {
		case err == nil:
			show(rollUp.Total)
		case !errors.Is(err, shards.ErrNoRollUp):
			return err
		}
	}
	return nil
}
