// Package trial tries the functions that are deployed in a project. It writes documents under an id
// of its own, listens to the roll-ups that the functions make of them, and compares. At the end it
// deletes all that it made.
//
// By the routes that README has, a trial with the id tally-demo-x4kq2mzc has these documents:
//
//	counters/tally-demo-x4kq2mzc/shards/7             count: 12
//	rollups/tally-demo-x4kq2mzc                       count: 75, tally: {…}, which the functions make
//	posts/tally-demo-x4kq2mzc                         likes: 75, tally: {…}, which they keep
//	posts/tally-demo-x4kq2mzc/likes/tally-demo-31
//
// From the bottom up:
//
//   - A [Deployment] (deployed.go) is what is deployed.
//   - A shape (shape.go) is a kind of counters that is looked for among the deployed routes, and a
//     part (part.go) is one counter that was made of it.
//   - A [Trial] says what to write, and where.
//   - The run (run.go) writes and waits. The traces (traces.go) are the documents to delete.
//   - A [Report] (report.go) is the result.
package trial

import (
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/firestore-tally/tally/internal/tool/deploy"
	"github.com/firestore-tally/tally/internal/tool/load"
	"google.golang.org/grpc"
)

// Options say how a trial is made.
type Options struct {
	load.Load
	Shards  int           // of a counter
	Timeout time.Duration // how long the functions may take for a roll-up; the first may wait for new triggers

	Address string // host:port of a Firestore on this machine; "": Google's
	Dial    []grpc.DialOption
}

// A Trial says what to write, before it is written. New makes it.
type Trial struct {
	*Deployment
	Options
	ID string // in the paths of its documents

	parts   []*part
	skipped []shape // that no route has
}

// New returns a trial of a deployment. Nothing is written yet. It is an error if no deployed route
// makes a counter of the trial's own possible.
func New(d *Deployment, o Options) (*Trial, error) {
	t := &Trial{Deployment: d, Options: o, ID: "tally-demo-" + strings.ToLower(rand.Text()[:8])}
	for _, s := range shapes {
		r := s.find(d.Config.Routes)
		if r == nil {
			t.skipped = append(t.skipped, s)
			continue
		}

		p, err := newPart(s.kind, r, t.ID)
		if err != nil {
			return nil, err
		}
		t.parts = append(t.parts, p)
	}

	if len(t.parts) == 0 {
		return nil, t.impossibleError()
	}
	return t, nil
}

// impossibleError is the error of a trial that can try nothing.
func (t *Trial) impossibleError() error {
	problems := []error{errors.New("the demo can try none of the deployed routes; it can try one such as")}
	for _, s := range t.skipped {
		problems = append(problems, errors.New("  "+s.would))
	}
	return errors.Join(problems...)
}

// usualTime is how long a roll-up of the part takes at most where all is well: until the next one
// is due.
func (t *Trial) usualTime(p *part) time.Duration { return t.Config.Cadence + p.counter.Template.Every }

// limit is how long a roll-up of the part may take until it covers a write.
func (t *Trial) limit(p *part) time.Duration { return t.Timeout + t.usualTime(p) }

// retryTime is how long one write may take, and how long after a write that no roll-up came to
// cover the next one is made.
func (t *Trial) retryTime() time.Duration { return t.Timeout / 10 }

// String says what the trial will write, and where.
func (t *Trial) String() string {
	w := new(strings.Builder)
	fmt.Fprintf(w, "In project %s, database %s in %s, the demo\n", t.Project, t.Database.ID, t.Database.Location)
	for _, p := range t.parts {
		fmt.Fprintf(w, "  writes documents of %s, and listens to %s of %s\n", p.collection, p.total, p.counter.RollUp)
	}
	for _, s := range t.skipped {
		fmt.Fprintf(w, "  skips %s: no deployed route is like %s\n", s.kind, s.would)
	}
	fmt.Fprintf(w, "Triggers of the app's own on these collections see the documents, too.\n")
	fmt.Fprintf(w, "It makes %d writes, %v a second, and waits for their roll-ups, right after a deployment for up to ten minutes more. 1,000 writes cost a few cents.\nThe demo deletes all that it made.\n",
		t.Increments, t.Rate)
	return w.String()
}

// Delete returns the commands that delete the documents at the paths, and whatever is below the
// trial's own ids in them.
func (t *Trial) Delete(paths []string) (commands []string) {
	var roots []string
	for _, path := range paths {
		root := t.root(path)
		if !slices.Contains(roots, root) {
			roots = append(roots, root)
		}
	}

	for _, root := range roots {
		commands = append(commands, deploy.Command("firebase", "firestore:delete", "--recursive", "--force",
			"--project="+t.Project, "--database="+t.Database.ID, root))
	}
	return commands
}

// root returns the part of a document's path up to the first id that is the trial's own.
func (t *Trial) root(path string) string {
	segments := strings.Split(path, "/")
	own := func(segment string) bool { return strings.HasPrefix(segment, t.ID) }
	return strings.Join(segments[:slices.IndexFunc(segments, own)+1], "/")
}
