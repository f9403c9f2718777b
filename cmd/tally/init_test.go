package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"testing"

	"github.com/firestore-tally/tally/rollup"
)

func TestRouteFor(t *testing.T) {
	for _, test := range []struct{ path, field, want string }{
		{"counters/likes/shards/3", "count", rollup.DefaultRoute},
		{"counters/likes/shards/3", "Count", "counters/{counter}/shards/{shard} -> rollups/{counter} : Count"},
		{"posts/7/shards/0", "likes", "posts/{post}/shards/{shard} -> post_totals/{post} : likes"},
		{"posts/7/likes/ann", "", "posts/{post}/likes/{like} -> posts/{post} : count() as likes : existing"},
		{"orders/1", "", "orders/{order} -> totals/orders : count() as orders"},
		{"my orders/1/`by`/2", "the amount", "`my orders`/{`my order`}/`\\`by\\``/{`\\`by\\``} -> `my order_totals`/{`my order`} : `the amount`"},
		{"my orders/1/and/2", "", "`my orders`/{`my order`}/`and`/{`and`} -> `my orders`/{`my order`} : count() as `and` : existing"},
		{"orders/1", "amount", "orders/{order} -> totals/orders : amount"},
	} {
		got := routeFor(test.path, test.field)
		if _, err := rollup.ParseRoutes(got); got != test.want || err != nil {
			t.Errorf("routeFor(%q, %q) = %q, %v; want %q", test.path, test.field, got, err, test.want)
		}
	}
}

// Ctrl-C at a question ends the command, and nothing is written.
func TestQuestionIsInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	in, typed := io.Pipe()
	defer typed.Close()
	stopped := errors.New("Ctrl-C")
	cancel(stopped)
	q := questions{bufio.NewReader(in), io.Discard}
	if _, err := q.route(ctx); !errors.Is(err, stopped) {
		t.Errorf("route: %v, want %v", err, stopped)
	}
}
