package deploy

import (
	"encoding/json"
	"maps"
	"path"
	"slices"
	"strconv"
)

// Cleanup is the kind of policies that clean up repositories. The API has them as a field of the
// repository, so they are there as soon as it is.
var Cleanup Kind = &cleanupKind{common{noun: "clean-up of repository", all: "the repositories",
	from: repositoriesAPI, api: "v1", group: "artifacts repositories", place: "--location"}}

type cleanupKind struct{ common }

// Command implements Kind.
func (k *cleanupKind) Command(project, verb, name string, args ...string) Command {
	if verb == "update" {
		verb = "set-cleanup-policies"
	}
	return k.common.Command(project, verb, name, args...)
}

// What stays of the images that were built. Cloud Run keeps the image of a revision only while that
// serves (https://cloud.google.com/run/docs/deploying#images), so the newest ones are what traffic
// can go back to.
const (
	imagesKept  = 5       // the newest of each function, however old they are
	imagesStale = 30 * 24 // hours, after which all others are deleted
)

// A cleanup deletes old images from a repository: each build adds one, and Artifact Registry bills
// what it keeps. https://cloud.google.com/artifact-registry/docs/repositories/cleanup-policy
type cleanup struct {
	wanted
	policies Object // by id
}

// cleanUp adds the policies of the repository of the functions' images.
func (d *Description) cleanUp() {
	stale := strconv.Itoa(imagesStale*3600) + "s"
	policies := Object{
		"tally-keep":  Object{"action": "KEEP", "mostRecentVersions": Object{"keepCount": imagesKept}},
		"tally-stale": Object{"action": "DELETE", "condition": Object{"tagState": "ANY", "olderThan": stale}},
	}

	settings := leaves("cleanupPolicies", policies, "--policy=-")
	settings = append(settings, Setting{Path: "cleanupPolicyDryRun", Want: "false", Arg: "--no-dry-run"})
	for i := range settings {
		settings[i].Always = true // one input says all of them
	}
	d.add(&cleanup{d.want(Cleanup, d.repositoryName(), settings...), policies})
}

func (c *cleanup) absent() Object { return Object{} }

func (c *cleanup) update(have Object, changes []Change) Command {
	command := c.wanted.update(have, changes)
	command.Input = policyFile(c.policies)
	return command
}

// terraform adds the policies to their repository, which has been added before.
func (c *cleanup) terraform(t *terraform) {
	var policies []block
	for _, id := range slices.Sorted(maps.Keys(c.policies)) {
		policy := snake(c.policies[id]).(block)
		policy["id"] = id
		policies = append(policies, policy)
	}

	repository := t.resources[repositoryType][identifier(path.Base(c.name))]
	repository["cleanup_policies"] = policies
	repository["cleanup_policy_dry_run"] = false
}

// policyFile returns the policies in gcloud's form, which is not that of the API.
func policyFile(policies Object) string {
	var all []Object
	for _, name := range slices.Sorted(maps.Keys(policies)) {
		policy := maps.Clone(policies[name].(Object))
		policy["name"], policy["action"] = name, Object{"type": policy["action"]}
		all = append(all, policy)
	}

	text, err := json.Marshal(all)
	if err != nil {
		panic(err) // it holds nothing but text and numbers
	}
	return string(text)
}
