package deploy

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/firestore-tally/tally/internal/cloud/config"
	"github.com/firestore-tally/tally/rollup/route"
	"github.com/google/go-cmp/cmp"
)

func TestTriggerName(t *testing.T) {
	const posts = "posts/{post}/counters/{name}/shards/{shard} -> posts/{post}/rollups/{name} : likes"
	for _, test := range []struct{ database, route, want string }{
		{"(default)", route.Default, "tally-counters-shards-78fea5"},
		// Nothing but which documents are shards makes a difference.
		{"(default)", "counters/{c}/shards/{s} -> totals/x/y/{c} : a, b : documents", "tally-counters-shards-78fea5"},
		{"orders", route.Default, "tally-orders-counters-shards-188118"},
		{"(default)", posts, "tally-posts-counters-shards-d2a08c"},
		{"(default)", "Zähler/{a}/x/{b} -> r/{a} : n", "tally-z-hler-x-bdff08"},
		{"(default)", "数/{a}/表/{b} -> r/{a} : n", "tally-abec8c"},
		{"database-with-a-name-that-is-as-long-as-any-may-be-63-characters", posts, "tally-database-with-a-name-that-is-as-long-as-any-may-be-f4bab9"},
	} {
		routes, err := route.Parse(test.route)
		if err != nil {
			t.Fatal(err)
		}
		got := TriggerName(test.database, routes[0])
		if got != test.want {
			t.Errorf("%s, %s: got %s, want %s", test.database, test.route, got, test.want)
		}
		if len(got) > maxName {
			t.Errorf("%s has %d characters, want at most %d", got, len(got), maxName)
		}
	}
}

// The description exempts the same fields as firestore.indexes.json, and what Tally adds to the
// roll-ups of each route, once for each collection group. A field that is summed in one place is
// indexed.
func TestFields(t *testing.T) {
	data, err := os.ReadFile("../../../firestore.indexes.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ FieldOverrides []FieldConfig }
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	routes, err := route.Parse(route.Default + "; a/{a}/s/{s} -> a/{a}/rollups/x : n, m : documents; b/{b}/s/{s} -> x/{b} : n : every 1m")
	if err != nil {
		t.Fatal(err)
	}
	want := append(file.FieldOverrides, FieldConfig{CollectionGroup: "x", Path: "tally", Indexes: []Object{}}, FieldConfig{CollectionGroup: "s", Path: "m", Indexes: []Object{}})
	var exempt []FieldConfig
	var indexed []string
	for _, f := range Fields(routes, route.Standard) {
		if f.Indexed {
			indexed = append(indexed, f.CollectionGroup+"."+f.Path)
		} else {
			exempt = append(exempt, f)
		}
	}
	if d := cmp.Diff(want, exempt); d != "" {
		t.Errorf("(-firestore.indexes.json, x.tally and s.m +description):\n%s", d)
	}
	if d := cmp.Diff([]string{"s.n", "shards.count"}, indexed); d != "" {
		t.Errorf("indexed (-want +got):\n%s", d)
	}
}

// No event keeps what the schedule keeps. Cron can say the schedule's period, and a job waits for a
// call.
func TestEvery(t *testing.T) {
	d := described(t, options(t, route.Default+"; b/{b}/s/{s} -> x/{b} : n : every 1m"))
	if time.Hour%config.SchedulePeriod != 0 || config.OnScheduleTimeout > 30*time.Minute {
		t.Errorf("period %v, timeout %v", config.SchedulePeriod, config.OnScheduleTimeout)
	}
	var triggers []string
	for _, r := range d.OfKind("trigger") {
		triggers = append(triggers, r.Name)
	}
	want := []string{"projects/p/locations/nam5/triggers/tally-counters-shards-78fea5", "projects/p/locations/europe-west1/triggers/tally-orders-counters-shards-188118"}
	if d := cmp.Diff(want, triggers); d != "" {
		t.Errorf("triggers (-want +got):\n%s", d)
	}
}

// A variable that is not Tally's may be a secret. It is in no text that people see, and reaches the
// function.
func TestSecrets(t *testing.T) {
	const value = "api-key=s3cret,x=@y"
	d := newProject(t)
	d.options.Env = map[string]string{"MINE": value, "TALLY_LOG_LEVEL": "DEBUG"}
	wanted := d.read()
	manifest, err := wanted.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	plan, err := wanted.Plan(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	told := manifest + plan.StepsText(true) + toJSON(plan)
	d.deploy()

	const name = "projects/my-project/locations/us-central1/functions/tally-on-write"
	d.google.Set(name, []string{"serviceConfig", "environmentVariables", "MINE"}, "api-key=0ld")
	plan, err = d.read().Plan(t.Context(), true)
	if err != nil || len(plan.Steps) != 2 {
		t.Fatalf("%d steps, %v", len(plan.Steps), err)
	}
	told += plan.StepsText(true) + toJSON(plan)
	d.deploy()
	if got := read(t, d.google, name).Get("serviceConfig.environmentVariables.MINE"); got != value {
		t.Errorf("the function has %q", got)
	}
	if strings.Contains(told, "s3cret") || strings.Contains(told, "0ld") || !strings.Contains(told, "MINE: its value differs, and is not shown") {
		t.Errorf("people see\n%s", told)
	}
}

// IAM allows twelve operators in a condition, so more databases have more conditions.
func TestManyDatabases(t *testing.T) {
	for databases, want := range map[int]int{1: 1, 12: 1, 13: 2, 30: 3} {
		o := options(t, route.Default)
		o.Databases = nil
		for i := range databases {
			o.Databases = append(o.Databases, Database{fmt.Sprint("database-", i), "nam5"})
		}
		d := described(t, o)

		conditions, operands := 0, 0
		for _, g := range d.OfKind("project")[0].Grants {
			if g.Role == "roles/datastore.user" {
				conditions++
				n := strings.Count(g.If, "resource.name ==")
				operands += n
				if n > 12 {
					t.Errorf("%d databases: a condition has %d", databases, n)
				}
			}
		}
		if conditions != want || operands != databases {
			t.Errorf("%d databases: %d conditions of %d in all, want %d", databases, conditions, operands, want)
		}
	}
}

// A trigger would take a * in a collection's name for any text.
func TestStarInACollection(t *testing.T) {
	for routes, want := range map[string]string{
		"`a*`/{a}/s/{s} -> r/{a} : n":            "takes the * in a* for any text",
		"a/{a}/`*`/{s} -> r/{a} : n":             "takes the * in * for any text",
		"`a*`/{a}/s/{s} -> r/{a} : n : every 1m": "", // it has no trigger
		"a/{a}/s/{s} -> `r*`/{a} : n":            "",
	} {
		_, err := Describe(NewProject("p", nil, ""), options(t, routes), nil)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", routes, err, want)
		}
	}
}

// A plan says that nine databases share a call of RollUpOnSchedule, too short for audits to tell
// drift.
func TestDriftThatNobodyTells(t *testing.T) {
	for limit, want := range map[string]int{"8s": 0, "10s": 1} {
		o := options(t, route.Default)
		var err error
		o.Config, err = config.Load(map[string]string{"GOOGLE_CLOUD_PROJECT": "p", "TALLY_HOLD_LIMIT": limit,
			"TALLY_DATABASES": "data1,data2,data3,data4,data5,data6,data7,data8,data9"})
		if err != nil {
			t.Fatal(err)
		}
		p, err := described(t, o).Plan(t.Context(), false)
		if err != nil || len(p.Notes) != want || want == 1 && !strings.Contains(p.Notes[0], "audits cannot report drift: 9 databases") {
			t.Errorf("hold limit %s: notes %q, %v", limit, p.Notes, err)
		}
	}
}

// TestRuntime: the functions' Go version is that of go.mod.
func TestRuntime(t *testing.T) {
	data, err := os.ReadFile("../../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	runtime := new(manifest).Runtime()
	if want := "\ngo 1." + strings.TrimPrefix(runtime, "go1") + "."; !strings.Contains(string(data), want) {
		t.Errorf("runtime is %s, but go.mod does not say%s", runtime, want)
	}
}

// TestQuote has a shell read back what a command prints.
func TestQuote(t *testing.T) {
	args := []string{"plain", "", "(default)", "--database=(default)", "*/10 * * * *", "it's", `"$HOME"`, "a\nb", "--x='", "counters/{counter} -> r : a, b"}
	script := Command(append([]string{"printf", `%s|`}, args...)...)
	out, err := exec.Command("/bin/sh", "-c", script).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if d := cmp.Diff(strings.Join(args, "|")+"|", string(out)); d != "" {
		t.Errorf("%s (-want +got):\n%s", script, d)
	}
}

// As many instances of RollUpOnWrite wait for work as min_instances says. RollUpOnSchedule has none
// that waits.
func TestMinInstances(t *testing.T) {
	for n, fits := range map[int]bool{0: true, 2: true, DefaultMaxInstances: true, DefaultMaxInstances + 1: false} {
		o := options(t, likes)
		o.MinInstances = n
		d, err := Describe(NewProject("p", nil, ""), o, nil)
		if (err == nil) != fits {
			t.Errorf("%d: %v", n, err)
		}
		if err != nil {
			continue
		}
		for i, want := range []string{strconv.Itoa(n), "0"} {
			if got := d.OfKind("function")[i].Want.Get("serviceConfig.minInstanceCount"); got != want {
				t.Errorf("%d: %s has %s", n, d.OfKind("function")[i].Label(), got)
			}
		}
	}
}
