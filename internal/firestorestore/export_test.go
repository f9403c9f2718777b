package firestorestore

import "time"

// SetClock replaces time.Now. It is called before the store is used.
func (s *Store) SetClock(now func() time.Time) { s.now = now }
