package bench

import (
	"fmt"
	"testing"
	"time"

	"github.com/firestore-tally/tally/internal/tool/local/eventrelay"
)

// BenchmarkWays increments one counter for 10 s, with each way to aggregate. Then it waits up to 60
// s for the events. Rate 0 is as many increments as the emulator takes.
//
//	reads/1000, writes/1000  billed to the function, per 1,000 increments
//	p50-ms, p99-ms           from an increment's commit until a listener sees it in the total
//	refused                  increments that Firestore did not acknowledge
//	missed                   increments that are not in the total at the end; negative: counted too often
//	backwards                times that the total went back
//	undelivered              events not acknowledged after 60 s
func BenchmarkWays(b *testing.B) {
	for _, shards := range []int{10, 100} {
		for _, rate := range []int{1, 10, 100, 0} {
			for _, way := range []string{tally, every, obvious} {
				b.Run(fmt.Sprintf("shards=%d/rate=%d/%s", shards, rate, way), func(b *testing.B) {
					for range b.N {
						benchmarkWay(b, way, shards, rate)
					}
				})
			}
		}
	}
}

func benchmarkWay(b *testing.B, way string, shards, rate int) {
	const during = 10 * time.Second
	warmUp(b)
	w := newWorld(b, way, shards, 8)
	watch := w.watch()
	before := meters[way].Counts()
	if way == every {
		stop := w.keep()
		defer stop()
	}

	if rate > 0 {
		w.atRate(rate, during)
	} else {
		w.flatOut(during)
	}

	var stats eventrelay.Stats
	if way == every {
		watch.reaches(int64(len(w.increments)))
	} else {
		w.settle()
		stats = w.relay.Stats()
	}

	billed := meters[way].Counts()
	n := float64(len(w.increments))
	missed := int64(len(w.increments)) - w.total()
	if way != obvious && missed != 0 {
		b.Errorf("the roll-up is %d off", missed)
	}

	watch.stop()

	backwards := 0
	for i := 1; i < len(watch.seen); i++ {
		if watch.seen[i].total < watch.seen[i-1].total {
			backwards++
		}
	}
	lags := w.lags(watch.seen)

	b.ReportMetric(0, "ns/op")
	b.ReportMetric(n/during.Seconds(), "increments/s")
	b.ReportMetric(float64(billed.Reads-before.Reads)*1000/n, "reads/1000")
	b.ReportMetric(float64(billed.Writes-before.Writes)*1000/n, "writes/1000")
	b.ReportMetric(percentile(lags, 50), "p50-ms")
	b.ReportMetric(percentile(lags, 99), "p99-ms")
	b.ReportMetric(float64(w.refused), "refused")
	b.ReportMetric(float64(missed), "missed")
	b.ReportMetric(float64(backwards), "backwards")
	b.ReportMetric(float64(stats.Events-stats.Acknowledged), "undelivered")
}
