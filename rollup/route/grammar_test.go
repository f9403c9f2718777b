package route

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// The grammar in docs/routes.md is the parser's, form by form. The parser takes every sentence of
// the grammar. Of sentences in which something was left out, doubled, put elsewhere or replaced, it
// takes those that the grammar has as well.
func TestGrammar(t *testing.T) {
	g := readGrammar(t)
	random := rand.New(rand.NewPCG(1, 2))
	var accepted, refused int
	for range 5000 {
		sentence := g.generate(random, g.rules["route"])
		if err := parsed(sentence); err != nil {
			t.Fatalf("the parser does not take %q: %v", strings.Join(sentence, " "), err)
		}

		changed := change(random, sentence)
		err := parsed(changed)
		if err == nil {
			accepted++
		} else {
			refused++
		}
		if g.has(changed) != (err == nil) {
			t.Fatalf("the grammar has %q: %v; the parser: %v", strings.Join(changed, " "), g.has(changed), err)
		}
	}
	if accepted < 200 || refused < 1000 {
		t.Errorf("of the changed sentences %d were taken and %d refused", accepted, refused)
	}
	for _, e := range g.elements {
		if e.used == 0 {
			t.Errorf("no sentence used %q", e.text)
		}
	}
}

// parsed returns the parser's error for a sentence. Its words are written with spaces between them.
func parsed(sentence []string) error {
	text := source(strings.Join(sentence, " "))
	p := parser{source: text, tokens: lex(string(text))}
	if len(p.tokens) == 0 {
		return os.ErrInvalid
	}
	n, err := p.route()
	if err != nil {
		return err
	}

	for _, total := range n.totals {
		for _, c := range total.where {
			for _, v := range c.values {
				if _, isLength := ParseAgo(v.Text); v.isAgo && !isLength {
					return os.ErrInvalid
				}
				if _, err := text.value(v); err != nil && !v.isTime && !v.isAgo {
					return err
				}
			}
		}
	}
	for _, o := range n.options {
		if _, err := time.ParseDuration(o.duration.Text); o.duration.Kind != End && err != nil {
			return err
		}
	}
	return nil
}

// An element is a part of a grammar's rule.
type element struct {
	kind  byte   // '"' a word or symbol; 'n' a rule or a kind of word; '[' may be missing; '{' any number of times; '|' one of the parts; ' ' all of them
	text  string // of '"' and 'n'
	parts []*element
	used  int
}

type grammar struct {
	rules    map[string]*element
	elements []*element
}

var ebnf = regexp.MustCompile(`"[^"]*"|\w+|[\[\]{}|=]`)

// readGrammar reads the grammar of the documentation. What follows three spaces is a comment.
func readGrammar(t *testing.T) *grammar {
	page, err := os.ReadFile("../../docs/routes.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "## Grammar")
	_, text, _ = strings.Cut(text, "```text\n")
	text, _, _ = strings.Cut(text, "```")

	var words []string
	comment := regexp.MustCompile(`^(.{12}\S.*?)\s{3,}.*`)
	for line := range strings.Lines(text) {
		words = append(words, ebnf.FindAllString(comment.ReplaceAllString(line, "$1"), -1)...)
	}

	g := grammar{rules: make(map[string]*element)}
	for len(words) > 2 && words[1] == "=" {
		name := words[0]
		words = words[2:]
		g.rules[name] = g.alternatives(&words)
	}
	if len(words) > 0 || g.rules["route"] == nil {
		t.Fatalf("the grammar ends before %q", words)
	}
	return &g
}

func (g *grammar) element(kind byte, text string, parts ...*element) *element {
	e := &element{kind: kind, text: text, parts: parts}
	g.elements = append(g.elements, e)
	return e
}

// alternatives reads what a rule, or a part in brackets, says.
func (g *grammar) alternatives(words *[]string) *element {
	all := g.element('|', "", g.element(' ', ""))
	for len(*words) > 0 && (*words)[0] != "]" && (*words)[0] != "}" && (len(*words) < 2 || (*words)[1] != "=") {
		word := (*words)[0]
		*words = (*words)[1:]
		last := all.parts[len(all.parts)-1]
		switch word[0] {
		case '|':
			all.parts = append(all.parts, g.element(' ', ""))
		case '[', '{':
			last.parts = append(last.parts, g.element(word[0], "", g.alternatives(words)))
			*words = (*words)[1:]
		case '"':
			last.parts = append(last.parts, g.element('"', strings.Trim(word, `"`)))
		default:
			last.parts = append(last.parts, g.element('n', word))
		}
	}
	return all
}

// kinds are the kinds of words, with examples.
var kinds = map[string][]string{
	"name":     {"a", "b_1", "größe", "`a b`", "`by`", "in", "timestamp", "every", "count", "12", "null", "v1.0"},
	"text":     {`"a"`, `""`, `"] as : é"`},
	"number":   {"0", "-1.5e3", "12"},
	"duration": {"10s", "1h30m"},
	"length":   {"90s", "24h", "30d"},
}

// generate returns a random sentence of an element.
func (g *grammar) generate(random *rand.Rand, e *element) []string {
	e.used++
	var sentence []string
	switch e.kind {
	case '"':
		return []string{e.text}
	case '|':
		return g.generate(random, e.parts[random.IntN(len(e.parts))])
	case ' ':
		for _, part := range e.parts {
			sentence = append(sentence, g.generate(random, part)...)
		}
	case '[', '{':
		most := 1
		if e.kind == '{' {
			most = 2
		}
		for range random.IntN(most + 1) {
			sentence = append(sentence, g.generate(random, e.parts[0])...)
		}
	case 'n':
		if examples := kinds[e.text]; examples != nil {
			return []string{examples[random.IntN(len(examples))]}
		}
		sentence = g.generate(random, g.rules[e.text])
		if e.text == "field" {
			return []string{strings.Join(sentence, "")}
		}
	}
	return sentence
}

// change returns the sentence with one word left out, doubled, exchanged, or replaced.
func change(random *rand.Rand, sentence []string) []string {
	changed := slices.Clone(sentence)
	i, j := random.IntN(len(changed)), random.IntN(len(changed))
	switch random.IntN(4) {
	case 0:
		return slices.Delete(changed, i, i+1)
	case 1:
		return slices.Insert(changed, i, changed[j])
	case 2:
		changed[i], changed[j] = changed[j], changed[i]
	default:
		others := []string{"->", ":", ",", "/", "(", ")", "[", "]", "{", "}", "==", ">", "<=", "!=", "in", "as", "and", "where", "by", "or", "sum", "count", "a", "1", `"2026-01-31T12:00:00Z"`, "null", "every", "now", "-", "24h"}
		changed[i] = others[random.IntN(len(others))]
	}
	return changed
}

// has reports whether the sentence is one of the grammar.
func (g *grammar) has(sentence []string) bool {
	return slices.Contains(g.ends(g.rules["route"], sentence, 0), len(sentence))
}

// ends returns where parts of the sentence end that begin at a place and are of the element.
func (g *grammar) ends(e *element, sentence []string, at int) []int {
	var ends []int
	switch e.kind {
	case '"':
		if at < len(sentence) && sentence[at] == e.text {
			return []int{at + 1}
		}
	case '|':
		for _, part := range e.parts {
			ends = append(ends, g.ends(part, sentence, at)...)
		}
	case ' ':
		ends = []int{at}
		for _, part := range e.parts {
			var next []int
			for _, end := range ends {
				next = append(next, g.ends(part, sentence, end)...)
			}
			ends = next
		}
	case '[':
		ends = append(g.ends(e.parts[0], sentence, at), at)
	case '{':
		ends = []int{at}
		for i := 0; i < len(ends); i++ {
			ends = append(ends, g.ends(e.parts[0], sentence, ends[i])...)
		}
	case 'n':
		if kinds[e.text] != nil || e.text == "field" {
			if at < len(sentence) && isOf(e.text, sentence[at]) {
				return []int{at + 1}
			}
			return nil
		}
		return g.ends(g.rules[e.text], sentence, at)
	}
	slices.Sort(ends)
	return slices.Compact(ends)
}

// isOf reports whether a word is of the kind.
func isOf(kind, word string) bool {
	inBackticks := strings.Contains(word, "`")
	bare := !inBackticks && bare(word) == len(word) && !slices.Contains(reserved, word)
	_, noDuration := time.ParseDuration(word)
	switch kind {
	case "field":
		return bare || inBackticks
	case "name":
		return bare || inBackticks && strings.Count(word, "`") == 2 && word[0] == '`' && word[len(word)-1] == '`'
	case "number":
		return bare && json.Valid([]byte(word)) && strings.ContainsAny(word, "0123456789")
	case "duration":
		return bare && noDuration == nil
	case "length":
		_, is := ParseAgo(word)
		return bare && is
	default:
		return strings.HasPrefix(word, `"`)
	}
}
