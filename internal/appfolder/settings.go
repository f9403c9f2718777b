package appfolder

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Settings are what tally.yaml says. docs/config.md describes them; "means" is the short form, for
// editors.
type Settings struct {
	Routes       string            `yaml:"routes" means:"Which documents make which totals, as text with a route on each line, or as a list."` // as rollup.ParseRoutes reads them
	Cadence      string            `yaml:"cadence" means:"How often a counter that keeps changing is rolled up, such as 1s."`
	Databases    []string          `yaml:"databases" means:"Ids of the Firestore databases; by default (default)."`
	Region       string            `yaml:"region" means:"Where tally deploy puts the functions; by default near the first database."`
	Billing      string            `yaml:"billing" means:"How Cloud Run bills RollUpOnWrite."`
	RequestLogs  string            `yaml:"request_logs" means:"Which log entries about RollUpOnWrite's requests are kept."`
	MaxInstances *int              `yaml:"max_instances" means:"How many instances RollUpOnWrite may have."` // nil: the default
	AlertEmail   string            `yaml:"alert_email" means:"Address that alerts are mailed to."`
	Env          map[string]string `yaml:"env" means:"Other variables of the functions, and OpenTelemetry's."`
}

// Bounds of a tally.yaml, which may be somebody else's. The parser has none of its own: a few
// hundred bytes of aliases, or some ten thousand brackets or blank lines, take gigabytes.
const (
	maxSettings = 32 << 10 // bytes; hundreds of routes with their comments
	maxDepth    = 8        // lists and maps in each other; Settings have 2
	maxBlank    = 100      // blank lines in a row
)

// parse parses the text of the file, a tally.yaml. It returns also where its keys are, such as
// "region" and "env.TALLY_BURST", and each line of the routes. The error names the file, what is
// wrong, and the place.
func parse(file string, text []byte) (s Settings, p places, err error) {
	if !utf8.Valid(text) {
		return s, p, fmt.Errorf("%s: is not text in UTF-8: save it as that", file)
	}
	if line := blank(string(text)); line > 0 {
		return s, p, fmt.Errorf("%s%d blank lines end here: delete them", place{line, 1}.in(file), maxBlank)
	}
	tokens := lexer.Tokenize(string(text))
	if err := scan(file, tokens); err != nil {
		return s, p, err
	}
	parsed, err := parser.Parse(tokens, 0)
	if err != nil {
		return s, p, ownWords(file, string(text), err)
	}

	r := reader{file: file, text: strings.Split(string(text), "\n"), places: places{keys: make(map[string]place)}}
	r.settings(parsed, &s)
	for _, m := range s.mistakes() {
		r.problems = append(r.problems, fmt.Errorf("%s%s: %s", r.places.keys[m.key].in(file), m.key, m.reason))
	}
	return s, r.places, errors.Join(r.problems...)
}

// blank returns the first line that ends more blank ones than there may be, 0 if none does.
func blank(text string) int {
	n, inRow := 0, 0
	for line := range strings.Lines(text) {
		n++
		inRow++
		if strings.TrimSpace(line) != "" {
			inRow = 0
		}
		if inRow == maxBlank {
			return n
		}
	}
	return 0
}

// scan refuses references and deep nesting, before the parser follows them.
func scan(file string, tokens token.Tokens) error {
	flow := 0         // brackets and braces that are open
	var columns []int // of the block lists and maps that are open
	for _, t := range tokens {
		switch t.Type {
		case token.AnchorType, token.AliasType:
			return fmt.Errorf("%stally.yaml takes no anchors (&) and aliases (*): write the value out", placeOf(t).in(file))
		case token.SequenceStartType, token.MappingStartType:
			flow++
		case token.SequenceEndType, token.MappingEndType:
			flow--
		}

		isKey := t.Next != nil && t.Next.Type == token.MappingValueType
		begins := isKey || t.Type == token.SequenceEntryType || t.Type == token.MappingKeyType
		if begins && flow == 0 {
			for len(columns) > 0 && columns[len(columns)-1] >= t.Position.Column {
				columns = columns[:len(columns)-1]
			}
			columns = append(columns, t.Position.Column)
		}
		if flow+len(columns) > maxDepth {
			return fmt.Errorf("%slists and maps are nested more than %d deep: tally.yaml needs 2", placeOf(t).in(file), maxDepth)
		}
	}
	return nil
}

// A mistake is a value that Tally does not take.
type mistake struct{ key, reason string }

// Forms of values that get into commands, filters and Terraform's configurations.
var (
	variable = regexp.MustCompile(`^(TALLY|OTEL)_[A-Z0-9_]+$`)

	// https://docs.cloud.google.com/about/locations
	region = regexp.MustCompile(`^[a-z]+(-[a-z]+)+[0-9]{1,2}$`)

	// What browsers take (https://html.spec.whatwg.org/multipage/input.html#valid-e-mail-address),
	// with a dot in the domain.
	email = regexp.MustCompile("^[a-zA-Z0-9.!#$%&'*+/=?^_`{|}~-]+@[a-zA-Z0-9-]+(\\.[a-zA-Z0-9-]+)+$")
)

// choices are the values that keys may have which take no others.
var choices = map[string][]string{"billing": {"request", "instance"}, "request_logs": {"failed", "all"}}

// mistakes returns what is wrong with the values. What only the functions understand, such as
// routes, they check.
func (s *Settings) mistakes() []mistake {
	var found []mistake
	text := func(key, value string) {
		if strings.ContainsFunc(value, isControl) {
			found = append(found, mistake{key, fmt.Sprintf("%q holds a control character: take it out", value)})
		}
	}
	text("routes", s.Routes)
	text("cadence", s.Cadence)
	text("databases", strings.Join(s.Databases, ","))
	for _, choice := range []struct{ key, value string }{{"billing", s.Billing}, {"request_logs", s.RequestLogs}} {
		if values := choices[choice.key]; choice.value != "" && !slices.Contains(values, choice.value) {
			found = append(found, mistake{choice.key, fmt.Sprintf("%q: want %s", choice.value, strings.Join(values, " or "))})
		}
	}
	if s.Region != "" && !region.MatchString(s.Region) {
		found = append(found, mistake{"region", fmt.Sprintf("%q is no region: want one such as us-central1; gcloud functions regions list lists them", s.Region)})
	}
	if s.MaxInstances != nil && *s.MaxInstances < 1 {
		found = append(found, mistake{"max_instances", fmt.Sprintf("%d: want at least 1", *s.MaxInstances)})
	}
	if s.AlertEmail != "" {
		if err := CheckEmail(s.AlertEmail); err != nil {
			found = append(found, mistake{"alert_email", err.Error()})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		key := "env." + name
		switch {
		case !variable.MatchString(name):
			found = append(found, mistake{key, "only names in capitals that begin with TALLY_ or OTEL_ may stand here; set any other in the shell, or on the functions by gcloud"})
		case name == "TALLY_USAGE_FILE":
			found = append(found, mistake{key, "tally dev names that file itself: take the line out"})
		default:
			text(key, s.Env[name])
		}
	}
	return found
}

// CheckEmail returns an error unless the text is an e-mail address and nothing else.
func CheckEmail(address string) error {
	if !email.MatchString(address) || len(address) > 254 { // RFC 5321, 4.5.3.1.3
		return fmt.Errorf("%q is no address: want one alone, such as me@example.com", address)
	}
	return nil
}

// isControl reports whether no value has any use for the character.
func isControl(r rune) bool { return unicode.IsControl(r) && !strings.ContainsRune("\t\r\n", r) }
