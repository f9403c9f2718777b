//go:build unix

package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/firestore-tally/tally/internal/cloud/config"
	"github.com/firestore-tally/tally/internal/tool/appfolder"
	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// schemaFile is the schema of tally.yaml in the repository, where its URL leads, and configPage the
// page about it.
const (
	schemaFile = "../../docs/tally.schema.json"
	configPage = "../../docs/config.md"
)

// docs/tally.schema.json is what the code says of tally.yaml; -update writes it.
func TestSchema(t *testing.T) {
	variables := make(map[string]reflect.StructTag)
	for _, f := range reflect.VisibleFields(reflect.TypeFor[config.Config]()) {
		name := f.Tag.Get("env")
		if strings.HasPrefix(name, "TALLY_") && name != "TALLY_USAGE_FILE" {
			variables[name] = f.Tag
		}
	}
	want, err := appfolder.Schema(variables)
	if err != nil {
		t.Fatal(err)
	}

	if *update {
		write(t, schemaFile, want)
	}
	got, err := os.ReadFile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), string(got)); d != "" {
		t.Errorf("docs/tally.schema.json differs from the code; -update writes it (-want +got):\n%s", d)
	}
	if !strings.HasSuffix(appfolder.SchemaURL, strings.TrimPrefix(schemaFile, "../..")) {
		t.Errorf("%s does not lead to %s", appfolder.SchemaURL, schemaFile)
	}
}

// The lists of docs/config.md are what the code says of each key, and of each variable that is no
// key; -update writes them.
func TestConfigPage(t *testing.T) {
	var keys, variables strings.Builder
	known := make(map[string]bool)
	for _, f := range reflect.VisibleFields(reflect.TypeFor[appfolder.Settings]()) {
		key := f.Tag.Get("yaml")
		known["TALLY_"+strings.ToUpper(key)] = true
		fmt.Fprintf(&keys, "- `%s`: %s\n", key, f.Tag.Get("means"))
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[config.Config]()) {
		name, byDefault, means := f.Tag.Get("env"), f.Tag.Get("envDefault"), f.Tag.Get("means")
		if known[name] != (means == "") {
			t.Errorf("%s: the description is %q; it wants one if it is no key of tally.yaml", name, means)
		}
		if byDefault != "" {
			byDefault = "=" + byDefault
		}
		if means != "" {
			fmt.Fprintf(&variables, "- `%s%s`: %s\n", name, byDefault, means)
		}
	}

	got, err := os.ReadFile(configPage)
	if err != nil {
		t.Fatal(err)
	}
	lists := regexp.MustCompile("(?m)(?:^- `.*\n)+")
	if n := len(lists.FindAll(got, -1)); n != 2 {
		t.Fatalf("docs/config.md has %d lists that begin with code, want that of keys and that of variables", n)
	}
	made := []string{keys.String(), variables.String()}
	want := lists.ReplaceAllStringFunc(string(got), func(string) string {
		list := made[0]
		made = made[1:]
		return list
	})

	if *update {
		write(t, configPage, []byte(want))
		return
	}
	if d := cmp.Diff(want, string(got)); d != "" {
		t.Errorf("docs/config.md differs from the code; -update writes it (-want +got):\n%s", d)
	}
}

// An editor judges a tally.yaml by the schema as Tally does.
func TestSchemaJudges(t *testing.T) {
	schema := jsonschema.NewCompiler().MustCompile(schemaFile)
	page, err := os.ReadFile(configPage)
	if err != nil {
		t.Fatal(err)
	}
	example := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindSubmatch(page)[1]
	for _, test := range []struct {
		text string
		want bool
	}{
		{string(example), true},
		{"routes:\n- 'a/{a}/b/{b} -> c/{a} : n'\ncadence: 1s\nregion: us-east1\nbilling: instance\nmin_instances: 1\nmax_instances: 3\nalerts: me@example.com", true},
		{"env:\n  TALLY_BURST: 3", true},
		{"routes: [[a]]", false},
		{"route: x", false},
		{"databases: orders", false},
		{"region: us-central1-a", false},
		{"billing: never", false},
		{"min_instances: some", false},
		{"max_instances: 0", false},
		{"max_instances: many", false},
		{"alerts: 5", false},
		{"env:\n  LD_PRELOAD: x", false},
		{"env:\n  OTEL_SERVICE_NAME: x", false},
		{"env:\n  TALLY_BURST: [3]", false},
	} {
		dir := t.TempDir()
		write(t, filepath.Join(dir, appfolder.FileName), []byte(test.text))
		if _, err := appfolder.Find(dir, ""); (err == nil) != test.want {
			t.Errorf("%s: Tally: %v; want it taken: %v", test.text, err, test.want)
		}
		text, err := yaml.YAMLToJSON([]byte(test.text))
		if err != nil {
			t.Fatal(err)
		}
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(value); (err == nil) != test.want {
			t.Errorf("%s: the schema: %v; want it taken: %v", test.text, err, test.want)
		}
	}
}
