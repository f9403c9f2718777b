package doctor

import (
	"path"
	"slices"
	"strings"
	"time"

	"github.com/firestore-tally/tally/deploy"
	"github.com/firestore-tally/tally/internal/app"
)

// Names of checks that several places use.
const (
	rulesRollUps  = "rules-rollups"
	rulesReadable = "rules-readable"
	rulesShards   = "rules-shards"
	rulesOwn      = "rules-own"
)

// Checks are all checks, in the order in which they are best mended. docs/doctor.md lists them; a
// test keeps the two equal.
var Checks = []Check{
	{"configuration", "the functions are there, and their variables are valid",
		"Without RollUpOnWrite no roll-up follows a write; without RollUpOnSchedule nothing repairs what events missed. A function refuses every request while a variable is wrong.", (*examination).configuration},
	{"databases", "the databases that TALLY_DATABASES names exist, in native mode and the Standard edition",
		"Elsewhere there are no events, or a sum reads every document.", (*examination).databases},

	// What deploy sets.
	{"apis", "the APIs are enabled", "What is not enabled answers nothing.", (*examination).settings},
	{"access", "each identity may do its work, and nobody else may call the functions",
		"Otherwise no event arrives, or every one fails. Each call of RollUpOnSchedule is billed for an audit; events that anybody sends cost roll-ups.", (*examination).settings},
	{"functions", "each function is set as tally deploy sets it, and active",
		"An event can be absorbed only by one that the same instance holds, so that an instance must serve many at once. Functions with other routes, cadences and limits drop each other's events or call healthy counters drift. One that is billed or sized otherwise costs more.", (*examination).settings},
	{"triggers", "each source of a live route has one trigger, in each database",
		"Writes that no trigger matches are rolled up only by the audit. An event that fails must be delivered again, as it stands for others; one that is held beyond the acknowledgement deadline is delivered twice.", (*examination).settings},
	{"schedule", "one job of Cloud Scheduler calls RollUpOnSchedule",
		"The schedule audits, and keeps the routes that say every. A job that gives up before the function does calls again while it is still at work.", (*examination).settings},
	{"fields", "fields that are summed are indexed, times are not, and increment tokens expire",
		"Without its index a sum reads every shard. Values that only grow, such as the times in tally, limit a whole collection group to about 500 writes a second while they are indexed. Tokens that do not expire are kept, and billed, for ever.", (*examination).settings},
	{"alerts", "alerts, metrics and the dashboard are as in deploy/monitoring",
		"They tell of what nobody looks at.", (*examination).settings},
	{"surplus", "nothing else calls the functions, and none is left in another region",
		"What serves or calls twice is billed twice.", (*examination).surplus},

	// How it goes.
	{"last-tick", "the job is enabled, and its last call succeeded, not long ago",
		"It is the only sign that all of it works together.", (*examination).lastTick},
	{"drift", "no audit of the last day found a roll-up that lacked a change",
		"Drift is zero in a healthy system. It was repaired, but events are lost or come very late.", (*examination).drift},
	{"late", "no roll-up of the last day came later than an event that fails once may take",
		"Late roll-ups tell of failing deliveries, of too many counters for the instances, or of Firestore.", (*examination).late},
	{"billing", "RollUpOnWrite's instances are billed in the way that is cheaper for their traffic",
		"Billed by requests, each request has a price; billed by instance, idle time has.", (*examination).billing},

	// What clients may.
	{rulesRollUps, "clients cannot write roll-ups",
		"A roll-up that a client wrote is wrong until the next write of a shard or the next audit.", (*examination).rules},
	{rulesReadable, "clients can read roll-ups",
		"Apps read totals there, and listen to them.", (*examination).rules},
	{rulesShards, "clients cannot delete shards",
		"A deleted shard takes its part of the total with it.", (*examination).rules},
	{rulesOwn, "clients can neither read nor write what Tally keeps for itself",
		"A client that changes the audit's cursor delays repairs; one that deletes an increment token lets an increment count twice.", (*examination).rules},
}

// kinds are the resources that a check of settings is about.
var kinds = map[string][]*deploy.Kind{
	"apis":      {deploy.API},
	"access":    {deploy.Account, deploy.Project, deploy.Repository, deploy.Service}, // a service's billing is a check of its own
	"functions": {deploy.Function},
	"triggers":  {deploy.Trigger, deploy.Subscription},
	"schedule":  {deploy.Job},
	"fields":    {deploy.Field, deploy.TTL},
	"alerts":    {deploy.Metric, deploy.Alert, deploy.Dashboard, deploy.Channel},
}

// settings finds what tally deploy would mend, with its commands.
func (e *examination) settings() {
	e.read(kinds[e.finding.Name]...)
	for _, s := range e.mend.Steps {
		if slices.Contains(kinds[e.finding.Name], s.Of) {
			text := s.Title
			if len(s.Reasons) > 0 {
				text += ": " + strings.Join(s.Reasons, "; ")
			}
			e.wrong([]deploy.Command{s.Command}, "%s", text)
		}
	}
}

func (e *examination) configuration() {
	functions := e.Have.Functions()
	for _, want := range []string{deploy.OnWriteName, deploy.OnScheduleName} {
		if !slices.ContainsFunc(functions, func(f deploy.Object) bool { return path.Base(f.Get("name")) == want }) {
			e.wrong([]deploy.Command{e.deploy()}, "there is no function %s", want)
		}
	}
	for _, f := range functions {
		_, err := app.LoadConfig(deploy.Environment(f))
		for _, problem := range problems(err) {
			e.wrong([]deploy.Command{e.deploy()}, "%s: %s", path.Base(f.Get("name")), problem)
		}
	}
	if e.invalid != nil && len(e.finding.Problems) == 0 { // each is valid, but cannot be deployed
		e.wrong([]deploy.Command{e.deploy()}, "%v", e.invalid)
	}
}

// problems returns the problems that an error joins.
func problems(err error) []string {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return nil
	}
	var texts []string
	for _, err := range joined.Unwrap() {
		texts = append(texts, strings.NewReplacer(":\n ", ":", "\n", "; ").Replace(err.Error()))
	}
	return texts
}

func (e *examination) databases() {
	var remedy []deploy.Command
	mend := ""
	if e.described != nil { // of those that are left
		var left []string
		for _, d := range e.described.Databases {
			left = append(left, d.ID)
		}
		remedy, mend = []deploy.Command{e.deploy("--prune")}, "; write databases: ["+strings.Join(left, ", ")+"] into tally.yaml"
	}
	for _, problem := range problems(e.noDatabase) {
		e.wrong(remedy, "%s%s", problem, mend)
	}
}

func (e *examination) surplus() {
	e.read(deploy.Trigger, deploy.Job, deploy.Repository)
	for _, s := range e.described.Surplus(e.Have) {
		e.wrong([]deploy.Command{s.Delete(e.Have.Project)}, "%s %s: %s", s.Noun, path.Base(s.Get("name")), s.Reason)
	}
}

func (e *examination) lastTick() {
	if !e.read(deploy.Job) {
		return
	}
	j := e.Have.Find(deploy.Job, e.described.Job())
	if j == nil {
		e.idle("there is no job")
		return
	}
	command := func(verb string) []deploy.Command {
		return []deploy.Command{deploy.Job.Command(e.Have.Project, verb, e.described.Job())}
	}
	last, _ := time.Parse(time.RFC3339, j.Get("lastAttemptTime"))
	age := e.AsOf.Sub(last).Round(time.Second)
	switch {
	case j.Get("state") != "ENABLED":
		e.wrong(command("resume"), "the job is %s", j.Get("state"))
	case last.IsZero():
		e.wrong(command("run"), "the job has not called yet")
	case j.Get("status.code") != "" && j.Get("status.code") != "0":
		log := deploy.Command{Args: []string{"gcloud", "functions", "logs", "read", deploy.OnScheduleName, "--gen2", "--region=" + e.Have.Region(),
			"--min-log-level=error", "--limit=20", "--project=" + e.Have.Project}}
		e.wrong([]deploy.Command{log}, "the last call, %v ago, failed: %s", age, strings.TrimSpace(j.Get("status.code")+" "+j.Get("status.message")))
	case age > deploy.LongestSilence:
		e.wrong(command("run"), "the last call was %v ago", age)
	}
}

func (e *examination) drift() {
	e.none(drifted, "audits found %.0f roll-ups that lacked a change: docs/playbooks/drift.md")
}

func (e *examination) late() {
	e.none(late, "%.0f roll-ups came late: docs/playbooks/lag.md")
}

// none finds a metric of the last day that is not 0.
func (e *examination) none(metric, say string) {
	switch v := e.Measured[metric]; {
	case v.Unread != nil:
		e.unknown(v.Unread)
	case v.Value > 0:
		e.wrong(nil, say, v.Value)
	}
}

// The least part of the price, and the least sum in dollars a month, that are worth a change.
const (
	worthPart = 0.2
	worthSum  = 1
)

// billing compares list prices of us-central1 (https://cloud.google.com/run/pricing), for 1 vCPU and 512 MiB.
func (e *examination) billing() {
	if !e.read(deploy.Service) {
		return
	}
	for _, metric := range []string{requests, billable, instances} {
		if u := e.Measured[metric].Unread; u != nil {
			e.unknown(u)
			return
		}
	}
	const month = 30 // days
	now := month * (e.Measured[requests].Value*0.40/1e6 + e.Measured[billable].Value*(0.000024+0.0000025/2))
	other := month * e.Measured[instances].Value * day.Seconds() * (0.000018 + 0.000002/2)
	better := deploy.ByInstance
	if e.Have.Billing() == deploy.ByInstance {
		now, other, better = other, now, deploy.ByRequest
	}
	if saved := now - other; saved > worthSum && saved > now*worthPart {
		e.wrong([]deploy.Command{e.deploy()}, "by the last day's traffic, instances cost $%.2f a month billed by %s, and $%.2f by %s (list prices of us-central1); write billing: %[4]s into tally.yaml",
			now, e.Have.Billing(), other, better)
	}
}
