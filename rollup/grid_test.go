package rollup_test

import (
	"slices"
	"testing"
)

// cellsOf returns the cells of a grid that a test tries: all of them, or only its corners under
// -short.
func cellsOf[Cell any](grid []Cell, corner func(Cell) bool) []Cell {
	if !testing.Short() {
		return grid
	}
	return slices.DeleteFunc(grid, func(c Cell) bool { return !corner(c) })
}
