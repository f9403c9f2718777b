//go:build unix

package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Orders are counted by their shops, and move between them. Some are too large for their events, so
// the function reads which shop they are in. Maxima and latest times take queries of their own. The
// processes are killed, also with such a query on its way.
func TestOrders(t *testing.T) {
	t.Parallel()
	const routes = "orders/{order} by shop -> shops/{shop} : count() as orders, sum(amount) as revenue, maximum(amount) as largest, latest(at) as last : existing"
	kills := form(4, 50)
	w := newWorld(t, options{routes: routes, queries: true, proxies: []func(*proxy){near, near}})
	for shop := range things(kills) + 1 {
		if _, err := w.client.Doc(fmt.Sprint("shops/", shop)).Create(w.ctx, map[string]any{"name": "x"}); err != nil {
			t.Fatal(err)
		}
	}

	large := strings.Repeat("x", 600<<10)
	w.whileKilled(times(kills), func(shop int, random *rand.Rand) (bool, error) {
		order := w.client.Doc(fmt.Sprintf("orders/%d-%d", shop, random.IntN(20)))
		fields := map[string]any{"shop": fmt.Sprint(shop + random.IntN(2)), "amount": random.IntN(1000), "at": time.Now()}
		switch n := random.IntN(10); {
		case n < 5: // a new one, or another shop's now
			return w.wrote(order.Set(w.ctx, fields))
		case n < 6: // it stays in its shop: its event could not say which it has left
			fields["shop"], fields["text"] = fmt.Sprint(shop), large
			return w.wrote(w.client.Doc("orders/"+order.ID+"-large").Set(w.ctx, fields))
		case n < 8:
			return w.wrote(order.Delete(w.ctx, firestore.Exists))
		case n < 9:
			return w.wrote(order.Update(w.ctx, []firestore.Update{{Path: "amount", Value: random.IntN(1000)}}))
		default:
			_, err := w.wrote(order.Update(w.ctx, []firestore.Update{{Path: "text", Value: fmt.Sprint(random.Int())}}))
			return false, err
		}
	})

	orders := w.documents("orders")
	for shop := range things(kills) + 1 {
		want := map[string]any{"name": "x", "orders": int64(0), "revenue": int64(0), "largest": nil, "last": nil}
		for _, d := range orders {
			if d.Data()["shop"] != fmt.Sprint(shop) {
				continue
			}
			amount, at := d.Data()["amount"].(int64), d.Data()["at"].(time.Time)
			want["orders"], want["revenue"] = want["orders"].(int64)+1, want["revenue"].(int64)+amount
			if largest, is := want["largest"].(int64); !is || amount > largest {
				want["largest"] = amount
			}
			if last, is := want["last"].(time.Time); !is || at.After(last) {
				want["last"] = at
			}
		}
		path := fmt.Sprint("shops/", shop)
		if _, tally := w.fields(path); tally.AsOf.IsZero() && want["orders"] == int64(0) {
			continue // no order was placed there
		}
		w.want(path, want)
	}
	w.wantFailed()
	w.checkLogs()
}

// Somebody writes a post all the time. Its likes are rolled up all the same, although calls fail.
func TestContendedPost(t *testing.T) {
	t.Parallel()
	w := newWorld(t, options{routes: likesRoute, proxies: []func(*proxy){near, func(p *proxy) { p.faults = newFaults(*seed) }}})
	post := w.client.Doc("posts/0")
	if _, err := post.Create(w.ctx, map[string]any{"title": "x"}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(w.ctx)
	written := make(chan error)
	go func() {
		for n := 0; ctx.Err() == nil; n++ {
			_, err := post.Update(w.ctx, []firestore.Update{{Path: "title", Value: n}})
			if err != nil && status.Code(err) != codes.Aborted { // a lock was held too long: try again
				written <- err
				return
			}
		}
		written <- nil
	}()

	likes := form(30, 300)
	for n := range likes {
		if _, err := w.wrote(post.Collection("likes").Doc(fmt.Sprint(n)).Create(w.ctx, map[string]any{})); err != nil {
			t.Fatal(err)
		}
		w.pass(cadence / 3)
	}
	w.quiet()
	cancel()
	if err := <-written; err != nil {
		t.Fatal(err)
	}
	if fields, _ := w.fields("posts/0"); fields["likes"] != int64(likes) {
		t.Errorf("posts/0 has %v likes, want %d", fields["likes"], likes)
	}
	locked := 0
	for _, p := range w.processes {
		for _, s := range p.proxy.rollUps() {
			if s.locked && s.err == nil {
				locked++
			}
		}
	}
	if locked == 0 {
		t.Error("no roll-up was written in a lock")
	}
	t.Logf("%d likes, %d roll-ups in a lock", likes, locked)
}
