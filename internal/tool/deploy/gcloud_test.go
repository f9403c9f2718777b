package deploy

import (
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// gcloudSets are the fields that gcloud 528 set when it made a resource of each kind, as an earlier
// tally deploy had it do. less and more are the fields that ours lacks, and has in addition, with
// the reason.
var gcloudSets = []struct {
	of, at, fields  string
	less, more, why string
}{
	{of: "index", at: "firestore.googleapis.com/v1/projects/my-project/databases/(default)/collectionGroups/ratings/indexes",
		fields: "apiScope fields.fieldPath fields.order multikey queryScope", less: "apiScope multikey", why: "both are the defaults"},
	{of: "account", at: "iam.googleapis.com/v1/projects/my-project/serviceAccounts",
		fields: "accountId serviceAccount.description serviceAccount.displayName"},
	{of: "account's policy", at: "iam.googleapis.com/v1/projects/my-project/serviceAccounts/tally-trigger@my-project.iam.gserviceaccount.com:setIamPolicy",
		fields: "policy.bindings.members policy.bindings.role policy.version"},
	{of: "project's policy", at: "cloudresourcemanager.googleapis.com/v3/projects/my-project:setIamPolicy",
		fields: "policy.bindings.condition.expression policy.bindings.condition.title policy.bindings.members policy.bindings.role policy.version"},
	{of: "repository", at: "artifactregistry.googleapis.com/v1/projects/my-project/locations/us-central1/repositories?repositoryId=tally",
		fields: "description format mode name", less: "mode", why: "the mode is the default, and the policies are made with it",
		more: "cleanupPolicies.tally-keep.action cleanupPolicies.tally-keep.id cleanupPolicies.tally-keep.mostRecentVersions.keepCount cleanupPolicies.tally-stale.action " +
			"cleanupPolicies.tally-stale.condition.olderThan cleanupPolicies.tally-stale.condition.tagState cleanupPolicies.tally-stale.id cleanupPolicyDryRun"},
	{of: "repository's policy", at: "artifactregistry.googleapis.com/v1/projects/my-project/locations/us-central1/repositories/tally:setIamPolicy",
		fields: "policy.bindings.members policy.bindings.role", more: "policy.version", why: "version 3 of a policy has conditions"},
	{of: "queue", at: "cloudtasks.googleapis.com/v2/projects/my-project/locations/us-central1/queues",
		fields: "name rateLimits.maxConcurrentDispatches rateLimits.maxDispatchesPerSecond retryConfig.maxAttempts retryConfig.maxBackoff retryConfig.maxDoublings retryConfig.minBackoff",
		more:   "retryConfig.maxRetryDuration", why: "no bound of the retries' time is the default, and what somebody else set goes"},
	{of: "queue's policy", at: "cloudtasks.googleapis.com/v2/projects/my-project/locations/us-central1/queues/tally:setIamPolicy",
		fields: "policy.bindings.members policy.bindings.role", more: "policy.version", why: "version 3 of a policy has conditions"},
	{of: "exclusion", at: "logging.googleapis.com/v2/projects/my-project/exclusions",
		fields: "description filter name"},
	{of: "service's policy", at: "run.googleapis.com/v2/projects/my-project/locations/us-central1/services/tally-on-write:setIamPolicy",
		fields: "policy.bindings.members policy.bindings.role policy.version"},
	{of: "trigger", at: "eventarc.googleapis.com/v1/projects/my-project/locations/nam5/triggers?triggerId=tally-counters-shards-78fea5",
		fields: "destination.cloudRun.region destination.cloudRun.service eventDataContentType eventFilters.attribute eventFilters.operator eventFilters.value labels.tally labels.tally-deploy name serviceAccount transport.pubsub",
		less:   "transport.pubsub", why: "the API fills in the transport: https://cloud.google.com/eventarc/docs/reference/rest/v1/projects.locations.triggers"},
	{of: "job", at: "cloudscheduler.googleapis.com/v1/projects/my-project/locations/us-central1/jobs",
		fields: "attemptDeadline description httpTarget.httpMethod httpTarget.oidcToken.audience httpTarget.oidcToken.serviceAccountEmail httpTarget.uri name retryConfig.maxBackoffDuration retryConfig.maxDoublings retryConfig.minBackoffDuration retryConfig.retryCount schedule timeZone",
		less:   "retryConfig.maxDoublings", why: "five are the default: https://cloud.google.com/scheduler/docs/reference/rest/v1/projects.locations.jobs#retryconfig"},
	{of: "metric", at: "logging.googleapis.com/v2/projects/my-project/metrics", fields: "description filter name"},
	{of: "distribution", at: "logging.googleapis.com/v2/projects/my-project/metrics",
		fields: "bucketOptions.exponentialBuckets.growthFactor bucketOptions.exponentialBuckets.numFiniteBuckets bucketOptions.exponentialBuckets.scale description filter metricDescriptor.metricKind metricDescriptor.unit metricDescriptor.valueType name valueExtractor"},
	{of: "channel", at: "monitoring.googleapis.com/v3/projects/my-project/notificationChannels",
		fields: "displayName labels.email_address type userLabels.tally userLabels.tally-deploy"},
	{of: "alert", at: "monitoring.googleapis.com/v3/projects/my-project/alertPolicies",
		fields: "alertStrategy.autoClose combiner conditions.conditionPrometheusQueryLanguage.disableMetricValidation conditions.conditionPrometheusQueryLanguage.duration conditions.conditionPrometheusQueryLanguage.evaluationInterval " +
			"conditions.conditionPrometheusQueryLanguage.query conditions.displayName displayName documentation.content documentation.mimeType notificationChannels severity userLabels.tally userLabels.tally-deploy"},
}

// fieldsOf returns the paths of an object's fields, without the places in lists.
func fieldsOf(at string, v any) (all []string) {
	list, isList := v.([]any)
	object, isObject := v.(map[string]any)
	switch {
	case isList && len(list) > 0 && asObject(list[0]) != nil:
		for _, element := range list {
			all = append(all, fieldsOf(at, element)...)
		}
	case isObject && len(object) > 0:
		for _, name := range slices.Sorted(maps.Keys(object)) {
			all = append(all, fieldsOf(strings.TrimPrefix(at+"."+name, "."), object[name])...)
		}
	default:
		return []string{at}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// What is made has the fields that gcloud gave it, except for what the table says. The function is
// made by Google's own client.
func TestCreatesAreGclouds(t *testing.T) {
	d := newProject(t)
	d.deploy()
	sent := make(map[string][][]string) // fields by address
	for _, r := range d.google.Requests() {
		if r.Verb != "POST" || r.Body == nil {
			continue
		}
		body, _ := r.Body.(map[string]any)
		query, _ := url.ParseQuery(r.Query)
		at := r.At
		if len(query) > 0 {
			at += "?" + query.Encode()
		}
		sent[at] = append(sent[at], fieldsOf("", body))
	}

	for _, of := range gcloudSets {
		want := append(strings.Fields(of.fields), strings.Fields(of.more)...)
		want = slices.DeleteFunc(want, func(field string) bool { return slices.Contains(strings.Fields(of.less), field) })
		slices.Sort(want)
		if (of.less+of.more == "") != (of.why == "") {
			t.Errorf("%s: want a reason for each difference", of.of)
		}
		all := sent[of.at]
		withoutEtag := func(fields []string) []string {
			return slices.DeleteFunc(slices.Clone(fields), func(field string) bool { return field == "policy.etag" })
		}
		if !slices.ContainsFunc(all, func(fields []string) bool { return slices.Equal(withoutEtag(fields), want) }) {
			text, _ := json.Marshal(all)
			t.Errorf("%s (-want +the first of %d): %s\n%s", of.of, len(all), cmp.Diff(want, append(all, nil)[0]), text)
		}
	}
}
