package counters

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/cmd/tally/command"
	"github.com/firestore-tally/tally/cmd/tally/session"
	"github.com/firestore-tally/tally/internal/test/emulatortest"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
)

func TestMain(m *testing.M) { emulatortest.Main(m) }

// A check that finds something says what, and is an error.
func TestMigrateChecks(t *testing.T) {
	const routes = "pages/{page}/_counter_shards_/{shard} -> page_totals/{page} : visits, likes"
	const random = "/_counter_shards_/01234567-7f3a-4d4e-9c1b-2f6e0a9d5c11" // of the extension's clients
	project := emulatortest.Project(t)
	client := emulatortest.ClientDatabase(t, project, firestore.DefaultDatabaseID)
	set := func(path string, fields map[string]any) {
		t.Helper()
		_, err := client.Doc(path).Set(t.Context(), fields)
		if err != nil {
			t.Fatal(err)
		}
	}
	set("pages/a", map[string]any{"visits": 1000, "likes": 10})
	set("pages/b", map[string]any{"visits": 7})
	set("pages/a"+random, map[string]any{"visits": 1})

	meanwhile := func(ctx context.Context, s *session.Session) {
		coalescer := rollup.NewCoalescer(s.Store, rollup.Options{Cadence: time.Millisecond, Timeout: time.Minute, Logger: slog.New(slog.DiscardHandler)})
		a, _ := s.Config.Routes[0].Belongs("pages/a/_counter_shards_/0", nil) // but the other is not rolled up
		_, err := coalescer.HandleEvent(ctx, rollup.Event{ID: "event"}, route.Concern{Counter: a})
		if err != nil {
			t.Fatal(err)
		}
		set("pages/b"+random, map[string]any{"visits": 3})
		set("pages/a", map[string]any{"visits": 1003, "likes": 10})
	}
	var out, logs bytes.Buffer
	c := session.Command{Writes: true, Run: func(ctx context.Context, s *session.Session, _ []string) error {
		s.Config.FunctionTimeout = 1 // too short for a grace
		m := migrationRun{Session: s, concurrency: 2}
		plan, err := m.scan(ctx, "")
		if err != nil {
			return err
		}
		m.plan = plan
		err = m.work(ctx)
		if err != nil {
			return err
		}

		meanwhile(ctx, s)
		after, err := m.scan(ctx, "")
		if err != nil {
			return err
		}
		err = m.check(ctx, after)
		if !errors.Is(err, errMigrated) || !errors.Is(err, errDiffering) {
			t.Errorf("checked: %v", err)
		}
		return err
	}}.Define(command.New("migrate"))
	c.SetArgs([]string{"--project", project, "--routes", routes})
	c.SetOut(&out)
	c.SetErr(&logs)
	err := c.ExecuteContext(t.Context())
	if err == nil {
		t.Error("the command ended without an error")
	}

	for _, want := range []string{
		"DIFFERENT: pages/a: visits is 3 more than was carried from it\nexact      1 of 2 documents\n",
		"moved      2 documents meanwhile, by visits 6\nwritten    1 shard with random ids, by apps that still do; they count, and the next run folds them\n",
		"roll-ups   2, of which 1 differ from their shards\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("want %s in\n%s\n%s", want, &out, &logs)
		}
	}
}
