package docs_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// design/packages.svg shows the packages as the code imports them.
//
//	go test ./docs -run TestPackages -update
func TestPackages(t *testing.T) {
	const picture = "design/packages.svg"
	imports := importsOf(t)
	want := draw(arrange(imports), reachable(imports, "."))
	if *update {
		if err := os.WriteFile(picture, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if read(t, picture) != want {
		t.Errorf("%s shows other packages or imports than there are; go test ./docs -run TestPackages -update draws it", picture)
	}
}

// importsOf returns what each package imports of this module, but for packages that only tests
// import. An import is left out if a longer way leads there.
func importsOf(t *testing.T) map[string][]string {
	t.Helper()
	const module = "github.com/firestore-tally/tally"
	list := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports", "./...")
	list.Dir = ".."
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}

	all := make(map[string][]string)
	packages := json.NewDecoder(bytes.NewReader(out))
	for {
		var p struct {
			ImportPath string
			Imports    []string
		}
		err := packages.Decode(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		name := local(p.ImportPath, module)
		all[name] = nil
		for _, path := range p.Imports {
			if strings.HasPrefix(path, module) {
				all[name] = append(all[name], local(path, module))
			}
		}
	}

	shown := make(map[string][]string)
	for name := range reachable(all, "cmd/tally") {
		shown[name] = slices.DeleteFunc(slices.Clone(all[name]), func(imported string) bool {
			return slices.ContainsFunc(all[name], func(other string) bool {
				return other != imported && reachable(all, other)[imported]
			})
		})
	}
	return shown
}

// local returns a package's path below the module's root, which is ".".
func local(path, module string) string {
	return cmp.Or(strings.TrimPrefix(strings.TrimPrefix(path, module), "/"), ".")
}

// reachable returns a package and all that it imports, directly or not.
func reachable(imports map[string][]string, from string) map[string]bool {
	found := map[string]bool{from: true}
	for left := []string{from}; len(left) > 0; left = left[1:] {
		for _, imported := range imports[left[0]] {
			if !found[imported] {
				found[imported] = true
				left = append(left, imported)
			}
		}
	}
	return found
}

// A spot is a package's place in the picture, or, without a name, where an arrow passes a row.
// Places are whole numbers, which every machine rounds alike.
type spot struct {
	name  string
	width int
	x     int // of its middle
	row   int
	up    []*spot // what points to it from the row above
	down  []*spot // what it points to in the row below
}

const (
	boxHeight = 30
	rowHeight = 78
	letter    = 8  // its width, about
	between   = 22 // boxes of a row
	margin    = 24
)

// arrange places the packages in rows, so that all arrows point down and few of them cross.
func arrange(imports map[string][]string) [][]*spot {
	names := slices.Sorted(maps.Keys(imports))
	row := rowsOf(imports, names)
	spots := make(map[string]*spot)
	var rows [][]*spot
	add := func(s *spot) *spot {
		for len(rows) <= s.row {
			rows = append(rows, nil)
		}
		rows[s.row] = append(rows[s.row], s)
		return s
	}
	for _, name := range names {
		spots[name] = add(&spot{name: name, width: len(label(name))*letter + 24, row: row[name]})
	}
	for _, name := range names {
		for _, imported := range imports[name] {
			from, to := spots[name], spots[imported]
			for from.row+1 < to.row {
				from = join(from, add(&spot{width: 6, row: from.row + 1}))
			}
			join(from, to)
		}
	}

	place(rows)
	return rows
}

func join(from, to *spot) *spot {
	from.down, to.up = append(from.down, to), append(to.up, from)
	return to
}

// rowsOf returns the row of each package: below all that import it and, if it imports more than
// that, as far down as what it imports allows.
func rowsOf(imports map[string][]string, names []string) map[string]int {
	row, importers := make(map[string]int), make(map[string]int)
	for range names {
		for _, name := range names {
			for _, imported := range imports[name] {
				row[imported] = max(row[imported], row[name]+1)
			}
		}
	}
	for _, name := range names {
		for _, imported := range imports[name] {
			importers[imported]++
		}
	}

	for range names {
		for _, name := range names {
			if len(imports[name]) <= importers[name] || importers[name] == 0 {
				continue
			}
			lowest := len(names)
			for _, imported := range imports[name] {
				lowest = min(lowest, row[imported]-1)
			}
			row[name] = lowest
		}
	}
	return row
}

// place orders the spots of each row and gives them their places: again and again each goes to the
// middle of those that it is joined with, and the row then makes room.
func place(rows [][]*spot) {
	for _, row := range rows {
		spread(row)
	}
	const sweeps = 60
	for sweep := range sweeps {
		for i := range rows {
			row, joined := rows[i], func(s *spot) []*spot { return s.up }
			if sweep%2 == 1 {
				row, joined = rows[len(rows)-1-i], func(s *spot) []*spot { return s.down }
			}
			for _, s := range row {
				s.x = middle(joined(s), s.x)
			}
			if sweep < sweeps/2 {
				slices.SortStableFunc(row, func(a, b *spot) int { return cmp.Compare(a.x, b.x) })
			}
			spread(row)
		}
	}

	left := rows[0][0].x
	for _, row := range rows {
		left = min(left, row[0].x-row[0].width/2)
	}
	for _, row := range rows {
		for _, s := range row {
			s.x += margin - left
		}
	}
}

// middle is the mean place of spots; without any it is a place that is there already.
func middle(spots []*spot, otherwise int) int {
	if len(spots) == 0 {
		return otherwise
	}
	sum := 0
	for _, s := range spots {
		sum += s.x
	}
	return sum / len(spots)
}

// spread moves the spots of a row apart, as little as is needed for each group of those that touch.
func spread(row []*spot) {
	for range row {
		for i := 1; i < len(row); i++ {
			a, b := row[i-1], row[i]
			if missing := (a.width+b.width)/2 + between - (b.x - a.x); missing > 0 {
				a.x -= (missing + 1) / 2
				b.x += (missing + 1) / 2
			}
		}
	}
	for i := 1; i < len(row); i++ { // what is left of it
		a, b := row[i-1], row[i]
		b.x = max(b.x, a.x+(a.width+b.width)/2+between)
	}
}

func label(name string) string {
	if name == "." {
		return "tally (the functions)"
	}
	return name
}

// draw returns the picture, in the style of those in docs/pictures.
func draw(rows [][]*spot, deployed map[string]bool) string {
	width := 0
	for _, row := range rows {
		last := row[len(row)-1]
		width = max(width, last.x+last.width/2+margin)
	}
	height := top(len(rows)-1) + boxHeight + margin

	var b strings.Builder
	fmt.Fprintf(&b, pictureHead, width, height)
	for _, row := range rows {
		for _, s := range row {
			for _, to := range s.down {
				if s.name != "" {
					fmt.Fprintf(&b, "  <path class=\"arrow\" d=\"%s\"/>\n", arrow(s, to))
				}
			}
		}
	}
	for _, row := range rows {
		for _, s := range row {
			if s.name == "" {
				continue
			}
			class := "box"
			if deployed[s.name] {
				class = "blue"
			}
			fmt.Fprintf(&b, "  <rect class=\"%s\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"6\"/><text x=\"%d\" y=\"%d\">%s</text>\n",
				class, s.x-s.width/2, top(s.row), s.width, boxHeight, s.x, top(s.row)+boxHeight/2+4, label(s.name))
		}
	}
	return b.String() + "</svg>\n"
}

// top is the upper edge of a row's boxes.
func top(row int) int { return margin + row*rowHeight }

// arrow returns the path from a package's lower edge to the upper edge of what it imports, through
// the spots in which it passes rows.
func arrow(from, to *spot) string {
	y := top(from.row) + boxHeight
	path := fmt.Sprintf("M%d %d", from.x, y)
	for x := from.x; ; {
		next := top(to.row)
		bend := (y + next) / 2
		path += fmt.Sprintf(" C%d %d %d %d %d %d", x, bend, to.x, bend, to.x, next)
		if to.name != "" {
			return path
		}
		x, y, to = to.x, next+boxHeight, to.down[0]
		path += fmt.Sprintf(" V%d", y)
	}
}

const pictureHead = `<svg xmlns="http://www.w3.org/2000/svg" width="%[1]d" height="%[2]d" viewBox="0 0 %[1]d %[2]d" role="img" aria-labelledby="title">
  <title id="title">The packages and what imports what; blue ones are what the deployed functions are built of</title>
  <style>
    svg { --bg: #ffffff; --ink: #1f2328; --line: #818b98; --box: #f6f8fa; --edge: #d1d9e0; --blue: #0969da; --blue-box: #ddf4ff; }
    @media (prefers-color-scheme: dark) {
      svg { --bg: #0d1117; --ink: #f0f6fc; --line: #7d8590; --box: #151b23; --edge: #3d444d; --blue: #4493f8; --blue-box: #0c2d6b; }
    }
    text { fill: var(--ink); text-anchor: middle; font: 12.5px ui-monospace, SFMono-Regular, Menlo, Consolas, 'Liberation Mono', monospace; }
    .bg { fill: var(--bg); } .box { fill: var(--box); stroke: var(--edge); } .blue { fill: var(--blue-box); stroke: var(--blue); }
    .arrow { fill: none; stroke: var(--line); stroke-width: 1.4; marker-end: url(#head); } .head { fill: var(--line); }
  </style>
  <defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto-start-reverse"><path class="head" d="M0 1 L10 5 L0 9 Z"/></marker></defs>
  <rect class="bg" width="%[1]d" height="%[2]d" rx="8"/>
`
