package deploy

import (
	"slices"
	"strings"
	"testing"

	"cloud.google.com/go/cloudtasks/apiv2/cloudtaskspb"
	"cloud.google.com/go/functions/apiv2/functionspb"
	"cloud.google.com/go/iam/apiv1/iampb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	oldQueue = "projects/my-project/locations/us-central1/queues/tally"
	newQueue = "projects/my-project/locations/europe-west1/queues/tally"
)

// purged reports whether a queue was purged.
func (d *testProject) purged(queue string) bool {
	q, _ := d.google.Get(queue).(*cloudtaskspb.Queue)
	return q.GetPurgeTime() != nil
}

// After a move of the functions, --prune purges the queue of the former region, and takes its
// roles: its tasks would call functions that are gone. Without --prune it goes on, with the old
// functions.
func TestMoveOfRegion(t *testing.T) {
	d := oneCounter(t)
	d.deploy()
	d.options.Region = "europe-west1"
	for range 2 { // the region that was before stays known
		d.deploy()
		if d.purged(oldQueue) || len(d.google.Policy(oldQueue).Bindings) != 2 {
			t.Error("the old functions lost their queue without --prune")
		}
	}

	d.options.Prune = true
	said := d.deploy()
	if !d.purged(oldQueue) || len(d.google.Policy(oldQueue).Bindings) != 0 || d.purged(newQueue) || len(d.google.Policy(newQueue).Bindings) != 2 {
		t.Errorf("the old queue has %v and %v, the new one %v and %v:\n%s",
			d.google.Get(oldQueue), d.google.Policy(oldQueue), d.google.Get(newQueue), d.google.Policy(newQueue), said)
	}
	for _, of := range []string{"functions", "repositories", "jobs"} {
		isOld := func(name string) bool { return strings.Contains(name, "us-central1") }
		if names := d.google.Names(of); slices.ContainsFunc(names, isOld) {
			t.Errorf("left: %v", names)
		}
	}
	if again := d.deploy(); again != "" {
		t.Errorf("left to do:\n%s", again)
	}
}

// mayNotBuild has the first deployment end at the first function.
func (d *testProject) mayNotBuild() {
	d.Helper()
	d.google.Fail("cloudfunctions.googleapis.com", "CreateFunction", status.Error(codes.FailedPrecondition, "failed precondition: due to quota restrictions, cannot run builds in this region. Please contact support"), 1)
	if _, err := d.tryDeploy(nil); err == nil {
		d.Fatal("it may build")
	}
}

// A first deployment that got no function leaves a repository, a queue and roles. A deployment to
// another region finds them with --prune, also if it ran without at first.
func TestPruneWithoutFunctions(t *testing.T) {
	for _, first := range []bool{true, false} {
		d := oneCounter(t)
		d.mayNotBuild()
		d.options.Region = "europe-west1"
		if !first {
			d.deploy()
		}
		d.options.Prune = true
		d.deploy()
		if names := d.google.Names("repositories"); len(names) != 1 || !d.purged(oldQueue) || len(d.google.Policy(oldQueue).Bindings) != 0 {
			t.Errorf("left: %v, queue %v with %v", names, d.google.Get(oldQueue), d.google.Policy(oldQueue))
		}
		if again := d.deploy(); again != "" {
			t.Errorf("left to do:\n%s", again)
		}
	}
}

// An undeployment finds them, too. The queue stays, empty: Cloud Tasks would block its name.
func TestUndeployWithoutFunctions(t *testing.T) {
	d := oneCounter(t)
	d.mayNotBuild()
	d.undeploy()
	for _, of := range []string{"repositories", "exclusions", "serviceAccounts"} {
		if names := d.google.Names(of); len(names) > 0 {
			t.Errorf("left: %v", names)
		}
	}
	if !d.purged(oldQueue) || len(d.google.Policy(oldQueue).Bindings) != 0 {
		t.Errorf("the queue has %v and %v", d.google.Get(oldQueue), d.google.Policy(oldQueue))
	}
	isTallys := func(b *iampb.Binding) bool {
		return slices.ContainsFunc(b.Members, func(m string) bool { return strings.Contains(m, ":tally-") })
	}
	if all := d.google.Policy("projects/my-project").Bindings; slices.ContainsFunc(all, isTallys) {
		t.Errorf("left: %v", all)
	}
}

// A queue of another name is the app's own, and so is one whose functions something else made.
func TestUndeployLeavesQueues(t *testing.T) {
	const others = "projects/my-project/locations/us-central1/queues/emails"
	d := oneCounter(t)
	d.deploy()
	d.google.Put(others, new(cloudtaskspb.Queue))
	for _, name := range d.google.Names("functions") {
		d.google.Set(name, []string{"serviceConfig", "environmentVariables", "TALLY_QUEUE"}, others)
	}
	const terraforms = "projects/my-project/locations/europe-west1/functions/tally-on-write"
	d.google.Put(newQueue, new(cloudtaskspb.Queue))
	d.google.Put(terraforms, &functionspb.Function{Labels: map[string]string{"tally": "on-write"}})
	d.undeploy()
	if d.purged(others) || d.purged(newQueue) || !d.purged(oldQueue) || d.google.Get(terraforms) == nil {
		t.Error("it took what others made, or left what Tally made")
	}
}

// Without a tally.yaml, which could name who hears of problems, --prune leaves alerts alone.
func TestPruneKeepsAlerts(t *testing.T) {
	d := newProject(t)
	d.deploy()
	d.options.Alerts, d.options.Prune, d.options.KeepAlerts = nil, true, true
	if said := d.deploy(); said != "" {
		t.Error(said)
	}
	d.options.KeepAlerts = false
	d.deploy()
	if names := slices.Concat(d.google.Names("alertPolicies"), d.google.Names("metrics"), d.google.Names("dashboards")); len(names) > 0 {
		t.Errorf("left: %v", names)
	}
}

// An undeployment does not begin while the triggers of a database's location are not known.
func TestUndeployNeedsTriggers(t *testing.T) {
	d := oneCounter(t)
	d.deploy()
	for place, ends := range map[string]bool{"nam5": true, "asia-east1": false} {
		d.google.Unreachable = []string{place}
		_, err := d.read().Undeploy(t.Context())
		if (err != nil) != ends || ends && !strings.Contains(err.Error(), "could not read the triggers: eventarc.googleapis.com did not answer for nam5") {
			t.Errorf("%s: %v", place, err)
		}
	}
}
