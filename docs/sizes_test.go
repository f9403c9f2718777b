package docs_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// pictures/sizes.svg shows the figures of performance.md on large counters.
//
//	go test ./docs -run TestSizes -update
func TestSizes(t *testing.T) {
	page := read(t, "performance.md")
	wantPicture(t, "pictures/sizes.svg", drawSizes(sizesOf(t, page)))
}

// loads are what is drawn of the table of large counters. The price of a day stands in a column,
// and the lag in the next.
var loads = []struct {
	column      int
	class, name string
}{
	{3, "live", "10 changes a second"},
	{1, "every", "a change every 10 seconds"},
	{5, "own", "10 a second, without a bound"},
}

// sizesOf returns the curves of what counters cost and how late they are, by how many documents
// they have.
func sizesOf(t *testing.T, page string) (costs, lags []curve) {
	t.Helper()
	rows, _ := table(t, page, "| documents | 0.1 changes/s: a day |")
	for _, load := range loads {
		cost, lag := curve{class: load.class}, curve{class: load.class}
		for _, row := range rows[1:] {
			documents := number(t, row[0])
			late, err := time.ParseDuration(row[load.column+1])
			if err != nil {
				t.Fatal(err)
			}
			cost.points = append(cost.points, point{documents, number(t, strings.TrimPrefix(row[load.column], "$"))})
			lag.points = append(lag.points, point{documents, late.Seconds()})
		}
		costs, lags = append(costs, cost), append(lags, lag)
	}
	return costs, lags
}

func drawSizes(costs, lags []curve) string {
	var b strings.Builder
	fmt.Fprintf(&b, chartsHead, "What the sums of one counter cost a day, and how late its total is, by how many documents it has: with the bound of 50 reads a second, and without one", "One counter of many documents, all day")
	x := 20
	for _, load := range loads {
		fmt.Fprintf(&b, "  <path class=\"%s\" d=\"M%d 56 h24\"/><text class=\"s\" x=\"%d\" y=\"60\">%s</text>\n", load.class, x, x+32, load.name)
		x += 280
	}

	sizes := []mark{{1e3, "1,000"}, {1e4, "10,000"}, {1e5, "100,000"}, {1e6, "1 M"}, {1e7, "10 M"}}
	chart{left: 70, title: "dollars a day for its sums, by documents", low: 0.003, high: 200, curves: costs, below: sizes,
		marks: []mark{{0.01, "1 ¢"}, {0.1, "10 ¢"}, {1, "$1"}, {10, "$10"}, {100, "$100"}}}.draw(&b)
	chart{left: 500, title: "lag p99, by documents", low: 0.05, high: 600, curves: lags, below: sizes,
		marks: []mark{{0.1, "100 ms"}, {1, "1 s"}, {10, "10 s"}, {60, "1 min"}, {600, "10 min"}}}.draw(&b)
	return styled(b.String() + "</svg>\n")
}
