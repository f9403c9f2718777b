package deploy

import (
	"encoding/json"
	"maps"
	"strconv"
)

// What stays of the images that were built. Cloud Run keeps the image of a revision only while that
// serves (https://cloud.google.com/run/docs/deploying#images), so the newest ones are what traffic
// can go back to.
const (
	imagesKept  = 5       // the newest of each function, however old they are
	imagesStale = 30 * 24 // hours, after which all others are deleted
)

// repository adds the repository of the functions' images, and what cleans it up: each build adds
// an image, and Artifact Registry bills what it keeps.
// https://cloud.google.com/artifact-registry/docs/repositories/cleanup-policy
func (d *Description) repository() {
	name := d.in(d.region(), "repositories", repositoryName)
	d.add(Resource{Kind: Repository, Name: name, Settings: []Setting{
		{Arg: "--repository-format=docker"},
		{Arg: "--description=" + madeBy},
	}})

	stale := strconv.Itoa(imagesStale*3600) + "s"
	policies := Object{
		"tally-keep":  Object{"action": "KEEP", "mostRecentVersions": Object{"keepCount": imagesKept}},
		"tally-stale": Object{"action": "DELETE", "condition": Object{"tagState": "ANY", "olderThan": stale}},
	}
	settings := leaves("cleanupPolicies", policies, "--policy=-")
	for i := range settings {
		settings[i].Always = true // one input says all of them
	}
	settings = append(settings, Setting{Path: "cleanupPolicyDryRun", Want: "false", Arg: "--no-dry-run", Always: true})
	d.add(Resource{Kind: Cleanup, Name: name, Settings: settings, Content: policies, input: policyFile(policies)})
}

// policyFile returns the policies as gcloud reads them, which differs from the API.
func policyFile(policies Object) string {
	var all []Object
	for _, name := range []string{"tally-keep", "tally-stale"} {
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
