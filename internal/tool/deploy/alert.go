package deploy

import (
	"fmt"
	"slices"
	"strings"
)

// Alert is the kind of Cloud Monitoring's alert policies. Cloud Monitoring gives them their names,
// so a label tells them apart.
var Alert Kind = &alertKind{nameless{common{noun: "alert", from: MonitoringAPI, api: "v3", group: "alpha monitoring policies"}}}

type alertKind struct{ nameless }

func (k *alertKind) key(o Object) string { return o.Get("userLabels." + purposeLabel) }

func (k *alertKind) label(o Object) string { return k.key(o) }

// A nameless kind has resources whose names the server makes up when it creates them.
type nameless struct{ common }

// Command implements Kind. gcloud calls a resource by its whole name; one that is new has none.
func (k *nameless) Command(project, verb, name string, args ...string) Command {
	if verb == "create" {
		name = ""
	}
	return k.command(verb, name, "").in(project).with(args...)
}

// An alert is a policy of Cloud Monitoring. docs/playbooks has a page of its name.
type alert struct {
	name, severity string
	says           string // when it fires

	// Either filter or query is set.
	filter  string // of log lines: each line that it matches fires the alert
	query   string // in PromQL: the alert fires when this has had a result for as long as lasting
	lasting string
}

// policy returns the alert as Cloud Monitoring has it.
func (a *alert) policy() Object {
	strategy := Object{"autoClose": "86400s"}
	condition := Object{"displayName": a.says}

	if a.filter != "" {
		// https://cloud.google.com/logging/docs/alerting/log-based-alerts: it must be limited.
		strategy["notificationRateLimit"] = Object{"period": "3600s"}
		condition["conditionMatchedLog"] = Object{"filter": a.filter}
	} else {
		// A metric that was created just before is not known yet, and the policy would be refused.
		condition["conditionPrometheusQueryLanguage"] = Object{"query": a.query, "duration": a.lasting,
			"evaluationInterval": "60s", "disableMetricValidation": true}
	}

	return Object{
		"displayName": "Tally: " + strings.ReplaceAll(a.name, "-", " "),
		"userLabels":  Object{purposeLabel: a.name},
		"severity":    a.severity,
		"documentation": Object{"mimeType": "text/markdown",
			"content": a.says + ".\n\nWhat to do: https://" + module + "/blob/main/docs/playbooks/" + a.name + ".md"},
		"combiner":      "OR",
		"conditions":    []any{condition},
		"alertStrategy": strategy,
	}
}

// A policy is an alert in a project.
type policy struct {
	wanted
	content Object   // all of it, but for the channels
	lookup  *Command // looks up the channel's name; nil: the name is known, or there is no channel
}

// alerts adds the alerts. They go to the channel, if it is not nil, and to the channels that they
// go to already.
func (d *Description) alerts(channel *channel, have *State) {
	to, lookup := "", (*Command)(nil)
	if channel != nil {
		to = have.Find(Channel, channel.name).name()
	}
	if channel != nil && to == "" {
		to, lookup = Placeholder, channel.exists()
	}

	for _, a := range allAlerts(d.MaxInstances) {
		channels := have.Find(Alert, a.name).Get("notificationChannels") // the policy replaces them all
		if to != "" && !slices.Contains(strings.Split(channels, ","), to) {
			channels = strings.TrimPrefix(channels+","+to, ",")
		}

		content := a.policy()
		settings := append(leaves("", content, "--policy="+content.text()),
			Setting{Arg: "--user-labels=" + purposeLabel + "=" + a.name, Always: true},
			Setting{Arg: markArg, Always: true})
		if channels != "" {
			settings = append(settings, Setting{Path: "notificationChannels", Want: channels, Arg: "--notification-channels=" + channels, Always: true})
		}

		d.add(&policy{d.want(Alert, a.name, settings...), content, lookup})
		d.silent = d.silent || channels == ""
	}
}

// markArg marks resources of Cloud Monitoring as made by tally deploy.
const markArg = "--user-labels=" + madeByLabel + "=true"

// Content returns all of the policy, but for its channels.
func (p *policy) Content() Object { return p.content }

func (p *policy) create() Command { return p.wanted.create().filled(p.lookup) }

func (p *policy) update(have Object, changes []Change) Command {
	return p.wanted.update(have, changes).filled(p.lookup)
}

func (p *policy) exists() *Command {
	return p.listed(fmt.Sprintf("userLabels.%s=%q", purposeLabel, p.name))
}

func (p *policy) terraform(t *terraform) {
	b := snake(p.content).(block)
	if t.resources[channelType] != nil {
		b["notification_channels"] = []string{"${google_monitoring_notification_channel.email.name}"}
	}
	t.add(alertType, identifier(p.name), b)
}
