package rules

import (
	"encoding/json"
	"os"
	"slices"
	"testing"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/google/go-cmp/cmp"
)

// firebase.json, which "firebase deploy" reads, is JSON and names files that are there.
func TestFirebaseJSON(t *testing.T) {
	var config struct {
		Firestore struct{ Rules, Indexes string }
	}
	read(t, "firebase.json", &config)
	if _, err := os.Stat("../../" + config.Firestore.Rules); err != nil {
		t.Errorf("firestore.rules of firebase.json: %v", err)
	}
	var indexes struct {
		FieldOverrides []struct {
			CollectionGroup, FieldPath string
			Indexes                    []any
		}
	}
	read(t, config.Firestore.Indexes, &indexes)
	var exempt []string
	for _, o := range indexes.FieldOverrides {
		if o.Indexes == nil || len(o.Indexes) > 0 {
			t.Errorf("%s.%s: indexes %v, want none, said as []", o.CollectionGroup, o.FieldPath, o.Indexes)
		}
		exempt = append(exempt, o.CollectionGroup+"."+o.FieldPath)
	}
	slices.Sort(exempt)
	want := []string{document.TokensCollection + ".expire_at", "rollups." + document.TallyField}
	if diff := cmp.Diff(want, exempt); diff != "" {
		t.Errorf("fields without an index (-want +got):\n%s", diff)
	}
}

func read(t *testing.T, name string, v any) {
	t.Helper()
	data, err := os.ReadFile("../../" + name)
	if err == nil {
		err = json.Unmarshal(data, v)
	}
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}
