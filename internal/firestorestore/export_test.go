package firestorestore

import "time"

// SetClock replaces time.Now. It is called before the store is used.
func (s *Store) SetClock(now func() time.Time) { s.now = now }

// After returns the id that follows an id, if one does.
var After = after
