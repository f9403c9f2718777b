package schedule

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/rollup/internal/note"
	"github.com/firestore-tally/tally/rollup/internal/roll"
	"github.com/firestore-tally/tally/rollup/route"
)

// A walk whose page could not be read goes on from there, also if a note cuts its lap.
func TestNoteLeavesFailedWalks(t *testing.T) {
	a := cycle{o: new(AuditOptions), takes: 24 * time.Hour, noted: looked, cursor: Cursor{ReadTime: looked}}
	lap := Lap{Began: looked.Add(-13 * time.Hour)}
	places := []Place{{From: "failed", Failed: true}, {From: "half", Last: 7}, {Done: true}}
	a.beginLap(&lap, places)
	if !lap.Began.Equal(looked) || places[0] != (Place{From: "failed"}) || places[1] != (Place{Last: 7}) || places[2].Done {
		t.Errorf("the lap began at %v, with %+v", lap.Began, places)
	}
}

// A call that comes a little sooner than the one before begins the lap all the same.
func TestCallALittleSooner(t *testing.T) {
	a := cycle{takes: time.Hour, cursor: Cursor{ReadTime: looked}, o: &AuditOptions{Every: 10 * time.Minute}}
	for ago, want := range map[time.Duration]bool{time.Hour - 10*time.Second: true, 54 * time.Minute: false} {
		due, hurried := a.lapIsDue(&Lap{Began: looked.Add(-ago)})
		if due != want || hurried {
			t.Errorf("%v after the last lap began: due %v, hurried %v", ago, due, hurried)
		}
	}
}

// A cursor with fewer places than there are walks now, as another version wrote it, is new.
func TestCursorOfAnotherVersion(t *testing.T) {
	routes := route.Routes{decideBy}
	for _, n := range []int{0, places(routes)} {
		a := cycle{o: new(AuditOptions), routes: routes, cursor: Cursor{Routes: routes.String(), Places: make([]Place, n), ReadTime: looked, UpdateTime: looked}}
		a.adapt()
		if isNew := a.cursor.New.Equal(looked); isNew != (n == 0) {
			t.Errorf("%d places: new %v", n, isNew)
		}
	}
}

// A noteStore has one note.
type noteStore struct {
	Store
	note note.Note
}

func (s noteStore) Notes(context.Context, string, int) ([]note.Note, error) {
	return []note.Note{s.note}, nil
}

// A note that names counters, such as that of an unkept one, makes no lap due.
func TestNoteOfNamesMakesNoLap(t *testing.T) {
	for _, counters := range []map[string]time.Time{{"rollups/a": looked}, nil} {
		store := noteStore{note: note.Note{ID: document.NotePrefix + "counters", Counters: counters, UpdateTime: looked}}
		roller := roll.New(store, roll.Options{Timeout: time.Second, Logger: slog.New(slog.DiscardHandler)})
		a := audit{examiner: examiner{Roller: roller, store: store}}
		a.loadNotes(t.Context())
		if all := !a.noted.IsZero(); all != (counters == nil) {
			t.Errorf("a note of %v is about all: %v", counters, all)
		}
	}
}

// A note begins a lap an hour after the last one began, or half of a cycle if that is longer.
func TestNoteWaits(t *testing.T) {
	for _, test := range []struct {
		takes, ago time.Duration
		want       bool
	}{
		{time.Hour, 59 * time.Minute, false},
		{time.Hour, time.Hour, true},
		{24 * time.Hour, 11 * time.Hour, false},
		{24 * time.Hour, 12 * time.Hour, true},
	} {
		a := cycle{o: new(AuditOptions), takes: test.takes, noted: looked, cursor: Cursor{ReadTime: looked}}
		due, _ := a.lapIsDue(&Lap{Began: looked.Add(-test.ago)})
		if due != test.want {
			t.Errorf("in a cycle of %v, %v after the last lap began: due %v", test.takes, test.ago, due)
		}
	}
}
