package rollup_test

import (
	"fmt"
	"time"

	"github.com/firestore-tally/tally/rollup/route"
)

// layOut draws the routes of a run: one source or two, and roll-ups of Tally's own or in documents
// of the app's. Its revisions call the totals by other names.
func (s *simulation) layOut() {
	options := ""
	if s.every {
		options += " : every " + slowCadence.String()
	}
	options += s.drawSlowly()
	rollUp := "rollups/{counter}"
	if s.existing = s.chance(0.3, "existing", upTo(1)) == 1; s.existing {
		rollUp = "counters/{counter}"
		options += " : existing"
	}
	if !s.every && s.chance(0.15, "replies", upTo(1)) == 1 {
		s.layOutCircle()
		return
	}
	if !s.every && s.chance(0.15, "totals of totals", upTo(1)) == 1 {
		s.layOutLevels()
		return
	}
	if !s.every && s.chance(0.2, "days", upTo(1)) == 1 {
		s.layOutDays()
		return
	}
	if s.chance(0.4, "groups", upTo(1)) == 1 {
		s.layOutGroups()
		return
	}
	two := s.chance(0.4, "likes", upTo(1)) == 1
	s.liked = two
	s.windowed = !s.every && s.chance(0.4, "windows", upTo(1)) == 1
	where := ""
	if s.conditional = s.chance(0.4, "likes on a condition", upTo(1)) == 1; s.conditional {
		where = " where on == true"
	}

	s.revisions = nil
	for _, names := range [][3]string{{"count", "likes", "fresh"}, {"count as total", "likes", "fresh"}, {"count", "fans", "new"}} {
		text := "counters/{counter}/shards/{shard} -> " + rollUp + " : " + names[0] + options
		if s.slow { // a claim is worth it for few shards, too
			text += " : documents"
		}
		if two {
			text += "\ncounters/{counter}/likes/{user} -> " + rollUp + " : count()" + where + " as " + names[1] + options
		}
		text += s.drawWindows(rollUp, names[2], options)
		routes, err := route.Parse(text)
		if err != nil {
			panic(err)
		}
		s.revisions = append(s.revisions, routes)
	}
	if !two && !s.windowed { // it differs in the likes only
		s.revisions = s.revisions[:2]
	}
	s.routes = s.revisions[0]
}

// commitLike creates a document that is counted, edits it, toggles what a condition sees or deletes
// it. An edit changes no total.
func (s *simulation) commitLike(c *simulatedCounter, n int, user int64, deletes, on bool) (at time.Time, same bool) {
	path := fmt.Sprint(s.routes[1].Shards(c.Counter), "/", user)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.outcome.events++
	counted, was := c.likes[user]
	switch {
	case deletes:
		at, same = s.store.Delete(path), s.conditional && !counted
		delete(c.likes, user)
	case s.conditional:
		at, same = s.store.Put(path, map[string]any{"on": on, "edit": int64(n)}), counted == on
		c.likes[user] = on
	default:
		at, same = s.store.Increment(path, "text", 1), was
		c.likes[user] = true
	}
	s.tell("%s, deleted %v, edited %v: event %d", path, deletes, same, n)
	s.committed(c, at)
	return at, same
}

// cover notes that all changes up to a time are rolled up by the routes of that hash, or that there
// was no document for them.
func (c *simulatedCounter) cover(hash string, to time.Time) {
	if to.After(c.covered[hash]) {
		c.covered[hash] = to
	}
}

// startApp has the app create, edit and delete its documents.
func (s *simulation) startApp() {
	if !s.existing {
		return
	}
	for _, c := range s.counters {
		if s.chance(s.neverComes(c), c.RollUp+" never comes", upTo(1)) == 1 {
			continue
		}
		if s.chance(0.2, c.RollUp+" comes later", upTo(1)) == 0 {
			s.appCreates(c)
		}
		if lasts := s.chanceOf(0.4, c.RollUp+" is written all the time for", time.Second, time.Minute); lasts > 0 && !s.levels {
			s.actors.Go(func() { s.appWrites(c, lasts) })
		}
		for n := range s.chance(0.7, c.RollUp+" changes by the app", upTo(20)) {
			name := fmt.Sprint(c.RollUp, " change ", n+1)
			s.actors.Go(func() {
				time.Sleep(s.chanceOf(1, name+" after", time.Millisecond, time.Minute) + jitter(name))
				deletes := s.chance(0.2, name+" deletes", upTo(1)) == 1
				sets := s.chance(0.2, name+" sets the document", upTo(1)) == 1
				s.mu.Lock()
				defer s.mu.Unlock()
				switch {
				case c.came.IsZero():
					s.appCreates(c)
				case deletes:
					s.appDeletes(c)
				case sets: // the totals and tally are gone
					s.appForges(c, name)
					c.asOf, c.paced = time.Time{}, nil
				default:
					s.around(c, func() { s.store.Increment(c.RollUp, "edits", 1) })
					s.tell("the app edits %s", c.RollUp)
				}
			})
		}
	}
}

// appWrites has the app write its document all the time, so often that most roll-ups are refused.
func (s *simulation) appWrites(c *simulatedCounter, lasts time.Duration) {
	time.Sleep(s.chanceOf(0.5, c.RollUp+" is written all the time after", time.Millisecond, s.weather.span) + jitter(c.RollUp+" written"))
	every := 2*time.Millisecond + s.chanceOf(0.8, c.RollUp+" is written every", time.Millisecond, 50*time.Millisecond)
	for n := range int(lasts / every) {
		time.Sleep(every + jitter(fmt.Sprint(c.RollUp, " written ", n)))
		s.mu.Lock()
		if !c.came.IsZero() {
			s.store.Increment(c.RollUp, "edits", 1)
		}
		s.mu.Unlock()
	}
}

// appDeletes deletes the app's own document. The mutex is held.
func (s *simulation) appDeletes(c *simulatedCounter) {
	s.around(c, func() { s.store.Delete(c.RollUp) })
	s.tell("the app deletes %s", c.RollUp)
	c.came, c.asOf, c.paced = time.Time{}, time.Time{}, nil
}

// appCreates creates the app's own document, or overwrites it. The mutex is held, or nothing runs
// yet.
func (s *simulation) appCreates(c *simulatedCounter) {
	c.cameAgain = c.cameAgain || len(c.truth) > 0 || !c.came.IsZero()
	s.around(c, func() { c.came = s.store.Put(c.RollUp, s.appFields(c)) })
	s.tell("the app sets %s", c.RollUp)
}

// cameLate reports whether the app's document came after the last event of a change. Then the audit
// fills it in.
func (s *simulation) cameLate(c *simulatedCounter) bool {
	if !s.existing && s.shops == nil || c.came.IsZero() {
		return false
	}
	for _, d := range s.deliveries {
		if d.changed(c) && d.acked && d.arrival.After(c.came) {
			return false
		}
	}
	return true
}
