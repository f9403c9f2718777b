package shards_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/shards"
)

func Example() {
	ctx := context.Background()
	client, err := firestore.NewClient(ctx, "my-project")
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	visitors := shards.New(client, "counters/visitors")
	if err := visitors.Create(ctx, 20); err != nil {
		log.Fatal(err)
	}
	if _, err := visitors.Increment(ctx, 1); err != nil {
		log.Fatal(err)
	}
	total, err := visitors.Get(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("visitors:", total)
}

// Firebase's samples differ from language to language. These samples need options; each line counts
// together with the apps that copied the sample.
func ExampleNew() {
	var client *firestore.Client

	// Web, Swift, Objective-C, Kotlin, Java, Python, Node.js, C#.
	_ = shards.New(client, "counters/visitors")

	// Go: the field is capitalized.
	_ = shards.New(client, "counters/visitors", shards.Field("Count"))

	// PHP: the collection itself is the counter, and the number of shards is in the
	// app's code. The roll-up is where Tally's route for these shards puts it.
	_ = shards.New(client, "samples/php",
		shards.Collection("samples/php/distributedCounters"),
		shards.Field("Cnt"),
		shards.NumShards(10),
		shards.RollUpAt("php_rollups/total"))

	// Ruby: the shards are in a top-level collection.
	_ = shards.New(client, "counters/visitors",
		shards.Collection("shards"),
		shards.NumShards(10),
		shards.RollUpAt("rollups/visitors"))

	// Nested counters, two of them in the same shards.
	const post = "posts/7"
	for _, field := range []string{"likes", "views"} {
		_ = shards.New(client, post+"/counters/reactions",
			shards.Field(field),
			shards.RollUpAt(post+"/rollups/reactions"))
	}
}

// An error says whether it is safe to call again.
func ExampleCounter_Increment() {
	ctx := context.Background()
	var visitors *shards.Counter // made once with New

	_, err := visitors.Increment(ctx, 1)
	switch {
	case err == nil: // counted, once
	case errors.Is(err, shards.ErrInDoubt):
		// Counted once or not at all: choose between one too many and one too few.
		log.Print(err)
	default:
		// Not counted: Increment can be called again.
		log.Print(err)
	}
}

// A roll-up says exactly what is in it: here, whether one's own increment is.
func ExampleCounter_RollUp() {
	ctx := context.Background()
	var visitors *shards.Counter // made once with New

	committed, err := visitors.Increment(ctx, 1)
	if err != nil {
		log.Fatal(err)
	}
	r, err := visitors.RollUp(ctx)
	switch {
	case errors.Is(err, shards.ErrNoRollUp):
		fmt.Println("nothing rolled up yet")
	case err != nil:
		log.Fatal(err)
	case r.AsOf.Before(committed):
		fmt.Println(r.Total, "visitors, without this one")
	default:
		fmt.Println(r.Total, "visitors")
	}
}

// A queue delivers a message at least once. Its id makes the increment happen once.
func ExampleCounter_IncrementOnce() {
	ctx := context.Background()
	var orders *shards.Counter // made once with New

	handle := func(messageID string) error {
		applied, _, err := orders.IncrementOnce(ctx, messageID, 1)
		if err != nil {
			return err // have the message delivered again: calling again is safe
		}
		if !applied {
			log.Print("delivered again: ", messageID)
		}
		return nil
	}
	_ = handle
}

// An app that kept one document per like begins with a counter, without stopping.
func ExampleCounter_Import() {
	ctx := context.Background()
	var client *firestore.Client
	likes := shards.New(client, "posts/7/counters/likes")
	documents := shards.CountOf(client.Collection("posts/7/likes").Query)

	if _, err := likes.Import(ctx, documents); err != nil {
		log.Fatal(err)
	}
	v, err := likes.Verify(ctx, documents)
	if err != nil {
		log.Fatal(err)
	}
	if !v.Equal() {
		fmt.Println("counter:", v.Counter, "documents:", v.Source)
	}
}

// What is committed while the counter is set to 0 is kept.
func ExampleCounter_Set() {
	ctx := context.Background()
	var today *shards.Counter // made once with New

	r, err := today.Set(ctx, 0)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(r.Was, "until", r.AsOf)
}

// A page that shows a total live.
func ExampleCounter_RollUps() {
	ctx := context.Background()
	var visitors *shards.Counter // made once with New

	for r, err := range visitors.RollUps(ctx) {
		switch {
		case err == nil:
			fmt.Println(r.Total, "visitors", r.ReadTime.Sub(r.AsOf), "ago")
		case errors.Is(err, shards.ErrNoRollUp):
			fmt.Println("nothing rolled up yet")
		default:
			log.Print(err)
		}
	}
}

// A total is an integer or a double, as the shards are.
func ExampleTotal_Int64() {
	ctx := context.Background()
	var visitors *shards.Counter // made once with New

	total, err := visitors.Get(ctx)
	if err != nil {
		log.Fatal(err)
	}
	if n, ok := total.Int64(); ok {
		fmt.Println(n+1, "with you")
	} else {
		fmt.Printf("about %.1f\n", total.Float64())
	}
}
