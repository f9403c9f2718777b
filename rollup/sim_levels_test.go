package rollup_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/rollup/route"
)

// layOutLevels draws the routes of a run with totals of totals. Likes make the likes of a post,
// these the karma of its author, and these the karma of the author's team.
func (s *simulation) layOutLevels() {
	s.existing, s.levels = true, true
	options := " : existing" + s.drawSlowly()
	routes, err := route.Parse(strings.Join([]string{
		"posts/{post}/likes/{user} -> posts/{post} : count() as likes" + options,
		"posts/{post} by author -> users/{author} : sum(likes) as karma, count() as posts" + options,
		"users/{user} by team -> teams/{team} : sum(karma) as karma" + options,
	}, "\n"))
	if err != nil {
		panic(err)
	}
	s.routes, s.revisions = routes, []route.Routes{routes}
}

// addLevels adds the counters that only runs with totals of totals have.
func (s *simulation) addLevels() {
	if !s.levels {
		return
	}
	s.counters = nil
	rollUps := []string{"posts/a", "posts/b", "users/ann", "users/bob", "teams/red"}
	if s.circle {
		rollUps = []string{"comments/a", "comments/b", "comments/c"}
		if len(s.routes) == 4 {
			rollUps = append(rollUps, "users/ann")
		}
	}
	for _, rollUp := range rollUps {
		s.counters = append(s.counters, s.counterAt(rollUp))
	}
}

// appFields returns what the app writes to a new document of its own.
func (s *simulation) appFields(c *simulatedCounter) map[string]any {
	if s.circle {
		return s.commentFields(c)
	}
	fields := map[string]any{"edits": int64(0)}
	switch {
	case !s.levels:
	case strings.HasPrefix(c.RollUp, "posts/"):
		fields["author"] = "ann"
	case strings.HasPrefix(c.RollUp, "users/"):
		fields["team"] = "red"
	}
	return fields
}

// commitOnPost likes a post or takes a like back, edits a like, or gives the post to another
// author. It reports whether the message is about it. The mutex is not held.
func (s *simulation) commitOnPost(m *message, name string, user int64, deletes bool) bool {
	post := s.counters[s.chance(0.5, name+" is of another post", upTo(1))]
	moves := s.chance(0.15, name+" moves the post", upTo(1)) == 1
	if moves {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.outcome.events++
		s.moves(post)
		return false
	}
	return s.commitLikeOf(post, m, user, deletes)
}

// commitLikeOf likes a document or takes a like back, or edits a like. It reports that the message
// is about it. The mutex is not held.
func (s *simulation) commitLikeOf(post *simulatedCounter, m *message, user int64, deletes bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.outcome.events++
	path := fmt.Sprint(post.RollUp, "/likes/", user)
	was := post.likes[user]
	if deletes {
		m.commit = s.store.Delete(path)
		delete(post.likes, user)
	} else {
		m.commit = s.store.Put(path, map[string]any{"edit": int64(m.n)})
		post.likes[user] = true
	}
	s.tell("%s, deleted %v: event %d", path, deletes, m.n)
	m.about = []affected{{simulatedCounter: post, same: was && !deletes}}
	s.committed(post, m.commit)
	return true
}

// moves gives a post to its other author. The mutex is held.
func (s *simulation) moves(post *simulatedCounter) {
	if post.came.IsZero() {
		return
	}
	s.around(post, func() {
		fields := s.store.Get(post.RollUp)
		others := map[any]string{"ann": "bob", "bob": "ann"}
		fields["author"] = others[fields["author"]]
		s.store.Put(post.RollUp, fields)
		s.tell("%s moves to %s", post.RollUp, fields["author"])
	})
}

// around writes the document of a counter's roll-up. In a run with totals of totals, that is a
// change like any other: it sends an event of the level above. The mutex is held, or nothing runs
// yet.
func (s *simulation) around(c *simulatedCounter, write func()) {
	if !s.levels {
		write()
		return
	}

	before := s.store.Get(c.RollUp)
	write()
	if s.spins(c) { // it ends here, so that the run does
		return
	}
	after := s.store.Get(c.RollUp)
	v, _ := s.store.View(s.t.Context(), c.Counter)
	c.writes++
	m := &message{
		n:       1000*(1+slices.Index(s.counters, c)) + c.writes,
		written: &written{c.RollUp, before, after},
		commit:  v.ReadTime(),
	}
	for _, above := range s.counters {
		was, is := shareIn(above, c, before), shareIn(above, c, after)
		if was != nil || is != nil {
			m.about = append(m.about, affected{simulatedCounter: above, same: adds(above.Counter, c.RollUp, before) == adds(above.Counter, c.RollUp, after)})
			s.committed(above, m.commit)
		}
	}
	source, _ := s.routes.Source(c.RollUp)
	if m.about != nil && len(source.Own(nil, m.written.Holds)) > 0 {
		m.about = append(m.about, affected{simulatedCounter: c})
		s.committed(c, m.commit)
	}
	if m.about == nil {
		return
	}

	s.told++
	s.tell("%s tells the level above: event %d", c.RollUp, m.n)
	s.loseDocuments(m)
	for copy := range 1 + int(s.chance(s.weather.duplicate, fmt.Sprintf("event %d duplicates", m.n), upTo(2))) {
		s.passing++
		go func() {
			time.Sleep(s.late)
			s.send(m, copy+1)
			s.mu.Lock()
			defer s.mu.Unlock()
			s.passing--
		}()
	}
}

// shareIn returns what a document adds to a counter of the level above, or of its circle, by route
// and field; nil if it is not of that counter.
func shareIn(above, c *simulatedCounter, fields map[string]any) (share map[string]any) {
	for _, r := range above.Template.Routes {
		of, ok := r.Belongs(c.RollUp, func(f document.Field) any { held, _ := f.In(fields); return held })
		if r.By == nil || !ok || of.RollUp != above.RollUp {
			continue
		}
		if share == nil {
			share = make(map[string]any)
		}
		share[string(byOf(r))] = true
		for _, f := range r.Reads() {
			share[string(byOf(r)+" "+f)], _ = f.In(fields)
		}
	}
	return share
}

// summed returns what a counter's sources add up to now. The mutex is held.
func (s *simulation) summed(c route.Counter) *route.Totals {
	totals, err := s.store.Sources(s.t.Context(), c).Sum(s.t.Context())
	if err != nil {
		panic(err)
	}
	return &totals
}

// settle waits until all events of roll-ups are acknowledged, the alarms that stand for some have
// rung, and the instances have had an hour to forget the counters.
func (s *simulation) settle() {
	if !s.levels {
		return
	}
	for range 1000 {
		s.actors.Wait()
		s.mu.Lock()
		told, passing := s.told, s.passing
		s.mu.Unlock()
		time.Sleep(time.Hour)

		s.mu.Lock()
		quiet := passing == 0 && s.told == told
		s.mu.Unlock()
		if quiet {
			return
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.breach("roll-ups tell the level above without end")
}
