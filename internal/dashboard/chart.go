package dashboard

import (
	"cmp"
	"fmt"
	"strings"
)

// history is how long ago charts begin, in seconds.
const history = 120

// A point is a value that holds until the next, since a time in microseconds.
type point struct {
	at    int64
	value float64
}

// steps returns the path of an SVG from -history to 0 and from 0 down to 100 that draws points, the
// oldest first, until now. The scale is that of the points, and includes 0 if it is to. The path is
// empty without two points.
func steps(points []point, now int64, fromZero bool) string {
	if len(points) < 2 {
		return ""
	}
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
	var path strings.Builder
	fmt.Fprintf(&path, "M%.1f 100", x(points[0]))
	for _, p := range points {
		fmt.Fprintf(&path, "H%.1fV%.1f", x(p), 100-100*(p.value-low)/cmp.Or(high-low, 1))
	}
	path.WriteString("H0V100Z")
	return path.String()
}
