package deploy

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Terraform makes what the description says, by arguments that Google's provider takes, each thing
// after what it needs. Where the provider can be had, Terraform itself says so:
//
//	tally deploy --terraform --new --project my-project > main.tf.json && terraform init && terraform validate
func TestTerraform(t *testing.T) {
	const routes = "counters/{c}/shards/{s} -> rollups/{c} : count; 数/{b}/`a%$`/{s} -> r/{b} : n-x, `${m}` : documents; 表/{c}/s/{s} -> r/{c} : n; " +
		"d/{d}/s/{s} -> d/{d}/r/x : n : documents; increment_tokens/{s} -> f/x : expire_at : every 1m; " +
		"`数%`/{o} by x.id -> u/{x.id} : sum(n) as n, latest(`%{at}`) where `${paid}` == true as at : existing"
	for _, test := range []struct {
		name, email string
		change      func(*Options)
		notes       []string
	}{
		{name: "usual", change: func(o *Options) {}},
		{
			name: "all", email: "1-me+${x}%{y}@example.com",
			change: func(o *Options) {
				o.Env = map[string]string{"TALLY_TELEMETRY": "gcp", "X": "${HOME} $${x} %{if} $5"}
				o.Config.HoldLimit = 30 * time.Second
				for i := range 12 { // more than a condition of IAM takes
					o.Databases = append(o.Databases, Database{fmt.Sprint("database-", i), "nam5"})
				}
				o.Billing = ByInstance
			},
			notes: []string{"--no-cpu-throttling", `update "$(gcloud eventarc triggers describe tally-counters-shards-78fea5 `, "--ack-deadline=32", "--expiration-period=never"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := options(t, routes)
			test.change(&o)
			o.AlertEmail = test.email
			describe := func(have *State) *Description {
				d, err := Describe(o, have, "abc")
				if err != nil {
					t.Fatal(err)
				}
				return d
			}
			text, notes, err := describe(newState("p")).Terraform("../../..")
			if err != nil {
				t.Fatal(err)
			}
			c := readConfiguration(t, text)
			c.checkArguments()
			c.checkOrder()
			unseen, _ := NewProject("p", nil, "") // whose number is Placeholder, which c.text has for what Google gives
			noted := c.checkDescription(describe(unseen))
			all := strings.Join(notes, "\n")
			if commands := strings.Count(all, "\n  gcloud ") - 1; commands != noted { // but for that before the first apply
				t.Errorf("%d commands after each apply, want %d:\n%s", commands, noted, all)
			}
			for _, note := range test.notes {
				if !strings.Contains(all, note) {
					t.Errorf("no note of %s:\n%s", note, all)
				}
			}
		})
	}
}

// A configuration is Terraform's.
type configuration struct {
	*testing.T
	blocks    map[string]block             // by address, such as "data.google_project.project"
	needs     map[string][]string          // addresses that a block refers to, or depends on
	arguments map[string]map[string]string // of the provider: types by path and name, with ! before what is required
}

func readConfiguration(t *testing.T, text []byte) *configuration {
	t.Helper()
	var top struct{ Resource, Data map[string]map[string]block }
	if err := json.Unmarshal(text, &top); err != nil {
		t.Fatal(err)
	}
	c := &configuration{T: t, blocks: make(map[string]block), needs: make(map[string][]string), arguments: make(map[string]map[string]string)}
	for prefix, kinds := range map[string]map[string]map[string]block{"": top.Resource, "data.": top.Data} {
		for kind, blocks := range kinds {
			for name, b := range blocks {
				if !regexp.MustCompile(`^[A-Za-z_][\w-]*$`).MatchString(name) {
					t.Errorf("%s cannot be named %q", kind, name)
				}
				c.blocks[prefix+kind+"."+name] = b
			}
		}
	}
	data, err := os.ReadFile("testdata/terraform.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		at, list, _ := strings.Cut(line, ":")
		if strings.HasPrefix(line, "#") {
			continue
		}
		c.arguments[at] = make(map[string]string)
		for argument := range strings.FieldsSeq(list) {
			name, kind, _ := strings.Cut(argument, ":")
			if base, ok := strings.CutSuffix(name, "!"); ok {
				name, kind = base, "!"+kind
			}
			c.arguments[at][name] = kind
		}
	}
	return c
}

// kind returns the type of the block at the address.
func kind(address string) string { return strings.TrimSuffix(address, path.Ext(address)) }

// template is what is not literal in a text: an escape, an expression of those that are used, or an
// error.
var template = regexp.MustCompile(`\$\$\{|%%\{|\$\{(?:each\.value|path\.module|toset\(\[[^$]*\]\)|file\("\$\{var\.clone\}/[^$"]+"\)|((?:data\.)?\w+\.[\w-]+)\.([\w.[\]]+))\}|[$%]\{`)

// text returns what a text of the block at the address is, with Placeholder for what only Google
// knows.
func (c *configuration) text(address, text string) string {
	return template.ReplaceAllStringFunc(text, func(s string) string {
		switch m := template.FindStringSubmatch(s); {
		case s == "$${" || s == "%%{":
			return s[1:]
		case s == "${" || s == "%{":
			c.Errorf("%s: not escaped: %s", address, text)
		case m[1] != "":
			c.needs[address] = append(c.needs[address], m[1])
			if value, ok := c.blocks[m[1]][m[2]].(string); ok {
				return c.text(m[1], value)
			}
			attribute := strings.ReplaceAll(m[2], "[0]", "")
			at, name := kind(m[1]), attribute
			if i := strings.LastIndex(attribute, "."); i >= 0 {
				at, name = at+"."+attribute[:i], attribute[i+1:]
			}
			if c.arguments[at][name] != "computed" {
				c.Errorf("%s: there is no %s", address, s)
			}
			return Placeholder
		}
		return s
	})
}

// checkArguments checks that the provider takes what the configuration says.
func (c *configuration) checkArguments() {
	var check func(at string, b block)
	check = func(at string, b block) {
		if c.arguments[at] == nil {
			c.Errorf("there is no %s", at)
		}
		for name, kind := range c.arguments[at] {
			if strings.HasPrefix(kind, "!") && b[name] == nil {
				c.Errorf("%s has no %s", at, name)
			}
		}
		for name, value := range b {
			kind, ok := c.arguments[at][name]
			if !ok && !(strings.Count(at, ".") == 0 && slices.Contains([]string{"depends_on", "for_each", "provider"}, name)) {
				c.Errorf("%s takes no %s", at, name)
			}
			var err error
			switch kind = strings.TrimPrefix(kind, "!"); kind {
			case "block":
				inner, isBlock := value.(block)
				if ok = isBlock; ok {
					check(at+"."+name, inner)
				}
			case "blocks":
				list, isList := value.([]any)
				for _, element := range list {
					check(at+"."+name, element.(block))
				}
				ok = isList
			case "map":
				_, ok = value.(block)
			case "list":
				_, ok = value.([]any)
			case "bool":
				_, err = strconv.ParseBool(fmt.Sprint(value))
			case "number":
				_, err = strconv.ParseFloat(fmt.Sprint(value), 64)
			case "":
				_, ok = value.(string)
			default:
				ok = slices.Contains(strings.Split(kind, "|"), fmt.Sprint(value))
			}
			if !ok && c.arguments[at][name] != "" || err != nil {
				c.Errorf("%s.%s is %v, want %s", at, name, value, kind)
			}
		}
	}
	for address, b := range c.blocks {
		check(kind(address), b)
	}
}

// checkOrder checks that what a block needs is there, and made before it.
func (c *configuration) checkOrder() {
	for address, b := range c.blocks {
		c.object(address, b)
		depends, _ := b["depends_on"].([]any)
		for _, d := range depends {
			c.needs[address] = append(c.needs[address], d.(string))
		}
	}
	before := make(map[string]map[string]bool) // all that is made before
	var visit func(string) map[string]bool
	visit = func(address string) map[string]bool {
		if all, ok := before[address]; ok {
			if all == nil {
				c.Fatalf("%s needs itself", address)
			}
			return all
		}
		if c.blocks[address] == nil {
			c.Fatalf("there is no %s", address)
		}
		before[address] = nil
		all := make(map[string]bool)
		for _, needed := range c.needs[address] {
			all[needed] = true
			maps.Copy(all, visit(needed))
		}
		before[address] = all
		return all
	}
	wait := func(what string, are ...string) {
		for address := range c.blocks {
			if kind(address) != what {
				continue
			}
			for needed := range c.blocks {
				if slices.Contains(are, kind(needed)) && !visit(address)[needed] {
					c.Errorf("%s does not wait for %s", address, needed)
				}
			}
		}
	}
	for address := range c.blocks {
		if k := kind(address); k != "google_project_service" && !strings.HasPrefix(k, "data.") {
			wait(k, "google_project_service")
		}
	}
	wait("google_project_iam_member", accountType, "google_project_service_identity")
	wait("google_service_account_iam_member", accountType, "google_project_service_identity")
	wait("google_artifact_registry_repository_iam_member", accountType, repositoryType)
	wait(functionType, "google_project_iam_member", "google_artifact_registry_repository_iam_member", "google_storage_bucket_object")
	wait("google_cloud_run_v2_service_iam_member", accountType, functionType)
	wait(triggerType, "google_service_account_iam_member", "google_cloud_run_v2_service_iam_member")
	wait(jobType, "google_cloud_run_v2_service_iam_member")
	wait(alertType, channelType, metricType)
	for address := range c.blocks {
		if visit(address); kind(address) != fieldType && slices.ContainsFunc(c.needs[address], func(a string) bool { return kind(a) == fieldType }) {
			c.Errorf("%s waits for a time to live", address)
		}
	}
}

// object returns what the block at the address says, as an API of Google's has it.
func (c *configuration) object(address string, value any) any {
	switch v := value.(type) {
	case string:
		return c.text(address, v)
	case []any:
		var all []any
		for _, element := range v {
			all = append(all, c.object(address, element))
		}
		return all
	case block:
		o := make(Object)
		for name, inner := range v {
			if b, ok := inner.(block); ok && (strings.HasSuffix(name, "labels") || name == "environment_variables") {
				literal := make(Object)
				for key, text := range b {
					literal[key] = c.text(address, text.(string))
				}
				inner = literal
			}
			if literal, ok := inner.(Object); ok {
				o[camelCase(name)] = literal
				continue
			}
			o[camelCase(name)] = c.object(address, inner)
		}
		return o
	}
	return value
}

func camelCase(name string) string {
	return regexp.MustCompile("_[a-z]").ReplaceAllStringFunc(name, func(s string) string { return strings.ToUpper(s[1:]) })
}
