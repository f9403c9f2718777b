package counters

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/cmd/tally/command"
	"github.com/firestore-tally/tally/cmd/tally/counter"
	"github.com/firestore-tally/tally/cmd/tally/session"
	"github.com/firestore-tally/tally/cmd/tally/settings"
	"github.com/firestore-tally/tally/internal/cloud/firestorestore"
	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/reason"
	"github.com/firestore-tally/tally/internal/tool/doctor"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
	"github.com/spf13/cobra"
)

func explainCommand() *cobra.Command {
	var tries bool
	run := func(ctx context.Context, s *session.Session, args []string) error {
		return explainer{s}.document(ctx, args[0], tries)
	}
	c := session.Command{Run: run}.Define(command.New("explain DOCUMENT"))
	c.Flags().BoolVar(&tries, "rules", false, "also try the app's security rules on the documents that hold its totals")
	return c
}

// An explainer explains documents of a session's database.
type explainer struct{ *session.Session }

// document explains a document. If it tries, it also says what the app's security rules do.
func (s explainer) document(ctx context.Context, path string, tries bool) error {
	err := counter.CheckIDs(path)
	if err != nil {
		return err
	}
	if strings.Count(path, "/")%2 == 0 {
		return fmt.Errorf("%s is a collection: name one of its documents, as in %s/ID", path, path)
	}

	found, err := s.Client.GetAll(ctx, []*firestore.DocumentRef{s.Client.Doc(path)})
	if err != nil {
		return err
	}
	doc := found[0]
	e := explanation{Document: path, Exists: doc.Exists(), Written: doc.UpdateTime, Read: doc.ReadTime, Routes: []explainedRoute{}, Why: []string{}}
	for _, r := range s.Config.Routes {
		if r.Covers(path) {
			one, err := s.explainRoute(ctx, r, doc)
			if err != nil {
				return err
			}
			e.Routes = append(e.Routes, one)
		}
	}
	if len(e.Routes) == 0 {
		e.Why = s.whyUncovered(path, doc)
	}

	c, ok := s.Config.Routes.Counter(path)
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
	return s.Print(e, "%s", e.cells())
}

// whyUncovered says why no route covers a document.
func (s explainer) whyUncovered(path string, doc *firestore.DocumentSnapshot) (why []string) {
	var data map[string]any
	if doc.Exists() {
		data = firestorestore.Data(doc)
	}
	reasons := reason.Similar(s.Config.Routes, path)
	if reasons == nil {
		reasons = reason.Of(s.Config.Routes, reason.DocumentOf(path, data))
	}
	for _, r := range reasons {
		why = append(why, r.Text(path))
	}

	for _, r := range s.Stated {
		if r.Covers(path) {
			why = append(why, fmt.Sprintf("the running functions do not have the route %s; run tally deploy, or tally dev", r))
		}
	}
	if why == nil {
		why = []string{"no route covers " + path}
	}
	return why
}

// explainRoute says what a route that covers a document makes of it.
func (s explainer) explainRoute(ctx context.Context, r *route.Route, doc *firestore.DocumentSnapshot) (explainedRoute, error) {
	path := firestorestore.Path(doc.Ref)
	var fields map[string]any
	if doc.Exists() {
		fields = firestorestore.Data(doc)
	}
	d := reason.DocumentOf(path, fields)
	one := explainedRoute{Route: r.String(), Asks: requirements(r, d, doc.ReadTime), Why: []string{}}
	if doc.Exists() {
		for _, why := range reason.Of(s.Config.Routes, d) {
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
	snapshot, err := s.Store.View(ctx, c)
	if err != nil {
		return one, err
	}
	held := snapshot.RollUp()
	one.RollUp = rollUpOf(s.Config, c.Template, held, snapshot.ReadTime())
	current := held.Tally.Routes == c.Template.Hash()
	one.Has = doc.Exists() && current && !held.Tally.AsOf.Before(doc.UpdateTime)
	if one.RollUp != nil {
		one.Why = append(one.Why, one.RollUp.omitted(r)...)
	}
	if one.Has || !doc.Exists() {
		return one, nil
	}

	why, err := s.whyNotYet(ctx, c, snapshot)
	one.Why = append(one.Why, why...)
	return one, err
}

// whyNotYet says why the roll-up of a counter does not have a document of it as it is.
func (s explainer) whyNotYet(ctx context.Context, c route.Counter, snapshot rollup.Snapshot) (why []string, err error) {
	missing := missingHome(c, snapshot)
	if missing != "" {
		return []string{missing}, nil
	}
	why = s.whyUndelivered(ctx, c)
	if why != nil {
		return why, nil
	}
	unkept, err := s.whyUnkept(ctx, c, snapshot)
	if err != nil {
		return nil, err
	}
	if unkept != "" {
		return []string{unkept}, nil
	}

	held := snapshot.RollUp().Tally
	switch {
	case held.AsOf.IsZero():
		return []string{"it is not rolled up yet: " + s.nextText(c, held)}, nil
	case held.Routes != c.Template.Hash():
		return []string{"other routes made the roll-up, whose as_of says nothing about these: " + s.nextText(c, held)}, nil
	}
	return []string{"it is not rolled up yet: the roll-up is as of " + stamp(held.AsOf) + ", before the document was written; " + s.nextText(c, held)}, nil
}

// missingHome says which document of the app's a counter lacks; "" if none.
func missingHome(c route.Counter, snapshot rollup.Snapshot) string {
	missing := c.Template.Existing && !snapshot.RollUp().Exists() || snapshot.Ownerless()
	if !missing {
		return ""
	}
	return "it belongs to " + reason.MissingHome(c).Why
}

// whyUndelivered says why no event of a counter's documents is counted: no functions run, or their
// trigger or an index is missing. On a project it asks what tally doctor asks.
func (s explainer) whyUndelivered(ctx context.Context, c route.Counter) (why []string) {
	if c.Template.Scheduled() {
		return nil
	}
	if !s.Served {
		return []string{"no trigger: no functions that run for project " + s.Project + " serve this database, so no event is counted; tally dev runs functions on this machine, and tally deploy on a project"}
	}
	if s.Emulated {
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
func (s explainer) examine(ctx context.Context, names ...string) []doctor.Finding {
	o, err := settings.EndpointsOf(ctx).SignIn(ctx)
	if err != nil {
		return nil
	}
	d, err := doctor.Read(ctx, s.Project, s.Folder, o...)
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

// whyUnkept says why a counter cannot be rolled up, if a note says that it could not.
func (s explainer) whyUnkept(ctx context.Context, c route.Counter, snapshot rollup.Snapshot) (string, error) {
	since, err := rollup.UnkeptSince(ctx, s.Store, c)
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

// nextText says when a counter is rolled up.
func (s explainer) nextText(c route.Counter, held document.Tally) string {
	due := Pacing(s.Config).Due(c.Template, held)
	switch {
	case c.Template.Scheduled():
		return fmt.Sprintf("the schedule rolls it up every %v", c.Template.Every)
	case due.After(held.AsOf):
		return "a change is rolled up at " + stamp(due)
	case held.Rings.After(held.AsOf):
		return "a change is rolled up at once, and without one its alarm rings at " + stamp(held.Rings)
	default:
		return "its next change is rolled up within seconds, and an audit finds changes whose events were lost"
	}
}

// explainRollUp says what a counter's totals are made of.
func (s explainer) explainRollUp(ctx context.Context, c route.Counter) (*explainedRollUp, error) {
	snapshot, err := s.Store.View(ctx, c)
	if err != nil {
		return nil, err
	}
	held := snapshot.RollUp()
	e := &explainedRollUp{RollUp: rollUpOf(s.Config, c.Template, held, snapshot.ReadTime()), Missing: missingHome(c, snapshot), Next: s.nextText(c, held.Tally)}
	for _, r := range c.Template.Routes {
		e.MadeOf = append(e.MadeOf, madeOf(r, c))
		if e.RollUp != nil {
			e.LeftOut = append(e.LeftOut, e.RollUp.omitted(r)...)
		}
	}
	e.Unkept, err = s.whyUnkept(ctx, c, snapshot)
	return e, err
}
