package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/firestore-tally/tally/rollup/route"
)

// A draft is a route in the making. Example documents, such as posts/7, describe it.
type draft struct {
	source  []string // the ids in the path of one of the documents
	totals  string   // as a route spells them
	target  string   // path of the document that holds the totals
	group   string   // the field that says the last id of target, as a route spells it; none: no field does
	creator string   // of target
}

// Who creates a document that holds totals.
const (
	byApp   = "app"
	byTally = "tally"
)

// newDraft returns a draft for the documents like the one at a path. It sums the field count of
// shards, and it counts other documents.
func newDraft(path string) draft {
	d := draft{source: strings.Split(path, "/"), group: none, creator: byTally}
	d.totals, d.target = "count", d.ownTarget()
	if !d.ofShards() {
		d.totals = "count() as " + route.Quote(d.source[len(d.source)-2])
	}
	above := d.above()
	if !d.ofShards() && above != "" {
		d.target = above
	}
	return d
}

// routeFor returns a route that sums a field of the documents like the one at path, into documents
// that Tally creates.
func routeFor(path, field string) string {
	d := newDraft(path)
	d.totals, d.target = route.Quote(field), d.ownTarget()
	return d.String()
}

// ofShards reports whether the documents are those of a counter.
func (d draft) ofShards() bool {
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
	if n == 4 && first == "counters" && d.ofShards() {
		return "rollups/" + d.source[1]
	}
	return strings.TrimSuffix(first, "s") + "_totals/" + strings.Join(d.source[1:n-2], "/")
}

// mayGroup reports whether a field of the documents may say in which document their totals are.
func (d draft) mayGroup() bool { return len(d.source) == 2 }

// lastID returns the last id of the target.
func (d draft) lastID() string { return d.target[strings.LastIndexByte(d.target, '/')+1:] }

// existing reports whether the app creates the target: the user says so, or Tally must not.
func (d draft) existing() bool {
	return d.creator == byApp || d.mustExist()
}

// mustExist reports whether only the app may create the target: if a field of the documents names
// the target, if the documents are below it, or if it may be one of them.
func (d draft) mustExist() bool {
	collection, _, _ := strings.Cut(d.target, "/")
	isOne := d.mayGroup() && collection == d.source[0] && strings.Count(d.target, "/") == 1
	return isOne || d.group != none || strings.HasPrefix(strings.Join(d.source, "/"), d.target+"/")
}

// String returns the route.
func (d draft) String() string {
	pattern, _ := generalized(strings.Join(d.source, "/"))
	captures := strings.Split(pattern, "/")
	template := strings.Split(d.target, "/")
	for i, id := range template {
		template[i] = route.Quote(id)
		same := d.indexOf(id)
		if i%2 == 1 && same > 0 { // an id, and not the name of a collection
			template[i] = captures[same]
		}
	}

	if d.group != none {
		pattern += " by " + d.group
		template[len(template)-1] = "{" + d.group + "}"
	}
	route := pattern + " -> " + strings.Join(template, "/") + " : " + d.totals
	if d.existing() {
		route += " : existing"
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
		_, err := route.Parse(answer)
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
	routes, err := route.Parse(d.String())
	if err != nil {
		return err
	}
	r := routes[0]
	hasOptions := r.Documents || r.Template.Scheduled() || r.Template.Existing != d.existing()
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

func (d draft) checkGroup(answer string) error {
	d.group = answer
	return d.check()
}

func checkCreator(answer string) error {
	if !slices.Contains([]string{byApp, byTally}, answer) {
		return fmt.Errorf("%q: want %s or %s", answer, byApp, byTally)
	}
	return nil
}
