package dashboard

import "time"

// A recent counts what happens, second by second, over as many seconds as it has elements.
type recent struct {
	seconds []int
	last    int64 // the second, since 1970, that was counted in last
}

func newRecent(window time.Duration) recent {
	return recent{seconds: make([]int, max(1, int(window/time.Second)))}
}

// add counts n at now.
func (r *recent) add(now time.Time, n int) {
	r.forget(now)
	r.seconds[r.last%int64(len(r.seconds))] += n
}

// perSecond returns the mean over the seconds before now, of which watched have been watched.
func (r *recent) perSecond(now time.Time, watched time.Duration) float64 {
	r.forget(now)
	sum := 0
	for _, n := range r.seconds {
		sum += n
	}
	return float64(sum) / min(max(1, watched.Seconds()), float64(len(r.seconds)))
}

// forget clears the seconds that are over.
func (r *recent) forget(now time.Time) {
	second := now.Unix()
	if second <= r.last {
		return // in the second of the last call, or the clock was set back
	}
	size := int64(len(r.seconds))
	for s := max(r.last+1, second-size+1); s <= second; s++ {
		r.seconds[s%size] = 0
	}
	r.last = second
}
