package bench

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// BenchmarkClients is how long clients wait for the acknowledgement of their increments of one
// counter of 10 shards, with Tally and without any function. One iteration is 5 s of each, in turn.
// Increments are fired on schedule by 8 clients, whatever is still in flight, and the wait counts
// from when one was due.
//
// The ratio is of the medians over the iterations of each one's p99, so that a stall of the machine
// during one of them does not decide it; the p99s are of all increments.
//
// Everything shares this machine: the clients, the emulator, the function, and what delivers the
// events.
func BenchmarkClients(b *testing.B) {
	const slice = 5 * time.Second
	for _, rate := range []int{100, 300} {
		b.Run(fmt.Sprintf("rate=%d", rate), func(b *testing.B) {
			with, without := newWorld(b, tally, 10, 8), newWorld(b, "", 10, 8)
			warmUp(b)
			turns := []*world{with, without}
			p99s := make(map[*world][]float64)
			for range b.N {
				for _, w := range turns {
					before := len(w.increments)
					w.atRate(rate, slice)
					p99s[w] = append(p99s[w], percentile(latencies(w.increments[before:]), 99))
					if w == with {
						w.settle()
					}
				}
				slices.Reverse(turns)
			}
			for _, w := range turns {
				if w.refused > 0 {
					b.Errorf("%d of %d increments were not acknowledged: %v", w.refused, w.refused+len(w.increments), w.refusal)
				}
			}
			if got, want := with.total(), int64(len(with.increments)); got != want {
				b.Errorf("the roll-up is %d, want %d", got, want)
			}
			a, n := latencies(with.increments), latencies(without.increments)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(percentile(a, 50), "tally-p50-ms")
			b.ReportMetric(percentile(n, 50), "none-p50-ms")
			b.ReportMetric(percentile(a, 99), "tally-p99-ms")
			b.ReportMetric(percentile(n, 99), "none-p99-ms")
			b.ReportMetric(median(p99s[with])/median(p99s[without]), "p99-ratio")
		})
	}
}

// latencies returns the latencies of acknowledged increments, sorted.
func latencies(increments []increment) []time.Duration {
	var latencies []time.Duration
	for _, i := range increments {
		latencies = append(latencies, i.latency)
	}
	slices.Sort(latencies)
	return latencies
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}
