package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/firestore-tally/tally/deploy"
	"github.com/firestore-tally/tally/internal/app"
	"github.com/firestore-tally/tally/rollup"
)

// A Verdict is what became of a check.
type Verdict string

const (
	Well    Verdict = "well"
	Wrong   Verdict = "wrong"
	Unknown Verdict = "unknown" // something could not be read
	Idle    Verdict = "idle"    // there is nothing to check, because of what another check finds wrong
)

// A Check is one thing that exactness or the price rests on.
type Check struct {
	Name    string
	Claim   string // what is so if all is well
	RestsOn string // what rests on it

	examine func(*examination)
}

// A Finding is what a check found.
type Finding struct {
	*Check
	Verdict  Verdict
	Problems []Problem // what is wrong, then what is unknown
	Why      string    // of Idle
}

// A Problem is something that is wrong or could not be read.
type Problem struct {
	Verdict Verdict // Wrong or Unknown
	Text    string
	Remedy  []deploy.Command // to be run one after the other; none: there is none that is known
}

// Examine judges the deployment by all Checks but those whose names are skipped.
func Examine(d *Deployment, skip []string) []Finding {
	e := newExamination(d)
	var findings []Finding
	for i := range Checks {
		c := &Checks[i]
		if slices.Contains(skip, c.Name) {
			continue
		}
		e.finding = &Finding{Check: c}
		c.examine(e)
		e.finding.judge()
		findings = append(findings, *e.finding)
	}
	return findings
}

func (f *Finding) judge() {
	slices.SortStableFunc(f.Problems, func(a, b Problem) int { return strings.Compare(string(b.Verdict), string(a.Verdict)) })
	switch {
	case len(f.Problems) > 0:
		f.Verdict = f.Problems[0].Verdict
	case f.Why != "":
		f.Verdict = Idle
	default:
		f.Verdict = Well
	}
}

// An examination is a deployment with what several checks take from it.
type examination struct {
	*Deployment
	write, schedule []*Function
	configs         map[*Function]configured
	config          app.Config      // that all is judged by: RollUpOnSchedule's, else another's
	valid           bool            // there is such a config
	defaults        deploy.Settings // for the default configuration
	job             *Job            // that calls RollUpOnSchedule; nil: none, or it could not be read
	finding         *Finding        // of the check at work
}

// configured is what a function's variables say.
type configured struct {
	app.Config
	err error
}

func newExamination(d *Deployment) *examination {
	e := &examination{Deployment: d, configs: make(map[*Function]configured)}
	for i := range d.Functions {
		f := &d.Functions[i]
		if f.OnWrite() {
			e.write = append(e.write, f)
		} else {
			e.schedule = append(e.schedule, f)
		}
		c, err := app.LoadConfig(f.Env)
		e.configs[f] = configured{c, err}
	}
	e.config, e.valid = d.config()
	e.defaults = defaults(d.Project)
	if len(e.schedule) > 0 {
		if jobs := e.jobs(); len(jobs) > 0 {
			e.job = jobs[0]
		}
	}
	return e
}

// config returns the configuration that the deployment is judged by: that of RollUpOnSchedule, or
// the first other one, if theirs is valid.
func (d *Deployment) config() (c app.Config, valid bool) {
	for _, write := range []bool{false, true} {
		for i := range d.Functions {
			f := &d.Functions[i]
			if f.OnWrite() != write {
				continue
			}
			if c, err := app.LoadConfig(f.Env); err == nil {
				return c, true
			}
		}
	}
	return app.Config{}, false
}

// defaults returns what deploy sets for Tally's default configuration.
func defaults(project string) deploy.Settings {
	c, err := standard(project)
	if err != nil {
		panic(err) // the defaults are constants, and a test loads them
	}
	s, err := deploy.New(deploy.Options{
		Project: project, Databases: []deploy.Database{{ID: c.Databases[0], Location: "nam5"}}, Routes: c.Routes, Cadence: c.Cadence, Burst: c.Burst, HoldLimit: c.HoldLimit,
	})
	if err != nil {
		panic(err) // likewise
	}
	return s
}

// standard returns the configuration of functions whose variables name no more than the project.
func standard(project string) (app.Config, error) {
	return app.LoadConfig(map[string]string{"GOOGLE_CLOUD_PROJECT": project})
}

// wrong notes that something is wrong, and what mends it.
func (e *examination) wrong(remedy []deploy.Command, format string, args ...any) {
	e.finding.Problems = append(e.finding.Problems, Problem{Wrong, fmt.Sprintf(format, args...), remedy})
}

// unknown notes that something that is needed could not be read, once in each check.
func (e *examination) unknown(u *Unread) {
	text := u.What + ": " + u.Why
	if !slices.ContainsFunc(e.finding.Problems, func(p Problem) bool { return p.Text == text }) {
		e.finding.Problems = append(e.finding.Problems, Problem{Unknown, text, u.Remedy})
	}
}

// idle notes that there is nothing to check.
func (e *examination) idle(why string) { e.finding.Why = why }

// configuredDatabases returns the databases that the configuration names and that exist.
func (e *examination) configuredDatabases() []*Database {
	var found []*Database
	for i := range e.Databases {
		d := &e.Databases[i]
		if slices.Contains(e.config.Databases, d.ID) && (d.Metadata.Value.Exists || d.Metadata.Unread != nil) {
			found = append(found, d)
		}
	}
	return found
}

// database returns the database, nil if no function's variables and no trigger name it.
func (e *examination) database(id string) *Database {
	for i := range e.Databases {
		if e.Databases[i].ID == id {
			return &e.Databases[i]
		}
	}
	return nil
}

// gcloud returns a command of gcloud on the project.
func (e *examination) gcloud(args ...string) deploy.Command {
	return deploy.Command{Args: slices.Concat([]string{"gcloud"}, args, []string{"--project=" + e.Project})}
}

// one returns a remedy of one command of gcloud.
func (e *examination) one(args ...string) []deploy.Command {
	return []deploy.Command{e.gcloud(args...)}
}

// redeploy returns the remedy that changes a function's settings, from a clone of Tally.
func (e *examination) redeploy(f *Function, flags ...string) []deploy.Command {
	return e.one(slices.Concat([]string{"functions", "deploy", f.Name, "--gen2", "--region=" + f.Region, "--source=."}, flags)...)
}

// setEnv returns the remedy that changes a function's variable.
func (e *examination) setEnv(f *Function, name, value string) []deploy.Command {
	pair := name + "=" + value
	if strings.Contains(value, ",") { // which would part two variables; see gcloud topic escaping
		delimiter := "@"
		for strings.Contains(pair, delimiter) {
			delimiter += "@"
		}
		pair = "^" + delimiter + "^" + pair
	}
	return e.redeploy(f, "--update-env-vars="+pair)
}

// remove returns the command that deletes a function.
func (e *examination) remove(f *Function) deploy.Command {
	return e.gcloud("functions", "delete", f.Name, "--region="+f.Region)
}

// deploy returns the command that brings what is missing. It takes the configuration from the
// functions that deploy knows by their label; otherwise it is told.
func (e *examination) deploy() deploy.Command {
	c := deploy.Command{Args: []string{"tally", "deploy", "--project=" + e.Project}}
	known := slices.ContainsFunc(e.schedule, func(f *Function) bool { return f.Label == deploy.KindOnSchedule })
	if known || !e.valid {
		return c
	}
	standard, _ := standard(e.Project)
	if routes := routesText(e.config.Routes); routes != routesText(standard.Routes) {
		c.Args = append(c.Args, "--routes="+routes)
	}
	if e.config.Cadence != standard.Cadence {
		c.Args = append(c.Args, "--cadence="+e.config.Cadence.String())
	}
	if e.config.Burst != standard.Burst {
		c.Args = append(c.Args, fmt.Sprintf("--env=TALLY_BURST=%d", e.config.Burst))
	}
	if e.config.HoldLimit != standard.HoldLimit {
		c.Args = append(c.Args, "--env=TALLY_HOLD_LIMIT="+e.config.HoldLimit.String())
	}
	if !slices.Equal(e.config.Databases, standard.Databases) {
		c.Args = append(c.Args, "--databases="+strings.Join(e.config.Databases, ","))
	}
	return c
}

func routesText(routes rollup.Routes) string {
	var lines []string
	for _, r := range routes {
		lines = append(lines, r.String())
	}
	return strings.Join(lines, "; ")
}

// environment returns a function's variables as the function will read them in Cloud Run, with its
// timeout.
func (f *Function) environment() map[string]string {
	env := make(map[string]string)
	maps.Copy(env, f.Env)
	env["CLOUD_RUN_TIMEOUT_SECONDS"] = fmt.Sprint(int(f.Timeout.Seconds()))
	return env
}
