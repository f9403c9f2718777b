package billing_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/cloud/billing"
	"github.com/firestore-tally/tally/internal/cloud/firestorestore"
	"github.com/firestore-tally/tally/internal/test/emulatortest"
)

func TestMain(m *testing.M) { emulatortest.Main(m) }

func TestMeter(t *testing.T) {
	project := emulatortest.Project(t)
	meter := billing.NewMeter(nil)
	client, err := firestorestore.Dial(t.Context(), emulatortest.Addr(t), project, firestore.DefaultDatabaseID, meter.DialOptions()...)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx := t.Context()
	doc := func(i int) *firestore.DocumentRef { return client.Doc(fmt.Sprint("c/", i)) }
	count := func(collection string) error {
		_, err := client.Collection(collection).NewAggregationQuery().WithCount("n").Get(ctx)
		return err
	}
	for _, test := range []struct {
		name string
		do   func() error
		fail bool
		want billing.Counts
		on   billing.Units // on Enterprise
	}{
		{"write", func() error { _, err := doc(0).Set(ctx, map[string]any{"n": 1}); return err }, false, billing.Counts{Writes: 1}, billing.Units{Writes: 1}},
		{"refused write", func() error { _, err := doc(0).Create(ctx, map[string]any{"n": 1}); return err }, true, billing.Counts{}, billing.Units{}},
		{"transaction of two writes and a delete", func() error {
			return client.RunTransaction(ctx, func(_ context.Context, tx *firestore.Transaction) error {
				return errors.Join(tx.Set(doc(1), map[string]any{"n": 1}), tx.Set(doc(2), map[string]any{"n": 1}), tx.Delete(doc(3)))
			})
		}, false, billing.Counts{Writes: 2, Deletes: 1}, billing.Units{Writes: 3}},
		{"get", func() error { _, err := doc(0).Get(ctx); return err }, false, billing.Counts{Reads: 1}, billing.Units{Reads: 1}},
		{"get what is missing", func() error { _, err := doc(9).Get(ctx); return err }, true, billing.Counts{Reads: 1}, billing.Units{Reads: 1}},
		{"query", func() error { _, err := client.Collection("c").Documents(ctx).GetAll(); return err }, false, billing.Counts{Reads: 3}, billing.Units{Reads: 4}},
		{"query of nothing", func() error { _, err := client.Collection("none").Documents(ctx).GetAll(); return err }, false, billing.Counts{Reads: 1}, billing.Units{Reads: 1}},
		{"aggregation", func() error { return count("c") }, false, billing.Counts{Reads: 1}, billing.Units{Reads: 1}},
		{"aggregation of nothing", func() error { return count("none") }, false, billing.Counts{Reads: 1}, billing.Units{Reads: 1}},
		{"list", func() error { _, err := client.Collection("c").DocumentRefs(ctx).GetAll(); return err }, false, billing.Counts{Reads: 3}, billing.Units{Reads: 4}},
		{"delete", func() error { _, err := doc(0).Delete(ctx); return err }, false, billing.Counts{Deletes: 1}, billing.Units{Writes: 1}},
	} {
		before := meter.Usage()
		if err := test.do(); (err != nil) != test.fail {
			t.Fatalf("%s: %v", test.name, err)
		}
		if want, got := before.Add(billing.Usage{Counts: test.want, Units: test.on}), meter.Usage(); got != want {
			t.Errorf("%s: from %+v to %+v, want %+v", test.name, before, got, want)
		}
	}
}

func TestMirror(t *testing.T) {
	name := filepath.Join(t.TempDir(), "usage")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if got, err := billing.ReadFile(name); err != nil || got != (billing.Usage{}) {
		t.Errorf("an empty file: %+v, %v; want nothing counted", got, err)
	}
	keep := billing.Mirror(f)
	for _, want := range []billing.Usage{
		{Counts: billing.Counts{Reads: 1}, Units: billing.Units{Reads: 7}},
		{Counts: billing.Counts{Reads: 123456, Writes: 7, Deletes: 1}, Units: billing.Units{Reads: 8, Writes: 8}},
	} {
		keep(want)
		if got, err := billing.ReadFile(name); err != nil || got != want {
			t.Errorf("got %+v, %v; want %+v", got, err, want)
		}
	}
	if err := os.WriteFile(name, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := billing.ReadFile(name); err == nil || !strings.Contains(err.Error(), name) {
		t.Errorf("garbage: got %v, want an error that names the file", err)
	}
}
