package deploy

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"cloud.google.com/go/monitoring/dashboard/apiv1/dashboardpb"
	"google.golang.org/protobuf/encoding/protojson"
)

const playbooks = "../../../docs/playbooks.md"

// wantedOf returns what the manifest of a deployment wants of a kind, by the ends of the names.
func wantedOf(t *testing.T, kind string) map[string]Object {
	t.Helper()
	all := make(map[string]Object)
	o := options(t, likes)
	o.Alerts = []string{Console}
	for _, r := range described(t, o).OfKind(kind) {
		all[path.Base(r.Name)] = r.Want
	}
	if len(all) == 0 {
		t.Fatalf("the manifest has no %s", kind)
	}
	return all
}

// definitions are the dashboard, the alerts, the playbooks and the page on metrics, by their names.
func definitions(t *testing.T) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for _, kind := range []string{"dashboard", "alert"} {
		for name, want := range wantedOf(t, kind) {
			all[name] = toJSON(want)
		}
	}
	for _, file := range []string{"../../../docs/operations.md", playbooks} {
		all[file] = contentOf(t, file)
	}
	for name, content := range all {
		all[name] = strings.ReplaceAll(content, `\"`, `"`)
	}
	return all
}

func contentOf(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// files returns the files that match; there must be some.
func files(t *testing.T, pattern string) []string {
	t.Helper()
	found, err := filepath.Glob(pattern)
	if err != nil || len(found) == 0 {
		t.Fatalf("%s: no files, %v", pattern, err)
	}
	return found
}

// literals returns the string literals of the code in a folder, tests excepted.
func literals(t *testing.T, folders ...string) (found []string) {
	t.Helper()
	for _, folder := range folders {
		for _, file := range files(t, folder+"/*.go") {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(parsed, func(n ast.Node) bool {
				if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
					value, err := strconv.Unquote(l.Value)
					if err != nil {
						t.Fatal(err)
					}
					found = append(found, value)
				}
				return true
			})
		}
	}
	return found
}

// playbookSections returns the sections of the page of playbooks, by the anchors of their headings.
func playbookSections(t *testing.T) map[string]string {
	t.Helper()
	sections := make(map[string]string)
	for _, section := range strings.Split(contentOf(t, playbooks), "\n## ")[1:] {
		title, text, _ := strings.Cut(section, "\n")
		sections[strings.ReplaceAll(strings.ToLower(title), " ", "-")] = text
	}
	return sections
}

func TestAlerts(t *testing.T) {
	sections := playbookSections(t)
	displayed := make(map[string]string)
	alerts := wantedOf(t, "alert")
	for name, a := range alerts {
		title := a.Get("displayName")
		if other := displayed[title]; other != "" || title == "" {
			t.Errorf("%s: its displayName %q is that of %s", name, title, other)
		}
		displayed[title] = name
		if sections[name] == "" {
			t.Errorf("%s has no playbook", name)
		}
		if !strings.Contains(a.Get("documentation.content"), "/docs/playbooks.md#"+name) {
			t.Errorf("%s does not link its playbook", name)
		}
		filter := a.Get("conditions.0.conditionMatchedLog.filter")
		if (filter == "") == (a.Get("conditions.0.conditionPrometheusQueryLanguage.query") == "") {
			t.Errorf("%s: want a filter or a query", name)
		}
		if filter != "" {
			checkFilter(t, name, filter)
			checkServices(t, name, filter)
		}
	}
	for name := range sections {
		if alerts[name] == nil {
			t.Errorf("the playbook %s is of no alert", name)
		}
	}
}

func TestLogMetrics(t *testing.T) {
	metrics := wantedOf(t, "metric")
	for name, m := range metrics {
		checkFilter(t, name, m.Get("filter"))
		checkServices(t, name, m.Get("filter"))
	}
	key := strings.TrimSuffix(strings.TrimPrefix(metrics["tally_lag"].Get("valueExtractor"), "EXTRACT(jsonPayload."), ")")
	if !slices.Contains(literals(t, "../../cloud/app"), key) {
		t.Errorf("no line has the field %s", key)
	}
}

// checkServices checks that the filter is of the functions' lines alone.
func checkServices(t *testing.T, name, filter string) {
	t.Helper()
	if !strings.Contains(filter, `resource.labels.service_name=("tally-on-write" OR "tally-on-schedule")`) {
		t.Errorf("%s: the filter %s names no service", name, filter)
	}
}

var (
	quoted      = regexp.MustCompile(`"([^"]*)"`)
	messages    = regexp.MustCompile(`jsonPayload\.message=(\([^)]*\)|"[^"]*")`)
	reportField = regexp.MustCompile(`jsonPayload\.report\.(\w+)`)
)

// checkFilter checks that the code logs what the filter looks for.
func checkFilter(t *testing.T, file, filter string) {
	t.Helper()
	logged := literals(t, "../../cloud/app", "../../../rollup", "../../../rollup/internal/*")
	found := messages.FindAllStringSubmatch(filter, -1)
	if len(found) == 0 {
		t.Errorf("%s: the filter %s names no message", file, filter)
	}
	for _, m := range found {
		for _, q := range quoted.FindAllStringSubmatch(m[1], -1) {
			if !slices.Contains(logged, q[1]) {
				t.Errorf("%s: nothing logs %q", file, q[1])
			}
		}
	}
	for _, f := range reportField.FindAllStringSubmatch(filter, -1) {
		tag := regexp.MustCompile(`^json:"` + f[1] + `[",]`)
		if !slices.ContainsFunc(logged, tag.MatchString) {
			t.Errorf("%s: a report has no field %s", file, f[1])
		}
	}
}

func TestDashboard(t *testing.T) {
	var board dashboardpb.Dashboard
	if err := protojson.Unmarshal([]byte(toJSON(wantedOf(t, "dashboard")["Tally"])), &board); err != nil {
		t.Fatal(err)
	}
	mosaic := board.GetMosaicLayout()
	type cell struct{ x, y int32 }
	taken := make(map[cell]string)
	for _, tile := range mosaic.GetTiles() {
		title := tile.Widget.GetTitle()
		if tile.XPos+tile.Width > mosaic.Columns {
			t.Errorf("%s is wider than the dashboard", title)
		}
		for x := tile.XPos; x < tile.XPos+tile.Width; x++ {
			for y := tile.YPos; y < tile.YPos+tile.Height; y++ {
				if other := taken[cell{x, y}]; other != "" {
					t.Fatalf("%s lies over %s", title, other)
				}
				taken[cell{x, y}] = title
			}
		}
	}
}

// pushMetrics are Pub/Sub's metrics that are read, with their labels and the subscription's own, as
// https://docs.cloud.google.com/monitoring/api/metrics_gcp_p_z#gcp-pubsub lists them.
var pushMetrics = map[string][]string{
	"push_request_count":           {"subscription_id", "response_class", "response_code", "delivery_type"},
	"push_request_latencies_sum":   {"subscription_id", "response_code", "delivery_type"}, // microseconds
	"push_request_latencies_count": {"subscription_id", "response_code", "delivery_type"},
	"oldest_unacked_message_age":   {"subscription_id"}, // seconds
}

// What is read of Pub/Sub is there, and is of Tally's triggers alone.
func TestPushMetrics(t *testing.T) {
	var (
		selector = regexp.MustCompile(`pubsub_googleapis_com:subscription_(\w+)(?:\{([^}]*)\})?`)
		matcher  = regexp.MustCompile(`(\w+)(?:=~?|!=|!~)"([^"]*)"`)
		class    = []string{"ack", "deadline_exceeded", "internal", "invalid", "remote_server_4xx", "remote_server_5xx", "unreachable"}
		// Eventarc names a subscription eventarc-LOCATION-TRIGGER-sub-NUMBER.
		subscriptions = map[string]bool{
			"eventarc-us-central1-tally-counters-shards-78fea5-sub-123":              true,
			"eventarc-northamerica-northeast1-tally-posts-likes-orders-0a1b2c-sub-4": true,
			"eventarc-nam5-tally-counters-shards-78fea5-sub-123":                     true,
			"eventarc-us-central1-orders-tally-counters-sub-123":                     false,
			"eventarc-us-central1-tallyho-sub-123":                                   false,
			"tally-counters-shards-78fea5":                                           false,
		}
	)
	used := make(map[string]bool)
	for file, content := range definitions(t) {
		for _, m := range selector.FindAllStringSubmatch(content, -1) {
			labels := pushMetrics[m[1]]
			if used[m[1]] = true; labels == nil {
				t.Errorf("%s: Pub/Sub has no %s", file, m[1])
			}
			ours := strings.HasSuffix(file, ".md") // a person sees whose they are
			for _, l := range matcher.FindAllStringSubmatch(m[2], -1) {
				switch {
				case !slices.Contains(labels, l[1]):
					t.Errorf("%s: %s has no label %s", file, m[1], l[1])
				case l[1] == "response_class" && !slices.Contains(class, l[2]):
					t.Errorf("%s: there is no response_class %s", file, l[2])
				case l[1] == "subscription_id":
					ours = true
					for subscription, want := range subscriptions {
						if got := regexp.MustCompile("^(?:" + l[2] + ")$").MatchString(subscription); got != want {
							t.Errorf("%s: %s matches %s: %t", file, l[2], subscription, got)
						}
					}
				}
			}
			if !ours {
				t.Errorf("%s: %s is of all subscriptions", file, m[0])
			}
		}
	}
	if len(used) != len(pushMetrics) {
		t.Errorf("only %v are used", used)
	}
}

// Each metric that the dashboard, an alert, a playbook or the page on them names is defined here.
// The dashboard groups only by labels that there are.
func TestMetricsExist(t *testing.T) {
	defined := slices.Sorted(maps.Keys(wantedOf(t, "metric")))
	var (
		ofLogs   = regexp.MustCompile("(?:logging_googleapis_com:user_|user/|`)(tally_[a-z_]+)")
		grouping = regexp.MustCompile(`by \(([^)]*)\)`)
	)
	used := make(map[string]bool)
	for file, content := range definitions(t) {
		for _, m := range ofLogs.FindAllStringSubmatch(content, -1) {
			name := strings.TrimSuffix(m[1], "_bucket") // of a distribution
			if used[name] = true; !slices.Contains(defined, name) {
				t.Errorf("%s: no metric of logs is called %s", file, m[1])
			}
		}
		for _, m := range grouping.FindAllStringSubmatch(content, -1) {
			for attribute := range strings.SplitSeq(m[1], ",") {
				attribute = strings.Trim(attribute, `" `)
				if attribute != "le" && !slices.Contains(pushMetrics["push_request_count"], attribute) {
					t.Errorf("%s: no metric has the attribute %s", file, attribute)
				}
			}
		}
	}
	for _, m := range defined {
		if !used[m] {
			t.Errorf("nothing reads %s", m)
		}
	}
}

// The log lines of the playbooks are there too, and each playbook is a table.
func TestPlaybooks(t *testing.T) {
	logged := literals(t, "../../cloud/app", "../../../rollup", "../../../rollup/internal/*")
	shown := regexp.MustCompile(`(?m)^    lines "(.*)"$`).FindAllStringSubmatch(contentOf(t, playbooks), -1)
	if len(shown) < 10 {
		t.Errorf("the playbooks look for %d lines", len(shown))
	}
	for _, line := range shown {
		if !slices.Contains(logged, line[1]) {
			t.Errorf("nothing logs %q", line[1])
		}
	}
	for name, text := range playbookSections(t) {
		if !strings.Contains(text, "| cause | check | remedy |") {
			t.Errorf("the playbook %s does not say what to do", name)
		}
	}
}
