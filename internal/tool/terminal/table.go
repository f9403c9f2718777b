package terminal

import (
	"strings"

	"github.com/rivo/uniseg"
)

// widestCell is the greatest width of a column of a table. A longer cell sticks out of its column:
// a single id may have 1,499 bytes. Paths with two of Firestore's own ids have some 60.
const widestCell = 64

// Table lays out lines of cells, which tabs separate, in columns. It measures cells as wide as a
// terminal shows them. An empty line ends a table, and another begins.
func Table(text string) string {
	blocks := strings.Split(text, "\n\n")
	for i, block := range blocks {
		rows := strings.Split(block, "\n")
		widths := widthsOf(rows)
		for n, row := range rows {
			rows[n] = padded(row, widths)
		}
		blocks[i] = strings.Join(rows, "\n")
	}
	return strings.Join(blocks, "\n\n")
}

// widthsOf returns the widths of the columns of rows. The last cell of a row does not count.
func widthsOf(rows []string) (widths []int) {
	for _, row := range rows {
		cells := strings.Split(row, "\t")
		for j, cell := range cells[:len(cells)-1] {
			if j == len(widths) {
				widths = append(widths, 0)
			}
			width := uniseg.StringWidth(cell)
			if width <= widestCell {
				widths[j] = max(widths[j], width)
			}
		}
	}
	return widths
}

// padded returns a row whose cells are as wide as its columns, with two blanks between them.
func padded(row string, widths []int) string {
	cells := strings.Split(row, "\t")
	for j, cell := range cells[:len(cells)-1] {
		missing := max(0, widths[j]-uniseg.StringWidth(cell))
		cells[j] += strings.Repeat(" ", missing+2)
	}
	return strings.Join(cells, "")
}
