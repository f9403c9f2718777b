//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/cloud/firestorestore"
	"github.com/firestore-tally/tally/internal/test/emulatortest"
	"github.com/firestore-tally/tally/internal/tool/local/emulator"
)

// The plan of a first deployment onto documents of the app's says how many there are, what they
// hold where totals belong, and what that costs. It asks, and lists in most documents stop it.
func TestDeployOntoDocuments(t *testing.T) {
	c := newCloud(t)
	c.firestore = emulatortest.Own(t, emulator.Options{}).Addr()
	t.Setenv("FIRESTORE_EMULATOR_HOST", "")
	store, err := firestorestore.Open(t.Context(), c.firestore, "my-project", firestore.DefaultDatabaseID, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	batch := store.Client().BulkWriter(t.Context())
	for i := range 300 {
		fields := map[string]any{"title": "x", "fans": []any{"ann"}}
		switch i % 3 {
		case 0:
			fields["likes"] = 1234
		case 1:
			fields["likes"] = 0
		}
		if i%10 == 5 {
			fields["likes"] = []any{"ann"}
		}
		_, err := batch.Set(store.Client().Doc(fmt.Sprintf("posts/%03d", i)), fields)
		if err != nil {
			t.Fatal(err)
		}
	}
	batch.End()

	const likes = "posts/{post}/likes/{user} -> posts/{post} : count() as %s : existing"
	c.settings("routes: |\n  " + fmt.Sprintf(likes, "likes"))
	text := c.want(0, "deploy", "--dry-run")
	for _, part := range []string{"300 documents posts/{post}", "of 100 hold likes that no roll-up wrote, such as posts/000: likes is 1234", "another kind of likes, such as posts/005: likes is an array", "up to 300 roll-ups, about $0.00"} {
		if !strings.Contains(text, part) {
			t.Errorf("no %q in\n%s", part, text)
		}
	}
	var plan struct{ Homes []home }
	_, object, _ := strings.Cut(c.want(0, "deploy", "--dry-run", "--json"), "{")
	err = json.Unmarshal([]byte("{"+object), &plan)
	if err != nil || len(plan.Homes) != 1 {
		t.Fatalf("%v, %+v", err, plan.Homes)
	}
	h := plan.Homes[0]
	if h.Documents != 300 || h.Read < 75 || h.Read > 100 || h.RollUps != 300 || h.Dollars <= 0 || h.Totals[0].Unwritten < 15 || h.Totals[0].ForeignKind < 5 {
		t.Errorf("it says %+v", h)
	}

	c.settings("routes: |\n  " + fmt.Sprintf(likes, "fans"))
	for _, flags := range [][]string{{"deploy", "--yes"}, {"deploy", "--dry-run"}, {"deploy", "--dry-run", "--json"}} {
		stopped := c.want(1, flags...)
		if !strings.Contains(stopped, "posts/000: fans is an array") || !strings.Contains(stopped, "give the total another name") {
			t.Errorf("%v says\n%s", flags, stopped)
		}
	}
	if names := c.Names("projects/my-project/locations/us-central1/functions"); len(names) > 0 {
		t.Errorf("it made %v", names)
	}

	c.settings("routes: |\n  " + fmt.Sprintf(likes, "likes"))
	if refused, status := c.tally("deploy"); status == 0 || !strings.Contains(refused, "300 documents") {
		t.Errorf("without an answer: status %d\n%s", status, refused)
	}
	c.want(0, "deploy", "--yes")
	if again := c.want(0, "deploy", "--dry-run"); strings.Contains(again, "documents posts/") {
		t.Errorf("a deployment without new totals says\n%s", again)
	}
}
