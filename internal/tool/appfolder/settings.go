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

// Settings are what tally.yaml says. "means" describes each key, for editors and docs/config.md.
type Settings struct {
	Routes         Routes            `yaml:"routes" means:"Which documents make which totals: a route on each line, or a list of routes in single quotes."` // as route.Parse reads them
	Cadence        string            `yaml:"cadence" means:"How often a counter that keeps changing is rolled up; 1s by default."`
	ReadsPerSecond *int              `yaml:"reads_per_second" means:"With a queue: what the sums of one counter may cost on average, in reads a second; 50 by default, 0: no bound."` // nil: the default
	Audit          string            `yaml:"audit" means:"How long a cycle of audits takes at least: 10m to 168h, or auto, the default: 1 to 24 hours, so long that a month's audits cost about a dollar (3.3 million reads)."`
	Databases      []string          `yaml:"databases" means:"Ids of the databases; by default the only one that firebase.json names, else (default)."`
	Edition        string            `yaml:"edition" means:"The edition of the databases: standard, the default, or enterprise, which has [not been tried yet](limits.md#not-tried-yet)."`
	Region         string            `yaml:"region" means:"Where tally deploy puts the functions, such as us-central1; by default near the first database."`
	Billing        string            `yaml:"billing" means:"How Cloud Run bills RollUpOnWrite: by request, the default, or by instance."`
	MinInstances   *int              `yaml:"min_instances" means:"How many instances of RollUpOnWrite wait for work, 0 by default. One costs $9.72 a month."` // nil: the default
	MaxInstances   *int              `yaml:"max_instances" means:"How many instances RollUpOnWrite may have, 10 by default."`                                 // nil: the default
	Alerts         Alerts            `yaml:"alerts" means:"Who hears about problems: an address, a list of notification channels, or console. Without it there are no alerts and no dashboard."`
	Env            map[string]string `yaml:"env" means:"Other variables of the functions."`
	Dev            map[string]int    `yaml:"dev" means:"The ports of tally dev: firestore_port, functions_port and dashboard_port. A flag wins; 0: any that is free."`
}

// devPorts are the keys that dev may have: the flags of tally dev that name ports, with
// underscores.
var devPorts = []string{"firestore_port", "functions_port", "dashboard_port"}

const highestPort = 65535

// Bounds of a tally.yaml, which may be somebody else's. The parser has none of its own: a few
// hundred bytes of aliases, or some ten thousand brackets or blank lines, take gigabytes.
const (
	maxSettings = 32 << 10 // bytes; hundreds of routes with their comments
	maxDepth    = 8        // lists and maps in each other; Settings have 2
	maxBlank    = 100      // blank lines in a row
)

// parse parses the text of the file, a tally.yaml. It also returns where the keys are, such as
// "region" and "env.TALLY_BURST", and each line of the routes. The error names the file, what is
// wrong, and the place.
func parse(file string, text []byte) (s Settings, p places, err error) {
	if !utf8.Valid(text) {
		return s, p, fmt.Errorf("%s: is not text in UTF-8: save it as that", file)
	}
	line := blank(string(text))
	if line > 0 {
		return s, p, fmt.Errorf("%s%d blank lines end here: delete them", place{line, 1}.in(file), maxBlank)
	}
	tokens := lexer.Tokenize(string(text))
	err = scan(file, tokens)
	if err != nil {
		return s, p, err
	}

	parsed, err := parser.Parse(tokens, 0)
	if err != nil {
		return s, p, explained(file, err)
	}
	s, p, err = decode(file, string(text), parsed)
	if err != nil {
		return s, p, err
	}

	var mistakes []error
	for _, m := range s.mistakes() {
		mistakes = append(mistakes, fmt.Errorf("%s%s: %s", p.keys[m.key].in(file), m.key, m.reason))
	}
	return s, p, FirstOf(mistakes)
}

// maxMistakes is how many mistakes of a file are told.
const maxMistakes = 10

// FirstOf joins the first ten of a file's mistakes, and says how many more there are. It returns
// nil if there are none.
func FirstOf(mistakes []error) error {
	more := len(mistakes) - maxMistakes
	if more <= 0 {
		return errors.Join(mistakes...)
	}
	return errors.Join(append(mistakes[:maxMistakes:maxMistakes], fmt.Errorf("and %d more mistakes", more))...)
}

// lineEnds makes each end of a line that YAML knows one character.
var lineEnds = strings.NewReplacer("\r\n", "\n", "\r", "\n")

// blank returns the number of the line, from 1 on, that is the last of maxBlank blank lines in a
// row; 0 if there is none.
func blank(text string) int {
	n, inRow := 0, 0
	for line := range strings.SplitSeq(lineEnds.Replace(text), "\n") {
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

// scan refuses references and deep nesting, before the parser follows them. A list or a map is
// nested in one of two ways: in brackets or braces, or by its column.
func scan(file string, tokens token.Tokens) error {
	brackets := 0     // and braces that are open
	var columns []int // of the lists and maps without brackets that are open
	for _, t := range tokens {
		switch t.Type {
		case token.AnchorType, token.AliasType:
			return fmt.Errorf("%stally.yaml takes no anchors (&) and aliases (*): write the value out", placeOf(t).in(file))
		case token.SequenceStartType, token.MappingStartType:
			brackets++
		case token.SequenceEndType, token.MappingEndType:
			brackets--
		}

		isKey := t.Next != nil && t.Next.Type == token.MappingValueType
		isEntry := isKey || t.Type == token.SequenceEntryType || t.Type == token.MappingKeyType
		if isEntry && brackets == 0 {
			// It ends what stands further right, and is in what stands further left.
			for len(columns) > 0 && columns[len(columns)-1] >= t.Position.Column {
				columns = columns[:len(columns)-1]
			}
			columns = append(columns, t.Position.Column)
		}

		if brackets+len(columns) > maxDepth {
			return fmt.Errorf("%slists and maps are nested more than %d deep: tally.yaml needs 2", placeOf(t).in(file), maxDepth)
		}
	}
	return nil
}

// A mistake is a value that Tally does not take.
type mistake struct{ key, reason string }

// Patterns of values that become parts of filters and queries.
var (
	variable = regexp.MustCompile(`^TALLY_[A-Z0-9_]+$`)

	// https://docs.cloud.google.com/about/locations
	region = regexp.MustCompile(`^[a-z]+(-[a-z]+)+[0-9]{1,2}$`)

	// As browsers take it (https://html.spec.whatwg.org/multipage/input.html#valid-e-mail-address),
	// with a dot in the domain.
	email = regexp.MustCompile("^[a-zA-Z0-9.!#$%&'*+/=?^_`{|}~-]+@[a-zA-Z0-9-]+(\\.[a-zA-Z0-9-]+)+$")
)

// choices are the values of the keys that take no others.
var choices = map[string][]string{"billing": {"request", "instance"}, "edition": {"standard", "enterprise"}}

// mistakes returns what is wrong with the values. Values that only the functions understand, such
// as routes, are checked by config.Load.
func (s *Settings) mistakes() []mistake {
	var found []mistake
	note := func(key, reason string) {
		if reason != "" {
			found = append(found, mistake{key, reason})
		}
	}

	note("routes", checkText(string(s.Routes)))
	note("cadence", checkText(s.Cadence))
	note("audit", checkText(s.Audit))
	note("databases", checkText(strings.Join(s.Databases, ",")))
	note("edition", checkChoice("edition", s.Edition))
	note("billing", checkChoice("billing", s.Billing))

	if s.Region != "" && !region.MatchString(s.Region) {
		note("region", fmt.Sprintf("%q is no region: want one such as us-central1; https://cloud.google.com/functions/docs/locations lists them", s.Region))
	}
	if s.MinInstances != nil && *s.MinInstances < 0 {
		note("min_instances", fmt.Sprintf("%d: want at least 0", *s.MinInstances))
	}
	if s.MaxInstances != nil && *s.MaxInstances < 1 {
		note("max_instances", fmt.Sprintf("%d: want at least 1", *s.MaxInstances))
	}
	if s.ReadsPerSecond != nil && *s.ReadsPerSecond < 0 {
		note("reads_per_second", fmt.Sprintf("%d: want at least 0", *s.ReadsPerSecond))
	}
	note("alerts", s.Alerts.mistake())

	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		note("env."+name, checkVariable(name, s.Env[name]))
	}
	for _, name := range slices.Sorted(maps.Keys(s.Dev)) {
		note("dev."+name, checkPort(name, s.Dev[name]))
	}
	return found
}

// Alerts are who hears about problems: one address, names of notification channels, or "console":
// no one but the console of Google Cloud.
type Alerts []string

// UnmarshalYAML takes a text as a list of one.
func (a *Alerts) UnmarshalYAML(decode func(any) error) error {
	var one string
	if decode(&one) == nil {
		*a = nil
		if one != "" {
			*a = Alerts{one}
		}
		return nil
	}
	return decode((*[]string)(a))
}

// channel is the name of a notification channel:
// https://cloud.google.com/monitoring/api/ref_v3/rest/v3/projects.notificationChannels
var channel = regexp.MustCompile(`^projects/[a-z0-9.:-]+/notificationChannels/[0-9]+$`)

// mistake returns why no one can be told so, "" if somebody can.
func (a Alerts) mistake() string {
	if len(a) == 1 && a[0] == "console" {
		return ""
	}
	if len(a) == 1 && !channel.MatchString(a[0]) {
		if err := CheckEmail(a[0]); err != nil {
			return err.Error() + "; or console, or a list of channels, as gcloud beta monitoring channels list names them"
		}
		return ""
	}
	for _, to := range a {
		if !channel.MatchString(to) {
			return fmt.Sprintf("%q is no notification channel: want one such as projects/my-project/notificationChannels/123; an address stands alone", to)
		}
	}
	return ""
}

// The functions check… return why a value is a mistake, "" if it is none.

func checkText(value string) string {
	if strings.ContainsFunc(value, isControl) {
		return fmt.Sprintf("%q contains a control character: remove it", value)
	}
	return ""
}

func checkChoice(key, value string) string {
	if value != "" && !slices.Contains(choices[key], value) {
		return fmt.Sprintf("%q: want %s", value, strings.Join(choices[key], " or "))
	}
	return ""
}

func checkVariable(name, value string) string {
	if !variable.MatchString(name) {
		return "only names in capitals that begin with TALLY_ are allowed here; set any other in the shell, or on the functions by gcloud"
	}
	if name == "TALLY_USAGE_FILE" {
		return "tally dev sets this variable itself: remove the line"
	}
	return checkText(value)
}

func checkPort(name string, port int) string {
	switch {
	case !slices.Contains(devPorts, name):
		return "there is no such port: want one of " + strings.Join(devPorts, ", ")
	case port < 0 || port > highestPort:
		return fmt.Sprintf("%d: want a port up to %d, or 0 for any that is free", port, highestPort)
	}
	return ""
}

// CheckEmail returns an error unless the text is an e-mail address and nothing else.
func CheckEmail(address string) error {
	if !email.MatchString(address) || len(address) > 254 { // RFC 5321, 4.5.3.1.3
		return fmt.Errorf("%q is no address: want one alone, such as me@example.com", address)
	}
	return nil
}

// isControl reports whether a character is a control character that no value needs.
func isControl(r rune) bool { return unicode.IsControl(r) && !strings.ContainsRune("\t\r\n", r) }
