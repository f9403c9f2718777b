package doctor

import (
	"context"
	_ "embed"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/firestore-tally/tally/internal/config"
	"github.com/firestore-tally/tally/internal/deploy"
)

// Names of checks that several places use.
const (
	development     = "emulator"
	rulesRollUps    = "rules-rollups"
	rulesReadable   = "rules-readable"
	rulesIncrements = "rules-increments"
	rulesShards     = "rules-shards"
	rulesOwn        = "rules-own"
)

// ways are those of the checks, by name.
var ways = map[string]way{
	"tally-yaml":    {(*examination).tallyYAML, theFolder},
	"rules-file":    {(*examination).rulesFile, theFolder},
	"indexes-file":  {(*examination).indexesFile, theFolder},
	development:     {(*examination).emulator, theFolder},
	"project":       {(*examination).project, theFolder},
	"payment":       {(*examination).payment, theProject},
	"configuration": {(*examination).configuration, theProject},
	"databases":     {(*examination).databases, theVariables},
	"apis":          {settings(deploy.API), theDescription},
	"access":        {settings(deploy.Account, deploy.Project, deploy.Repository, deploy.Cleanup, deploy.Service), theDescription},
	"functions":     {(*examination).functions, theDescription},
	"triggers":      {(*examination).triggers, theDescription},
	"deliveries":    {(*examination).deliveries, theDescription},
	"schedule":      {settings(deploy.Job), theDescription},
	"indexes":       {(*examination).indexes, theDescription},
	"fields":        {settings(deploy.Field, deploy.TTL), theDescription},
	"alerts":        {settings(deploy.Metric, deploy.Alert, deploy.Dashboard, deploy.Channel), theDescription},
	"request-logs":  {settings(deploy.Exclusion), theDescription},
	"surplus":       {(*examination).nothingElse, theDescription},
	"last-tick":     {(*examination).lastTick, theDescription},
	"drift":         {(*examination).drift, theDescription},
	"late":          {(*examination).late, theDescription},
	"billing":       {(*examination).billing, theDescription},
	rulesIncrements: {(*examination).tryRules, theDescription},
	rulesRollUps:    {(*examination).tryRules, theDescription},
	rulesReadable:   {(*examination).tryRules, theDescription},
	rulesShards:     {(*examination).tryRules, theDescription},
	rulesOwn:        {(*examination).tryRules, theDescription},
}

//go:embed checks.md
var page string

// Checks are all checks, in the order of checks.md, which explains them.
var Checks = explained(page)

func explained(page string) (checks []Check) {
	var c Check
	for line := range strings.Lines(page) {
		what, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch what {
		case "##":
			c = Check{Name: text, way: ways[text]}
		case "Claim:":
			c.Claim = text
		case "Why:":
			c.RestsOn = text
		case "Mends:":
			c.Mends = text
			checks = append(checks, c)
		}
	}
	return checks
}

// settings returns what finds all that tally deploy would mend of the kinds, with its commands.
func settings(kinds ...*deploy.Kind) func(*examination, context.Context) {
	return func(e *examination, _ context.Context) {
		e.read(kinds...)
		for _, s := range e.mend.Steps {
			if slices.Contains(kinds, s.Of) {
				e.wrong([]deploy.Command{e.remedy(s)}, "%v", s)
			}
		}
	}
}

// remedy returns the command that mends what a step mends. What uploads source is left to tally
// deploy, which carries it.
func (e *examination) remedy(s deploy.Step) deploy.Command {
	if s.Of == deploy.Function {
		return e.deploy()
	}
	return s.Command
}

// functions finds what tally deploy would mend, and tells which versions meet.
func (e *examination) functions(ctx context.Context) {
	settings(deploy.Function)(e, ctx)

	if e.Own != nil {
		e.note("%s", e.Own.Beside(e.Have))
	}
}

// triggers finds what tally deploy would mend, and events that are pushed elsewhere.
func (e *examination) triggers(ctx context.Context) {
	settings(deploy.Trigger, deploy.Subscription)(e, ctx)

	astray := e.described.Astray(e.Have)
	for _, problem := range slices.Sorted(maps.Keys(astray)) {
		e.wrong([]deploy.Command{astray[problem]}, "%s", problem)
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
		_, err := config.Load(deploy.Environment(f))
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
		texts = append(texts, strings.ReplaceAll(err.Error(), ":\n ", ":"))
	}
	return texts
}

func (e *examination) databases(context.Context) {
	for _, problem := range problems(e.noDatabase) {
		if e.described == nil {
			e.wrong(nil, "%s", problem)
		} else { // with those that are left
			e.wrong([]deploy.Command{e.deploy("--prune")}, "%s; write databases without it into tally.yaml", problem)
		}
	}
}

func (e *examination) nothingElse(context.Context) {
	e.read(deploy.Trigger, deploy.Job, deploy.Repository)
	for _, u := range e.Have.Unreached() {
		e.note("%s", u)
	}
	for _, s := range e.surplus {
		e.wrong([]deploy.Command{s.Command}, "%v", s)
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
		e.wrong([]deploy.Command{e.logs(deploy.OnScheduleName, "error")}, "the last call, %v ago, failed: %s", age, strings.TrimSpace(j.Get("status.code")+" "+j.Get("status.message")))
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
