//go:build unix

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"regexp"
	"slices"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/cmd/tally/settings"
	"github.com/firestore-tally/tally/internal/cloud/firestorestore"
	"github.com/firestore-tally/tally/internal/tool/local"
)

// BenchmarkDev is how long clients wait for their increments while somebody watches: 500 counters
// of 10 shards, each incremented once in 5 s, on schedule. No one watches; tally dev prints the
// roll-ups; its dashboard is open too; and, for contrast, one listener follows the collection of
// roll-ups. On the emulator, an increment's p50 was 3.8 ms if no one watched, 2.7 ms with tally dev
// and its dashboard, and 41 s with the listener. So tally dev polls and does not listen.
func BenchmarkDev(b *testing.B) {
	b.Setenv(asTally, "1") // the functions processes are this executable
	for _, test := range []struct {
		name  string
		start func(b *testing.B) (addr, project string)
	}{
		{"no listener", benchStack},
		{"dev", func(b *testing.B) (string, string) {
			addr, _ := benchDev(b, "--dashboard=false")
			return addr, "demo-tally"
		}},
		{"dashboard", func(b *testing.B) (string, string) {
			addr, page := benchDev(b, "--dashboard-port=0")
			stream, err := http.Get(page + "counters")
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { stream.Body.Close() })
			go func() { _, _ = io.Copy(io.Discard, stream.Body) }()
			return addr, "demo-tally"
		}},
		{"listener", func(b *testing.B) (string, string) {
			addr, project := benchStack(b)
			client := benchClient(b, addr, project)
			go func() {
				for snapshots := client.CollectionGroup("rollups").Snapshots(b.Context()); ; {
					if _, err := snapshots.Next(); err != nil {
						return
					}
				}
			}()
			return addr, project
		}},
	} {
		b.Run(test.name, func(b *testing.B) {
			addr, project := test.start(b)
			var clients []*firestore.Client
			for range 8 {
				clients = append(clients, benchClient(b, addr, project))
			}
			for range b.N {
				latencies, refused := benchLoad(b, clients)
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(float64(refused), "refused")
				slices.Sort(latencies)
				for _, percent := range []int{50, 99} {
					b.ReportMetric(float64(latencies[len(latencies)*percent/100].Microseconds())/1000, fmt.Sprintf("p%d-ms", percent))
				}
			}
		})
	}
}

// benchStack starts a stack without listeners.
func benchStack(b *testing.B) (addr, project string) {
	var nearest settings.File
	folder, err := nearest.Here(io.Discard)
	if err != nil {
		b.Fatal(err)
	}
	project = "demo-bench"
	f := stackFlags{logs: io.Discard, Options: local.Options{Processes: 2, Say: b.Logf}, lines: lines{out: io.Discard}}
	if err := f.configure(b.Context(), folder, project, "WARN", nil); err != nil {
		b.Fatal(err)
	}
	s, err := local.Start(b.Context(), f.Options)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(s.Stop)
	return s.Addr, project
}

// benchDev runs tally dev, and returns the addresses that it greets with.
func benchDev(b *testing.B, flag string) (addr, page string) {
	ctx, cancel := context.WithCancel(context.Background())
	out, in := io.Pipe()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer in.Close()
		run(ctx, []string{"dev", "--firestore-port=0", "--functions-port=0", flag}, in, in)
	}()
	b.Cleanup(func() { cancel(); <-ended })
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if m := regexp.MustCompile(`^  Firestore +(\S+),`).FindStringSubmatch(lines.Text()); m != nil {
			addr = m[1]
		}
		if m := regexp.MustCompile(`^  dashboard +(\S+)`).FindStringSubmatch(lines.Text()); m != nil {
			page = m[1]
		}
		if lines.Text() == "Point an app at it:" {
			go func() { _, _ = io.Copy(io.Discard, out) }()
			return addr, page
		}
	}
	b.Fatal("tally dev ended")
	return "", ""
}

func benchClient(b *testing.B, addr, project string) *firestore.Client {
	client, err := firestorestore.Dial(b.Context(), addr, project, firestore.DefaultDatabaseID)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = client.Close() })
	return client
}

// benchLoad increments counters for 20 s, and returns how long each increment took, from when it
// was due, and how many were refused. What comes before is not measured: the counters' first
// increments, and 5 s of the load.
func benchLoad(b *testing.B, clients []*firestore.Client) (latencies []time.Duration, refused int) {
	const counters, each, warmUp, measured = 500, 5 * time.Second, 5 * time.Second, 20 * time.Second
	increment := func(n int) error {
		shard := clients[n%len(clients)].Doc(fmt.Sprintf("counters/%d/shards/%d", n%counters, rand.IntN(10)))
		_, err := shard.Set(b.Context(), map[string]any{"count": firestore.Increment(1)}, firestore.MergeAll)
		return err
	}
	for n := range counters {
		if err := increment(n); err != nil {
			b.Fatal(err)
		}
	}
	var mu sync.Mutex
	var all sync.WaitGroup
	began := time.Now()
	turns := rand.Perm(counters)
	for n := range int((warmUp + measured) * counters / each) {
		due := began.Add(time.Duration(n) * each / counters)
		time.Sleep(time.Until(due))
		all.Go(func() {
			err := increment(turns[n%counters])
			took := time.Since(due)
			mu.Lock()
			defer mu.Unlock()
			if due.Sub(began) < warmUp {
				return
			}
			latencies = append(latencies, took)
			if err != nil {
				refused++
			}
		})
	}
	all.Wait()
	return latencies, refused
}
