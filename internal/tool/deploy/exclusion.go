package deploy

import (
	"context"
	"net/http"
)

// Exclusion is the kind of exclusions of the sink _Default. This sink routes a project's log
// entries to the bucket that bills for them, and an exclusion keeps some of them out. gcloud
// changes exclusions as a part of their sink:
// https://docs.cloud.google.com/logging/docs/routing/overview#exclusions.
var Exclusion Kind = &exclusionKind{common{noun: "log exclusion", from: loggingAPI, api: "v2", group: "logging sinks"}}

type exclusionKind struct{ common }

// Command implements Kind.
func (k *exclusionKind) Command(project, verb, name string, args ...string) Command {
	switch verb {
	case "create", "update":
		verb = "update _Default"
	case "delete":
		verb = "update _Default --remove-exclusions=" + name
	}
	return k.command(verb, "", "").in(project).with(args...)
}

// Which entries Cloud Logging keeps of those that Cloud Run writes about RollUpOnWrite's requests,
// one for each request. The functions' own lines and RollUpOnSchedule's requests are always kept.
const (
	FailedRequests = "failed" // those of requests that did not end with a status from 200 to 299
	AllRequests    = "all"
)

// exclusionName names the exclusion within the sink.
const exclusionName = "tally-on-write-requests"

// succeeded is the filter of the entries that the exclusion keeps out. Cloud Run writes all its
// entries about requests, and nothing else, to that log:
// https://cloud.google.com/run/docs/logging.
const succeeded = `resource.type="cloud_run_revision" AND resource.labels.service_name="` + OnWriteName + `"` +
	` AND log_id("run.googleapis.com/requests") AND httpRequest.status>=200 AND httpRequest.status<300`

// An exclusion keeps out the entries of requests that succeeded.
type exclusion struct{ wanted }

// requestLogs adds the exclusion. If all entries are to be kept, the exclusion is there too, and
// disabled: so a later deployment without a tally.yaml finds what somebody decided.
func (d *Description) requestLogs() {
	disabled := Setting{Path: "disabled", Arg: "--add-exclusion=disabled="}
	if d.RequestLogs == AllRequests {
		disabled.Want, disabled.Arg = "true", "--add-exclusion=disabled=true"
	}

	d.add(&exclusion{d.want(Exclusion, exclusionName,
		Setting{Arg: "--add-exclusion=name=" + exclusionName, Always: true},
		value("filter", succeeded, "--add-exclusion=filter"),
		disabled,
		Setting{Arg: "--add-exclusion=description=" + madeBy},
	)})
}

func (x *exclusion) exists() *Command { return x.listed("exclusions.name=" + x.name) }

func (x *exclusion) terraform(t *terraform) {
	b := settingsOf(x)
	b["name"] = x.name
	t.add(exclusionType, x.name, b)
}

// RequestLogs returns which entries about requests are to be kept: AllRequests if the exclusion is
// disabled, else FailedRequests, which is the default.
func (s *State) RequestLogs() string {
	if s.Find(Exclusion, exclusionName).Get("disabled") == "true" {
		return AllRequests
	}
	return FailedRequests
}

// exclusions reads the exclusions of the sink.
func (s *State) exclusions(ctx context.Context) {
	var sink Object
	err := s.Call(ctx, loggingAPI, http.MethodGet, "v2/projects/"+s.Project+"/sinks/_Default", "", &sink)
	if err != nil {
		s.add(Exclusion, err)
		return
	}

	list, _ := sink["exclusions"].([]any)
	var found []Object
	for _, e := range list {
		found = append(found, e.(map[string]any))
	}
	s.add(Exclusion, nil, found...)
}
