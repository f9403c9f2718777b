package rollup_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/rollup/route"
)

// layOutCircle draws the routes of a run whose roll-ups are among their own sources: comments hold
// the totals of their replies, which are comments. The likes of a comment and the karma of its
// author lie below and above the circle. A comment may be its own parent, and parents may lie in a
// ring.
func (s *simulation) layOutCircle() {
	s.existing, s.levels, s.circle = true, true, true
	options := " : existing" + s.drawSlowly()
	lines := []string{
		"comments/{comment} by parent -> comments/{parent} : count() as replies, sum(points) where shown == true as points_of_replies",
		"comments/{comment} by root -> comments/{root} : count() as thread",
		"comments/{comment}/likes/{user} -> comments/{comment} : count() as likes",
		"comments/{comment} by author -> users/{author} : sum(replies) as replies, count() as comments",
	}
	routes, err := route.Parse(strings.Join(lines[:1+s.chance(0.7, "further routes", upTo(3))], options+"\n") + options)
	if err != nil {
		panic(err)
	}
	s.routes, s.revisions = routes, []route.Routes{routes}
	s.late = []time.Duration{0, 4 * time.Second, 6 * time.Second, time.Minute}[s.chance(0.8, "events come late", upTo(3))]
}

// theComments are the documents of a circle.
var theComments = []string{"a", "b", "c"}

// parents are what comments hold as their parents first: none, themselves, each other, or a ring.
var parents = []map[string]string{{}, {"a": "a", "b": "a"}, {"a": "b", "b": "a", "c": "a"}, {"a": "b", "b": "c", "c": "a"}}

// commentFields returns what the app writes to a new comment.
func (s *simulation) commentFields(c *simulatedCounter) map[string]any {
	fields := map[string]any{"edits": int64(0)}
	id, isComment := strings.CutPrefix(c.RollUp, "comments/")
	if !isComment {
		return fields
	}
	fields["author"], fields["root"], fields["points"], fields["shown"] = "ann", "a", int64(1), true
	parent, has := parents[s.chance(0.9, "parents", upTo(3))][id]
	if has {
		fields["parent"] = parent
	}
	return fields
}

// commitOnComment likes a comment, edits it, or has it answer another one. It reports whether the
// message is about it. The mutex is not held.
func (s *simulation) commitOnComment(m *message, name string, points int64, deletes bool) bool {
	comment := s.counters[s.chance(0.7, name+" is of another comment", upTo(int64(len(theComments)-1)))]
	if len(s.routes) > 2 && s.chance(0.3, name+" is a like", upTo(1)) == 1 {
		return s.commitLikeOf(comment, m, s.chance(0.7, name+" user", upTo(3)), deletes)
	}

	field := []string{"text", "parent", "root", "points", "shown"}[s.chance(0.8, name+" changes", upTo(4))]
	other := theComments[s.chance(0.7, name+" answers", upTo(int64(len(theComments)-1)))]
	values := map[string]any{"text": int64(m.n), "parent": other, "root": other, "points": points, "shown": !deletes}

	s.mu.Lock()
	defer s.mu.Unlock()
	s.outcome.events++
	if comment.came.IsZero() {
		return false
	}
	s.around(comment, func() {
		fields := s.store.Get(comment.RollUp)
		fields[field] = values[field]
		s.store.Put(comment.RollUp, fields)
		s.tell("%s has %s %v", comment.RollUp, field, values[field])
	})
	return false
}

// An untold is a document that was written, and whose event came without it. Its fields are read.
type untold struct {
	written
	held map[string]any
}

func (u untold) Known() bool   { return false }
func (u untold) Updated() bool { return false }

func (u untold) Held(f document.Field) (before, after any) {
	after, _ = f.In(u.held)
	return nil, after
}

// loseDocuments perhaps has the event of a document in a circle come without it.
func (s *simulation) loseDocuments(m *message) {
	if !s.circle || s.chance(0.1, fmt.Sprintf("event %d has no documents", m.n), upTo(1)) == 0 {
		return
	}
	s.tell("event %d has no documents", m.n)
	m.untold = true
	for i, a := range m.about { // an audit repairs what the document has left
		a.lost, m.about[i].noted = true, true
	}
}

// spins reports whether a roll-up of a circle has been written so often that the circle keeps
// itself up. The mutex is held.
func (s *simulation) spins(c *simulatedCounter) bool {
	const often = 900 // a run without end has as many within minutes, others some fifty
	if !s.circle || c.writes < often {
		return false
	}
	if c.writes == often {
		s.breach("the roll-ups of %s cause each other without end", c.RollUp)
	}
	return true
}
