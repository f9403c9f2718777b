package deploy

import (
	"fmt"
	"path"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/firestore-tally/tally/rollup/route"
	"github.com/google/go-cmp/cmp"
)

// everything has cmp look into all fields of all types. A kind is what it is by its address.
var everything = cmp.Options{
	cmp.Exporter(func(reflect.Type) bool { return true }),
	cmp.Comparer(func(a, b *Kind) bool { return a == b }),
}

// filters returns a trigger's filters.
func filters(event, database, document string) []any {
	var all []any
	for attribute, value := range map[string]string{"type": event, "database": database, "document": document} {
		if value != "" {
			all = append(all, map[string]any{"attribute": attribute, "value": value})
		}
	}
	return all
}

// troubled returns a state in which a trigger must be made once more, with its subscription, and in
// which there is something to create, to update, to delete, to give and to take. It returns the
// same each time.
func troubled(t *testing.T) *State {
	t.Helper()
	o := options(t, route.Default+"; "+orderRoutes)
	have := newState("p")
	have.Number = "123"
	o.nameQueue(have.Number)

	variables := make(map[string]any)
	for name, value := range o.env() {
		variables[name] = value
	}
	have.add(Function, nil, Object{
		"name":          "projects/p/locations/us-central1/functions/" + OnWriteName,
		"labels":        map[string]any{purposeLabel: "on-write", madeByLabel: "true"},
		"serviceConfig": map[string]any{"environmentVariables": variables, "maxInstanceCount": 3},
	})

	// Another type of event takes another trigger.
	route := o.Config.Routes[0]
	subscription := "projects/p/subscriptions/eventarc-nam5-tally-1"
	have.add(Trigger, nil, Object{
		"name":         "projects/p/locations/nam5/triggers/" + TriggerName("(default)", route),
		"labels":       map[string]any{purposeLabel: "on-write", madeByLabel: "true"},
		"eventFilters": filters("google.cloud.firestore.document.v1.created", "(default)", ""),
		"destination":  map[string]any{"cloudRun": map[string]any{"service": OnWriteName}},
		"transport":    map[string]any{"pubsub": map[string]any{"subscription": subscription}},
	})
	have.add(Subscription, nil, Object{"name": subscription, "ackDeadlineSeconds": 600})

	// No route has these documents.
	have.add(Trigger, nil, Object{
		"name":         "projects/p/locations/nam5/triggers/tally-old-1a2b3c",
		"eventFilters": filters("", "(default)", "old/*/shards/*"),
		"destination":  map[string]any{"cloudRun": map[string]any{"service": OnWriteName}},
	})

	have.add(Index, nil, Object{
		"name":       "projects/p/databases/(default)/collectionGroups/orders/indexes/1",
		"queryScope": collectionScope, "state": indexBroken,
		"fields": []any{
			map[string]any{"fieldPath": "shop", "order": ascending},
			map[string]any{"fieldPath": "amount", "order": descending},
		},
	})

	here := "projects/p/locations/us-central1/services/" + OnWriteName
	have.given[here] = []Grant{{Role: "roles/run.invoker", Member: "allUsers"}}
	return have
}

// Planning changes nothing that it is given: neither the description nor the state.
func TestPlanChangesNothing(t *testing.T) {
	describe := func(have *State) *Description {
		d, err := Describe(options(t, route.Default+"; "+orderRoutes), have, "abc")
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	have, same := troubled(t), troubled(t)
	d, alike := describe(have), describe(same)

	plan := func() []Plan {
		var all []Plan
		for _, wait := range []bool{true, false} {
			p, err := d.Deploy(have, true, wait)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, p)
		}

		lost, others := d.Surplus(have)
		p, err := Undeploy(have)
		if err != nil {
			t.Fatal(err)
		}
		return append(all, d.Repair(have), lost, others, p)
	}
	first, second := plan(), plan()

	if diff := cmp.Diff(alike, d, everything); diff != "" {
		t.Errorf("the description (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(same, have, everything); diff != "" {
		t.Errorf("the state (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(first, second, everything); diff != "" {
		t.Errorf("the plans (-first +second):\n%s", diff)
	}
}

// Events of a new route come only when the functions know it, and events of an old one only while
// they do. What is written meanwhile is audited.
func TestOrder(t *testing.T) {
	have := troubled(t)
	d, err := Describe(options(t, route.Default+"; "+orderRoutes), have, "abc")
	if err != nil {
		t.Fatal(err)
	}
	p, err := d.Deploy(have, true, true)
	if err != nil {
		t.Fatal(err)
	}

	var got []string
	for _, s := range p.Steps {
		switch {
		case s.Does == Pause:
			got = append(got, fmt.Sprint("wait ", time.Duration(s.wait.(pause))))
		case s.Of == Function, s.Of == Trigger, s.Of == Job:
			got = append(got, string(s.Does)+" "+path.Base(s.Name))
		}
	}
	want := []string{
		"delete tally-old-1a2b3c", "wait 10m0s",
		"update tally-on-write", "create tally-on-schedule",
		"delete tally-counters-shards-78fea5", "create tally-counters-shards-78fea5", "create tally-orders-964b9b",
		"create tally-orders-counters-shards-188118", "create tally-orders-orders-152d65",
		"create tally", "audit tally",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A region that lacks what is to be in it is refused, and others are named that have all. What
// could not be asked is no reason.
func TestRegionsThatLackSomething(t *testing.T) {
	all := []string{"europe-north1", "europe-west1", "us-central1"}
	without := func(region string) []string {
		return slices.DeleteFunc(slices.Clone(all), func(r string) bool { return r == region })
	}
	const live, every = likes, likes + " : every 1m"
	for _, test := range []struct {
		name, routes, location string
		regions                map[*Kind][]string
		want                   string
	}{
		{"nothing was asked", live, "europe-west1", nil, ""},
		{"all is there", live, "europe-west1", map[*Kind][]string{Job: all, Function: all, Trigger: all}, ""},
		{"no functions", live, "europe-west1", map[*Kind][]string{Job: all, Function: without("europe-west1")},
			"europe-west1 has no Cloud Functions, which runs tally-on-write; write another region into tally.yaml, of europe-north1:\n  region: europe-north1"},
		{"no scheduler", live, "europe-west1", map[*Kind][]string{Job: without("europe-west1"), Function: without("europe-north1")},
			"europe-west1 has no Cloud Scheduler, which calls tally-on-schedule; write another region into tally.yaml, of us-central1:"},
		{"no events", live, "europe-west1", map[*Kind][]string{Trigger: without("europe-west1")}, "database (default) is in europe-west1, which has no Eventarc"},
		{"no events, and none needed", every, "europe-west1", map[*Kind][]string{Trigger: without("europe-west1")}, ""},
		{"a multi-region", live, "eur3", map[*Kind][]string{Job: all, Function: all, Trigger: all}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			have := newState("p")
			have.regions = test.regions
			err := priced(t, test.routes, test.location, func(o *Options) { o.Region = "" }).checkRegion(have)
			if (err == nil) != (test.want == "") || err != nil && !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("%v\nwant %s", err, test.want)
			}
		})
	}
}

// A first deployment audits before the triggers deliver, and again before anything counts or
// alerts.
func TestAuditsOfAFirstDeployment(t *testing.T) {
	d := priced(t, likes, "us-central1", nil)
	p, err := d.Deploy(newState("p"), false, false)
	if err != nil {
		t.Fatal(err)
	}

	var got []string
	for _, s := range p.Steps {
		if s.Does == Audit || s.Does == Settle || s.Of == Trigger || s.Of == Metric && len(got) < 5 {
			got = append(got, string(s.Does)+" "+s.Of.Noun)
		}
	}
	if diff := cmp.Diff([]string{"create trigger", "audit job", "settle job", "audit job", "create metric"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
