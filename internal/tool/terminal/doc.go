// Package terminal writes to a terminal, or to whatever stands in its place, and asks its user. It
// escapes what a terminal must not get, lays out tables, shows the progress of long work in the
// last line, and asks whether to go on.
package terminal
