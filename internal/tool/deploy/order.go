package deploy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/firestore-tally/tally/internal/cloud/billing"
	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/tool/mistakes"
	"github.com/firestore-tally/tally/rollup/route"
	"google.golang.org/grpc/codes"
)

// A Plan lists what tally deploy or undeploy does.
type Plan struct {
	Steps []*Step  `json:"steps"`
	Notes []string `json:"notes,omitempty"` // what the user should know or do

	// Awaited are the labels of the indexes that keep the plan short: until they are ready, it does no
	// more than begin their builds.
	Awaited []string `json:"awaited,omitempty"`
}

// A Step is one thing that a plan does.
type Step struct {
	Does    string       `json:"does"`           // create, update, replace, delete, enable, wait, purge, note or call
	Of      string       `json:"of,omitempty"`   // kind of the resource that it is about
	Name    string       `json:"name,omitempty"` // of that resource
	Title   string       `json:"title"`          // such as "create trigger tally-counters-shards-78fea5"
	Differs []Difference `json:"differs,omitempty"`
	Reasons []string     `json:"reasons,omitempty"` // what is not one field, in words
	Why     string       `json:"why,omitempty"`     // what rests on the resource: the manifest's comment on it
	Want    Object       `json:"want,omitempty"`    // of what is created

	ofDropped bool // it deletes a trigger of documents that no route has: the functions may change only when its events have ended
	do        func(context.Context) error
}

// Lines returns the differences and the reasons in words.
func (s *Step) Lines() (all []string) {
	for _, d := range s.Differs {
		all = append(all, d.String())
	}
	return append(all, s.Reasons...)
}

// add adds a step.
func (p *Plan) add(s *Step) { p.Steps = append(p.Steps, s) }

// note adds a note.
func (p *Plan) note(format string, args ...any) {
	p.Notes = append(p.Notes, fmt.Sprintf(format, args...))
}

// tellSilences notes which APIs did not answer.
func (p *Plan) tellSilences(of *Project) {
	for _, silence := range of.silences {
		p.note("%v. Tally leaves there whatever it may have made", silence)
	}
}

// stepThat returns the first step about resources of a kind that does one of those things; nil if
// none does.
func (p *Plan) stepThat(kind string, verbs ...string) *Step {
	for _, s := range p.Steps {
		if s.Of == kind && slices.Contains(verbs, s.Does) {
			return s
		}
	}
	return nil
}

// Uploads reports whether the plan deploys a function, and so uploads source.
func (p *Plan) Uploads() bool { return p.stepThat("function", "create", "update") != nil }

// redelivery is the longest time between two deliveries of an event
// (https://cloud.google.com/eventarc/docs/retry-events).
const redelivery = 10 * time.Minute

// Plan returns the steps that make the project as the deployment wants it, each after those that it
// needs. It only looks.
//
// New routes may need indexes that are not ready. Then the plan only begins their builds; with wait
// it waits for them, and goes on. The plan deletes surplus triggers, and only notes other surplus,
// unless Prune is set.
//
// It is an error if something could not be read; if something else made a resource of the same
// name; if no one chose a region for databases on several continents; or if a source that is served
// now would no longer be, unless Prune is set.
func (d *Deployment) Plan(ctx context.Context, wait bool) (Plan, error) {
	if err := d.refuse(); err != nil {
		return Plan{}, err
	}
	if err := d.checkRegion(ctx); err != nil {
		return Plan{}, err
	}
	lacks, problems := d.lookAtAll(ctx, true)
	surplus, err := d.surplus(ctx)
	err = errors.Join(appendProblem(problems, err)...)
	if err != nil {
		return Plan{}, err
	}

	n := slices.IndexFunc(lacks, func(s *Step) bool { return s.Of != "API" && s.Of != "index" && s.Of != fieldIndex }) // the manifest begins with these
	if n < 0 {
		n = len(lacks)
	}
	p := Plan{Steps: slices.Clone(lacks[:n])}
	if d.Config.Edition == route.Enterprise {
		p.note("no one has tried Tally on the Enterprise edition yet: watch what Firestore bills, and see docs/limits.md#not-tried-yet")
		if slices.ContainsFunc(lacks[:n], func(s *Step) bool { return s.Of == "index" }) {
			p.note("Firestore bills a write unit for each document that a new index takes in: $%.2f a million", billing.IndexBuild(million).CostIn(d.Databases[0].Location))
		}
	}
	awaited := d.awaited()
	switch {
	case len(awaited) > 0 && !wait:
		p.Awaited = awaited
		p.note("the functions keep their present routes until the new indexes are ready. To wait for them and go on, use --wait")
		return p, nil
	case len(awaited) > 0:
		p.add(&Step{Does: "wait", Of: "index", Title: "wait until the indexes are ready", do: d.ready})
	}

	d.addDropped(&p, surplus)
	p.Steps = append(p.Steps, lacks[n:]...)
	for _, s := range surplus {
		switch {
		case s.ofDropped:
		case d.Prune || s.Of == "trigger": // each event of the trigger is billed for nothing
			p.add(s)
		default:
			p.note("%s: %s. Only --prune does this", s.Title, strings.Join(s.Reasons, "; "))
		}
	}
	d.audit(&p)
	if err := d.Config.CheckGrace(); err != nil {
		p.note("%v", err)
	}
	for _, text := range []string{d.Cheaper(ctx, time.Now()), d.Deprecated(time.Now())} {
		if text != "" {
			p.note("%s", text)
		}
	}
	p.tellSilences(d.Project)
	return p, nil
}

// addDropped adds the steps that delete the triggers of sources that no route has any more. The
// routes change only when the events of those triggers have ended.
func (d *Deployment) addDropped(p *Plan, surplus []*Step) {
	n := len(p.Steps)
	for _, s := range surplus {
		if s.ofDropped {
			p.add(s)
		}
	}
	if len(p.Steps) > n {
		wait := &Step{Does: "wait", Of: "trigger", Title: fmt.Sprintf("wait %g minutes, until events that failed have been delivered again", redelivery.Minutes())}
		wait.do = func(ctx context.Context) error { return sleep(ctx, redelivery) }
		p.add(wait)
	}
}

// refuse returns why nothing can be planned, as far as no resource has to be looked at.
func (d *Deployment) refuse() error {
	dropped := d.droppedSources()
	if len(dropped) > 0 && !d.Prune {
		return fmt.Errorf("this would stop updating %s: add it to tally.yaml, or remove it with --prune", strings.Join(dropped, " and "))
	}
	running, _ := route.Parse(d.Variables()["TALLY_ROUTES"]) // nil if there are none, or invalid ones
	why := mistakes.WithoutSummer(d.Config.Routes, running)
	if why != "" {
		return errors.New(why)
	}
	silence := d.silenceOf("cloudfunctions", d.Place())
	if silence != nil {
		return d.Unreadable("cloudfunctions", "the functions", silence)
	}
	return d.checkContinents()
}

// droppedSources returns the sources that the deployed functions serve, and that no route has.
func (d *Deployment) droppedSources() (dropped []string) {
	env := d.Variables()
	routes, err := route.Parse(env["TALLY_ROUTES"])
	if err != nil {
		return nil
	}
	for _, r := range routes {
		if d.routeOf(documentsOf(r)) == nil {
			dropped = append(dropped, r.Pattern().String())
		}
	}
	for id := range strings.SplitSeq(env["TALLY_DATABASES"], ",") {
		if id != "" && !d.hasDatabase(id) {
			dropped = append(dropped, "database "+id)
		}
	}
	return dropped
}

// routeOf returns the first route whose documents have the anonymous pattern, nil if none has.
func (d *Deployment) routeOf(pattern string) *route.Route {
	for _, r := range d.Config.Routes {
		if documentsOf(r) == pattern {
			return r
		}
	}
	return nil
}

// hasDatabase reports whether the functions serve the database.
func (d *Deployment) hasDatabase(database string) bool {
	return slices.ContainsFunc(d.Databases, func(has Database) bool { return has.ID == database })
}

// lookAtAll looks at each resource, and returns the steps that make what it lacks. What could not
// be read, and what is somebody else's, are problems. IAM says for some seconds that a new service
// account may not be read; young takes it at its word.
func (d *Deployment) lookAtAll(ctx context.Context, young bool) (lacks []*Step, problems []error) {
	d.lists = make(map[string][]Object)
	defer func() { d.lists = nil }()

	var p Plan
	unread := make(map[*Resource]bool)
	for _, r := range d.Resources {
		of := references([]any{r.Name, map[string]any(r.Want)})
		if slices.ContainsFunc(of, func(text string) bool { return unread[d.referred(text)] }) {
			continue // what it is compared with is not known
		}

		c, err := d.Look(ctx, r)
		isForeign := new(Foreign)
		switch {
		case errors.As(err, &isForeign):
			problems = append(problems, err)
			continue
		case young && c != nil && r.kind.Noun == "service account" && code(err) == codes.PermissionDenied:
			c.Give = r.Grants
		case err != nil:
			unread[r] = true
			problems = appendProblem(problems, d.Unreadable(r.kind.api(), "the "+r.kind.Many, err))
			continue
		}
		d.planChange(&p, c)
	}
	return p.Steps, problems
}

// appendProblem adds a problem, unless there is none, or another resource has the same.
func appendProblem(problems []error, err error) []error {
	unread := new(Unread)
	isKnown := errors.As(err, &unread) && slices.ContainsFunc(problems, func(err error) bool {
		other := new(Unread)
		return errors.As(err, &other) && other.Why == unread.Why
	})
	if err == nil || isKnown {
		return problems
	}
	return append(problems, err)
}

// Differences returns what the project lacks, and has too much of, as the steps that fix it. What
// could not be read, and what is somebody else's, are problems.
func (d *Deployment) Differences(ctx context.Context) (lacks, surplus []*Step, problems []error) {
	lacks, problems = d.lookAtAll(ctx, false)
	surplus, err := d.surplus(ctx)
	problems = appendProblem(problems, err)
	for _, silence := range d.silences {
		problems = append(problems, &Unread{"what Tally has in all regions", silence.Error()})
	}
	return lacks, surplus, problems
}

// planChange adds the step that makes a change.
func (d *Deployment) planChange(p *Plan, c *Change) {
	r := c.Of
	switch {
	case c.Empty() && !d.hasNewParent(p, r):
		return
	case r.kind.Noun == "API":
		d.planAPI(p, r)
		return
	}

	s := &Step{Does: "update", Of: r.kind.Noun, Name: r.Name, Differs: c.Differs, Reasons: slices.Clone(c.Remake), Why: r.Why}
	s.do = func(ctx context.Context) error { return d.apply(ctx, r) }
	for _, g := range c.Give {
		s.Reasons = append(s.Reasons, "give "+g.String())
	}
	for _, g := range c.Take {
		s.Reasons = append(s.Reasons, "take "+g.revokedText())
	}

	switch {
	case len(c.Remake) > 0:
		s.Does = "replace"
	case c.Create && !r.kind.There:
		s.Does, s.Want = "create", r.shown()
	}
	s.Title = s.Does + " " + r.String()
	p.add(s)
}

// hasNewParent reports whether the plan makes another resource that comes with this one.
func (d *Deployment) hasNewParent(p *Plan, r *Resource) bool {
	of := d.referred(r.Name)
	return of != nil && slices.ContainsFunc(p.Steps, func(s *Step) bool {
		return s.Of == of.kind.Noun && s.Name == of.Name && (s.Does == "create" || s.Does == "replace")
	})
}

// planAPI adds an API to the step that enables APIs.
func (d *Deployment) planAPI(p *Plan, r *Resource) {
	s := p.stepThat("API", "enable")
	if s == nil {
		s = &Step{Does: "enable", Of: "API", Title: "enable APIs"}
		s.do = func(ctx context.Context) error {
			if err := d.enable(ctx, s.Reasons); err != nil {
				return err
			}
			return d.checkRegion(ctx) // before anything is made
		}
		p.add(s)
	}
	s.Reasons = append(s.Reasons, path.Base(r.Name))
}

// shown returns what is created as people may see it: without secrets.
func (r *Resource) shown() Object {
	body := resolved(merge(nil, merge(nil, nil, map[string]any(r.Once)), map[string]any(r.Want)), referenceText).(map[string]any)
	variables := asObject(asObject(body["serviceConfig"])["environmentVariables"])
	for name := range variables {
		if secret(name) {
			variables[name] = notShown
		}
	}
	return body
}

// audit has the job call once, after a step that touches functions or triggers: writes that come
// meanwhile may send no event. New functions audit until the triggers deliver, and then once more.
// For new triggers alone, a note has them audit all counters.
func (d *Deployment) audit(p *Plan) {
	paused := slices.ContainsFunc(d.OfKind("job"), func(r *Resource) bool { return r.have.Get("state") == "PAUSED" })
	if paused {
		p.note("the job is paused, and stays so. Nothing is audited until you resume it:\n  gcloud scheduler jobs resume tally --location=%s --project=%s", d.Place(), d.ID)
	}

	onlyTriggers := !p.Uploads() && p.stepThat("trigger", "create", "update", "replace") != nil
	if onlyTriggers {
		for _, database := range d.Databases {
			s := &Step{Does: "note", Of: "database", Name: database.ID, Title: "note in database " + database.ID + " that all counters need an audit"}
			s.do = func(ctx context.Context) error { return d.noteAll(ctx, database.ID) }
			p.add(s)
		}
	}
	touched := slices.ContainsFunc(p.Steps, func(s *Step) bool { return s.Of == "function" || s.Of == "trigger" })
	if touched && !paused {
		call := &Step{Does: "call", Of: "job", Name: d.Job(), Title: "audit: roll up changes that had no event"}
		call.do = func(ctx context.Context) error { return d.RunJob(ctx, call.Name) }
		p.add(call)
	}
}

// noteAll leaves a note for the schedule of the functions that all counters of a database need an
// audit. docs/design/schedule.md has the notes.
func (d *Deployment) noteAll(ctx context.Context, database string) error {
	name := "projects/" + d.ID + "/databases/" + database + "/documents/" + document.AuditCollection + "/" + document.NotePrefix + "all"
	note := Object{"fields": Object{"counters": Object{"nullValue": nil}}}
	return d.Call(ctx, http.MethodPatch, "firestore.googleapis.com/v1/"+name, note, new(Object))
}
