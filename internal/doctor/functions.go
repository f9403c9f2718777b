package doctor

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/firestore-tally/tally/deploy"
	"github.com/firestore-tally/tally/internal/app"
	"github.com/firestore-tally/tally/rollup"
)

const (
	noWrite    = "no RollUpOnWrite is deployed"
	noSchedule = "no RollUpOnSchedule is deployed"
	noConfig   = "no function's configuration is valid"
)

func (e *examination) deployed() {
	if e.Elsewhere != nil {
		e.unknown(e.Elsewhere) // what is missing may be there
	} else {
		if len(e.write) == 0 {
			e.wrong([]deploy.Command{e.deploy()}, noWrite)
		}
		if len(e.schedule) == 0 {
			e.wrong([]deploy.Command{e.deploy()}, noSchedule)
		}
	}
	for _, f := range e.schedule[min(1, len(e.schedule)):] {
		e.wrong([]deploy.Command{e.remove(f)}, "%s in %s is a second RollUpOnSchedule, beside %s", f.Name, f.Region, e.schedule[0].Name)
	}
}

func (e *examination) active() {
	for _, f := range e.all() {
		switch {
		case !f.SecondGen:
			e.wrong([]deploy.Command{e.gcloud("functions", "delete", f.Name, "--no-gen2", "--region="+f.Region), e.deploy()}, "%s is a function of the 1st generation", f.Name)
		case f.State != "ACTIVE":
			text := f.Name + " is " + f.State
			if f.StateMessage != "" {
				text += ": " + f.StateMessage
			}
			e.wrong(e.redeploy(f), "%s", text)
		case !f.LatestServes:
			e.wrong(e.one("run", "services", "update-traffic", path.Base(f.Service), "--to-latest", "--region="+f.Region), "%s: an older revision serves requests", f.Name)
		}
	}
}

// all returns the functions, RollUpOnWrite's first, and notes if there are none.
func (e *examination) all() []*Function {
	if len(e.Functions) == 0 {
		e.idle("no function of Tally's is deployed")
	}
	return slices.Concat(e.write, e.schedule)
}

// eachWrite returns RollUpOnWrite's functions, and notes if there are none.
func (e *examination) eachWrite() []*Function {
	if len(e.write) == 0 {
		e.idle(noWrite)
	}
	return e.write
}

func (e *examination) entryPoint() {
	for _, f := range e.all() {
		want := onSchedule
		if f.OnWrite() {
			want = onWrite
		}
		switch {
		case f.EntryPoint != want:
			e.wrong(e.redeploy(f, "--entry-point="+want), "%s has the entry point %s, not %s", f.Name, f.EntryPoint, want)
		case want == onSchedule && f.Trigger != nil:
			e.wrong(e.redeploy(f, "--trigger-http", "--no-allow-unauthenticated"), "%s is called by events, not by the schedule", f.Name)
		}
	}
}

func (e *examination) configuration() {
	for _, f := range e.all() {
		for _, problem := range problems(e.configs[f].err) {
			name := problem[:strings.IndexAny(problem+" ", "= ")] // as LoadConfig begins them all
			remedy := e.redeploy(f, "--remove-env-vars="+name)
			if name == "GOOGLE_CLOUD_PROJECT" {
				remedy = e.setEnv(f, name, e.Project)
			} else if value, ok := variable(e.config, name); ok && e.valid {
				remedy = e.setEnv(f, name, value)
			}
			e.wrong(remedy, "%s: %s", f.Name, problem)
		}
		for _, name := range []string{"FIRESTORE_EMULATOR_HOST", "TALLY_USAGE_FILE"} {
			if f.Env[name] != "" {
				e.wrong(e.redeploy(f, "--remove-env-vars="+name), "%s: %s=%s is for development", f.Name, name, f.Env[name])
			}
		}
		if p := f.Env["GOOGLE_CLOUD_PROJECT"]; p != "" && p != e.Project {
			e.wrong(e.setEnv(f, "GOOGLE_CLOUD_PROJECT", e.Project), "%s: GOOGLE_CLOUD_PROJECT=%s is another project", f.Name, p)
		}
		for _, name := range f.SecretEnv {
			if strings.HasPrefix(name, "TALLY_") {
				e.unknown(&Unread{What: f.Name, Why: name + " is a secret, which is not looked into", Remedy: e.redeploy(f, "--remove-secrets="+name)})
			}
		}
	}
}

// problems returns the problems that an error of LoadConfig joins.
func problems(err error) []string {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return nil
	}
	var texts []string
	for _, err := range joined.Unwrap() {
		texts = append(texts, strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return texts
}

// shared are the variables that all functions must agree on.
var shared = []string{"TALLY_ROUTES", "TALLY_CADENCE", "TALLY_HOLD_LIMIT"}

// variable returns the value of a shared variable.
func variable(c app.Config, name string) (value string, ok bool) {
	switch name {
	case "TALLY_ROUTES":
		return routesText(c.Routes), true
	case "TALLY_CADENCE":
		return c.Cadence.String(), true
	case "TALLY_HOLD_LIMIT":
		return c.HoldLimit.String(), true
	}
	return "", false
}

func (e *examination) sameConfiguration() {
	for _, f := range e.all() {
		c := e.configs[f]
		if c.err != nil {
			continue // which configuration finds
		}
		for _, name := range shared {
			want, _ := variable(e.config, name)
			got, _ := variable(c.Config, name)
			if got != want {
				e.wrong(e.setEnv(f, name, want), "%s: %s is %s; of the others it is %s", f.Name, name, got, want)
			}
		}
	}
}

func (e *examination) timeout() {
	for _, f := range e.all() {
		if e.configs[f].err != nil {
			continue
		}
		if _, err := app.LoadConfig(f.environment()); err != nil {
			want := e.defaults.OnWrite[0].Timeout
			if !f.OnWrite() {
				want = e.defaults.OnSchedule.Timeout
			}
			e.wrong(e.redeploy(f, "--timeout="+seconds(max(want, 2*e.configs[f].HoldLimit))), "%s: %v", f.Name, err)
		}
	}
}

func (e *examination) concurrency() {
	want := e.defaults.OnWrite[0]
	cpu := []string{fmt.Sprintf("--cpu=%d", want.CPU), fmt.Sprintf("--memory=%dMi", want.MemoryMiB)} // gcloud takes no CPU without memory
	for _, f := range e.eachWrite() {
		if !f.SecondGen {
			continue // which active finds; there is no other concurrency
		}
		if f.Concurrency < 2 {
			e.wrong(e.redeploy(f, append([]string{fmt.Sprintf("--concurrency=%d", want.Concurrency)}, cpu...)...), "%s serves %d event at once", f.Name, f.Concurrency)
		} else if n, ok := cpus(f.CPU); ok && n < 1 {
			e.wrong(e.redeploy(f, cpu...), "%s has %s CPU", f.Name, f.CPU)
		}
	}
}

// reserve is how long before its timeout RollUpOnSchedule begins nothing more; see internal/app.
const reserve = 45 * time.Second

func (e *examination) auditTimeout() {
	f := e.scheduled()
	if f == nil {
		return
	}
	c := e.configs[f]
	if c.err != nil {
		e.idle("the configuration of " + f.Name + " is not valid")
		return
	}
	mend := func(least time.Duration) []deploy.Command {
		return e.redeploy(f, "--timeout="+seconds(max(least, e.defaults.OnSchedule.Timeout)))
	}
	if want := 2*rollup.Grace(c.Cadence, c.HoldLimit) + reserve; f.Timeout < want {
		e.wrong(mend(want), "%s has a timeout of %v; two graces and 45 s are %v", f.Name, f.Timeout, want)
	}
	if want := c.SchedulePeriod + reserve; len(c.Routes.Scheduled()) > 0 && f.Timeout < want {
		e.wrong(mend(want), "%s has a timeout of %v; TALLY_SCHEDULE_PERIOD and 45 s are %v", f.Name, f.Timeout, want)
	}
}

// scheduled returns RollUpOnSchedule, and notes if there is none.
func (e *examination) scheduled() *Function {
	if len(e.schedule) == 0 {
		e.idle(noSchedule)
		return nil
	}
	return e.schedule[0]
}

func (e *examination) triggers() {
	if !e.valid {
		e.idle(noConfig)
		return
	}
	if len(e.write) == 0 {
		e.idle(noWrite)
		return
	}
	type source struct{ database, shape string }
	of := make(map[source]*Function)
	routes := make(map[string]*rollup.Route)
	for _, r := range e.config.Routes {
		routes[shape(deploy.Pattern(r))] = r
	}
	for _, f := range e.triggered() {
		s := source{f.Trigger.Database, shape(f.Trigger.Pattern)}
		switch first, route := of[s], routes[s.shape]; {
		case route == nil:
			text := "matches the shards of no route"
			for _, r := range e.config.Routes {
				if covers(f.Trigger.Pattern, deploy.Pattern(r)) {
					text = "matches more than the shards of a route"
				}
			}
			e.wrong([]deploy.Command{e.remove(f), e.deploy()}, "%s: the pattern %s %s", f.Name, cmp.Or(f.Trigger.Pattern, "of all documents"), text)
		case route.Template.Every > 0:
			e.wrong([]deploy.Command{e.remove(f), e.deploy()}, "%s: the route of the pattern %s says every %v: the schedule keeps it, and each event is billed for nothing", f.Name, f.Trigger.Pattern, route.Template.Every)
		case first != nil:
			surplus := f
			if f.Name == deploy.OnWriteName(s.database, route) {
				surplus = first
			}
			e.wrong([]deploy.Command{e.remove(surplus)}, "%s and %s have one pattern and database: each event comes twice", first.Name, f.Name)
		default:
			of[s] = f
		}
	}
	for _, d := range e.configuredDatabases() {
		for _, r := range e.config.Routes.Live() {
			pattern := deploy.Pattern(r)
			if of[source{d.ID, shape(pattern)}] == nil && !e.covered(d.ID, pattern) {
				e.wrong([]deploy.Command{e.deploy()}, "no trigger of database %s has the pattern %s", d.ID, pattern)
			}
		}
	}
}

// covered reports whether a trigger of the database matches all that the pattern does.
func (e *examination) covered(database, pattern string) bool {
	return slices.ContainsFunc(e.write, func(f *Function) bool {
		return f.Trigger != nil && f.Trigger.Database == database && covers(f.Trigger.Pattern, pattern)
	})
}

func (e *examination) eventType() {
	for _, f := range e.triggered() {
		// withAuthContext says more of the same event, and is taken too.
		if t := strings.TrimSuffix(f.Trigger.EventType, ".withAuthContext"); t != deploy.EventType {
			e.wrong([]deploy.Command{e.remove(f), e.deploy()}, "%s: the event is %s", f.Name, f.Trigger.EventType)
		}
	}
}

// triggered returns RollUpOnWrite's functions that have a trigger.
func (e *examination) triggered() []*Function {
	return slices.DeleteFunc(slices.Clone(e.eachWrite()), func(f *Function) bool { return f.Trigger == nil })
}

func (e *examination) triggerLocation() {
	for _, f := range e.triggered() {
		d := e.database(f.Trigger.Database)
		if u := d.Metadata.Unread; u != nil {
			e.unknown(u)
		} else if m := d.Metadata.Value; m.Exists && m.Location != f.Trigger.Location {
			e.wrong([]deploy.Command{e.remove(f), e.deploy()}, "%s: the trigger is in %s, and database %s in %s", f.Name, f.Trigger.Location, d.ID, m.Location)
		}
	}
}

func (e *examination) databases() {
	f := e.scheduled()
	if f == nil {
		return
	}
	c := e.configs[f]
	if c.err != nil {
		e.idle("the configuration of " + f.Name + " is not valid")
		return
	}
	var right []string // those that are named and native, and those that have triggers
	for _, id := range c.Databases {
		switch m := e.database(id).Metadata; {
		case m.Unread != nil:
			e.unknown(m.Unread)
			right = append(right, id)
		case m.Value.Native:
			right = append(right, id)
		}
	}
	named := len(right)
	for _, w := range e.write {
		if t := w.Trigger; t != nil && !slices.Contains(c.Databases, t.Database) && !slices.Contains(right, t.Database) {
			right = append(right, t.Database)
		}
	}
	list := strings.Join(right, ",")
	for _, w := range e.write {
		if c := e.configs[w]; w.Trigger != nil && c.err == nil && !slices.Contains(c.Databases, w.Trigger.Database) {
			e.wrong(e.setEnv(w, "TALLY_DATABASES", list), "%s: TALLY_DATABASES is %s, and its events of %s are dropped", w.Name, strings.Join(c.Databases, ","), w.Trigger.Database)
		}
	}
	switch {
	case len(right) == 0:
		e.wrong(e.one("firestore", "databases", "create", "--location=nam5", "--type=firestore-native"),
			"there is no database %s in native mode; create one, in a location that it keeps for ever", strings.Join(c.Databases, ","))
	case len(right) > named:
		e.wrong(e.setEnv(f, "TALLY_DATABASES", list), "%s: TALLY_DATABASES is %s, and triggers are of %s", f.Name, strings.Join(c.Databases, ","), list)
	case named < len(c.Databases):
		e.wrong(e.setEnv(f, "TALLY_DATABASES", list), "%s: TALLY_DATABASES is %s, and of these only %s is in native mode", f.Name, strings.Join(c.Databases, ","), list)
	}
}

func (e *examination) retry() {
	for _, f := range e.triggered() {
		if !f.Trigger.Retry {
			e.wrong(e.redeploy(f, "--retry"), "%s: retry is off", f.Name)
		}
	}
}

func (e *examination) ackDeadline() {
	for _, f := range e.triggered() {
		d, c := f.Trigger.Delivery, e.configs[f]
		if d.Unread != nil {
			e.unknown(d.Unread)
		} else if c.err == nil && d.Value.AckDeadline <= c.HoldLimit {
			want := min(600*time.Second, c.HoldLimit+2*time.Second) // Pub/Sub's longest
			e.wrong(e.one("pubsub", "subscriptions", "update", path.Base(d.Value.Subscription), "--ack-deadline="+strings.TrimSuffix(seconds(want), "s")),
				"%s: TALLY_HOLD_LIMIT is %v, and the acknowledgement deadline %v", f.Name, c.HoldLimit, d.Value.AckDeadline)
		}
	}
}

// seconds returns the duration in whole seconds, rounded up, as gcloud takes it.
func seconds(d time.Duration) string {
	return fmt.Sprintf("%ds", (d+time.Second-1)/time.Second)
}

// cpus parses a number of CPUs, such as "1", "0.1666" or "583m". It is not ok if there is none.
func cpus(text string) (n float64, ok bool) {
	number, milli := strings.CutSuffix(text, "m")
	n, err := strconv.ParseFloat(number, 64)
	if milli {
		n /= 1000
	}
	return n, err == nil
}

// shape returns a pattern without the names of its captures.
func shape(pattern string) string {
	segments := strings.Split(pattern, "/")
	for i, s := range segments {
		switch {
		case s == "**" || strings.HasPrefix(s, "{") && strings.HasSuffix(s, "**}"):
			segments[i] = "**"
		case s == "*" || strings.HasPrefix(s, "{") && strings.HasSuffix(s, "}"):
			segments[i] = "*"
		}
	}
	return strings.Join(segments, "/")
}

// covers reports whether a trigger's pattern matches every document that a route's does. The empty
// pattern matches all.
func covers(trigger, route string) bool {
	if trigger == "" {
		return true
	}
	return matches(strings.Split(shape(trigger), "/"), strings.Split(shape(route), "/"))
}

func matches(trigger, route []string) bool {
	switch {
	case len(trigger) == 0 || len(route) == 0:
		return len(trigger) == len(route)
	case trigger[0] == "**":
		for i := 1; i <= len(route); i++ {
			if matches(trigger[1:], route[i:]) {
				return true
			}
		}
		return false
	}
	return (trigger[0] == "*" || trigger[0] == route[0]) && matches(trigger[1:], route[1:])
}
