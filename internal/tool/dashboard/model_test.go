package dashboard

import (
	"bytes"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/firestore-tally/tally/internal/value"
	"github.com/firestore-tally/tally/rollup/route"
	"github.com/google/go-cmp/cmp"
)

// at returns microseconds.
func at(second float64) int64 { return int64(second * 1e6) }

func TestRate(t *testing.T) {
	type put struct {
		asOf  float64
		total any
	}
	const began = 1000
	for _, test := range []struct {
		name  string
		known bool
		puts  []put
		now   float64
		want  float64
	}{
		{"one roll-up of before", true, []put{{900, 500}}, 1005, 0},
		{"new, so it was 0", false, []put{{1019, 50}}, 1020, 5},
		{"steady", true, []put{{1000, 0}, {1005, 50}, {1010, 100}, {1015, 150}, {1020, 200}}, 1020, 10},
		{"watched for two seconds", true, []put{{900, 0}, {1001, 10}, {1002, 20}}, 1002, 10},
		{"over", true, []put{{1000, 0}, {1005, 50}}, 1016, 0},
		{"nearly over", true, []put{{1000, 0}, {1005, 50}, {1006, 60}}, 1015.5, 1},
		{"down", true, []put{{1000, 100}, {1019, 80}}, 1020, -2},
		{"beyond 2^53", true, []put{{1000, int64(1 << 60)}, {1019, int64(1<<60 + 10)}}, 1020, 1},
		{"real", true, []put{{1000, 0.5}, {1019, 3.0}}, 1020, 0.25},
		{"no number", true, []put{{1000, 1}, {1019, math.NaN()}}, 1020, 0},
		{"created again, with an older time", true, []put{{1015, 100}, {1014, 1}}, 1020, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := newModel(10*time.Second, false)
			m.began = at(began)
			key := rowKey{"d", "r", "f"}
			for _, p := range test.puts {
				of := p.total
				if n, ok := of.(int); ok {
					of = int64(n)
				}
				total, _ := value.Number(of)
				m.put(row{Key: key, known: test.known, total: route.Total{Aggregate: route.Sum}}, sample{at(p.asOf), total}, 1)
			}
			m.tick(time.UnixMicro(at(test.now)))
			if got := m.rows[key].Rate; got != test.want || m.rates[0].value != test.want {
				t.Errorf("got %v, of all %v, want %v", got, m.rates[0].value, test.want)
			}
		})
	}
}

func TestHistoryIsBounded(t *testing.T) {
	m := newModel(10*time.Second, false)
	key := rowKey{"d", "r", "f"}
	for i := range 10 * maxSamples {
		m.put(row{Key: key, known: true}, sample{int64(i), value.Int(int64(i))}, 1)
	}
	r := m.rows[key]
	if got, want := len(r.samples), maxSamples; got != want || cap(r.samples) > 2*maxSamples {
		t.Errorf("%d samples, in room for %d, want %d", got, cap(r.samples), want)
	}
	if got, want := r.samples[0].asOf, int64(9*maxSamples); got != want || r.AsOf != int64(10*maxSamples-1) {
		t.Errorf("samples from %d to %d, want from %d", got, r.AsOf, want)
	}
}

func TestRecent(t *testing.T) {
	start := time.Unix(1_700_000_000, 0)
	for _, test := range []struct {
		second  int
		watched time.Duration
		want    float64
	}{
		{29, time.Minute, 3},
		{29, 5 * time.Second, 6}, // as if all of them came in five seconds
		{34, time.Minute, 1.5},
		{60, time.Minute, 0},
	} {
		var r recent
		for second := range 30 {
			at := start.Add(time.Duration(second) * time.Second)
			r = append(r, at, at, at)
		}
		now := start.Add(time.Duration(test.second) * time.Second)
		if got := r.perSecond(now, 10*time.Second, test.watched); got != test.want {
			t.Errorf("at second %d: %v a second, want %v", test.second, got, test.want)
		}
		if len(r) > 30 {
			t.Errorf("it remembers %d, most of them out of the window", len(r))
		}
	}
}

func TestRank(t *testing.T) {
	m := newModel(time.Second, false)
	got := []string{"b", "10", "9", "a", "010", "0", "B", "a10", "a9"}
	slices.SortFunc(got, func(a, b string) int { return bytes.Compare(m.rank(a), m.rank(b)) })
	if d := cmp.Diff([]string{"0", "9", "010", "10", "a", "a9", "a10", "b", "B"}, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
