package dashboard

import (
	"cmp"
	"fmt"
	"strings"
)

// history is how many seconds ago charts begin.
const history = 120

// A point is a value that holds until the next, since a time in microseconds.
type point struct {
	at    int64
	value float64
}

// steps returns the path of an SVG that draws points, the oldest first, as an area with steps. It
// goes from x = -history to x = 0, which is now, and is between y = 0 and y = 100, which is the
// bottom. It fits the values of the points, and if fromZero is true also 0. If all of these are one
// value, the line is halfway up, unless the value is 0. Without points the path is empty.
func steps(points []point, now int64, fromZero bool) string {
	if len(points) == 0 {
		return ""
	}

	// Of the points before the chart, the last one alone shows.
	x := func(p point) float64 { return min(max(-history, float64(p.at-now)/1e6), 0) }
	for len(points) > 1 && x(points[1]) == -history {
		points = points[1:]
	}

	low, high := points[0].value, points[0].value
	if fromZero {
		low, high = min(0, low), max(0, high)
	}
	for _, p := range points {
		low, high = min(low, p.value), max(high, p.value)
	}
	if low == high && low != 0 {
		low, high = low-1, high+1
	}
	y := func(p point) float64 { return 100 - 100*(p.value-low)/cmp.Or(high-low, 1) }

	var path strings.Builder
	fmt.Fprintf(&path, "M%.1f 100", x(points[0]))
	for _, p := range points {
		fmt.Fprintf(&path, "H%.1fV%.1f", x(p), y(p))
	}
	path.WriteString("H0V100Z")
	return path.String()
}
