package deploy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
)

// checkDescription checks that Terraform makes what the description says, and nothing else. It
// returns how many resources differ that Terraform cannot change.
func (c *configuration) checkDescription(d *Description) (noted int) {
	have := make(map[string]Object) // by kind and name
	var grants, apis []string
	for address, b := range c.blocks {
		o := c.object(address, b).(Object)
		in := func(place, collection, id string) string { return d.in(o.Get(place), collection, o.Get(id)) }
		account := func(email string) string { return "projects/p/serviceAccounts/" + email }
		put := func(k Kind, name string, o Object) {
			if have[k.Noun()+name] != nil {
				c.Errorf("%s %s is made twice", k.Noun(), name)
			}
			have[k.Noun()+name] = o
		}
		grant := func(on Kind, name string) {
			grants = append(grants, fmt.Sprint(on.Noun(), name, o.Get("role"), o.Get("member"), o.Get("condition.expression")))
			if o["condition"] != nil && o.Get("condition.title") != conditionTitle {
				c.Errorf("%s: the condition has the title %q", address, o.Get("condition.title"))
			}
		}
		if p := o.Get("project"); p != "p" && c.arguments[kind(address)]["project"] != "" {
			c.Errorf("%s is in project %q", address, p)
		}
		switch kind(address) {
		case "google_project_service":
			set := strings.TrimSuffix(strings.TrimPrefix(o.Get("forEach"), "${toset("), ")}")
			if err := json.Unmarshal([]byte(set), &apis); err != nil {
				c.Error(err)
			}
		case "google_project_iam_member":
			grant(Project, "projects/p")
		case "google_service_account_iam_member":
			grant(Account, o.Get("serviceAccountId"))
		case "google_artifact_registry_repository_iam_member":
			grant(Repository, in("location", "repositories", "repository"))
		case "google_cloud_run_v2_service_iam_member":
			grant(Service, in("location", "services", "name"))
		case accountType:
			put(Account, account(d.email(o.Get("accountId"))), o)
		case repositoryType:
			name := in("location", "repositories", "repositoryId")
			put(Repository, name, o)
			put(Cleanup, name, byID(o))
		case fieldType:
			name := fmt.Sprintf("projects/p/databases/%s/collectionGroups/%s/fields/%s", o.Get("database"), o.Get("collection"), o.Get("field"))
			if o["indexConfig"] != nil {
				put(Field, name, Object{"indexed": false})
			}
			if o["ttlConfig"] != nil {
				put(TTL, name, Object{"expires": true})
			}
		case indexType:
			x := Object{"name": fmt.Sprintf("projects/p/databases/%s/collectionGroups/%s/indexes/", o.Get("database"), o.Get("collection")), "queryScope": o["queryScope"]}
			x["fields"] = apiFields(o["fields"].([]any))
			put(Index, Index.key(x), x)
		case functionType:
			o["state"] = "ACTIVE"
			put(Function, in("location", "functions", "name"), o)
		case triggerType:
			filters := make(Object)
			for _, criterion := range o["matchingCriteria"].([]any) {
				f := criterion.(Object)
				attribute, value, operator := f.Get("attribute"), f.Get("value"), ""
				if attribute == "document" {
					value, operator = anonymous(value), "match-path-pattern"
				}
				if f.Get("operator") != operator {
					c.Errorf("%s: %s has the operator %q", address, attribute, f.Get("operator"))
				}
				filters[attribute] = value
			}
			o["eventFilters"], o["destination"] = filters, Object{"cloudRun": o["destination"].(Object)["cloudRunService"]}
			put(Trigger, in("location", "triggers", "name"), o)
		case jobType:
			put(Job, in("region", "jobs", "name"), o)
		case metricType:
			put(Metric, o.Get("name"), o)
		case exclusionType:
			put(Exclusion, o.Get("name"), o)
		case channelType:
			put(Channel, Channel.key(o), o)
			if !ours(o) {
				c.Errorf("%s has no label of Tally's", address)
			}
		case alertType:
			put(Alert, Alert.key(o), o)
		case dashboardType:
			dashboard, err := decode([]byte(o.Get("dashboardJson")))
			if err != nil {
				c.Error(err)
			}
			put(Dashboard, Dashboard.key(dashboard), dashboard)
		}
	}
	noted = c.checkResources(d, have)
	var want []string
	for _, g := range d.Grants {
		want = append(want, fmt.Sprint(g.On.Noun(), g.Name, g.Role, g.Member, g.Condition))
	}
	slices.Sort(grants)
	slices.Sort(want)
	if diff := cmp.Diff(want, grants); diff != "" {
		c.Errorf("grants (-description +Terraform):\n%s", diff)
	}
	if diff := cmp.Diff(d.APIs, apis); diff != "" {
		c.Errorf("APIs (-description +Terraform):\n%s", diff)
	}
	files, err := sourceFiles(os.DirFS("../../.."))
	var source []string
	for _, f := range c.blocks["data.archive_file.source"]["source"].([]any) {
		name := f.(block)["filename"].(string)
		if want := fmt.Sprintf(`${file("${var.clone}/%s")}`, name); f.(block)["content"] != want {
			c.Errorf("%s has the content %v", name, f.(block)["content"])
		}
		source = append(source, name)
	}
	if diff := cmp.Diff(files, source); diff != "" || err != nil {
		c.Errorf("source (-description +Terraform):\n%s%v", diff, err)
	}
	return noted
}

// checkResources checks that Terraform makes the description's resources, and no others. have are
// those that it makes, by kind and name. It returns how many differ that Terraform cannot change.
func (c *configuration) checkResources(d *Description, have map[string]Object) (noted int) {
	for _, r := range d.Resources {
		noun, name := r.Kind().Noun(), r.Name()
		h, made := have[noun+name]
		if delete(have, noun+name); !made {
			h = r.absent()
		}
		changes := differences(r.Settings(), h)
		if r.Kind() == Service || r.Kind() == Subscription {
			noted += min(1, len(changes))
			continue
		}
		if !made && r.absent() == nil {
			c.Errorf("%s %s is not made", noun, name)
		}
		for _, change := range changes {
			c.Errorf("%s %s: %v", noun, name, change)
		}
	}
	for name := range have {
		c.Errorf("%s is made, and not described", name)
	}
	return noted
}

// apiFields returns the fields of an index as the API has them.
func apiFields(fields []any) []any {
	var all []any
	for _, f := range fields {
		all = append(all, map[string]any{"fieldPath": f.(Object).Get("fieldPath"), "order": f.(Object).Get("order")})
	}
	return all
}

// byID returns the policies of clean-up of a repository as the API has them.
func byID(repository Object) Object {
	policies := make(Object)
	for _, p := range repository["cleanupPolicies"].([]any) {
		policies[p.(Object).Get("id")] = p
	}
	return Object{"cleanupPolicies": policies, "cleanupPolicyDryRun": repository["cleanupPolicyDryRun"]}
}

// decode decodes a resource in JSON, with numbers as they are spelled.
func decode(data []byte) (o Object, err error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	return o, d.Decode(&o)
}
