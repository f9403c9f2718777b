package rules

import (
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/firestore-tally/tally/internal/cloud/firestorestore"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A user edits a post, and in the same write num_shards from 2 to 2.0, which are equal to rules.
// Where an app's rules let that through, no audit takes it for drift.
func TestDoubleNumShards(t *testing.T) {
	t.Parallel()
	const r = "posts/{post}/likes/{user} -> posts/{post} : count() as likes : existing"
	routes, err := route.Parse(r)
	if err != nil {
		t.Fatal(err)
	}
	d := newDatabase(t, map[string]fields{"posts/p": {"title": "p"}, "posts/p/likes/ann": {}, "posts/p/likes/bob": {}})
	audit := func() rollup.Report { return audited(t, d, routes) }
	if report := audit(); report.RolledUp != 1 {
		t.Fatalf("the first audit: %+v, want a roll-up", report)
	}

	edit := merge("posts/p", fields{"title": "edited", "tally": fields{"num_shards": 2.0}}, "title", "tally.num_shards")
	block := rulesCode(t)["Totals in the app's own documents"][0]
	d.setRules(withBlocks(t, firestoreRules(t), block))
	if err := d.commit(ann, edit); status.Code(err) != codes.PermissionDenied {
		t.Errorf("by the rules of the page: %v, want PermissionDenied", err)
	}
	d.setRules(withBlocks(t, firestoreRules(t), strings.ReplaceAll(block, "keepsInt(['tally', 'num_shards'])", "true")))
	if err := d.commit(ann, edit); err != nil {
		t.Fatal(err)
	}
	doc, err := d.api.GetDocument(server.context(t.Context()), &firestorepb.GetDocumentRequest{Name: d.path("posts/p")})
	if err != nil {
		t.Fatal(err)
	}
	if n, ok := doc.Fields["tally"].GetMapValue().GetFields()["num_shards"].GetValueType().(*firestorepb.Value_DoubleValue); !ok || n.DoubleValue != 2 {
		t.Fatalf("num_shards is %v, want 2.0", doc.Fields["tally"].GetMapValue().GetFields()["num_shards"])
	}
	if report := audit(); report.Drift != 0 || report.Unchanged != 1 {
		t.Errorf("the audit after the edit: %+v, want no drift", report)
	}
}

// audited audits all counters of the routes, and so rolls up those that need it.
func audited(t *testing.T, d *database, routes route.Routes) rollup.Report {
	t.Helper()
	store, err := firestorestore.Open(t.Context(), os.Getenv(firestorestore.EmulatorHost), d.project, firestore.DefaultDatabaseID, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	report, err := rollup.Audit(t.Context(), store, routes, rollup.AuditOptions{
		Options:     rollup.Options{Cadence: time.Second, Timeout: time.Minute, Logger: slog.New(slog.DiscardHandler)},
		Concurrency: 4, Grace: time.Millisecond, FromFirst: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	return report
}
