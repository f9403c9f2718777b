package apps

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// An extension is Firebase's firestore-counter extension at work on one document, pages/p: what its
// transactions read, write and delete, as its code has them
// (https://github.com/firebase/extensions/tree/next/firestore-counter/functions/src).
type extension struct {
	client *firestore.Client
	page   *firestore.DocumentRef
	shards *firestore.CollectionRef
}

func newExtension(client *firestore.Client) *extension {
	page := client.Doc("pages/p")
	return &extension{client, page, page.Collection("_counter_shards_")}
}

// amounts are numbers by field. Nested ones, which the extension adds up too, no route can name.
type amounts map[string]int64

func (a amounts) add(fields map[string]any) {
	for field, v := range fields {
		if n, ok := v.(int64); ok {
			a[field] += n
		}
	}
}

// addPartial adds what a partial sum, a document with a list of updates, stands for.
func (a amounts) addPartial(fields map[string]any) {
	updates, _ := fields["_updates_"].([]any)
	for _, u := range updates {
		a.add(u.(map[string]any)["_data_"].(map[string]any))
	}
}

func (a amounts) negative() amounts {
	n := amounts{}
	for field, v := range a {
		n[field] = -v
	}
	return n
}

// update is one entry of a partial sum; the extension gives it a random id.
func (a amounts) update() map[string]any {
	return map[string]any{"_id_": fmt.Sprint(time.Now().UnixNano()), "_data_": map[string]int64(a)}
}

func isPartial(doc *firestore.DocumentSnapshot) bool { return strings.HasPrefix(doc.Ref.ID, "\t") }

// partial is where a worker adds up the shards whose ids begin with any of the digits.
func (e *extension) partial() *firestore.DocumentRef { return e.shards.Doc("\t\t\t\t0") }

// aggregate is a run of the controller: everything into the document, shards and partial sums gone.
func (e *extension) aggregate(ctx context.Context) error {
	return e.client.RunTransaction(ctx, func(_ context.Context, tx *firestore.Transaction) error {
		sum, docs, err := amounts{}, []*firestore.DocumentSnapshot(nil), error(nil)
		if docs, err = tx.Documents(e.shards.Query).GetAll(); err != nil {
			return err
		}
		for _, doc := range docs {
			if isPartial(doc) {
				sum.addPartial(doc.Data())
			} else {
				sum.add(doc.Data())
			}
		}
		if err := e.addTo(tx, sum); err != nil {
			return err
		}
		for _, doc := range docs {
			if err := tx.Delete(doc.Ref); err != nil {
				return err
			}
		}
		return nil
	})
}

// addTo adds to the document's fields by reading and setting them.
func (e *extension) addTo(tx *firestore.Transaction, sum amounts) error {
	docs, err := tx.GetAll([]*firestore.DocumentRef{e.page})
	if err != nil {
		return err
	}
	fields := map[string]any{}
	for field, n := range sum {
		held, _ := docs[0].Data()[field].(int64)
		fields[field] = held + n
	}
	return tx.Set(e.page, fields, firestore.MergeAll)
}

// toPartial is a round of a worker under load: shards into a partial sum.
func (e *extension) toPartial(ctx context.Context) error {
	return e.client.RunTransaction(ctx, func(_ context.Context, tx *firestore.Transaction) error {
		docs, err := tx.Documents(e.shards.Query).GetAll()
		if err != nil {
			return err
		}
		sum := amounts{}
		for _, doc := range docs {
			if !isPartial(doc) {
				sum.add(doc.Data())
				if err := tx.Delete(doc.Ref); err != nil {
					return err
				}
			}
		}
		return tx.Set(e.partial(), map[string]any{"_updates_": firestore.ArrayUnion(sum.update())}, firestore.MergeAll)
	})
}

// fromPartial is another: a partial sum into the document, and the same amount off it.
func (e *extension) fromPartial(ctx context.Context) error {
	return e.client.RunTransaction(ctx, func(_ context.Context, tx *firestore.Transaction) error {
		docs, err := tx.GetAll([]*firestore.DocumentRef{e.partial()})
		if err != nil {
			return err
		}
		sum := amounts{}
		sum.addPartial(docs[0].Data())
		if err := e.addTo(tx, sum); err != nil {
			return err
		}
		return tx.Set(e.partial(), map[string]any{"_updates_": firestore.ArrayUnion(sum.negative().update())}, firestore.MergeAll)
	})
}

// run has the extension work until done.
func (e *extension) run(t *testing.T, done <-chan struct{}) {
	rounds := []func(context.Context) error{e.aggregate, e.toPartial, e.fromPartial, e.toPartial}
	for i := 0; ; i++ {
		select {
		case <-done:
			return
		default:
		}
		if err := rounds[i%len(rounds)](t.Context()); err != nil && status.Code(err) != codes.Aborted { // it skips a round that fails
			t.Error(err)
			return
		}
	}
}

// clients increment visits by 1 and likes by 2, until they are told so by an answer.
type writers struct {
	t             *testing.T
	sent, counted atomic.Int64
}

func (c *writers) increment(shard *firestore.DocumentRef) {
	c.sent.Add(1)
	fields := map[string]any{"visits": firestore.Increment(1), "likes": firestore.Increment(2)}
	for {
		_, err := shard.Set(c.t.Context(), fields, firestore.MergeAll)
		if status.Code(err) == codes.Aborted { // not applied: a transaction had the shard for too long
			continue
		}
		if err != nil {
			c.t.Error(err)
			return
		}
		c.counted.Add(1)
		return
	}
}

// during calls step while several clients make some increments each: clients of the extension in
// shards of their own, with random ids, the others in numbered ones.
func (c *writers) during(collection *firestore.CollectionRef, old, updated int, step func(done <-chan struct{})) {
	c.t.Helper()
	const each = 12
	var all sync.WaitGroup
	for n := range old {
		all.Go(func() {
			for range each {
				c.increment(collection.Doc(randomShard(n)))
			}
		})
	}
	for n := range updated {
		all.Go(func() {
			for i := range each {
				c.increment(collection.Doc(fmt.Sprint((n + i) % 4)))
			}
		})
	}
	done := make(chan struct{})
	go func() {
		all.Wait()
		close(done)
	}()
	step(done)
	<-done
}

// begin is what the extension had counted when the test begins.
const begin = 1000

// observe looks at everything in one snapshot again and again until done: nothing may be lost or
// counted twice at any time, and what readers are shown must neither fall nor be more than the
// truth.
func (c *writers) observe(e *extension, done <-chan struct{}) {
	var shown int64
	for looks := 0; ; looks++ {
		select {
		case <-done:
			if looks == 0 {
				c.t.Error("never looked")
			}
			return
		default:
		}
		least := c.counted.Load()
		var field, rollUp, sum int64
		err := e.client.RunTransaction(c.t.Context(), func(_ context.Context, tx *firestore.Transaction) error {
			docs, err := tx.GetAll([]*firestore.DocumentRef{e.page, e.client.Doc("page_totals/p")})
			if err != nil {
				return err
			}
			field, _ = docs[0].Data()["visits"].(int64)
			rollUp, _ = docs[1].Data()["visits"].(int64)
			shards, err := tx.Documents(e.shards.Query).GetAll()
			if err != nil {
				return err
			}
			notes, err := tx.Documents(e.page.Collection("increment_tokens").Query).GetAll()
			total := amounts{"visits": field}
			for _, doc := range shards {
				total.add(doc.Data())
				total.addPartial(doc.Data())
			}
			for _, note := range notes {
				if n := note.Data(); n["field"] == "visits" && n["document"] != nil {
					total["visits"] -= n["amount"].(int64)
				}
			}
			sum = total["visits"]
			return err
		}, firestore.ReadOnly)
		if err != nil {
			c.t.Error(err)
			return
		}
		if most := c.sent.Load(); sum < begin+least || sum > begin+most {
			c.t.Errorf("the database holds %d increments; %d were counted before it was read, %d sent", sum-begin, least, most)
		}
		now := max(field, rollUp)
		if now < shown || now > sum {
			c.t.Errorf("readers are shown %d after %d, of %d (the document says %d, the roll-up %d)", now, shown, sum, field, rollUp)
		}
		shown = now
	}
}
