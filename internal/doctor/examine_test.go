package doctor

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/firestore-tally/tally/internal/app"
	"github.com/firestore-tally/tally/rollup"
	"github.com/google/go-cmp/cmp"
)

func TestCovers(t *testing.T) {
	for _, test := range []struct {
		trigger, route string
		want           bool
	}{
		{"counters/{c}/shards/{s}", "counters/{counter}/shards/{shard}", true},
		{"counters/*/shards/*", "counters/{counter}/shards/{shard}", true},
		{"{all}/{c}/shards/{s}", "counters/{counter}/shards/{shard}", true},
		{"counters/likes/shards/{s}", "counters/{counter}/shards/{shard}", false},
		{"counters/{c}/shards", "counters/{counter}/shards/{shard}", false},
		{"counters/{c=**}", "counters/{counter}/shards/{shard}", true},
		{"**", "counters/{counter}/shards/{shard}", true},
		{"counters/{c=**}/views/{v}", "counters/{counter}/shards/{shard}", false},
		{"counters/{c=**}/shards/{v}", "counters/{counter}/shards/{shard}", true},
		{"counters/{a}/b/{c}/{d=**}", "counters/{counter}/b/{shard}", false},
		{"", "a/{b}", true},
	} {
		if got := covers(test.trigger, test.route); got != test.want {
			t.Errorf("covers(%q, %q) = %v", test.trigger, test.route, got)
		}
	}
}

func TestPeriodOf(t *testing.T) {
	e := &examination{Deployment: &Deployment{AsOf: time.Date(2026, 3, 28, 12, 0, 0, 0, time.UTC)}} // the day before Europe's summer time
	for _, test := range []struct {
		schedule, zone string
		want           time.Duration
	}{
		{"* * * * *", "", time.Minute},
		{"*/10 * * * *", "Etc/UTC", 10 * time.Minute},
		{"*/7 * * * *", "", 7 * time.Minute},
		{"*/10 8-17 * * *", "", 14*time.Hour + 10*time.Minute},
		{"0 0 * * *", "", 24 * time.Hour},
		{"0 12 * * *", "Europe/Berlin", 24 * time.Hour},
		{"0 0 * * 1", "", 7 * 24 * time.Hour},
		{"0 0 30 2 *", "", 0},
		{"every 5 minutes", "", 0},
		{"*/5 * * * *", "Nowhere/At all", 5 * time.Minute},
	} {
		if got := e.periodOf(&Job{Schedule: test.schedule, TimeZone: test.zone}); got != test.want {
			t.Errorf("%q in %q: got %v, want %v", test.schedule, test.zone, got, test.want)
		}
	}
}

func TestCPUs(t *testing.T) {
	for text, want := range map[string]string{"1": "1 true", "0.1666": "0.1666 true", "583m": "0.583 true", "2000m": "2 true", "": "0 false"} {
		n, ok := cpus(text)
		if got := fmt.Sprint(n, ok); got != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
}

func TestGrants(t *testing.T) {
	const who = "serviceAccount:a@b"
	for _, test := range []struct {
		name            string
		policy          Policy
		surely, perhaps bool
	}{
		{"nothing", nil, false, false},
		{"another member", Policy{{Role: "roles/owner", Members: []string{"serviceAccount:a@c"}}}, false, false},
		{"another role", Policy{{Role: "roles/viewer", Members: []string{who}}}, false, false},
		{"the role", Policy{{Role: "roles/viewer", Members: []string{who}}, {Role: "roles/owner", Members: []string{"user:x", who}}}, true, false},
		{"on a condition", Policy{{Role: "roles/owner", Members: []string{who}, Conditional: true}}, false, true},
		{"by a group", Policy{{Role: "roles/owner", Members: []string{"group:g@b"}}}, false, true},
		{"by a group of another role", Policy{{Role: "roles/viewer", Members: []string{"group:g@b"}}}, false, false},
		{"a custom role", Policy{{Role: "projects/p/roles/r", Members: []string{who}}}, false, true},
		{"a custom role of another", Policy{{Role: "projects/p/roles/r", Members: []string{"user:x"}}}, false, false},
	} {
		if surely, perhaps := test.policy.grants(who, []string{"roles/owner"}); surely != test.surely || perhaps != test.perhaps {
			t.Errorf("%s: got %v, %v", test.name, surely, perhaps)
		}
	}
}

func TestFields(t *testing.T) {
	routes, err := rollup.ParseRoutes("a/{a}/shards/{s} -> ra/{a} : n, m; b/{b}/shards/{s} -> rb/{b} : n, o : documents")
	if err != nil {
		t.Fatal(err)
	}
	c := app.Config{Routes: routes}
	if got, want := fmt.Sprint(summed(c)), "[{shards n} {shards m}]"; got != want {
		t.Errorf("summed: got %s, want %s", got, want)
	}
	// Not shards.n, which the first route sums.
	want := "[{shards o} {increment_tokens expire_at} {ra tally} {rb tally}]"
	if got := fmt.Sprint(exempt(c)); got != want {
		t.Errorf("exempt: got %s, want %s", got, want)
	}
}

// Lines are no wider than width, but for words that are.
func TestPrint(t *testing.T) {
	c := newCloud(t, options(t))
	c.functions = c.functions[:2]
	findings := c.read(t)
	var b bytes.Buffer
	if err := Print(&b, findings); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(b.String()) {
		line = strings.TrimRight(line, "\n")
		if utf8.RuneCountInString(line) > width && !strings.HasPrefix(strings.TrimSpace(line), "--") {
			t.Errorf("%d wide: %s", utf8.RuneCountInString(line), line)
		}
		if strings.TrimRight(line, " ") != line {
			t.Errorf("ends in spaces: %q", line)
		}
	}
	golden(t, "testdata/table.txt", b.String())

	b.Reset()
	if err := PrintJSON(&b, project, findings); err != nil {
		t.Fatal(err)
	}
	var r report
	if err := json.Unmarshal(b.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	if r.Project != project || r.Well || r.Counts != Count(findings) || len(r.Checks) != len(Checks) {
		t.Errorf("got %+v", r)
	}
	wrong := r.Checks[0]
	if wrong.Name != "deployed" || wrong.Verdict != Wrong || len(wrong.Problems) != 1 || !strings.HasPrefix(wrong.Problems[0].Remedy[0], "tally deploy --project=shop-7 --routes='") {
		t.Errorf("got %+v", wrong)
	}
}

// What is skipped is not among the findings.
func TestSkip(t *testing.T) {
	findings := Examine(&Deployment{Project: project}, []string{"deployed", "ttl"})
	if got, want := len(findings), len(Checks)-2; got != want || findings[0].Name != "active" {
		t.Errorf("%d findings, the first %s; want %d", got, findings[0].Name, want)
	}
}

// docs/doctor.md has a row for each check, with what it claims and what rests on it, and how it is
// mended; and names each role that suffices.
func TestDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/doctor.md")
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for _, c := range Checks {
		want = append(want, fmt.Sprintf("| `%s` | %s | %s |", c.Name, c.Claim, c.RestsOn))
	}
	for line := range strings.Lines(string(page)) {
		if cells := strings.Split(line, "|"); len(cells) == 6 && strings.HasPrefix(cells[1], " `") {
			got = append(got, strings.Join(cells[:4], "|")+"|")
			if strings.TrimSpace(cells[4]) == "" {
				t.Errorf("%s: how is it mended?", cells[1])
			}
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("docs/doctor.md (-want +got):\n%s", d)
	}
	for _, a := range apis {
		if !strings.Contains(string(page), "`"+a.role+"`") || !strings.Contains(string(page), "`"+strings.ReplaceAll(a.permissions, ", ", "`, `")+"`") {
			t.Errorf("docs/doctor.md does not tell that %s needs %s: %s", a.name, a.role, a.permissions)
		}
	}
}
