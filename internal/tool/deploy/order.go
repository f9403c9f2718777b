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

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/rollup/route"
	"google.golang.org/grpc/codes"
)

// A Plan lists what tally deploy or undeploy does.
type Plan struct {
	Steps []*Step  `json:"steps"`
	Notes []string `json:"notes,omitempty"` // what the user should know or do

	// Awaited are the indexes, in words, that keep the plan short: until they are ready, it does no
	// more than begin their builds.
	Awaited []string `json:"awaited,omitempty"`
}

// A Step is one thing that a plan does.
type Step struct {
	Does    string       `json:"does"`           // create, update, replace, delete, enable, wait, note or call
	Of      string       `json:"of,omitempty"`   // kind of the resource that it is about
	Name    string       `json:"name,omitempty"` // of that resource
	Title   string       `json:"title"`          // such as "create trigger tally-counters-shards-78fea5"
	Differs []Difference `json:"differs,omitempty"`
	Reasons []string     `json:"reasons,omitempty"` // what is not one field, in words
	Why     string       `json:"why,omitempty"`     // what rests on the resource: the manifest's comment on it
	Want    Object       `json:"want,omitempty"`    // of what is created

	takes bool // something is taken away, or waited for because of that
	do    func(context.Context) error
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

// does returns the first step about resources of a kind that does one of those things; nil if none
// does.
func (p *Plan) does(kind string, verbs ...string) *Step {
	for _, s := range p.Steps {
		if s.Of == kind && slices.Contains(verbs, s.Does) {
			return s
		}
	}
	return nil
}

// Uploads reports whether the plan deploys a function, and so uploads source.
func (p *Plan) Uploads() bool { return p.does("function", "create", "update") != nil }

// Redelivery is the longest time between two deliveries of an event
// (https://cloud.google.com/eventarc/docs/retry-events).
const redelivery = 10 * time.Minute

// Plan returns the steps that make the project as the deployment wants it, each after those that it
// needs. It only looks.
//
// New routes may need indexes that are not ready. Then the plan only begins their builds; with wait
// it waits for them, and goes on. The plan deletes surplus triggers, and only notes other surplus;
// with prune it deletes all of it.
//
// It is an error if something could not be read; if something else made a resource of the same
// name; if no one chose a region for databases on several continents; or if a source that is served
// now would no longer be, unless prune is set.
func (d *Deployment) Plan(ctx context.Context, prune, wait bool) (Plan, error) {
	if err := d.refuse(prune); err != nil {
		return Plan{}, err
	}
	p, err := d.repair(ctx)
	if err != nil {
		return Plan{}, err
	}
	if err := d.takeSurplus(ctx, &p, prune); err != nil {
		return Plan{}, err
	}
	d.audit(&p)
	d.tell(&p)
	d.hold(&p, wait)
	return p, nil
}

// refuse returns why nothing can be planned, as far as no resource has to be looked at.
func (d *Deployment) refuse(prune bool) error {
	lost := d.lost()
	if len(lost) > 0 && !prune {
		return fmt.Errorf("this would stop updating %s: add it to tally.yaml, or remove it with --prune", strings.Join(lost, " and "))
	}
	silence := new(Silence)
	if errors.As(d.Was.silence, &silence) && slices.Contains(silence.Regions, d.region()) {
		return d.Unreadable("cloudfunctions", "the functions", silence)
	}
	return d.checkContinents()
}

// lost returns the sources that the deployed functions serve, and that no route has.
func (d *Deployment) lost() (lost []string) {
	env := d.Was.Env()
	routes, err := route.Parse(env["TALLY_ROUTES"])
	if err != nil {
		return nil
	}
	for _, r := range routes {
		pattern := r.Pattern().String()
		if d.routeOf(anonymous(pattern)) == nil {
			lost = append(lost, pattern)
		}
	}
	for id := range strings.SplitSeq(env["TALLY_DATABASES"], ",") {
		if id != "" && !d.serves(id) {
			lost = append(lost, "database "+id)
		}
	}
	return lost
}

// routeOf returns the first route whose documents have the anonymous pattern, nil if none has.
func (d *Deployment) routeOf(pattern string) *route.Route {
	for _, r := range d.Config.Routes {
		if anonymous(r.Pattern().String()) == pattern {
			return r
		}
	}
	return nil
}

// serves reports whether the functions serve the database.
func (d *Deployment) serves(database string) bool {
	return slices.ContainsFunc(d.Databases, func(has Database) bool { return has.ID == database })
}

// repair looks at each resource, and plans what it lacks. It stops at one that it cannot read, and
// names all that are somebody else's.
func (d *Deployment) repair(ctx context.Context) (p Plan, err error) {
	d.lists = make(map[string][]Object)
	defer func() { d.lists = nil }()

	var foreign []error
	for _, r := range d.Resources {
		c, err := d.Look(ctx, r)
		isForeign := new(Foreign)
		switch {
		case errors.As(err, &isForeign):
			foreign = append(foreign, err)
			continue
		case err != nil && c != nil && r.kind.Noun == "service account" && code(err) == codes.PermissionDenied:
			c.Give = r.Grants // IAM says so of an account that is some seconds old
		case err != nil:
			return p, d.Unreadable(r.API(), "the "+r.kind.Many, err)
		}
		d.planChange(&p, c)
	}
	return p, errors.Join(foreign...)
}

// Differences returns what the project lacks, and has too much of, as the steps that fix it. What
// could not be read, and what is somebody else's, are problems.
func (d *Deployment) Differences(ctx context.Context) (lacks, surplus []*Step, problems []error) {
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
		case err != nil:
			unread[r] = true
			problems = append(problems, d.Unreadable(r.API(), "the "+r.kind.Many, err))
		default:
			d.planChange(&p, c)
		}
	}

	all, err := d.Surplus(ctx, false)
	if err != nil {
		problems = append(problems, d.Unreadable("eventarc", "the triggers", err))
	}
	for _, s := range all {
		surplus = append(surplus, s.Step)
	}
	return p.Steps, surplus, problems
}

// planChange adds the step that makes a change.
func (d *Deployment) planChange(p *Plan, c *Change) {
	r := c.Of
	follows := d.follows(p, r)
	if c.Empty() && !follows {
		return
	}
	if r.kind.Noun == "API" {
		d.planAPI(p, r)
		return
	}

	s := &Step{Of: r.kind.Noun, Name: r.Name, Differs: c.Differs, Reasons: slices.Clone(c.Remake), Why: r.Why, takes: len(c.Take) > 0 || len(c.Remake) > 0}
	s.do = func(ctx context.Context) error { return d.apply(ctx, r) }
	for _, g := range c.Give {
		s.Reasons = append(s.Reasons, "give "+g.String())
	}
	for _, g := range c.Take {
		s.Reasons = append(s.Reasons, "take "+g.taken())
	}

	switch onlyRoles := len(c.Differs) == 0 && !follows; {
	case len(c.Remake) > 0:
		s.Does = "replace"
	case c.Create && !r.kind.There:
		s.Does, s.Want = "create", r.shown()
	case onlyRoles && (!c.Create || r.Want == nil):
		s.Does = "update"
		s.Title = "change roles on " + r.String()
	default:
		s.Does = "update"
	}
	if s.Title == "" {
		s.Title = s.Does + " " + r.String()
	}
	p.add(s)
}

// follows reports whether the plan makes another resource that comes with this one.
func (d *Deployment) follows(p *Plan, r *Resource) bool {
	of := d.referred(r.Name)
	return of != nil && slices.ContainsFunc(p.Steps, func(s *Step) bool {
		return s.Of == of.kind.Noun && s.Name == of.Name && (s.Does == "create" || s.Does == "replace")
	})
}

// planAPI adds an API to the step that enables APIs.
func (d *Deployment) planAPI(p *Plan, r *Resource) {
	s := p.does("API", "enable")
	if s == nil {
		s = &Step{Does: "enable", Of: "API", Title: "enable APIs"}
		s.do = func(ctx context.Context) error { return d.enable(ctx, s.Reasons) }
		p.add(s)
	}
	s.Reasons = append(s.Reasons, path.Base(r.Name))
}

// shown returns what is created as people may see it: without secrets.
func (r *Resource) shown() Object {
	body := filled(merge(nil, merge(nil, nil, map[string]any(r.Once)), map[string]any(r.Want)), inWords).(map[string]any)
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
	paused := slices.ContainsFunc(d.Of("job"), func(r *Resource) bool { return r.have.Get("state") == "PAUSED" })
	if paused {
		p.note("the job is paused, and stays so. Nothing is audited until you resume it:\n  gcloud scheduler jobs resume tally --location=%s --project=%s", d.region(), d.ID)
	}

	onlyTriggers := !p.Uploads() && p.does("trigger", "create", "update", "replace") != nil
	if onlyTriggers {
		for _, database := range d.Databases {
			s := &Step{Does: "note", Of: "database", Name: database.ID, Title: "note in database " + database.ID + " that all counters need an audit"}
			s.do = func(ctx context.Context) error { return d.noteAll(ctx, database.ID) }
			p.add(s)
		}
	}
	touched := slices.ContainsFunc(p.Steps, func(s *Step) bool { return s.Of == "function" || s.Of == "trigger" })
	if touched && !paused {
		call := &Step{Does: "call", Of: "job", Name: d.Job(), Title: "audit: what changed without an event is rolled up"}
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

// tell notes what the user should know of the deployment.
func (d *Deployment) tell(p *Plan) {
	for _, r := range d.Of("queue") {
		if state := r.have.Get("state"); state == "PAUSED" || state == "DISABLED" {
			p.note("the alarm queue is %s. Deferred roll-ups wait until you resume it:\n  %v%s", state, d.QueueResume(), whyDisabled(state))
		}
	}
	if err := d.Config.CheckGrace(); err != nil {
		p.note("%v", err)
	}
	if d.Was.silence != nil {
		p.note("%v. Functions that Tally may have there stay as they are", d.Was.silence)
	}
}

// whyDisabled says what often disables a queue.
func whyDisabled(state string) string {
	if state != "DISABLED" {
		return ""
	}
	return "\nApp Engine disables each queue that an uploaded queue.yaml does not name: https://cloud.google.com/tasks/docs/queue-yaml"
}

// hold moves the steps about APIs and indexes to the front of the plan. While indexes are awaited,
// the plan ends there, and the functions keep the routes that they serve. With wait, the plan waits
// until the indexes are ready, and goes on.
func (d *Deployment) hold(p *Plan, wait bool) {
	isFirst := func(s *Step) bool { return s.Of == "API" || s.Of == "index" }
	begin := slices.DeleteFunc(slices.Clone(p.Steps), func(s *Step) bool { return !isFirst(s) })
	rest := slices.DeleteFunc(slices.Clone(p.Steps), isFirst)

	awaited := d.awaited()
	switch {
	case len(awaited) == 0:
		for _, text := range d.Building() {
			p.note("index %s. Until it is ready, totals that need it read up to 1,000 documents one by one, and are not updated above that", text)
		}

	case wait:
		for _, database := range d.Databases {
			s := &Step{Does: "wait", Of: "index", Title: "wait until the indexes of " + database.ID + " are ready"}
			s.do = func(ctx context.Context) error { return d.ready(ctx, database.ID) }
			begin = append(begin, s)
		}

	default:
		rest, p.Notes, p.Awaited = nil, nil, awaited
		p.note("the functions keep their present routes until the new indexes are ready. To wait for them and go on, use --wait")
	}
	p.Steps = append(begin, rest...)
}
