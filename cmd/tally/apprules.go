package main

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/firestore-tally/tally/internal/tool/rules"
)

// appRules are security rules.
type appRules struct {
	file string // "": they are Tally's own, which are built in
	text string
}

// name returns what messages call the rules.
func (r appRules) name() string {
	if r.file == "" {
		return "Tally's built-in rules"
	}
	return filepath.Base(r.file)
}

// quote returns what messages call statements that begin on these lines.
func (r appRules) quote(lines []int) string {
	read := rules.Parse(r.text)
	var all []string
	for _, n := range lines {
		line := fmt.Sprintf("line %d", n)
		statement := read.Statement(n)
		if statement != "" {
			line += ": " + statement
		}
		all = append(all, line)
	}
	return r.name() + " " + strings.Join(all, " and ")
}
