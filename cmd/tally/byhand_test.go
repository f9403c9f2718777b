//go:build unix

package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"cloud.google.com/go/firestore/apiv1/admin/adminpb"
	"cloud.google.com/go/functions/apiv2/functionspb"
	"github.com/firestore-tally/tally/internal/test/googletest"
	"github.com/firestore-tally/tally/internal/tool/deploy"
	"google.golang.org/protobuf/proto"
)

const manySettings = `
routes: |
  counters/{counter}/shards/{shard} -> rollups/{counter} : count
  posts/{post}/hot/{n} -> posts/{post}/sums/hot : views : documents
  pages/{page}/shards/{shard} -> pages/{page}/sums/all : views : every 10s
  shops/{shop}/ratings/{user} -> shops/{shop} : maximum(stars) as best, sum(stars) where approved == true as stars : existing
databases: [(default), orders]
region: us-central1
billing: request
alerts: me@example.com
`

// A handChange is what somebody does to one leaf of a resource.
type handChange struct {
	of    string // resource and leaf
	found string // what doctor says of it
	round int    // changes of one round are made at once
	make  func()
}

// leaves returns the paths of all leaves of a resource, with what is wanted there.
func leaves(at []string, v any) map[string]any {
	all := make(map[string]any)
	add := func(name string, inner any) { maps.Copy(all, leaves(append(slices.Clone(at), name), inner)) }
	switch v := v.(type) {
	case map[string]any:
		for name, inner := range v {
			add(name, inner)
		}
		if len(v) == 0 && len(at) > 0 {
			all[strings.Join(at, "\x01")] = v
		}
	case []any:
		for i, inner := range v {
			add(strconv.Itoa(i), inner)
		}
	default:
		all[strings.Join(at, "\x01")] = v
	}
	return all
}

// changesByHand returns a change of each leaf of a resource. What tells a resource from others is
// left out: without it the resource is another one.
func (c cloud) changesByHand(r *deploy.Resource) []handChange {
	c.t.Helper()
	if r.Kind() == "API" {
		if !strings.HasSuffix(r.Name, "/eventarcpublishing.googleapis.com") { // the others are called
			return nil
		}
		return []handChange{{r.Name, "eventarcpublishing.googleapis.com", 0, func() { c.Delete(r.Name) }}}
	}

	name := r.Have().Get("name")
	var all []handChange
	for _, path := range slices.Sorted(maps.Keys(leaves(nil, map[string]any(r.Want)))) {
		want := leaves(nil, map[string]any(r.Want))[path]
		at := strings.Split(path, "\x01")
		field := strings.Join(at, ".")
		change := handChange{of: r.Kind() + " " + name + " " + field, found: field + ": "}
		change.make = func() { c.Set(name, at, other(field, want)) }
		marked := field == "description" && strings.HasSuffix(fmt.Sprint(want), "Made by tally deploy")
		switch {
		case marked, strings.HasSuffix(strings.ToLower(field), "labels.tally"), r.Kind() == "dashboard" && field == "displayName", r.Kind() == "alert" && at[0] == "notificationChannels":
			continue
		case r.Kind() == "trigger" && at[0] == "eventFilters": // the trigger is made once more
			change.round, change.found = 1+len(all), "eventFilters."
		case r.Kind() == "function" && field == "state":
			change.round = 1
			change.make = func() {
				googletest.Change(c.Google, name, func(f *functionspb.Function) { f.State = functionspb.Function_FAILED })
			}
		case r.Kind() == "field" || r.Kind() == "time to live":
			change.found = at[0]
			change.make = func() { c.changeField(r) }
		}
		all = append(all, change)
	}
	return all
}

// changeField has a field indexed as it must not be, or not expire.
func (c cloud) changeField(r *deploy.Resource) {
	f, _ := c.Get(r.Name).(*adminpb.Field)
	f = proto.CloneOf(f)
	if f == nil {
		f = new(adminpb.Field)
	}
	switch {
	case r.Kind() == "time to live":
		f.TtlConfig = nil
	case len(r.Orders) > 0:
		f.IndexConfig = new(adminpb.Field_IndexConfig)
	default:
		f.IndexConfig = nil // the default
	}
	c.Put(r.Name, f)
}

// other returns another value than a leaf wants.
func other(field string, want any) any {
	switch field {
	case "expirationPolicy.ttl":
		return "86400s"
	case "deadLetterPolicy":
		return map[string]any{"deadLetterTopic": "projects/my-project/topics/dead"}
	}
	if want == nil {
		return "x"
	}

	enums := map[string]string{"ALLOW_INTERNAL_ONLY": "ALLOW_ALL", "POST": "GET", "OR": "AND", "ERROR": "WARNING", "WARNING": "ERROR",
		"DELTA": "GAUGE", "DISTRIBUTION": "INT64", "KEEP": "DELETE", "DELETE": "KEEP", "ANY": "TAGGED", "MARKDOWN": "RAW", "LINEAR": "LOG10",
		"Y1": "Y2", "LINE": "STACKED_BAR", "STACKED_BAR": "LINE", "STACKED_AREA": "LINE"}
	text := fmt.Sprint(want)
	if e, isEnum := enums[text]; isEnum {
		return e
	}
	if n, err := strconv.Atoi(text); err == nil {
		return strconv.Itoa(n + 1) // which JSON takes for a number, too
	}
	if x, err := strconv.ParseFloat(text, 64); err == nil {
		return fmt.Sprint(x + 1)
	}
	if b, err := strconv.ParseBool(text); err == nil {
		return !b
	}
	if seconds, isDuration := strings.CutSuffix(text, "s"); isDuration {
		if n, err := strconv.Atoi(seconds); err == nil {
			return fmt.Sprint(n+1, "s")
		}
	}
	return text + "-x"
}

// Each leaf of each resource of the manifest that somebody changes by hand is found by doctor,
// fixed by deploy, and gone after.
func TestSettings(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}

	c := newCloud(t)
	c.Put("projects/my-project/databases/orders", &adminpb.Database{LocationId: "europe-west1", Type: adminpb.Database_FIRESTORE_NATIVE, DatabaseEdition: adminpb.Database_STANDARD})
	c.settings(manySettings)
	deployAll := []string{"deploy", "--yes", "--wait"}
	c.want(0, deployAll...)
	c.want(0, "doctor")

	n := 0
	for round, last := 0, false; !last; round++ {
		d := c.described()
		last = true
		var changed []handChange
		for _, r := range d.Resources {
			for _, change := range c.changesByHand(r) {
				last = last && change.round <= round
				if change.round == round {
					change.make()
					changed = append(changed, change)
				}
			}
		}
		if len(changed) == 0 {
			continue
		}
		n += len(changed)

		found := c.want(1, "doctor", "--json")
		for _, change := range changed {
			if !strings.Contains(found, change.found) {
				t.Errorf("round %d: doctor does not find %s", round, change.of)
			}
		}
		c.want(0, deployAll...)
		if printed, status := c.tally("doctor"); status != 0 {
			t.Fatalf("round %d: after tally deploy\n%s", round, printed)
		}
	}
	t.Logf("%d leaves were changed", n)
	if printed := c.want(0, deployAll...); !strings.Contains(printed, "Nothing to do: the project matches tally.yaml.") {
		t.Errorf("a last deploy has something to do:\n%s", printed)
	}
}
