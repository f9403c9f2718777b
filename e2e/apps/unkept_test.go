package apps

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/GoogleCloudPlatform/functions-framework-go/functions"
	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/test/emulatortest"
	"github.com/firestore-tally/tally/internal/tool/local/eventrelay"
)

// Functions that count likes in posts.
const (
	fullWrite = "FullWrite"
	fullTick  = "FullTick"
)

func registerFull() {
	p := newProcesses("TALLY_ROUTES=posts/{post}/likes/{user} -> posts/{post} : count() as likes : existing", "TALLY_CADENCE=200ms", "TALLY_HOLD_LIMIT=50s") // no event comes again because the machine is busy
	functions.HTTP(fullWrite, p.OnWrite)
	functions.HTTP(fullTick, p.OnSchedule)
}

// A post of 1 MiB has no room for its totals. Its events are acknowledged, and not delivered again;
// ticks succeed and name it; another post is counted. When it has room again, the next tick counts.
func TestFullPost(t *testing.T) {
	t.Parallel()
	w := newDatabase(t, emulatortest.Project(t), "(default)", fullWrite, eventrelay.Faults{}, "posts/{post}/likes/{user}")
	const most = 1 << 20 // bytes of a document: https://firebase.google.com/docs/firestore/quotas#collections_documents_and_fields
	w.set("posts/full", map[string]any{"text": strings.Repeat("x", most-100)})
	w.set("posts/other", map[string]any{"text": "x"})
	for i := range 20 {
		w.set(fmt.Sprint("posts/full/likes/", i), map[string]any{})
	}
	w.set("posts/other/likes/ann", map[string]any{})
	w.wantLikes("posts/other", 1)

	ctx, cancel := context.WithTimeout(t.Context(), emulatortest.Eventually())
	defer cancel()
	if err := w.relay.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	if s := w.relay.Stats(); s.Redelivered > 0 {
		t.Errorf("events of a full post came again: %+v", s)
	}
	if logs.lines(`"severity":"ERROR"`, "counter unkept", `"counter":"posts/full"`, "maximum") == nil {
		t.Error("no log line says why the post is not counted")
	}

	report, err := tick(t.Context(), fullTick, w.project(), "")
	if err != nil || report.Unkept != 1 || len(report.UnkeptCounters) != 1 || !strings.HasPrefix(report.UnkeptCounters[0], "posts/full: ") {
		t.Errorf("tick: %+v, %v", report.Report, err)
	}

	w.set("posts/full", map[string]any{"text": "short"})
	report, err = tick(t.Context(), fullTick, w.project(), "")
	if err != nil || report.Unkept != 0 || report.RolledUp != 1 {
		t.Errorf("tick with room again: %+v, %v", report.Report, err)
	}
	w.wantLikes("posts/full", 20)
}

// wantLikes waits until a post has that many likes.
func (w *database) wantLikes(post string, want int64) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), emulatortest.Eventually())
	defer cancel()
	again := time.NewTicker(askAgain)
	defer again.Stop()
	for ; ; <-again.C {
		doc, err := w.client.Doc(post).Get(ctx)
		if err != nil {
			w.t.Fatalf("%s does not have %d likes: %v", post, want, err)
		}
		if tally := document.DecodeTally(doc.Data()[document.TallyField]); doc.Data()["likes"] == want && tally.NumShards == want {
			return
		}
	}
}

// project is the database's.
func (w *database) project() string {
	_, rest, _ := strings.Cut(w.client.Doc("a/b").Path, "/")
	project, _, _ := strings.Cut(rest, "/")
	return project
}
