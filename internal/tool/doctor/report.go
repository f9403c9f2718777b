package doctor

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/firestore-tally/tally/internal/tool/deploy"
	"github.com/firestore-tally/tally/internal/tool/terminal"
	"github.com/mitchellh/go-wordwrap"
)

// Count returns how many findings have each verdict.
func Count(findings []Finding) map[Verdict]int {
	counts := map[Verdict]int{Well: 0, Wrong: 0, Unknown: 0, Idle: 0}
	for _, f := range findings {
		counts[f.Verdict]++
	}
	return counts
}

// Sound reports whether all is well. A file of the app's that is not there, and so was not checked,
// is no reason against it unless nothing was checked.
func Sound(findings []Finding) bool {
	isUnsound := func(f Finding) bool { return f.Verdict != Well && (f.Verdict != Idle || f.needs > theFolder) }
	return Count(findings)[Well] > 0 && !slices.ContainsFunc(findings, isUnsound)
}

// Fixable reports whether there is a command for anything that is wrong.
func Fixable(findings []Finding) bool {
	fixable := func(p Problem) bool { return p.Verdict == Wrong && p.Remedy != "" }
	return slices.ContainsFunc(findings, func(f Finding) bool { return slices.ContainsFunc(f.Problems, fixable) })
}

// marks begin a check's line.
var marks = map[Verdict]string{Well: "✓", Wrong: "✗", Unknown: "?", Idle: "-"}

// wide is how wide lines are where there is no terminal, unless a word is wider. There commands
// stay on one line.
const wide = 100

// A page is a text that is broken into lines of a width.
type page struct {
	strings.Builder
	width    int
	terminal bool
}

// pageOf returns an empty page for an output.
func pageOf(w io.Writer) *page {
	columns := terminal.Width(w)
	if columns > 0 {
		return &page{width: columns, terminal: true}
	}
	return &page{width: wide}
}

// Print writes the findings for a reader: a sentence about all, a line for each check that is not
// OK, or for all with verbose, and the commands that fix it below. Checks that were not made for
// one reason share a line.
func Print(w io.Writer, findings []Finding, verbose bool) error {
	name := 0
	for _, f := range findings {
		name = max(name, len(f.Name))
	}

	b := pageOf(w)
	b.wrap("", verdict(findings))
	b.WriteString("\n")
	shown := make(map[string]bool) // why checks were not made
	for i, f := range findings {
		isQuiet := f.Verdict == Well && len(f.Notes) == 0 && !verbose
		if isQuiet || f.Verdict == Idle && shown[f.Why] {
			continue
		}
		shown[f.Why] = true
		title, claim := fmt.Sprintf("%s %-*s  ", marks[f.Verdict], name, f.Name), f.Claim
		if all := sameReason(findings[i:]); len(all) > 1 {
			title, claim = marks[f.Verdict]+" ", strings.Join(all, ", ")
		}
		b.wrap(title, claim)
		f.print(b)
	}

	_, err := io.WriteString(w, b.String())
	return err
}

// verdict returns in a sentence whether all is well, and which checks failed.
func verdict(findings []Finding) string {
	var failed []string
	for _, f := range findings {
		if f.Verdict == Wrong {
			failed = append(failed, f.Name)
		}
	}

	c := Count(findings)
	counts := fmt.Sprintf("%d OK, %d failed, %d not checked", c[Well], c[Wrong], c[Unknown]+c[Idle])
	switch {
	case failed != nil:
		return "Something is wrong, by " + strings.Join(failed, ", ") + ": " + counts
	case c[Well] == len(findings):
		return fmt.Sprintf("All %d checks are OK.", len(findings))
	default:
		return "Nothing is wrong, as far as was checked: " + counts
	}
}

// sameReason returns the names of the checks that were not made for the same reason as the first
// one.
func sameReason(findings []Finding) (names []string) {
	for _, f := range findings {
		if f.Verdict == Idle && findings[0].Verdict == Idle && f.Why == findings[0].Why {
			names = append(names, f.Name)
		}
	}
	return names
}

// indent begins the lines below a check's line.
const indent = "    "

// print writes what was found below the check's line.
func (f *Finding) print(b *page) {
	if f.Verdict == Idle {
		b.wrap(indent, "not checked: "+f.Why)
	}

	for i, p := range f.Problems {
		first := indent
		if f.Verdict == Wrong && p.Verdict == Unknown {
			first += "? " // unlike the other problems, it is not known to be wrong
		}
		b.wrap(first, p.Text)

		isLast := i == len(f.Problems)-1
		if p.RestsOn != "" && (isLast || f.Problems[i+1].RestsOn != p.RestsOn) {
			b.wrap(indent+"  # ", p.RestsOn)
		}
		if p.Remedy != "" && (isLast || f.Problems[i+1].Remedy != p.Remedy) {
			b.command(indent + "  " + p.Remedy)
		}
	}

	for _, note := range f.Notes {
		b.wrap(indent+"note: ", note)
	}
	if f.Verdict == Wrong {
		b.wrap(indent+"why: ", f.RestsOn)
	}
}

// List writes each check for a reader: what it claims, why that matters and what fixes it. The
// permissions that all checks take follow.
func List(w io.Writer) error {
	b := pageOf(w)
	for i := range Checks {
		c := &Checks[i]
		b.wrap(c.Name+": ", c.Claim)
		b.wrap("    why:   ", c.RestsOn)
		b.wrap("    fix:   ", c.Fixes)
	}
	b.WriteString("\nAll of it takes these permissions, which only read:\n")
	for _, a := range deploy.APIs() {
		b.wrap("    ", fmt.Sprintf("%s: %s (in %s)", a.Name, a.Reads, a.Role))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// wrap writes the text, broken between words into lines. The first line begins with first, and the
// others with as many blanks. Indented lines of the text stay as they are.
func (b *page) wrap(first, text string) {
	rest := strings.Repeat(" ", utf8.RuneCountInString(first))
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if !strings.HasPrefix(line, " ") { // an indented line may point at a place in the line above
			lines[i] = wordwrap.WrapString(line, uint(max(1, b.width-len(rest))))
		}
	}
	b.WriteString(first + strings.ReplaceAll(strings.Join(lines, "\n"), "\n", "\n"+rest) + "\n")
}

// command writes a command, which can be copied as it is.
func (b *page) command(line string) {
	if b.terminal {
		line = terminal.Commands(line, b.width)
	}
	b.WriteString(line + "\n")
}

// A report is the findings in JSON.
type report struct {
	Project string          `json:"project"`
	Well    bool            `json:"well"` // by Sound
	Counts  map[Verdict]int `json:"counts"`
	Checks  []Finding       `json:"checks"`
}

// PrintJSON writes the findings as one JSON object.
func PrintJSON(w io.Writer, project string, findings []Finding) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(report{project, Sound(findings), Count(findings), append([]Finding{}, findings...)})
}
