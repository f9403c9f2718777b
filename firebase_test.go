package tally

import (
	"encoding/json"
	"os"
	"testing"
)

// firebase.json, which "firebase deploy" reads, is JSON and names files that are there.
func TestFirebaseJSON(t *testing.T) {
	var config struct {
		Firestore struct{ Rules, Indexes string }
	}
	read(t, "firebase.json", &config)
	if _, err := os.Stat(config.Firestore.Rules); err != nil {
		t.Errorf("firestore.rules of firebase.json: %v", err)
	}
	read(t, config.Firestore.Indexes, new(map[string]any))
}

func read(t *testing.T, name string, v any) {
	t.Helper()
	data, err := os.ReadFile(name)
	if err == nil {
		err = json.Unmarshal(data, v)
	}
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}
