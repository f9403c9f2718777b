//go:build unix

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/caarlos0/env/v11"
	"github.com/firestore-tally/tally/internal/cloud/config"
	"github.com/firestore-tally/tally/internal/tool/appfolder"
	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// schemaFile is the schema of tally.yaml in the repository, where its URL leads.
const schemaFile = "../../docs/tally.schema.json"

// docs/tally.schema.json is what the code says of tally.yaml; -update writes it.
func TestSchema(t *testing.T) {
	known, err := env.GetFieldParams(new(config.Config))
	if err != nil {
		t.Fatal(err)
	}
	variables := make(map[string]string)
	for _, p := range known {
		if strings.HasPrefix(p.Key, "TALLY_") && p.Key != "TALLY_USAGE_FILE" {
			variables[p.Key] = p.DefaultValue
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

// An editor judges a tally.yaml by the schema as Tally does.
func TestSchemaJudges(t *testing.T) {
	schema := jsonschema.NewCompiler().MustCompile(schemaFile)
	page, err := os.ReadFile("../../docs/config.md")
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
