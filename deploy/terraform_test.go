package deploy

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/firestore-tally/tally/rollup"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/tryfunc"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	tf "github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
	ctyjson "github.com/zclconf/go-cty/cty/json"
)

// TestTerraform evaluates deploy/terraform, as far as that goes without Terraform and its providers,
// and compares what it creates with Settings: for the defaults, and for two databases, several routes,
// two of which the schedule keeps, and a region.
func TestTerraform(t *testing.T) {
	const counters = "counters/{counter}/shards/{shard} -> rollups/{counter} : count"
	const posts = "posts/{post}/counters/{name}/shards/{shard} -> posts/{post}/rollups/{name} : likes, views"
	const long = "organisations/{o}/Departments-und-Abteilungen/{d}/s/{s} -> r/{o}/x/{d} : every , n"
	const foreign = "数/{a}/表/{b} -> 和/{a} : n"
	const pages = "pages/{page}/shards/{shard} -> rollups/{page}/of/pages : every, views : every 10s"
	const hot = "hot/{h}/shards/{shard} -> hot_totals/{h}:every:documents:every 1m30s"
	for _, test := range []struct {
		name    string
		options Options
		vars    map[string]any
	}{
		{"defaults",
			Options{Databases: []Database{{"(default)", "nam5"}}, Cadence: time.Second, Burst: 5, HoldLimit: 8 * time.Second, AuditReads: 50_000},
			map[string]any{"databases": map[string]string{"(default)": "nam5"}}},
		{"all",
			Options{Databases: []Database{{"(default)", "eur3"}, {"orders", "asia-northeast1"}}, Cadence: 500 * time.Millisecond, Burst: 2, HoldLimit: 9 * time.Second, AuditReads: 7, LogLevel: "DEBUG",
				Env: map[string]string{"TALLY_TELEMETRY": "gcp"}},
			map[string]any{"databases": map[string]string{"(default)": "eur3", "orders": "asia-northeast1"}, "routes": []string{counters, posts, long, foreign, pages, hot}, "cadence": "500ms", "burst": 2, "hold_limit": "9s",
				"log_level": "DEBUG", "audit_reads": 7, "env": map[string]string{"TALLY_TELEMETRY": "gcp"}}},
		{"region",
			Options{Databases: []Database{{"(default)", "nam5"}}, Cadence: time.Second, Burst: 5, HoldLimit: 8 * time.Second, AuditReads: 50_000, Region: "us-east1"},
			map[string]any{"databases": map[string]string{"(default)": "nam5"}, "region": "us-east1"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.options.Project, test.vars["project"] = "my-project", "my-project"
			routes := []string{counters}
			if all, ok := test.vars["routes"]; ok {
				routes = all.([]string)
			}
			var err error
			if test.options.Routes, err = rollup.ParseRoutes(strings.Join(routes, "\n")); err != nil {
				t.Fatal(err)
			}
			want, err := New(test.options)
			if err != nil {
				t.Fatal(err)
			}
			got := readTerraform(t, test.vars)
			for i := range want.OnWrite { // in Terraform they have no order
				want.OnWrite[i].Env["TALLY_ROUTES"] = strings.Join(routes, "; ")
			}
			want.OnSchedule.Env["TALLY_ROUTES"] = strings.Join(routes, "; ")
			sortSettings(&want)
			sortSettings(&got)
			want.Databases = nil
			if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
				t.Errorf("(-tally deploy +terraform):\n%s", d)
			}
		})
	}
}

func sortSettings(s *Settings) {
	slices.SortFunc(s.OnWrite, func(a, b Function) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(s.ServiceAccounts, func(a, b ServiceAccount) int { return strings.Compare(a.ID, b.ID) })
	slices.SortFunc(s.Fields, func(a, b Field) int {
		return strings.Compare(a.CollectionGroup+a.Path, b.CollectionGroup+b.Path)
	})
	slices.Sort(s.APIs)
	for _, a := range s.ServiceAccounts {
		slices.Sort(a.Roles)
	}
}

// TestTerraformMonitoring: deploy/terraform creates what deploy/monitoring holds.
func TestTerraformMonitoring(t *testing.T) {
	files, err := ReadMonitoring(os.DirFS(".."))
	if err != nil {
		t.Fatal(err)
	}
	m := newTerraform(t, map[string]any{"project": "my-project", "databases": map[string]string{"(default)": "nam5"}, "alert_email": "me@example.com"})
	m.instances("google_monitoring_notification_channel", "email", func(r object) { r["name"] = "channels/1" })
	var want, got []string
	for _, f := range files.Metrics {
		want = append(want, "metric "+f.text("name")+": "+f.text("filter"))
	}
	for _, r := range m.instances("google_logging_metric", "metric", nil) {
		got = append(got, fmt.Sprintf("metric %v: %v", r["name"], r["filter"]))
	}
	for _, f := range files.Alerts {
		for _, c := range f.Content["conditions"].([]any) {
			for key := range c.(object) {
				if strings.HasPrefix(key, "condition") {
					want = append(want, "alert "+f.label()+": "+strings.ToLower(key))
				}
			}
		}
	}
	for _, r := range m.instances("google_monitoring_alert_policy", "alert", nil) {
		if d := cmp.Diff([]any{"channels/1"}, r["notification_channels"]); d != "" {
			t.Errorf("channels of %v (-want +got):\n%s", r["display_name"], d)
		}
		for _, c := range r["conditions"].([]any) {
			for key := range c.(object) {
				if strings.HasPrefix(key, "condition_") {
					got = append(got, fmt.Sprintf("alert %v: %s", r["user_labels"].(object)[fileLabel], strings.ReplaceAll(key, "_", "")))
				}
			}
		}
	}
	for _, f := range files.Dashboards {
		want = append(want, "dashboard "+f.text("displayName"))
	}
	for _, r := range m.instances("google_monitoring_dashboard", "dashboard", nil) {
		var content object
		if err := json.Unmarshal([]byte(r["dashboard_json"].(string)), &content); err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("dashboard %v", content["displayName"]))
	}
	slices.Sort(want)
	slices.Sort(got)
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-deploy/monitoring +terraform):\n%s", d)
	}
}

// TestTerraformSource: deploy/terraform uploads what the functions are built from, and nothing else.
func TestTerraformSource(t *testing.T) {
	m := newTerraform(t, map[string]any{"project": "my-project", "databases": map[string]string{"(default)": "nam5"}})
	var got []string
	for _, file := range m.instances("archive_file", "source", nil)[0]["source"].([]any) {
		name := file.(object)["filename"].(string)
		got = append(got, name)
		data, err := os.ReadFile(filepath.Join("..", name))
		if err != nil {
			t.Fatal(err)
		}
		if file.(object)["content"] != string(data) {
			t.Errorf("%s has other content", name)
		}
	}
	slices.Sort(got)
	want, err := sourceFiles("..")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-built from +uploaded by terraform):\n%s", d)
	}
}

// readTerraform returns what deploy/terraform creates, as settings.
func readTerraform(t *testing.T, vars map[string]any) Settings {
	t.Helper()
	m := newTerraform(t, vars)
	var s Settings
	for _, r := range m.instances("google_project_service", "api", nil) {
		s.APIs = append(s.APIs, r["service"].(string))
	}
	m.instances("google_project_service_identity", "agent", func(r object) { r["member"] = "agent of " + r["service"].(string) })
	m.instances("google_service_account", "account", func(r object) {
		email := r["account_id"].(string) + "@" + r["project"].(string) + ".iam.gserviceaccount.com"
		r["email"], r["member"] = email, "serviceAccount:"+email
		r["name"] = "projects/" + r["project"].(string) + "/serviceAccounts/" + email
		r["id"] = r["name"]
	})
	roles := make(map[string][]string)
	for _, r := range m.instances("google_project_iam_member", "role", nil) {
		roles[r["member"].(string)] = append(roles[r["member"].(string)], r["role"].(string))
	}
	for _, r := range m.all["google_service_account"]["account"] {
		s.ServiceAccounts = append(s.ServiceAccounts, ServiceAccount{ID: r["account_id"].(string), Email: r["email"].(string), DisplayName: r["display_name"].(string),
			Roles: roles[r["member"].(string)]})
	}
	// What gives Google's own accounts their roles.
	for _, want := range []struct{ kind, name, role, member string }{
		{"google_project_iam_member", "eventarc", eventarcRole, "agent of eventarc.googleapis.com"},
		{"google_service_account_iam_member", "pubsub", tokenCreatorRole, "agent of pubsub.googleapis.com"},
	} {
		if r := m.instances(want.kind, want.name, nil)[0]; r["role"] != want.role || r["member"] != want.member {
			t.Errorf("%s.%s: %v, want %v", want.kind, want.name, r, want)
		}
	}
	for _, r := range m.instances("google_firestore_field", "field", nil) {
		f := Field{CollectionGroup: r["collection"].(string), Path: r["field"].(string), TTL: r["ttl_config"] != nil}
		if index, ok := r["index_config"].([]any); !ok || len(index[0].(object)) != 0 {
			t.Errorf("%v: index_config %v, want one, empty", f, r["index_config"])
		}
		if !slices.Contains(s.Fields, f) {
			s.Fields = append(s.Fields, f)
		}
		m.databases[r["database"].(string)]++
	}
	for d, n := range m.databases {
		if n != len(s.Fields) {
			t.Errorf("database %s has %d fields, want %d", d, n, len(s.Fields))
		}
	}
	m.instances("google_storage_bucket", "source", nil)
	m.instances("google_storage_bucket_object", "source", nil)
	deployed := func(r object) { r["service_config"].([]any)[0].(object)["uri"] = "https://" + r["name"].(string) }
	onWrite := m.instances("google_cloudfunctions2_function", "on_write", deployed)
	onSchedule := m.instances("google_cloudfunctions2_function", "on_schedule", deployed)[0]
	invokers := make(map[string]string)
	for _, name := range []string{"on_write", "on_schedule"} {
		for _, r := range m.instances("google_cloud_run_v2_service_iam_member", name, nil) {
			if r["role"] != invokerRole {
				t.Errorf("role %v, want %v", r["role"], invokerRole)
			}
			invokers[r["location"].(string)+"/"+r["name"].(string)] = strings.TrimPrefix(r["member"].(string), "serviceAccount:")
		}
	}
	for _, r := range onWrite {
		s.OnWrite = append(s.OnWrite, functionOf(r, invokers))
	}
	s.OnSchedule = functionOf(onSchedule, invokers)
	s.Project = onSchedule["project"].(string)

	j := m.instances("google_cloud_scheduler_job", "tally", nil)[0]
	retry, target := block(j, "retry_config"), block(j, "http_target")
	s.Job = Job{
		Name: j["name"].(string), Region: j["region"].(string), Schedule: j["schedule"].(string), TimeZone: j["time_zone"].(string), Method: target["http_method"].(string),
		AttemptDeadline: duration(t, j["attempt_deadline"]), MaxRetryAttempts: int(retry["retry_count"].(float64)),
		MinBackoff: duration(t, retry["min_backoff_duration"]), MaxBackoff: duration(t, retry["max_backoff_duration"]),
		ServiceAccount: block(target, "oidc_token")["service_account_email"].(string),
	}
	if got, want := target["uri"], "https://"+s.OnSchedule.Name; got != want {
		t.Errorf("the job calls %v, want %v", got, want)
	}
	return s
}

func functionOf(r object, invokers map[string]string) Function {
	build, service := block(r, "build_config"), block(r, "service_config")
	number := func(name string) int { return int(service[name].(float64)) }
	var cpu, memory int
	fmt.Sscanf(service["available_cpu"].(string), "%d", &cpu)
	fmt.Sscanf(service["available_memory"].(string), "%dMi", &memory)
	f := Function{
		Name: r["name"].(string), Region: r["location"].(string), Kind: r["labels"].(object)[Label].(string),
		EntryPoint: build["entry_point"].(string), Runtime: build["runtime"].(string), BuildServiceAccount: filepath.Base(build["service_account"].(string)),
		Concurrency: number("max_instance_request_concurrency"), CPU: cpu, MemoryMiB: memory, Timeout: time.Duration(number("timeout_seconds")) * time.Second,
		MinInstances: number("min_instance_count"), MaxInstances: number("max_instance_count"), ServiceAccount: service["service_account_email"].(string),
		Invoker: invokers[r["location"].(string)+"/"+r["name"].(string)], Env: make(map[string]string),
	}
	for name, value := range service["environment_variables"].(object) {
		f.Env[name] = value.(string)
	}
	if r["event_trigger"] == nil {
		return f
	}
	trigger := block(r, "event_trigger")
	f.Trigger = &Trigger{EventType: trigger["event_type"].(string), Location: trigger["trigger_region"].(string),
		Retry: trigger["retry_policy"] == "RETRY_POLICY_RETRY", ServiceAccount: trigger["service_account_email"].(string)}
	for _, filter := range trigger["event_filters"].([]any) {
		switch filter := filter.(object); {
		case filter["attribute"] == "database" && filter["operator"] == nil:
			f.Trigger.Database = filter["value"].(string)
		case filter["attribute"] == "document" && filter["operator"] == "match-path-pattern":
			f.Trigger.Pattern = filter["value"].(string)
		}
	}
	return f
}

type object = map[string]any

// block returns the one block of the name.
func block(r object, name string) object { return r[name].([]any)[0].(object) }

func duration(t *testing.T, v any) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(v.(string))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// A terraform is a module under evaluation. Resources are evaluated one by one, each with what was
// evaluated before.
type terraform struct {
	t         *testing.T
	resources map[string]map[string]*hclsyntax.Body
	context   *hcl.EvalContext
	all       map[string]map[string][]object // by type and name
	databases map[string]int
}

func newTerraform(t *testing.T, vars map[string]any) *terraform {
	t.Helper()
	m := &terraform{t: t, resources: make(map[string]map[string]*hclsyntax.Body), all: make(map[string]map[string][]object), databases: make(map[string]int)}
	m.context = &hcl.EvalContext{Functions: functions(), Variables: map[string]cty.Value{
		"path": cty.ObjectVal(map[string]cty.Value{"module": cty.StringVal("terraform")}),
		"data": m.value(object{"archive_file": object{"source": object{"output_sha256": "0", "output_path": "x"}}}),
	}}
	variables, locals := make(map[string]cty.Value), make(map[string]hcl.Expression)
	files, err := filepath.Glob("terraform/*.tf")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		parsed, problems := hclsyntax.ParseConfig(data, file, hcl.InitialPos)
		if problems.HasErrors() {
			t.Fatal(problems)
		}
		for _, b := range parsed.Body.(*hclsyntax.Body).Blocks {
			switch b.Type {
			case "variable":
				if value, ok := vars[b.Labels[0]]; ok {
					variables[b.Labels[0]] = m.value(value)
				} else if d, ok := b.Body.Attributes["default"]; ok {
					variables[b.Labels[0]] = m.eval(d.Expr)
				} else {
					t.Fatalf("variable %s has no value", b.Labels[0])
				}
			case "locals":
				for name, a := range b.Body.Attributes {
					locals[name] = a.Expr
				}
			case "resource", "data":
				if m.resources[b.Labels[0]] == nil {
					m.resources[b.Labels[0]] = make(map[string]*hclsyntax.Body)
				}
				m.resources[b.Labels[0]][b.Labels[1]] = b.Body
			}
		}
	}
	m.context.Variables["var"] = cty.ObjectVal(variables)
	known := make(map[string]cty.Value)
	for len(known) < len(locals) { // each may need others
		before := len(known)
		var problems hcl.Diagnostics
		for name, expr := range locals {
			if _, ok := known[name]; ok {
				continue
			}
			value, p := expr.Value(m.context)
			if p.HasErrors() {
				problems = append(problems, p...)
				continue
			}
			known[name] = value
			m.context.Variables["local"] = cty.ObjectVal(known)
		}
		if len(known) == before {
			t.Fatal(problems.Errs())
		}
	}
	return m
}

// instances evaluates a resource, has computed add what the provider would know of each instance, and
// returns them.
func (m *terraform) instances(kind, name string, computed func(object)) []object {
	m.t.Helper()
	body := m.resources[kind][name]
	if body == nil {
		m.t.Fatalf("no resource %s.%s", kind, name)
	}
	var made []object
	one := func() object {
		r := m.body(body, m.context)
		if computed != nil {
			computed(r)
		}
		made = append(made, r)
		return r
	}
	var value any
	if each, ok := body.Attributes["for_each"]; ok {
		all := make(object)
		for it := m.eval(each.Expr).ElementIterator(); it.Next(); {
			key, element := it.Element()
			if key.Type() != cty.String {
				key = element // of a set
			}
			m.context.Variables["each"] = cty.ObjectVal(map[string]cty.Value{"key": key, "value": element})
			all[key.AsString()] = one()
		}
		delete(m.context.Variables, "each")
		value = all
	} else {
		value = one()
	}
	if m.all[kind] == nil {
		m.all[kind] = make(map[string][]object)
	}
	m.all[kind][name] = made
	names := make(map[string]cty.Value)
	if before, ok := m.context.Variables[kind]; ok {
		names = maps.Clone(before.AsValueMap())
	}
	names[name] = m.value(value)
	m.context.Variables[kind] = cty.ObjectVal(names)
	return made
}

// body evaluates attributes and nested blocks, which become lists.
func (m *terraform) body(body *hclsyntax.Body, ctx *hcl.EvalContext) object {
	m.t.Helper()
	r := make(object)
	for name, a := range body.Attributes {
		if name == "depends_on" || name == "for_each" || name == "provider" {
			continue
		}
		value, problems := a.Expr.Value(ctx)
		if problems.HasErrors() {
			m.t.Fatal(problems)
		}
		if plain := m.plain(value); plain != nil {
			r[name] = plain
		}
	}
	add := func(name string, b object) {
		all, _ := r[name].([]any)
		r[name] = append(all, b)
	}
	for _, b := range body.Blocks {
		if b.Type != "dynamic" {
			add(b.Type, m.body(b.Body, ctx))
			continue
		}
		each, problems := b.Body.Attributes["for_each"].Expr.Value(ctx)
		if problems.HasErrors() {
			m.t.Fatal(problems)
		}
		for it := each.ElementIterator(); it.Next(); {
			key, element := it.Element()
			inner := ctx.NewChild()
			inner.Variables = map[string]cty.Value{b.Labels[0]: cty.ObjectVal(map[string]cty.Value{"key": key, "value": element})}
			add(b.Labels[0], m.body(b.Body.Blocks[0].Body, inner))
		}
	}
	return r
}

func (m *terraform) eval(expr hcl.Expression) cty.Value {
	m.t.Helper()
	value, problems := expr.Value(m.context)
	if problems.HasErrors() {
		m.t.Fatal(problems)
	}
	return value
}

// value and plain convert by JSON.
func (m *terraform) value(v any) cty.Value {
	m.t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		m.t.Fatal(err)
	}
	kind, err := ctyjson.ImpliedType(data)
	if err != nil {
		m.t.Fatal(err)
	}
	value, err := ctyjson.Unmarshal(data, kind)
	if err != nil {
		m.t.Fatal(err)
	}
	return value
}

func (m *terraform) plain(v cty.Value) any {
	m.t.Helper()
	data, err := ctyjson.Marshal(v, v.Type())
	if err != nil {
		m.t.Fatal(err)
	}
	var plain any
	if err := json.Unmarshal(data, &plain); err != nil {
		m.t.Fatal(err)
	}
	return plain
}

// functions are those of Terraform's that the module uses.
func functions() map[string]tf.Function {
	text := func(f func(string) (string, error)) tf.Function {
		return tf.New(&tf.Spec{
			Params: []tf.Parameter{{Name: "s", Type: cty.String}},
			Type:   tf.StaticReturnType(cty.String),
			Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
				s, err := f(args[0].AsString())
				return cty.StringVal(s), err
			},
		})
	}
	return map[string]tf.Function{
		"coalesce": stdlib.CoalesceFunc, "compact": stdlib.CompactFunc, "concat": stdlib.ConcatFunc, "flatten": stdlib.FlattenFunc, "join": stdlib.JoinFunc, "jsondecode": stdlib.JSONDecodeFunc, "keys": stdlib.KeysFunc, "length": stdlib.LengthFunc, "lookup": stdlib.LookupFunc,
		"lower": stdlib.LowerFunc, "merge": stdlib.MergeFunc, "regexall": stdlib.RegexAllFunc, "split": stdlib.SplitFunc, "substr": stdlib.SubstrFunc,
		"tostring": stdlib.MakeToFunc(cty.String), "toset": stdlib.MakeToFunc(cty.Set(cty.DynamicPseudoType)), "trimspace": stdlib.TrimSpaceFunc,
		"trimsuffix": stdlib.TrimSuffixFunc, "try": tryfunc.TryFunc,
		"sha256": text(func(s string) (string, error) {
			sum := sha256.Sum256([]byte(s))
			return hex.EncodeToString(sum[:]), nil
		}),
		"endswith": tf.New(&tf.Spec{
			Params: []tf.Parameter{{Name: "s", Type: cty.String}, {Name: "suffix", Type: cty.String}},
			Type:   tf.StaticReturnType(cty.Bool),
			Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
				return cty.BoolVal(strings.HasSuffix(args[0].AsString(), args[1].AsString())), nil
			},
		}),
		"file": text(func(name string) (string, error) {
			data, err := os.ReadFile(name)
			return string(data), err
		}),
		// Between slashes the second argument is a regular expression.
		"replace": tf.New(&tf.Spec{
			Params: []tf.Parameter{{Name: "s", Type: cty.String}, {Name: "old", Type: cty.String}, {Name: "new", Type: cty.String}},
			Type:   tf.StaticReturnType(cty.String),
			Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
				return stdlib.RegexReplace(args[0], cty.StringVal(strings.Trim(args[1].AsString(), "/")), args[2])
			},
		}),
		"fileset": tf.New(&tf.Spec{
			Params: []tf.Parameter{{Name: "dir", Type: cty.String}, {Name: "pattern", Type: cty.String}},
			Type:   tf.StaticReturnType(cty.Set(cty.String)),
			Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
				dir := filepath.Clean(args[0].AsString())
				files, err := filepath.Glob(filepath.Join(dir, args[1].AsString()))
				names := []cty.Value{}
				for _, f := range files {
					name, err := filepath.Rel(dir, f)
					if err != nil {
						return cty.NilVal, err
					}
					names = append(names, cty.StringVal(filepath.ToSlash(name)))
				}
				if len(names) == 0 {
					return cty.SetValEmpty(cty.String), err
				}
				return cty.SetVal(names), err
			},
		}),
	}
}
