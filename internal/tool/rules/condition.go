package rules

import (
	"slices"
	"strings"
	"unicode"
)

// A term is one condition of an allow statement. All of a statement's terms must hold.
type term struct {
	text   string // as rules spell it
	decide string // what a person must decide before the condition may hold; the text is then false
}

// conditions returns terms for texts.
func conditions(texts ...string) []term {
	var terms []term
	for _, text := range texts {
		terms = append(terms, term{text: text})
	}
	return terms
}

// undecided returns the term that nothing meets until a person decides.
func undecided(what string) term { return term{text: "false", decide: what} }

// columns is how wide lines of rules are, unless a comment makes them wider.
const columns = 100

const (
	inBlock  = "      "       // before the statements of a block
	inAllow  = "        "     // before what continues a statement
	decideAs = " // decide: " // before what a person must decide
)

// allow returns the statement that allows operations if all terms hold, with those last that a
// person must decide. Each of these has a line of its own.
func allow(operations string, terms []term) string {
	known, open := splitTerms(terms)
	lines := []string{inBlock + "allow " + operations + ": if "}
	and := "" // before each term but the first

	for _, t := range known {
		last := lines[len(lines)-1]
		if and != "" && len(last)+len(" && ;")+len(t.text) > columns {
			lines = append(lines, inAllow)
		}
		lines[len(lines)-1] += and + t.text + " "
		and = "&& "
	}

	for i, t := range open {
		if and != "" {
			lines = append(lines, inAllow)
		}
		end := ""
		if i == len(open)-1 {
			end = ";"
		}
		lines[len(lines)-1] += and + t.text + end + decideAs + t.decide
		and = "&& "
	}

	for i, line := range lines {
		lines[i] = strings.TrimRight(line, " ")
	}
	text := strings.Join(lines, "\n")
	if len(open) == 0 {
		text += ";"
	}
	return text + "\n"
}

// splitTerms returns the terms that are known, and those that a person must decide, each once. Next
// to others, true says nothing.
func splitTerms(terms []term) (known, open []term) {
	seen := make(map[term]bool)
	for _, t := range terms {
		switch {
		case seen[t]:
		case t.decide == "":
			known = append(known, t)
		default:
			open = append(open, t)
		}
		seen[t] = true
	}

	if len(known) > 1 {
		known = slices.DeleteFunc(known, func(t term) bool { return t.text == "true" })
	}
	return known, open
}

// A Decision is what rules leave to a person.
type Decision struct {
	Line int // in the rules, from 1
	Text string
}

// Decisions returns what rules leave to a person: each comment that begins with "decide:". One that
// comes again is of the same question.
func Decisions(rules string) []Decision {
	var all []Decision
	n := 0
	for line := range strings.Lines(rules) {
		n++
		_, text, ok := strings.Cut(line, decideAs)
		text = strings.TrimSpace(text)
		if ok && !slices.ContainsFunc(all, func(d Decision) bool { return d.Text == text }) {
			all = append(all, Decision{n, text})
		}
	}
	return all
}

// quoted returns a text as rules spell it.
func quoted(text string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`, "\n", `\n`, "\r", `\r`, "\t", `\t`).Replace(text) + "'"
}

// canQuote reports whether rules take a text in quotes. They have no escape for some characters,
// and take others for quotes.
func canQuote(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool {
		return unicode.IsControl(r) && !strings.ContainsRune("\n\r\t", r) || r == '‘' || r == '’'
	})
}

// list returns a list of texts as rules spell it.
func list(texts []string) string {
	var all []string
	for _, text := range texts {
		all = append(all, quoted(text))
	}
	return "[" + strings.Join(all, ", ") + "]"
}
