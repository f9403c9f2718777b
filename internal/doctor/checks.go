package doctor

import (
	"context"
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

// Checks are all checks, in the order in which they are best mended.
var Checks = []Check{
	{Name: "configuration", Claim: "the functions exist, and their variables are valid",
		RestsOn: "Without RollUpOnWrite no roll-up follows a write. Without RollUpOnSchedule nothing repairs what " +
			"events missed. A function refuses every request while a variable is wrong.",
		examine: (*examination).configuration, mends: []string{editSettings, tallyDeploy}},
	{Name: "databases", Claim: "the databases in TALLY_DATABASES exist, in native mode and the Standard edition",
		RestsOn: "Other databases send no events, or read every document for a sum.",
		examine: (*examination).databases, mends: []string{editSettings, tallyDeploy}},

	// What deploy sets.
	{Name: "apis", Claim: "the APIs are enabled",
		RestsOn: "An API that is not enabled refuses every call.",
		examine: (*examination).settings, kinds: []*deploy.Kind{deploy.API}},
	{Name: "access", Claim: "each identity may do its work, and nobody else may call the functions",
		RestsOn: "Without its roles no event arrives, or every event fails. Each call of RollUpOnSchedule is billed " +
			"for an audit, and events that strangers send cost roll-ups.",
		examine: (*examination).settings, mends: []string{"gcloud beta services identity create"},
		kinds: []*deploy.Kind{deploy.Account, deploy.Project, deploy.Repository, deploy.Service}},
	{Name: "functions", Claim: "each function is active, and set as tally deploy sets it",
		RestsOn: "An instance can absorb an event only into one that it holds itself, so it must serve many at once. " +
			"Functions with different routes, cadences or limits drop each other's events, or report drift where " +
			"there is none. Another size or billing costs more.",
		examine: (*examination).settings, kinds: []*deploy.Kind{deploy.Function}},
	{Name: "triggers", Claim: "each source of a live route has one trigger in each database",
		RestsOn: "Only the audit rolls up writes that no trigger matches. An event that fails must be delivered " +
			"again, because it stands for others. An event that is held beyond the acknowledgement deadline is " +
			"delivered twice.",
		examine: (*examination).settings, kinds: []*deploy.Kind{deploy.Trigger, deploy.Subscription}},
	{Name: "schedule", Claim: "one job of Cloud Scheduler calls RollUpOnSchedule",
		RestsOn: "The schedule audits, and keeps the routes that say every. A job that gives up before the function " +
			"does calls it again while it is still at work.",
		examine: (*examination).settings, kinds: []*deploy.Kind{deploy.Job}},
	{Name: "fields", Claim: "summed fields are indexed, times are not, and increment tokens expire",
		RestsOn: "A sum without an index reads every shard. An indexed field whose values only grow, such as the " +
			"times in tally, limits its collection group to about 500 writes a second. Tokens that never expire " +
			"are stored, and billed, for ever.",
		examine: (*examination).settings, kinds: []*deploy.Kind{deploy.Field, deploy.TTL}},
	{Name: "alerts", Claim: "alerts, metrics and the dashboard are as tally deploy makes them",
		RestsOn: "Alerts report what nobody is looking at.",
		examine: (*examination).settings,
		kinds:   []*deploy.Kind{deploy.Metric, deploy.Alert, deploy.Dashboard, deploy.Channel}},
	{Name: "surplus", Claim: "nothing else calls the functions, and no other region has them",
		RestsOn: "A second function or a second caller is billed a second time.",
		examine: (*examination).surplus,
		mends: []string{"gcloud eventarc triggers delete", "gcloud scheduler jobs delete", "gcloud functions delete",
			"gcloud artifacts repositories delete"}},

	// How it goes.
	{Name: "last-tick", Claim: "the job is enabled, and its last call was recent and succeeded",
		RestsOn: "Only a call that succeeded shows that all parts work together.",
		examine: (*examination).lastTick,
		mends:   []string{"gcloud scheduler jobs resume", "gcloud scheduler jobs run", "gcloud functions logs read"}},
	{Name: "drift", Claim: "no audit of the last day found a roll-up that lacked a change",
		RestsOn: "A healthy system has no drift. The audit repaired it, but events are lost or come very late.",
		examine: (*examination).drift, mends: []string{editSettings, tallyDeploy, "docs/playbooks/drift.md"}},
	{Name: "late", Claim: "no roll-up of the last day came later than an event that fails once may take",
		RestsOn: "Late roll-ups point to failing deliveries, too many counters for the instances, or Firestore.",
		examine: (*examination).late, mends: []string{"docs/playbooks/lag.md"}},
	{Name: "billing", Claim: "RollUpOnWrite's instances are billed in the cheaper way for their traffic",
		RestsOn: "Billing by request charges each request; billing by instance charges idle time.",
		examine: (*examination).billing, mends: []string{editSettings, tallyDeploy}},

	// What clients may.
	{Name: rulesRollUps, Claim: "clients cannot write roll-ups",
		RestsOn: "A roll-up that a client wrote is wrong until the next write of a shard or the next audit.",
		examine: (*examination).tryRules, mends: rulesMend},
	{Name: rulesReadable, Claim: "clients can read roll-ups",
		RestsOn: "Apps read totals there, and listen to them.",
		examine: (*examination).tryRules, mends: rulesMend},
	{Name: rulesShards, Claim: "clients cannot delete shards",
		RestsOn: "A deleted shard takes its part of the total with it.",
		examine: (*examination).tryRules, mends: rulesMend},
	{Name: rulesOwn, Claim: "clients can neither read nor write what Tally keeps for itself",
		RestsOn: "A client that changes the audit's cursor delays repairs. One that deletes an increment token lets " +
			"an increment count twice.",
		examine: (*examination).tryRules, mends: rulesMend},
}

// Words and commands that mend several checks.
const (
	editSettings = "edit tally.yaml"
	tallyDeploy  = "tally deploy"
	rulesDeploy  = "firebase deploy --only=firestore:rules"
)

var rulesMend = []string{"take the rules of firestore.rules into the project's own", rulesDeploy}

// Remedies returns how the check is mended: the beginnings of commands, or words where no command
// does it. The verbs of a group of gcloud's stand in parentheses after it.
func (c *Check) Remedies() []string {
	all := slices.Clone(c.mends)
	for _, k := range c.kinds {
		all = append(all, k.Mends())
	}
	return all
}

// settings finds what tally deploy would mend, with its commands.
func (e *examination) settings(context.Context) {
	e.read(e.finding.kinds...)
	for _, s := range e.mend.Steps {
		if slices.Contains(e.finding.kinds, s.Of) {
			text := s.Title
			if len(s.Reasons) > 0 {
				text += ": " + strings.Join(s.Reasons, "; ")
			}
			e.wrong([]deploy.Command{s.Command}, "%s", text)
		}
	}
}

func (e *examination) configuration(context.Context) {
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

func (e *examination) databases(context.Context) {
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

func (e *examination) surplus(context.Context) {
	e.read(deploy.Trigger, deploy.Job, deploy.Repository)
	for _, s := range e.described.Surplus(e.Have) {
		e.wrong([]deploy.Command{s.Delete(e.Have.Project)}, "%s %s: %s", s.Noun, path.Base(s.Get("name")), s.Reason)
	}
}

func (e *examination) lastTick(context.Context) {
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

func (e *examination) drift(ctx context.Context) {
	if err := e.config.CheckGrace(); err != nil {
		e.wrong([]deploy.Command{e.deploy()}, "%v", err)
	}
	e.none(ctx, drifted, "audits found %.0f roll-ups that lacked a change: docs/playbooks/drift.md")
}

func (e *examination) late(ctx context.Context) {
	e.none(ctx, late, "%.0f roll-ups came late: docs/playbooks/lag.md")
}

// none finds a metric of the last day that is not 0.
func (e *examination) none(ctx context.Context, metric, say string) {
	if sum := e.measure(ctx, metric); sum > 0 {
		e.wrong(nil, say, sum)
	}
}

// The least part of the price, and the least sum in dollars a month, that are worth a change.
const (
	worthPart = 0.2
	worthSum  = 1
)

// billing compares list prices of us-central1 (https://cloud.google.com/run/pricing), for 1 vCPU
// and 512 MiB.
func (e *examination) billing(ctx context.Context) {
	served, busy, running := e.measure(ctx, requests), e.measure(ctx, billable), e.measure(ctx, instances)
	if !e.read(deploy.Service) || len(e.finding.Problems) > 0 {
		return
	}
	const month = 30 // days
	now := month * (served*0.40/1e6 + busy*(0.000024+0.0000025/2))
	other := month * running * day.Seconds() * (0.000018 + 0.000002/2)
	better := deploy.ByInstance
	if e.Have.Billing() == deploy.ByInstance {
		now, other, better = other, now, deploy.ByRequest
	}
	if saved := now - other; saved > worthSum && saved > now*worthPart {
		e.wrong([]deploy.Command{e.deploy()}, "by the last day's traffic, instances cost $%.2f a month billed by %s, and $%.2f by %s (list prices of us-central1); write billing: %[4]s into tally.yaml",
			now, e.Have.Billing(), other, better)
	}
}
