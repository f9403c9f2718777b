package rollup_test

import (
	"bytes"
	"log/slog"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/test/memstore"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
)

// An audit explains a difference by the totals that differ, and by no others.
func TestAuditExplains(t *testing.T) {
	routes, err := route.Parse("posts/{post}/ratings/{user} -> posts/{post} : count() as n, stars, average(stars) as rating, maximum(stars) as best, latest(at) as last : existing")
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		var s memstore.Store
		at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		rollUp := func(post string, numShards int64, totals map[string]any) {
			fields := map[string]any{document.TallyField: document.Tally{AsOf: s.Now(), NumShards: numShards, Routes: routes[0].Template.Hash(), Totals: routes[0].Template.Totals()}.Encode()}
			maps.Copy(fields, totals)
			s.Put("posts/"+post, fields)
			s.Put("posts/"+post+"/ratings/ann", map[string]any{"stars": int64(4), "at": at})
		}
		rollUp("right", 1, map[string]any{"n": int64(1), "stars": int64(4), "rating": 4.0, "best": int64(4), "last": at})
		rollUp("some", 1, map[string]any{"n": int64(1), "stars": int64(3), "rating": 4.0, "best": nil, "last": at.Add(time.Hour)})
		rollUp("lacks", 1, map[string]any{"n": int64(1), "stars": int64(4), "best": int64(4), "last": at})
		rollUp("none", 0, map[string]any{"n": int64(0), "stars": int64(4), "rating": 4.0, "best": int64(4), "last": at})
		rollUp("fewer", 2, map[string]any{"n": int64(1), "stars": int64(4), "rating": 4.0, "best": int64(4), "last": at})

		var log bytes.Buffer
		o := rollup.AuditOptions{Options: rollup.Options{Cadence: time.Second, Timeout: time.Minute, Logger: slog.New(slog.NewTextHandler(&log, nil))}, Concurrency: 1, Grace: time.Second, DryRun: true}
		if report, err := rollup.Audit(t.Context(), &s, routes, o); err != nil || report.Differing != 4 {
			t.Errorf("%+v, %v; want 4 that differ", report, err)
		}
		for post, want := range map[string]string{
			"some":  `"best null → 4, last 2026-01-02T04:04:05Z → 2026-01-02T03:04:05Z, stars 3 → 4"`,
			"lacks": `"rating none → 4"`,
			"none":  `"n 0 → 1, tally.num_shards 0 → 1"`,
			"fewer": `"tally.num_shards 2 → 1"`,
		} {
			if line := "counter=posts/" + post + " differs=" + want + " num_shards="; !strings.Contains(log.String(), line) {
				t.Errorf("no %q in\n%s", line, &log)
			}
		}
	})
}
