package note

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/firestore-tally/tally/rollup/internal/roll"
)

// A note that others write all the time is given up.
func TestNoteIsGivenUp(t *testing.T) {
	store := new(contendedStore)
	err := editNote(t.Context(), store, noteCounters, func(names map[string]time.Time) bool { names["rollups/a"] = time.Unix(1, 0); return true })
	if !errors.Is(err, roll.ErrConflict) || store.saves != noteTries {
		t.Errorf("%d tries: %v", store.saves, err)
	}
}

// A contendedStore has one note, and refuses every write.
type contendedStore struct {
	Store
	note  Note
	saves int
}

func (s *contendedStore) LoadNote(context.Context, string) (Note, error) { return s.note, nil }
func (s *contendedStore) SaveNote(context.Context, Note) error {
	s.saves++
	if s.saves > 10 {
		return errors.New("too often")
	}
	return roll.ErrConflict
}
