package deploy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/firestore-tally/tally/rollup"
)

// A Step is one command of a plan, and why it is needed.
type Step struct {
	Title   string   // such as "create trigger tally-counters-shards-78fea5"
	Of      *Kind    // kind of the resource that it mends; nil: another
	Reasons []string // why, such as "concurrency: 80, want 1000"
	Command Command

	Creates string   // name of the resource that it creates; empty: none
	Exists  *Command // prints something if that exists; nil: it may be created twice
	Remedy  string   // what to do if it fails; empty: the failure tells
	Again   bool     // it may need what was made just before, and is tried again

	// until, if not nil, runs instead of the command, and writes its progress.
	until func(ctx context.Context, progress io.Writer) error
}

// String returns the step in words, on one line.
func (s Step) String() string {
	if len(s.Reasons) == 0 {
		return s.Title
	}
	return s.Title + ": " + strings.Join(s.Reasons, "; ")
}

// A Plan lists what tally deploy or undeploy does.
type Plan struct {
	Steps []Step
	Notes []string // what the user should know or do

	// Awaited are indexes, in words, that must be ready before the plan can do more than begin their
	// builds.
	Awaited []string
}

func (p *Plan) add(of *Kind, title string, c Command, reasons ...string) *Step {
	p.Steps = append(p.Steps, Step{Title: title, Of: of, Reasons: reasons, Command: c})
	return &p.Steps[len(p.Steps)-1]
}

// Uploads reports whether the plan deploys a function, and so uploads source.
func (p *Plan) Uploads() bool {
	uploads := func(s Step) bool { return s.Of == Function && slices.Contains(s.Command.Args, "deploy") }
	return slices.ContainsFunc(p.Steps, uploads)
}

func (p *Plan) note(format string, args ...any) {
	p.Notes = append(p.Notes, fmt.Sprintf(format, args...))
}

// redelivery is the longest time between two deliveries of an event
// (https://cloud.google.com/eventarc/docs/retry-events).
const redelivery = 10 * time.Minute

// Deploy returns the commands that turn the state into the description, each after those that it
// needs. While indexes are missing that the deployed routes do without, it only begins their builds;
// with wait it goes on when they are ready. It notes the surplus of Tally's resources; prune deletes
// them. It fails if something could not be read, if something else made a function, trigger or job of
// the same name, if the region has no Cloud Scheduler, or if a source that is served now would no
// longer be, unless prune is set.
func (d *Description) Deploy(have *State, prune, wait bool) (Plan, error) {
	for _, k := range kinds {
		if u := have.Unread[k]; u != nil {
			return Plan{}, u
		}
	}

	lost := d.lost(have)
	if len(lost) > 0 && !prune {
		return Plan{}, fmt.Errorf("the deployed functions serve %s, which would stand still: name that too, or --prune to take it away",
			strings.Join(lost, " and "))
	}
	if err := d.foreign(have); err != nil {
		return Plan{}, err
	}
	if err := d.checkRegion(have); err != nil {
		return Plan{}, err
	}

	p := d.Mend(have)
	p.look(d, have)

	// A source that no route has any more loses its trigger first. The routes change only when the
	// events of that trigger have ended.
	first, surplus := d.Surplus(have)
	for _, s := range surplus.Steps {
		if s.Of == Trigger || prune { // an event of such a trigger is billed for nothing
			p.Steps = append(p.Steps, s)
		} else {
			p.note("%v. Only --prune does this", s)
		}
	}
	if len(first.Steps) > 0 {
		title := fmt.Sprint("wait ", redelivery.Minutes(), " minutes, until events that failed have been delivered again")
		first.add(Trigger, title, Command{Args: []string{"sleep", number(redelivery)}})
		p.Steps = append(first.Steps, p.Steps...)
	}

	name := d.Job()
	touched := func(s Step) bool { return s.Of == Function || s.Of == Trigger }
	switch {
	case have.Find(Job, name).Get("state") == "PAUSED":
		p.note("the job is paused, and stays so: nothing is audited until you run\n  %s", Job.Command(d.Project, "resume", name))
	case slices.ContainsFunc(p.Steps, touched):
		p.add(Job, "audit: what changed without an event is rolled up", Job.Command(d.Project, "run", name))
	}

	if err := d.Config.CheckGrace(); err != nil {
		p.note("%v", err)
	}
	p.noteBuilds(d)
	p.Notes = append(p.Notes, have.Unreached()...)
	if d.silent {
		p.note("alerts tell nobody yet: alert_email in tally.yaml has them mailed")
	}
	p.hold(d, have, wait)
	return p, nil
}

// lost returns the sources that the deployed functions serve and that no route of the description
// has.
func (d *Description) lost(have *State) []string {
	env := have.Env()
	routes, err := rollup.ParseRoutes(env["TALLY_ROUTES"])
	if err != nil {
		return nil
	}

	var lost []string
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
func (d *Description) routeOf(pattern string) *rollup.Route {
	for _, r := range d.Config.Routes {
		if anonymous(r.Pattern().String()) == pattern {
			return r
		}
	}
	return nil
}

// serves reports whether the functions are to serve the database.
func (d *Description) serves(database string) bool {
	return slices.ContainsFunc(d.Databases, func(has Database) bool { return has.ID == database })
}

// foreign refuses to overwrite a resource that something else made. The job may be somebody's own
// if it calls RollUpOnSchedule.
func (d *Description) foreign(have *State) error {
	var problems []error
	for _, r := range d.Resources {
		if r.Kind != Function && r.Kind != Trigger && r.Kind != Job {
			continue
		}

		h := have.Find(r.Kind, r.Name)
		if h == nil || made(h) {
			continue
		}

		callsUs := r.Kind == Job && strings.TrimSuffix(h.Get("httpTarget.uri"), "/") == d.uri(have)
		if callsUs {
			continue
		}

		problems = append(problems, fmt.Errorf("%s %s in %s was not made by tally deploy: go on with what made it, such as Terraform, or delete it first",
			r.Noun, path.Base(r.Name), segment(r.Name, "locations")))
	}
	return errors.Join(problems...)
}

// made reports whether tally deploy made the resource.
func made(o Object) bool {
	return o.Get("labels."+madeByLabel) != "" || o.Get("userLabels."+madeByLabel) != "" || o.Get("description") == madeBy
}

// Mend returns the commands that turn the state into the description. It leaves out resources that
// could not be read, and surplus ones.
func (d *Description) Mend(have *State) Plan {
	var p Plan

	enabled := func(api string) bool {
		return slices.ContainsFunc(have.have[API], func(o Object) bool { return path.Base(o.name()) == api })
	}
	missing := slices.DeleteFunc(slices.Clone(d.APIs), enabled)
	if len(missing) > 0 {
		p.add(API, "enable APIs", gcloud(append([]string{"services", "enable"}, missing...)...).in(d.Project), missing...)
	}

	for _, k := range kinds {
		if have.Unread[k] != nil {
			continue
		}

		for i := range d.Resources {
			r := &d.Resources[i]
			if r.Kind == k {
				p.resource(d.Project, r, have)
			}
		}
		p.grants(d, k, have)
	}
	return p
}

// resource adds the steps that make the resource, or change it.
func (p *Plan) resource(project string, r *Resource, have *State) {
	h := have.Find(r.Kind, r.Name)
	if r.Kind == Subscription && p.has("delete trigger "+r.of) {
		h = r.missing // it goes with its trigger
		r.Name = Placeholder + r.of
	}

	changes := r.differs(h)
	var reasons []string
	for _, c := range changes {
		reasons = append(reasons, c.String())
	}
	anew := r.whyAnew(h)
	reasons = append(reasons, anew...)

	fixed := slices.ContainsFunc(changes, func(c Change) bool { return c.Fixed })
	if h != nil && (fixed || len(anew) > 0) {
		p.remove(project, r.Kind, h, reasons...)
		h = nil
	}

	what := r.Noun + " " + r.label()
	if h == nil {
		step := p.add(r.Kind, "create "+what, r.command(project, nil, nil))
		step.Creates, step.Exists, step.Again = r.Name, r.exists(project), true
	} else if len(changes) > 0 {
		step := p.add(r.Kind, "update "+what, r.command(project, h, changes), reasons...)
		step.Again = r.input == "" // an input can be read only once
	}
}

// has reports whether the plan has a step of the title.
func (p *Plan) has(title string) bool {
	return slices.ContainsFunc(p.Steps, func(s Step) bool { return s.Title == title })
}

// whyAnew returns why the resource must be made anew, whatever its settings.
func (r *Resource) whyAnew(have Object) []string {
	if r.Kind == Index && have.Get("state") == indexBroken {
		return []string{"its build failed, and it never becomes ready"}
	}
	return r.anew
}

// grants gives the roles that are missing. It takes away roles that anybody has, and roles that are
// given on another condition.
func (p *Plan) grants(d *Description, k *Kind, have *State) {
	for _, g := range d.Grants {
		if g.On != k || slices.Contains(have.given, g) {
			continue
		}

		if api := agent(g.Member); api != "" {
			create := gcloud("beta", "services", "identity", "create", "--service="+api+".googleapis.com").in(d.Project)
			p.add(k, "create "+short(g.Member), create).Again = true
		}

		give := fmt.Sprintf("give %s to %s on %s", g.Role, short(g.Member), path.Base(g.Name))
		p.add(k, give, g.command(d.Project, "add")).Again = true
	}

	for _, g := range have.given {
		if g.On != k || slices.Contains(d.Grants, g) {
			continue
		}

		public := k != Project && (g.Member == "allUsers" || g.Member == "allAuthenticatedUsers")
		otherwise := slices.ContainsFunc(d.Grants, func(w Grant) bool {
			return w.Name == g.Name && w.Role == g.Role && w.Member == g.Member
		})
		if public || otherwise {
			p.take(d.Project, g, "condition: "+orNone(g.Condition))
		}
	}
}

func (p *Plan) take(project string, g Grant, reasons ...string) {
	p.add(g.On, fmt.Sprintf("take %s from %s on %s", g.Role, short(g.Member), path.Base(g.Name)), g.command(project, "remove"), reasons...)
}

// command returns the command that gives the role, or takes it: verb is add or remove.
func (g *Grant) command(project, verb string) Command {
	args := []string{"--member=" + g.Member, "--role=" + g.Role}
	switch {
	case g.On == Project && g.Condition == "":
		args = append(args, "--condition=None") // or gcloud asks which, if the policy has any
	case g.On == Project:
		args = append(args, "--condition="+dict([]string{"expression=" + g.Condition, "title=" + conditionTitle}))
	}

	// The number of a project that does not exist yet is known only when the command runs.
	number := gcloud("projects", "describe", project, "--format=value(projectNumber)")
	c := g.On.Command(project, verb+"-iam-policy-binding", g.Name, args...)
	c.Output = &number
	return c
}

const conditionTitle = "tally" // of the conditions on grants

// agent returns the API that the member is the service agent of, "" if it is none. A service agent is
// an account of Google's own, through which an API acts in the project.
func agent(member string) string {
	_, of, _ := strings.Cut(member, "@gcp-sa-")
	api, _, _ := strings.Cut(of, ".")
	return api
}

// short returns a member without its kind and its domain, such as "tally-build".
func short(member string) string {
	if api := agent(member); api != "" {
		return api + "'s service agent"
	}
	_, name, _ := strings.Cut(member, ":")
	name, _, _ = strings.Cut(cmp.Or(name, member), "@")
	return name
}

// Surplus returns the commands that delete what triggers or calls the functions, or was made for
// them, and is not in the description: triggers of documents that are no route's, and the others.
func (d *Description) Surplus(have *State) (lost, others Plan) {
	uri := d.uri(have)
	for _, k := range []*Kind{Trigger, Job, Function, Repository} {
		for _, o := range have.have[k] {
			wanted := slices.ContainsFunc(d.Resources, func(r Resource) bool { return r.Kind == k && r.Name == o.name() })
			if wanted {
				continue
			}

			switch {
			case k == Trigger && o.Get("destination.cloudRun.service") == OnWriteName:
				reason, routed := d.surplusTrigger(o)
				if routed {
					others.remove(d.Project, k, o, reason)
				} else {
					lost.remove(d.Project, k, o, reason)
				}
			case k == Job && uri != "" && strings.HasPrefix(o.Get("httpTarget.uri"), uri):
				others.remove(d.Project, k, o, "it calls RollUpOnSchedule too, and each call audits")
			case k == Job && made(o), k == Function && ours(o), k == Repository && made(o):
				others.remove(d.Project, k, o, fmt.Sprintf("it is in %s, and the functions are not", segment(o.name(), "locations")))
			}
		}
	}
	return lost, others
}

// surplusTrigger returns why a trigger that is not in the description is too many, and whether a
// route has its documents.
func (d *Description) surplusTrigger(trigger Object) (reason string, routed bool) {
	database, pattern := trigger.Get("eventFilters.database"), trigger.Get("eventFilters.document")
	route := d.routeOf(pattern)
	if route == nil || !d.serves(database) {
		return fmt.Sprintf("no route has the documents %s of database %s", pattern, database), false
	}

	if t := route.Template; t.Scheduled() {
		return fmt.Sprintf("the schedule keeps %s every %v, and each event is billed for nothing", pattern, t.Every), true
	}
	return fmt.Sprintf("another has the documents %s of database %s, and their events come twice", pattern, database), true
}

func (p *Plan) remove(project string, k *Kind, o Object, reasons ...string) {
	name := path.Base(o.name())
	if k.key != nil {
		name = k.key(o)
	}
	if k == Index {
		name = indexLabel(o)
	}
	p.add(k, "delete "+k.Noun+" "+name, k.Command(project, k.remove, o.name()), reasons...)
}

// Undeploy returns the commands that delete the resources that Deploy's commands made, and nothing
// else: no document, no rule, no field's index, no database, no API and no service agent.
func Undeploy(have *State) (Plan, error) {
	var p Plan

	others := slices.ContainsFunc(have.have[Function], func(o Object) bool { return ours(o) && !made(o) })
	if others {
		p.note("functions stay that something else made, such as Terraform, with the metrics and the dashboard that they may use")
	}

	routes, err := rollup.ParseRoutes(have.Env()["TALLY_ROUTES"])
	if err == nil && len(routes.Indexes()) > 0 {
		p.note("the indexes that the routes needed stay, because queries of your app may use them: gcloud firestore indexes composite list shows them")
	}

	for _, k := range []*Kind{Job, Trigger, Function, Repository, Alert, Dashboard, Metric, Exclusion, Channel, Account} {
		if u := have.Unread[k]; u != nil {
			return Plan{}, u
		}

		for _, o := range have.have[k] {
			mine := made(o) || unmarked(k, o) && !others
			if !mine {
				continue
			}

			if k == Account {
				p.takeRoles(have, o)
			}
			p.remove(have.Project, k, o)
		}
	}

	p.Notes = append(p.Notes, have.Unreached()...)
	return p, nil
}

// unmarked reports whether the object is Tally's by its name alone, because its kind has no room for
// the mark that made looks for.
func unmarked(k *Kind, o Object) bool {
	switch k {
	case Dashboard:
		return k.key(o) == dashboardName
	case Metric:
		return slices.ContainsFunc(logMetrics, func(m logMetric) bool { return m.name == o.name() })
	}
	return false
}

// takeRoles takes the project's roles from an account, because a policy keeps the roles of an account
// that is gone. Roles on other resources go with those.
func (p *Plan) takeRoles(have *State, account Object) {
	member := "serviceAccount:" + path.Base(account.name())
	for _, g := range have.given {
		if g.On == Project && g.Member == member {
			p.take(have.Project, g)
		}
	}
}
