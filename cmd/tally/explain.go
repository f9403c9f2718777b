package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/cloud/firestorestore"
	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/reason"
	"github.com/firestore-tally/tally/internal/tool/doctor"
	"github.com/firestore-tally/tally/internal/tool/terminal"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
	"github.com/spf13/cobra"
)

func explainCommand() *cobra.Command {
	var tries bool
	run := func(ctx context.Context, s *session, args []string) error {
		return explainDocument(ctx, s, args[0], tries)
	}
	c := databaseCommand{run: run}.define(newCommand("explain DOCUMENT"))
	c.Flags().BoolVar(&tries, "rules", false, "also try the app's security rules on the documents that hold its totals")
	return c
}

// An explanation says why totals have a document or not, and if it holds totals, what these are
// made of.
type explanation struct {
	Document string    `json:"document"`
	Exists   bool      `json:"exists"`
	Written  time.Time `json:"written,omitzero"` // when the document was last written
	Read     time.Time `json:"read"`             // when it was read

	// Counts says that all totals that can have the document have it, as it is. Says is that in a
	// sentence, with the first reason if it does not.
	Counts bool   `json:"counts"`
	Says   string `json:"says"`

	Routes []explainedRoute `json:"routes"`          // that cover it
	Why    []string         `json:"why"`             // it does not count, or not in all totals
	Holds  *explainedRollUp `json:"holds,omitempty"` // nil: it is no place of totals
	Rules  []explainedRule  `json:"rules,omitempty"` // nil: no one asked for them
}

// An explainedRoute says what a route makes of a document.
type explainedRoute struct {
	Route   string          `json:"route"`
	Asks    []explainedPart `json:"asks"`
	Counter string          `json:"counter,omitempty"` // "": the document belongs to none
	RollUp  *rollUp         `json:"rollup"`            // null: there is none yet
	Has     bool            `json:"has"`               // the roll-up has the document as it is
	Why     []string        `json:"why"`               // it has it not, or some totals of it do not
}

// An explainedPart is a key, or a condition, and what a document has there.
type explainedPart struct {
	Asks  string `json:"asks"`
	Value string `json:"value,omitempty"` // as routes spell values, "": the document lacks the field
	Holds bool   `json:"holds"`
}

// An explainedRollUp says what makes the totals that a document holds, or will.
type explainedRollUp struct {
	RollUp  *rollUp  `json:"rollup"` // null: there is none yet
	MadeOf  []string `json:"made_of"`
	Unkept  string   `json:"unkept,omitempty"` // why Tally cannot roll the counter up; "": it can
	Missing string   `json:"missing,omitempty"`
	Next    string   `json:"next"` // when the counter is rolled up
}

// explainDocument explains a document. If it tries, it also says what the app's security rules do.
func explainDocument(ctx context.Context, s *session, path string, tries bool) error {
	err := checkIDs(path)
	if err != nil {
		return err
	}
	if strings.Count(path, "/")%2 == 0 {
		return fmt.Errorf("%s is a collection: name one of its documents, as in %s/ID", path, path)
	}

	found, err := s.client.GetAll(ctx, []*firestore.DocumentRef{s.client.Doc(path)})
	if err != nil {
		return err
	}
	doc := found[0]
	e := explanation{Document: path, Exists: doc.Exists(), Written: doc.UpdateTime, Read: doc.ReadTime, Routes: []explainedRoute{}, Why: []string{}}
	for _, r := range s.config.Routes {
		if r.Covers(path) {
			one, err := s.explainRoute(ctx, r, doc)
			if err != nil {
				return err
			}
			e.Routes = append(e.Routes, one)
		}
	}
	if len(e.Routes) == 0 {
		e.Why = s.uncovered(path, doc)
	}

	c, ok := s.config.Routes.Counter(path)
	if ok {
		e.Holds, err = s.explainRollUp(ctx, c)
		if err != nil {
			return err
		}
	}
	e.judge()
	if tries {
		e.Rules = s.explainRules(ctx, e)
	}
	return s.print(e, "%s", e.cells())
}

// uncovered says why no route covers a document.
func (s *session) uncovered(path string, doc *firestore.DocumentSnapshot) (why []string) {
	var data map[string]any
	if doc.Exists() {
		data = firestorestore.Data(doc)
	}
	reasons := reason.Similar(s.config.Routes, path)
	if reasons == nil {
		reasons = reason.Of(s.config.Routes, reason.DocumentOf(path, data))
	}
	for _, r := range reasons {
		why = append(why, r.Of(path))
	}

	for _, r := range s.stated {
		if r.Covers(path) {
			why = append(why, fmt.Sprintf("the functions that run do not have the route %s: tally deploy, or tally dev, gives it to them", r))
		}
	}
	if why == nil {
		why = []string{"no route covers " + path}
	}
	return why
}

// explainRoute says what a route that covers a document makes of it.
func (s *session) explainRoute(ctx context.Context, r *route.Route, doc *firestore.DocumentSnapshot) (explainedRoute, error) {
	path := firestorestore.Path(doc.Ref)
	var fields map[string]any
	if doc.Exists() {
		fields = firestorestore.Data(doc)
	}
	d := reason.DocumentOf(path, fields)
	one := explainedRoute{Route: r.String(), Asks: asks(r, d, doc.ReadTime), Why: []string{}}
	if doc.Exists() {
		for _, why := range reason.Of(s.config.Routes, d) {
			if why.Route == r && why.Kind != reason.Needless {
				one.Why = append(one.Why, why.Why)
			}
		}
	}

	c, ok := d.Counter(r)
	if !ok {
		return one, nil
	}
	one.Counter = c.RollUp
	snapshot, err := s.store.View(ctx, c)
	if err != nil {
		return one, err
	}
	held := snapshot.RollUp()
	one.RollUp = rollUpOf(s.config, c.Template, held, snapshot.ReadTime())
	current := held.Tally.Routes == c.Template.Hash()
	one.Has = doc.Exists() && current && !held.Tally.AsOf.Before(doc.UpdateTime)
	if one.Has || !doc.Exists() {
		return one, nil
	}

	why, err := s.notYet(ctx, c, snapshot)
	one.Why = append(one.Why, why...)
	return one, err
}

// notYet says why the roll-up of a counter does not have a document of it as it is.
func (s *session) notYet(ctx context.Context, c route.Counter, snapshot rollup.Snapshot) (why []string, err error) {
	missing := missingHome(c, snapshot)
	if missing != "" {
		return []string{missing}, nil
	}
	why = s.undelivered(ctx, c)
	if why != nil {
		return why, nil
	}
	unkept, err := s.unkept(ctx, c, snapshot)
	if err != nil {
		return nil, err
	}
	if unkept != "" {
		return []string{unkept}, nil
	}

	held := snapshot.RollUp().Tally
	switch {
	case held.AsOf.IsZero():
		return []string{"it is not rolled up yet: " + s.next(c, held)}, nil
	case held.Routes != c.Template.Hash():
		return []string{"other routes made the roll-up, whose as_of says nothing about these: " + s.next(c, held)}, nil
	}
	return []string{"it is not rolled up yet: the roll-up is as of " + stamp(held.AsOf) + ", before the document was written; " + s.next(c, held)}, nil
}

// missing says which document of the app's a counter lacks; "" if none.
func missingHome(c route.Counter, snapshot rollup.Snapshot) string {
	missing := c.Template.Existing && !snapshot.RollUp().Exists() || snapshot.Ownerless()
	if !missing {
		return ""
	}
	return "it belongs to " + reason.MissingHome(c).Why
}

// undelivered says why no event of a counter's documents is counted: no functions run, or their
// trigger or an index is missing. On a project it asks what tally doctor asks.
func (s *session) undelivered(ctx context.Context, c route.Counter) (why []string) {
	if c.Template.Scheduled() {
		return nil
	}
	if !s.served {
		return []string{"no trigger: no functions that run for project " + s.project + " serve this database, so no event is counted; tally dev runs them on this machine, and tally deploy on a project"}
	}
	if s.emulated {
		return nil
	}

	for _, f := range s.examine(ctx, "as-deployed", "indexes") {
		for _, p := range f.Problems {
			if p.Verdict == doctor.Wrong && (f.Name == "indexes" || strings.HasPrefix(p.Text, "trigger")) {
				text := p.Text
				if p.Remedy != "" {
					text += ": " + p.Remedy
				}
				why = append(why, text)
			}
		}
	}
	return why
}

// examine makes some of doctor's checks. What cannot be read is left out.
func (s *session) examine(ctx context.Context, names ...string) []doctor.Finding {
	o, err := endpointsOf(ctx).signIn(ctx)
	if err != nil {
		return nil
	}
	d, err := doctor.Read(ctx, s.project, s.folder, o...)
	if err != nil {
		return nil
	}
	var skip []string
	for _, c := range doctor.Checks {
		if !slices.Contains(names, c.Name) {
			skip = append(skip, c.Name)
		}
	}
	return d.Examine(ctx, skip)
}

// unkept says why a counter cannot be rolled up, if a note says that it could not.
func (s *session) unkept(ctx context.Context, c route.Counter, snapshot rollup.Snapshot) (string, error) {
	since, err := rollup.UnkeptSince(ctx, s.store, c)
	if err != nil || since.IsZero() || !snapshot.RollUp().Tally.AsOf.Before(since) {
		return "", err
	}

	_, err = snapshot.Sum(ctx)
	switch {
	case errors.Is(err, rollup.ErrUnkept):
		return err.Error(), nil
	case err != nil:
		return "", err
	}
	return "the counter could not be rolled up at " + stamp(since) + ": the functions' log says why, at \"unkept\". Each call of the schedule tries again", nil
}

// next says when a counter is rolled up.
func (s *session) next(c route.Counter, held document.Tally) string {
	due := pacing(s.config).Due(c.Template, held)
	switch {
	case c.Template.Scheduled():
		return fmt.Sprintf("the schedule rolls it up every %v", c.Template.Every)
	case due.After(held.AsOf):
		return "a change is rolled up at " + stamp(due)
	case held.Rings.After(held.AsOf):
		return "a change is rolled up at once, and without one its alarm rings at " + stamp(held.Rings)
	default:
		return "its next change is rolled up within seconds, and an audit finds what no event told"
	}
}

// explainRollUp says what a counter's totals are made of.
func (s *session) explainRollUp(ctx context.Context, c route.Counter) (*explainedRollUp, error) {
	snapshot, err := s.store.View(ctx, c)
	if err != nil {
		return nil, err
	}
	held := snapshot.RollUp()
	e := &explainedRollUp{RollUp: rollUpOf(s.config, c.Template, held, snapshot.ReadTime()), Missing: missingHome(c, snapshot), Next: s.next(c, held.Tally)}
	for _, r := range c.Template.Routes {
		e.MadeOf = append(e.MadeOf, madeOf(r, c))
	}
	e.Unkept, err = s.unkept(ctx, c, snapshot)
	return e, err
}

// madeOf says which documents make a route's totals of a counter.
func madeOf(r *route.Route, c route.Counter) string {
	var totals []string
	for _, t := range r.Totals {
		totals = append(totals, t.String())
	}
	text := strings.Join(totals, ", ") + " of the documents in " + r.Shards(c)
	where, some := r.Where(c)
	if !some {
		return "no document can belong to it by " + r.String()
	}
	var conditions []string
	for _, condition := range where {
		conditions = append(conditions, condition.String())
	}
	if conditions != nil {
		text += " where " + strings.Join(conditions, " and ")
	}
	return text
}

// asks returns the keys and the conditions of a route, with what a document has there.
func asks(r *route.Route, d reason.Document, now time.Time) (all []explainedPart) {
	held := func(f document.Field) string {
		kind, held := d.Holds(f)
		if kind == "" {
			return ""
		}
		return reason.Shown(held)
	}
	misfit, _, isMisfit := r.Misfit(d.Path, func(f document.Field) any { _, held := d.Holds(f); return held })
	for _, k := range r.By {
		all = append(all, explainedPart{"by " + k.String(), held(k.Field), !isMisfit || k.Field != misfit.Field})
	}
	for _, t := range r.Totals {
		for _, c := range t.Where {
			all = append(all, explainedPart{t.Name + " where " + c.String(), held(c.Field), c.At(now).Holds(d.Fields)})
		}
	}
	return all
}

// judge says in a sentence whether the document counts.
func (e *explanation) judge() {
	var counters []string
	covered := len(e.Routes) > 0
	e.Counts = e.Exists && covered
	for _, r := range e.Routes {
		e.Why = append(e.Why, r.Why...)
		e.Counts = e.Counts && r.Has && len(r.Why) == 0
		if r.Counter != "" && !slices.Contains(counters, r.Counter) {
			counters = append(counters, r.Counter)
		}
	}

	switch {
	case !covered && e.Holds != nil && e.Exists:
		e.Says, e.Why = e.Document+" holds totals", []string{}
	case !covered && e.Holds != nil:
		e.Says, e.Why = e.Document+" does not exist; it is where totals go", []string{}
	case !covered:
		e.Says = e.Why[0]
	case !e.Exists:
		e.Says = e.Document + " does not exist"
	case e.Counts:
		e.Says = fmt.Sprintf("%s counts in %s, and the roll-up has it as it is", e.Document, strings.Join(counters, " and "))
	default:
		e.Says = fmt.Sprintf("%s does not count, or not in all totals: %s", e.Document, e.Why[0])
	}
}

// cells returns the explanation as lines.
func (e *explanation) cells() cells {
	lines := []string{e.Says}
	if len(e.Routes) == 0 && len(e.Why) > 1 {
		lines = append(lines, e.Why[1:]...)
	}
	for _, r := range e.Routes {
		lines = append(lines, "", r.Route)
		for _, p := range r.Asks {
			lines = append(lines, "  "+p.line(e.Exists))
		}
		if r.Counter != "" {
			lines = append(lines, "  counter "+r.Counter+": "+r.RollUp.line())
		}
		for _, why := range r.Why {
			lines = append(lines, "  why not: "+why)
		}
	}
	if e.Holds != nil {
		lines = append(lines, "", e.Document+": "+e.Holds.RollUp.line())
		for _, part := range e.Holds.MadeOf {
			lines = append(lines, "  "+part)
		}
		if e.Holds.Missing != "" {
			lines = append(lines, "  missing: "+e.Holds.Missing)
		}
		if e.Holds.Unkept != "" {
			lines = append(lines, "  unkept: "+e.Holds.Unkept)
		}
		lines = append(lines, "  next: "+e.Holds.Next)
	}
	if e.Rules != nil {
		lines = append(lines, "", "security rules:")
		for _, r := range e.Rules {
			lines = append(lines, "  "+r.Says)
		}
	}

	for i, line := range lines {
		lines[i] = terminal.Shown(line)
	}
	return cells(strings.Join(lines, "\n"))
}

// line returns the part in a line. Without a document there is nothing to compare.
func (p explainedPart) line(exists bool) string {
	switch {
	case !exists:
		return p.Asks
	case p.Holds:
		return "✓ " + p.Asks + ": " + p.Value
	default:
		return "✗ " + p.Asks + ": " + cmp.Or(p.Value, "no such field")
	}
}

// line returns the roll-up in a line.
func (r *rollUp) line() string {
	if r == nil {
		return "no roll-up yet"
	}
	return fmt.Sprintf("%v, as of %s", r.Totals, stamp(r.AsOf))
}
