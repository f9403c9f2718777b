//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/firestore-tally/tally/cmd/tally/settings"
	"google.golang.org/grpc"
)

// stopped runs a command that is stopped when the calls-th call of a method of Firestore has been
// answered, or, of a stream, is about to begin.
func (c *console) stopped(method string, calls int64, args ...string) (status int, stderr string) {
	ctx, cancel := context.WithCancelCause(c.t.Context())
	defer cancel(nil)
	var n atomic.Int64
	called := func(full string) {
		if strings.HasSuffix(full, "/"+method) && n.Add(1) == calls {
			cancel(errors.New("interrupt signal received"))
		}
	}
	dial := []grpc.DialOption{
		grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			defer called(method)
			return invoke(ctx, method, req, reply, conn, opts...)
		}),
		grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, stream grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			called(method)
			return stream(ctx, desc, conn, method, opts...)
		}),
	}
	var logs bytes.Buffer
	ctx = settings.WithEndpoints(ctx, settings.Endpoints{Dial: dial})
	status = run(ctx, append(args, "--project", c.project), io.Discard, &logs)
	return status, logs.String()
}

// Ctrl-C says what is done, what is true, and how to go on.
func TestStopped(t *testing.T) {
	c := newConsole(t)
	routes := []string{"--routes", strings.Split(someRoutes, "\n")[0]}
	for _, test := range []struct {
		args   string
		method string
		calls  int64
		want   string
	}{
		{"create likes --num-shards 600", "Commit", 1, "499 of 600 shards are done. The counter already works. Run the same command again to create the rest."},
		{"create likes --num-shards 600", "", 0, ""},
		{"increment likes --by 5", "", 0, ""},
		{"resize likes 602", "Commit", 1, "602 of 602 shards are done. The total is right. Run the same command again to continue."},
		{"delete --matching counters/* --yes", "RunAggregationQuery", 1, "0 counters are done. Looking changes nothing."},
		{"delete likes --yes", "Commit", 1, "499 of 602 shards are done. The total is that of the rest. Run the same command again to continue."},
	} {
		args := append(strings.Fields(test.args), routes...)
		if test.method == "" {
			if status, _, stderr := c.run(args...); status != 0 {
				t.Fatalf("tally %s: status %d: %s", test.args, status, stderr)
			}
			continue
		}
		want := "tally: interrupt signal received\n" + test.want + "\n"
		if status, stderr := c.stopped(test.method, test.calls, args...); status != interrupted || stderr != want {
			t.Errorf("tally %s: status %d and %s\nwant %d and %s", test.args, status, stderr, interrupted, want)
		}
	}
}

// A deletion of many counters is stopped by Ctrl-C. It leaves none by half, and the same command
// goes on.
func TestDeleteMatchingGoesOn(t *testing.T) {
	c := newConsole(t)
	const n = 48 // three times as many as it deletes at once
	bulk := c.client.BulkWriter(t.Context())
	for i := range n {
		for path, fields := range map[string]map[string]any{
			fmt.Sprintf("counters/spam-%d", i): {"num_shards": 2}, fmt.Sprintf("counters/spam-%d/shards/1", i): {"count": 1},
		} {
			if _, err := bulk.Set(c.client.Doc(path), fields); err != nil {
				t.Fatal(err)
			}
		}
	}
	bulk.End()
	left := func() (counters, shards int) { return len(c.everything("counters")), len(c.everything("shards")) }
	args := []string{"delete", "--matching", "counters/spam-*", "--yes", "--routes", strings.Split(someRoutes, "\n")[0]}
	status, logs := c.stopped("Commit", 3, args...)
	counters, shards := left()
	want := fmt.Sprintf("%d of %d counters are done. No counter is half deleted. Run the same command again to continue.\n", n-counters, n)
	if status != interrupted || counters == 0 || counters == n || shards != counters || !strings.Contains(logs, want) {
		t.Errorf("status %d with %d counters and %d shards left: %s\nwant %d and %s", status, counters, shards, logs, interrupted, want)
	}
	status, stdout, stderr := c.run(args...)
	if want := fmt.Sprintf(`(?m)^deleted +%d counters +%[1]d shards$`, counters); status != 0 || !regexp.MustCompile(want).MatchString(stdout) {
		t.Errorf("again: status %d, %s%s\nwant %s", status, stdout, stderr, want)
	}
	if counters, shards := left(); counters+shards > 0 {
		t.Errorf("left: %d counters, %d shards", counters, shards)
	}
}
