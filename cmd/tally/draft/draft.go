// Package draft makes routes of example documents, and asks a user for them.
package draft

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/firestore-tally/tally/internal/reason"
	"github.com/firestore-tally/tally/internal/tool/mistakes"
	"github.com/firestore-tally/tally/rollup/route"
)

// A draft is a route in the making. Example documents, such as posts/7, describe it.
type draft struct {
	source  []string // the ids in the path of one of the documents
	totals  string   // as a route spells them
	target  string   // path of the document that holds the totals
	creator string   // of target

	// keys are the keys that say ids of target, as a route spells them, by the ids' index in the
	// path.
	keys map[int]string
}

// Who creates a document that holds totals.
const (
	byApp   = "app"
	byTally = "tally"
)

// newDraft returns a draft for the documents like the one at a path. It sums the field count of
// shards, and it counts other documents.
func newDraft(path string) draft {
	d := draft{source: strings.Split(path, "/"), creator: byTally}
	d.totals, d.target = "count", d.ownTarget()
	if !d.hasShards() {
		d.totals = "count() as " + route.Quote(d.source[len(d.source)-2])
	}
	above := d.above()
	if !d.hasShards() && above != "" {
		d.target = above
	}
	return d
}

// For returns a route that sums a field of the documents like the one at path, into documents
// that Tally creates.
func For(path, field string) string {
	d := newDraft(path)
	d.totals, d.target = route.Quote(field), d.ownTarget()
	return d.String()
}

// hasShards reports whether the documents are those of a counter.
func (d draft) hasShards() bool {
	n := len(d.source)
	return n > 2 && d.source[n-2] == "shards"
}

// above returns the path of the document above the source, "" if there is none.
func (d draft) above() string { return strings.Join(d.source[:len(d.source)-2], "/") }

// ownTarget returns a path for a document that Tally creates.
func (d draft) ownTarget() string {
	first, n := d.source[0], len(d.source)
	if n == 2 {
		return "totals/" + first
	}
	if n == 4 && first == "counters" && d.hasShards() {
		return "rollups/" + d.source[1]
	}
	return strings.TrimSuffix(first, "s") + "_totals/" + strings.Join(d.source[1:n-2], "/")
}

// openIDs returns the indexes of the ids in the target that fields of the documents may say: that
// of the last id, and before a time those of all others. Ids that the source's path has are not
// asked for.
func (d draft) openIDs() []int {
	ids := strings.Split(d.target, "/")
	last := len(ids) - 1
	var unknown []int
	for i := 1; i <= last; i += 2 {
		if d.indexOf(ids[i]) == 0 {
			unknown = append(unknown, i)
		}
	}

	switch {
	case !slices.Contains(unknown, last):
		return nil
	case periodOf(ids[last]) != "":
		return unknown
	default:
		return []int{last}
	}
}

var (
	aDay   = regexp.MustCompile(`^\d{4}-\d\d-\d\d$`)
	aWeek  = regexp.MustCompile(`^\d{4}-W\d\d$`)
	aMonth = regexp.MustCompile(`^\d{4}-\d\d$`)
)

// periodOf returns the function of a key that gives such an id, if it is a day, a week or a
// month; else "".
func periodOf(id string) route.Function {
	switch {
	case aDay.MatchString(id):
		return route.Day
	case aWeek.MatchString(id):
		return route.Week
	case aMonth.MatchString(id):
		return route.Month
	default:
		return ""
	}
}

// withKey returns the draft with the key that says the id at an index of the target. Of a time, the
// answer may be the field alone.
func (d draft) withKey(i int, answer string) draft {
	f := periodOf(strings.Split(d.target, "/")[i])
	if f != "" && !strings.Contains(answer, "(") {
		answer = fmt.Sprintf("%s(%s)", f, answer)
	}

	keys := map[int]string{i: answer}
	maps.Copy(keys, d.keys)
	d.keys = keys
	return d
}

// keyed matches a key with a function: the function, and the field.
var keyed = regexp.MustCompile(`^(\w+)\(([^,)]*)`)

// captureOf returns the capture that a key gives the template.
func captureOf(key string) string {
	_, name, named := strings.Cut(key, " as ")
	parts := keyed.FindStringSubmatch(key)
	switch {
	case named:
		return "{" + name + "}"
	case parts == nil:
		return "{" + key + "}"
	case route.Function(parts[1]).OfTime():
		return "{" + parts[1] + "}"
	default:
		return "{" + parts[2] + "}"
	}
}

// timeIndex returns the index of the id in the target that a key says is a time; -1 if there
// is none. Then Tally creates the target, although a field names it.
func (d draft) timeIndex() int {
	for i, key := range d.keys {
		parts := keyed.FindStringSubmatch(key)
		if parts != nil && route.Function(parts[1]).OfTime() {
			return i
		}
	}
	return -1
}

// owner returns how many segments of the target are the path of the app's document within which
// Tally creates a day, a week or a month; 0 if there need be none.
func (d draft) owner() int {
	ids := strings.Split(d.target, "/")
	owner := 0
	for i := 1; i < len(ids); i += 2 {
		_, isKey := d.keys[i]
		if i != d.timeIndex() && (isKey || d.indexOf(ids[i]) > 0) {
			owner = i + 1
		}
	}
	return owner
}

// appCreatesTarget reports whether the app creates the target: the user says so, or Tally must not.
func (d draft) appCreatesTarget() bool {
	return d.timeIndex() < 0 && (d.creator == byApp || d.appMustCreate())
}

// appMustCreate reports whether the user has no choice who creates the target: if fields of the
// documents name the target, if the documents are below it, or if it may be one of them.
func (d draft) appMustCreate() bool {
	collection, _, _ := strings.Cut(d.target, "/")
	isOne := len(d.source) == 2 && collection == d.source[0] && strings.Count(d.target, "/") == 1
	return isOne || len(d.keys) > 0 || strings.HasPrefix(strings.Join(d.source, "/"), d.target+"/")
}

// String returns the route.
func (d draft) String() string {
	pattern, _ := reason.Generalized(strings.Join(d.source, "/"))
	captures := strings.Split(pattern, "/")
	template := strings.Split(d.target, "/")
	for i, id := range template {
		template[i] = route.Quote(id)
		same := d.indexOf(id)
		if i%2 == 1 && same > 0 { // an id, and not the name of a collection
			template[i] = captures[same]
		}
	}

	var by []string
	for _, i := range slices.Sorted(maps.Keys(d.keys)) {
		by = append(by, d.keys[i])
		template[i] = captureOf(d.keys[i])
		if d.timeIndex() >= 0 { // the roll-up has a top-level field that is called so
			template[i] = "{" + template[i][strings.LastIndexAny(template[i], "{.")+1:]
		}
	}
	if by != nil {
		pattern += " by " + strings.Join(by, ", ")
	}

	route := pattern + " -> " + strings.Join(template, "/") + " : " + d.totals
	if d.appCreatesTarget() {
		route += " : existing"
	}
	if d.timeIndex() >= 0 {
		route += strings.TrimRight(" : within "+strings.Join(template[:d.owner()], "/"), " ")
	}
	return route
}

// indexOf returns the index of a document's id in the source's path, without the last; else 0.
func (d draft) indexOf(id string) int {
	for i := 1; i < len(d.source)-2; i += 2 {
		if d.source[i] == id {
			return i
		}
	}
	return 0
}

// isRoute reports whether an answer is a whole route.
func isRoute(answer string) bool { return strings.Contains(answer, "->") }

// checkSource checks the path of a document, or a whole route.
func checkSource(answer string) error {
	if isRoute(answer) {
		_, err := mistakes.Parse(answer)
		return err
	}
	if err := checkDocument(answer); err != nil {
		return err
	}
	return newDraft(answer).check()
}

// checkDocument checks that a path may be that of a document.
func checkDocument(path string) error {
	ids := strings.Split(path, "/")
	if slices.Contains(ids, "") {
		return fmt.Errorf("%q has an empty id; want the path of a document, such as posts/7", path)
	}
	if len(ids)%2 != 0 {
		return fmt.Errorf("%q is a collection; want the path of a document, such as posts/7", path)
	}
	return nil
}

// check checks that the draft is one route, and that the text of its totals adds no route and no
// option.
func (d draft) check() error {
	routes, err := mistakes.Parse(d.String())
	if err != nil {
		return err
	}
	r := routes[0]
	hasOptions := r.Documents || r.Template.Scheduled() || r.Template.Existing != d.appCreatesTarget()
	if len(routes) > 1 || hasOptions {
		return errors.New("want totals alone; tally.yaml takes options later")
	}
	return nil
}

func (d draft) checkTotals(answer string) error {
	d.totals = answer
	return d.check()
}

func (d draft) checkTarget(answer string) error {
	if err := checkDocument(answer); err != nil {
		return err
	}
	d.target = answer
	return d.check()
}

// checkKey returns the check of an answer that says the id at an index of the target.
func (d draft) checkKey(i int) func(answer string) error {
	return func(answer string) error {
		if answer == none {
			return nil
		}
		return d.withKey(i, answer).check()
	}
}

func checkCreator(answer string) error {
	if !slices.Contains([]string{byApp, byTally}, answer) {
		return fmt.Errorf("%q: want %s or %s", answer, byApp, byTally)
	}
	return nil
}
