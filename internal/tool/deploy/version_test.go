package deploy

import (
	"strings"
	"testing"
	"time"
)

// deployed returns what is deployed with a function of that runtime and source.
func deployed(runtime, hash string) *Project {
	return &Project{Functions: []Object{{"name": "projects/p/locations/us-central1/functions/" + OnWriteName,
		"buildConfig": map[string]any{"runtime": runtime}, "labels": map[string]any{"tally": "on-write", sourceLabel: hash}}}}
}

// The source tells whether the functions would be replaced, not the version.
func TestVersions(t *testing.T) {
	own := &Upload{Version: "v1.2.3", Hash: "1"}
	for want, p := range map[string]*Project{
		"nothing is deployed; this tally is version v1.2.3":                                                 {},
		"the functions have the source of this tally, version v1.2.3":                                       deployed("go126", "1"),
		"the functions' source differs from that of this tally, version v1.2.3: tally deploy replaces them": deployed("go126", "2"),
	} {
		if got := own.Versions(p); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// Some months before a runtime is deprecated, and from then on, that is said.
func TestDeprecated(t *testing.T) {
	at, err := time.Parse(time.DateOnly, known().Runtimes["go126"])
	if err != nil {
		t.Fatal(err)
	}
	const day = 24 * time.Hour
	for _, test := range []struct {
		runtime string
		after   time.Duration
		want    string
	}{
		{"go126", -91 * day, ""},
		{"go126", -90 * day, "Google deprecates the functions' runtime go126 on "},
		{"go126", -time.Second, "Google deprecates the functions' runtime go126 on "},
		{"go126", 0, "Google deprecates the functions' runtime go126 on "},
		{"go199", 0, ""},
	} {
		got := deployed(test.runtime, "").Deprecated(at.Add(test.after))
		if !strings.HasPrefix(got, test.want) || (got == "") != (test.want == "") {
			t.Errorf("%s, %v after: %q, want %q", test.runtime, test.after, got, test.want)
		}
	}
	if got := new(Project).Deprecated(at); got != "" {
		t.Errorf("nothing is deployed: %q", got)
	}
	if known().Runtimes[manifest{}.Runtime()] == "" {
		t.Error("the runtime that is deployed has no date")
	}
}
