package docs_test

import (
	"fmt"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// pictures/rates.svg shows the figures of performance.md.
//
//	go test ./docs -run TestRates -update
func TestRates(t *testing.T) {
	page := read(t, "performance.md")
	wantPicture(t, "pictures/rates.svg", drawRates(costsOf(t, page), lagsOf(t, page)))
}

// wantPicture wants the file to be the picture, which -update draws.
func wantPicture(t *testing.T, file, want string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if read(t, file) != want {
		t.Errorf("%s shows other figures than performance.md; go test ./docs -run %s -update draws it", file, t.Name())
	}
}

// A curve is what one way of counting costs, or how late it is, by rate.
type curve struct {
	class  string
	points []point
	ends   bool // it does not keep up with more
}

type point struct{ rate, value float64 } // increments a second; dollars or seconds

// ways are the rows of the table of costs that are drawn, and their classes and names.
var ways = []struct{ row, class, name string }{
	{"Tally, live", "live", "Tally, live"},
	{"Tally, live, billed by instance", "instance", "Tally, live, billed by instance"},
	{"Tally, `every 1s`", "every", "Tally, every 1s"},
	{"own trigger that sums the shards", "own", "own trigger that sums the shards"},
	{"firestore-counter extension", "extension", "firestore-counter extension"},
}

// costsOf returns the curves of the table of costs in us-central1.
func costsOf(t *testing.T, page string) []curve {
	t.Helper()
	rows, _ := table(t, page, "| one counter in us-central1, a day |")
	var rates []float64
	for _, title := range rows[0][1:] {
		title, _, _ = strings.Cut(title, "/s")
		rates = append(rates, number(t, strings.TrimSuffix(title, " increment")))
	}

	var curves []curve
	for _, way := range ways {
		c := curve{class: way.class}
		for _, row := range rows {
			if row[0] != way.row {
				continue
			}
			for i, cell := range row[1:] {
				if cell == "does not keep up" {
					c.ends = true
					continue
				}
				c.points = append(c.points, point{rates[i], number(t, strings.TrimPrefix(cell, "$"))})
			}
		}
		if c.points == nil {
			t.Fatalf("performance.md has no costs of %s", way.row)
		}
		curves = append(curves, c)
	}
	return curves
}

// extensionLag is the sentence that tells how late the extension was.
var extensionLag = regexp.MustCompile(`At (\d+)/s its p99 was ([\d.]+) s`)

// lagsOf returns the curves of the measurement of the obvious way, and the one lag of the
// extension.
func lagsOf(t *testing.T, page string) []curve {
	t.Helper()
	rows, after := table(t, page, "| increments/s | | reads | writes | lag p99 |")
	extension := extensionLag.FindStringSubmatch(after)
	if extension == nil {
		t.Fatal("performance.md does not tell how late the extension was")
	}

	live, every, own := curve{class: "live"}, curve{class: "every"}, curve{class: "own", ends: true}
	rate := ""
	for _, row := range rows[1:] {
		if row[0] != "" {
			rate = row[0]
		}
		p := point{number(t, rate), number(t, strings.TrimSuffix(row[4], " ms")) / 1000}
		switch way, _, _ := strings.Cut(row[1], ","); way {
		case "Tally":
			live.points = append(live.points, p)
		case "Tally `every 1s`":
			every.points = append(every.points, p)
		default:
			own.points = append(own.points, p)
		}
	}
	late := curve{class: "extension", ends: true, points: []point{{number(t, extension[1]), number(t, extension[2])}}}
	return []curve{live, every, own, late}
}

// table returns the cells of the table that begins so, and what comes after it.
func table(t *testing.T, page, begin string) (rows [][]string, after string) {
	t.Helper()
	at := strings.Index(page, begin)
	if at < 0 {
		t.Fatalf("performance.md has no table %s", begin)
	}
	text, after, _ := strings.Cut(page[at:], "\n\n")
	for i, line := range strings.Split(text, "\n") {
		if i == 1 {
			continue // it is below the titles
		}
		row := strings.Split(strings.Trim(line, "|"), "|")
		for j := range row {
			row[j] = strings.TrimSpace(row[j])
		}
		rows = append(rows, row)
	}
	return rows, after
}

func number(t *testing.T, text string) float64 {
	t.Helper()
	n, err := strconv.ParseFloat(strings.ReplaceAll(text, ",", ""), 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// A chart is half of the picture. Both of its axes are logarithmic.
type chart struct {
	left      int // edge of its area
	title     string
	low, high float64 // of the values
	marks     []mark  // of the values
	below     []mark  // of the rates, from the lowest to the highest
	curves    []curve
}

// A mark is a value with a line of its own.
type mark struct {
	value float64
	text  string
}

const (
	chartWidth, chartHeight = 330, 218
	chartTop                = 132
)

// x returns the place of a rate.
func (c chart) x(rate float64) int {
	return c.left + share(rate, c.below[0].value, c.below[len(c.below)-1].value, chartWidth)
}

// y returns the place of a value.
func (c chart) y(value float64) int {
	return chartTop + chartHeight - share(value, c.low, c.high, chartHeight)
}

// share returns how much of a length lies below a value on a logarithmic axis.
func share(value, low, high float64, length int) int {
	return int(math.Round(math.Log(value/low) / math.Log(high/low) * float64(length)))
}

func drawRates(costs, lags []curve) string {
	var b strings.Builder
	fmt.Fprintf(&b, chartsHead, "What one counter costs a day, and how late its total is, by the rate of increments: Tally, a trigger of one's own, and the firestore-counter extension", "One counter, all day")
	x, y := 20, 56
	for i, way := range ways {
		fmt.Fprintf(&b, "  <path class=\"%s\" d=\"M%d %d h24\"/><text class=\"s\" x=\"%d\" y=\"%d\">%s</text>\n", way.class, x, y, x+32, y+4, way.name)
		x += 280
		if i == 2 {
			x, y = 20, 80
		}
	}
	fmt.Fprintf(&b, "  <text class=\"s\" x=\"%d\" y=\"%d\"><tspan class=\"no\">✕</tspan> does not keep up with more</text>\n", x, y+4)

	rates := []mark{{1, "1"}, {10, "10"}, {100, "100"}, {1000, "1,000"}, {10_000, "10,000"}}
	chart{left: 70, title: "dollars a day, by increments a second", low: 0.3, high: 1000, curves: costs, below: rates,
		marks: []mark{{1, "$1"}, {10, "$10"}, {100, "$100"}, {1000, "$1,000"}}}.draw(&b)
	chart{left: 500, title: "lag p99, by increments a second", low: 0.005, high: 20, curves: lags, below: rates,
		marks: []mark{{0.01, "10 ms"}, {0.1, "100 ms"}, {1, "1 s"}, {10, "10 s"}}}.draw(&b)
	return styled(b.String() + "</svg>\n")
}

func (c chart) draw(b *strings.Builder) {
	fmt.Fprintf(b, "\n  <text class=\"b\" x=\"%d\" y=\"%d\">%s</text>\n", c.left, chartTop-10, c.title)
	for _, m := range c.marks {
		fmt.Fprintf(b, "  <path class=\"rule\" d=\"M%d %d h%d\"/><text class=\"s d e\" x=\"%d\" y=\"%d\">%s</text>\n", c.left, c.y(m.value), chartWidth, c.left-8, c.y(m.value)+4, m.text)
	}
	for _, m := range c.below {
		fmt.Fprintf(b, "  <text class=\"s d m\" x=\"%d\" y=\"%d\">%s</text>\n", c.x(m.value), chartTop+chartHeight+20, m.text)
	}

	for _, line := range c.curves {
		var path []string
		for _, p := range line.points {
			path = append(path, fmt.Sprintf("%d %d", c.x(p.rate), c.y(p.value)))
		}
		fmt.Fprintf(b, "  <path class=\"%s\" d=\"M%s\"/>\n", line.class, strings.Join(path, " L"))
		last := line.points[len(line.points)-1]
		for _, p := range line.points {
			if p != last || !line.ends {
				fmt.Fprintf(b, "  <circle class=\"%s dot\" cx=\"%d\" cy=\"%d\" r=\"3\"/>\n", line.class, c.x(p.rate), c.y(p.value))
			}
		}
		if line.ends {
			fmt.Fprintf(b, "  <text class=\"no %s-text m\" x=\"%d\" y=\"%d\">✕</text>\n", line.class, c.x(last.rate), c.y(last.value)+5)
		}
	}
}

// chartsHead is how a picture of two charts begins. It takes a title and a heading.
const chartsHead = `<svg xmlns="http://www.w3.org/2000/svg" width="860" height="386" viewBox="0 0 860 386" role="img" aria-labelledby="title" fill="#1f2328" font-size="14" font-family="system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif">
  <title id="title">%s</title>
  <style>
    @media (prefers-color-scheme: dark) {
      text { fill: #f0f6fc; } .d { fill: #aab2bc; } .bg { fill: #0d1117; } .rule { stroke: #3d444d; }
      .live, .instance { stroke: #4493f8; } .every { stroke: #3fb950; } .own { stroke: #d29922; } .extension { stroke: #f85149; }
      .dot { fill: #0d1117; } .own-text { fill: #d29922; } .extension-text { fill: #f85149; }
    }
  </style>
  <rect class="bg" width="860" height="386" rx="8"/>
  <text class="b" x="20" y="30">%s</text>
`

// looks are the attributes of each class. They are not CSS, which only browsers understand.
var looks = map[string]string{
	"b": `font-weight="600"`, "s": `font-size="12.5"`, "d": `fill="#59636e"`, "m": `text-anchor="middle"`, "e": `text-anchor="end"`,
	"bg": `fill="#ffffff"`, "rule": `stroke="#d1d9e0"`, "no": `font-weight="700"`,
	"live":      `stroke="#0969da" fill="none" stroke-width="2"`,
	"instance":  `stroke="#0969da" fill="none" stroke-width="2" stroke-dasharray="5 4"`,
	"every":     `stroke="#1a7f37" fill="none" stroke-width="2"`,
	"own":       `stroke="#9a6700" fill="none" stroke-width="2"`,
	"extension": `stroke="#cf222e" fill="none" stroke-width="2"`,
	"own-text":  `fill="#9a6700"`, "extension-text": `fill="#cf222e"`,
}

// styled adds the looks of its classes to each element.
func styled(svg string) string {
	return regexp.MustCompile(`class="([^"]*)"`).ReplaceAllStringFunc(svg, func(attribute string) string {
		classes := strings.Fields(strings.Trim(strings.TrimPrefix(attribute, "class="), `"`))
		for _, class := range classes {
			look := looks[class]
			if slices.Contains(classes, "dot") {
				look = strings.NewReplacer(`fill="none"`, `fill="#ffffff"`, ` stroke-dasharray="5 4"`, "").Replace(look)
			}
			attribute += " " + look
		}
		return strings.TrimRight(attribute, " ")
	})
}
