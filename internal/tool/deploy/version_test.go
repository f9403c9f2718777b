package deploy

import "testing"

// A version survives the label of a function; what a label cannot hold is no known version.
func TestVersionLabel(t *testing.T) {
	for _, test := range []struct{ version, label string }{
		{"v1.2.3", "v1_2_3"},
		{"v1.2.3-rc.1", "v1_2_3-rc_1"},
		{"v0.0.0-20261123062119-0c8d977aaaaa+dirty", "v0_0_0-20261123062119-0c8d977aaaaa__dirty"},
		{"v1.2.3-4-g5f3a2c1-dirty", "v1_2_3-4-g5f3a2c1-dirty"},
		{"", noVersion},
		{"V1", noVersion},
		{"release_1", noVersion}, // another's tag
		{"v1.2.3-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", noVersion},
	} {
		if got := (&Upload{Version: test.version}).VersionLabel(); got != test.label {
			t.Errorf("%q: label %q, want %q", test.version, got, test.label)
		}
		want := test.version
		if test.label == noVersion {
			want = ""
		}
		if got, _ := deployed(test.label, "").Built(); got != want {
			t.Errorf("label %q: version %q, want %q", test.label, got, want)
		}
	}
}

// deployed returns what is deployed with a function of that version and source.
func deployed(label, hash string) *Project {
	return &Project{Functions: []Object{{"name": "projects/p/locations/us-central1/functions/" + OnWriteName,
		"labels": map[string]any{"tally": "on-write", versionLabel: label, sourceLabel: hash}}}}
}
