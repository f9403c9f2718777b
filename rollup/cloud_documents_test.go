package rollup_test

import (
	"fmt"
	"time"

	"github.com/firestore-tally/tally/rollup"
)

// layOut draws the routes of a run: one source or two, and roll-ups of Tally's own or in documents
// of the app's.
func (s *simulation) layOut() {
	options := ""
	if s.every {
		options += " : every " + slowCadence.String()
	}
	rollUp := "rollups/{counter}"
	if s.existing = s.chance(0.3, "existing", upTo(1)) == 1; s.existing {
		rollUp = "counters/{counter}"
		options += " : existing"
	}
	text := "counters/{counter}/shards/{shard} -> " + rollUp + " : count" + options
	if s.chance(0.4, "likes", upTo(1)) == 1 {
		text += "\ncounters/{counter}/likes/{user} -> " + rollUp + " : count() as likes" + options
	}
	var err error
	if s.routes, err = rollup.ParseRoutes(text); err != nil {
		panic(err)
	}
}

// commitLike creates a document that is counted, edits it or deletes it. An edit changes no total.
func (s *simulation) commitLike(c *simulatedCounter, n int, user int64, deletes bool) (at time.Time, same bool) {
	path := fmt.Sprint(s.routes[1].Shards(c.Counter), "/", user)
	s.mu.Lock()
	defer s.mu.Unlock()
	if deletes {
		at = s.store.Delete(path)
		delete(c.likes, user)
	} else {
		at, same = s.store.Increment(path, "text", 1), c.likes[user]
		c.likes[user] = true
	}
	s.tell("%s, deleted %v, edited %v: event %d", path, deletes, same, n)
	s.committed(c, at)
	return at, same
}

// cover notes that all changes up to a time are rolled up, or that there was no document for them.
func (c *simulatedCounter) cover(to time.Time) {
	if to.After(c.covered) {
		c.covered = to
	}
}

// startApp has the app create, edit and delete its documents.
func (s *simulation) startApp() {
	if !s.existing {
		return
	}
	for _, c := range s.counters {
		if s.chance(0.2, c.RollUp+" comes later", upTo(1)) == 0 {
			s.appCreates(c)
		}
		for n := range s.chance(0.7, c.RollUp+" changes by the app", upTo(20)) {
			name := fmt.Sprint(c.RollUp, " change ", n+1)
			s.actors.Go(func() {
				time.Sleep(s.chanceOf(1, name+" after", time.Millisecond, time.Minute) + jitter(name))
				deletes := s.chance(0.2, name+" deletes", upTo(1)) == 1
				s.mu.Lock()
				defer s.mu.Unlock()
				switch {
				case c.came.IsZero():
					s.appCreates(c)
				case deletes:
					s.store.Delete(c.RollUp)
					s.tell("the app deletes %s", c.RollUp)
					c.came, c.asOf, c.paced = time.Time{}, time.Time{}, nil
				default:
					s.store.Increment(c.RollUp, "edits", 1)
					s.tell("the app edits %s", c.RollUp)
				}
			})
		}
	}
}

// appCreates creates the app's own document. The mutex is held, or nothing runs yet.
func (s *simulation) appCreates(c *simulatedCounter) {
	c.came = s.store.Put(c.RollUp, map[string]any{"edits": int64(0)})
	s.tell("the app creates %s", c.RollUp)
}

// cameLate reports whether the app's document came after the last event of a change. Then the audit
// fills it in.
func (s *simulation) cameLate(c *simulatedCounter) bool {
	if !s.existing || c.came.IsZero() {
		return false
	}
	for _, d := range s.deliveries {
		if d.counter == c && d.acked && !d.same && d.arrival.After(c.came) {
			return false
		}
	}
	return true
}
