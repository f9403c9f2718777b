//go:build unix

package main

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"
)

// A deletion of many counters is stopped by Ctrl-C. It leaves none by half, and the same command goes on.
func TestDeleteMatchingGoesOn(t *testing.T) {
	c := newConsole(t)
	const n = 300
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
	args := []string{"delete", "--matching", "counters/spam-*", "--yes", "--routes", strings.Split(someRoutes, "\n")[0], "--project", c.project}
	var out, logs bytes.Buffer
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan int)
	go func() { ended <- run(ctx, args, &out, &logs) }()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for counters := n; counters == n; counters, _ = left() {
		<-again.C
	}
	stop()
	status := <-ended
	counters, shards := left()
	want := fmt.Sprintf("%d of 300 counters are done. None is deleted by half. The same command goes on from here.\n", n-counters)
	if status != interrupted || counters == 0 || shards != counters || !strings.Contains(logs.String(), want) {
		t.Errorf("status %d with %d counters and %d shards left: %s\nwant %d and %s", status, counters, shards, &logs, interrupted, want)
	}
	status, stdout, stderr := c.run(args[:len(args)-2]...)
	if want := fmt.Sprintf(`(?m)^deleted +%d counters +%[1]d shards$`, counters); status != 0 || !regexp.MustCompile(want).MatchString(stdout) {
		t.Errorf("again: status %d, %s%s\nwant %s", status, stdout, stderr, want)
	}
	if counters, shards := left(); counters+shards > 0 {
		t.Errorf("left: %d counters, %d shards", counters, shards)
	}
}
