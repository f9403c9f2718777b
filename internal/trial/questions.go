package trial

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"
)

// An Answer is production's to a question.
type Answer string

const (
	Yes       Answer = "yes"
	No        Answer = "no"
	NotLooked Answer = "not looked" // it could not be asked
)

// A Question is what no emulator can answer.
type Question struct {
	Asks     string `json:"asks"`
	Answer   Answer `json:"answer"`
	Expected string `json:"expected"`
	Seen     string `json:"seen"` // or why nobody could look
}

// A finding is what is known of a question.
type finding struct {
	expected, seen string
	answer         Answer
}

func (f finding) yes(format string, args ...any) finding { return f.is(Yes, format, args) }
func (f finding) no(format string, args ...any) finding  { return f.is(No, format, args) }
func (f finding) notLooked(format string, args ...any) finding {
	return f.is(NotLooked, format, args)
}

func (f finding) is(a Answer, format string, args []any) finding {
	f.answer, f.seen = a, fmt.Sprintf(format, args...)
	return f
}

// ask asks all questions, one after the other.
func (r *run) ask(ctx context.Context) []Question {
	var all []Question
	for _, q := range []struct {
		asks string
		find func(context.Context) finding
	}{
		{"are the times of roll-ups exempt from indexing?", r.exemption},
		{"are retries on?", r.retries},
		{"does the subscription's deadline hold?", r.deadline},
		{"does an id that ends in a space arrive as it is?", r.spaces},
		{"does a sum see the instant of its transaction's first read?", r.instant},
		{"do the rules see a query's offset?", r.offset},
	} {
		f := q.find(ctx)
		all = append(all, Question{q.asks, f.answer, f.expected, f.seen})
	}
	return all
}

// spaces asks under which id a document arrives whose ids end in a space. A counter of the id without
// it has a roll-up already, so that an event which arrived there is seen.
func (r *run) spaces(ctx context.Context) finding {
	f := finding{expected: "a roll-up under the same id, space included"}
	live := r.parts[0]
	if live.counter.Template.Scheduled() {
		return f.notLooked("%s", noEvents)
	}

	trimmed, err := newPart(live.kind, live.route, r.ID+"-space")
	if err != nil {
		return f.notLooked("%v", err)
	}
	spaced, err := newPart(live.kind, live.route, r.ID+"-space ")
	if err != nil {
		return f.notLooked("%v", err)
	}
	for _, p := range []*part{trimmed, spaced} {
		if err := r.begin(ctx, p); err != nil {
			return f.notLooked("%v", err)
		}
	}
	if err := r.put(ctx, trimmed, "0"); err != nil {
		return f.notLooked("%v", err)
	}
	if err := r.covered(ctx, trimmed); err != nil {
		return f.notLooked("%v", err)
	}

	if err := r.put(ctx, spaced, "0 "); err != nil {
		return f.notLooked("%v", err)
	}
	_, _, committed := spaced.written()
	timer := time.NewTimer(r.Timeout)
	defer timer.Stop()
	for {
		same, changed := spaced.watch.Last()
		other, changedToo := trimmed.watch.Last()
		switch {
		case !same.AsOf.Before(committed):
			return f.yes("%q", spaced.counter.RollUp)
		case !other.AsOf.Before(committed):
			return f.no("%q", trimmed.counter.RollUp)
		}
		select {
		case <-changed:
		case <-changedToo:
		case <-timer.C:
			return f.no("no roll-up within %v", r.Timeout)
		case <-ctx.Done():
			return f.notLooked("%v", context.Cause(ctx))
		}
	}
}

// rounds is how often instant asks.
const rounds = 3

// instant asks whether a sum leaves out what was written after the first read of its transaction,
// and has all that was written before.
func (r *run) instant(ctx context.Context) finding {
	f := finding{expected: "what was written before the read, and not what was written between"}
	p := r.parts[0]
	for round := range rounds {
		before, inDoubt, _ := p.written()
		if inDoubt > 0 {
			return f.notLooked("%s in doubt", counted(inDoubt, "write"))
		}
		snapshot, err := r.store.View(ctx, p.counter)
		if err != nil {
			return f.notLooked("%v", err)
		}
		if err := r.write(ctx, p, r.Increments+1+round); err != nil {
			return f.notLooked("%v", err)
		}
		totals, err := snapshot.Sum(ctx)
		if err != nil {
			return f.notLooked("%v", err)
		}
		if sum, _ := totals.Values[p.total].Int64(); sum != int64(before) {
			return f.no("%d, where %d were written before", sum, before)
		}
	}
	return f.yes("that, %d times", rounds)
}

// offset asks whether the rules refuse a list with an offset, by nobody, who is not signed in.
func (r *run) offset(ctx context.Context) finding {
	f := finding{expected: "a list with an offset is refused, and one without is not"}
	for _, p := range r.parts {
		for _, collection := range []string{path.Dir(p.counter.RollUp), p.collection} {
			allowed, err := r.list(ctx, collection, 0)
			if err != nil {
				return f.notLooked("%v", err)
			}
			if !allowed {
				continue
			}

			allowed, err = r.list(ctx, collection, 1)
			switch {
			case err != nil:
				return f.notLooked("%v", err)
			case allowed:
				return f.no("both lists of %s are allowed", collection)
			}
			return f.yes("that, of %s", collection)
		}
	}
	return f.notLooked("the rules refuse every list to who is not signed in")
}

// list lists one document of a collection as a client without credentials, and reports whether the
// rules allow it.
func (r *run) list(ctx context.Context, collection string, offset int) (allowed bool, err error) {
	base := "https://firestore.googleapis.com"
	if r.Address != "" {
		base = "http://" + r.Address
	}
	parent := (&url.URL{Path: fmt.Sprintf("/v1/projects/%s/databases/%s/documents", r.Project, r.Database.ID)}).EscapedPath()
	if doc := above(collection); doc != "" {
		parent += (&url.URL{Path: "/" + doc}).EscapedPath()
	}

	query := map[string]any{"from": []any{map[string]any{"collectionId": path.Base(collection)}}, "limit": 1}
	if offset > 0 {
		query["offset"] = offset
	}
	body, err := json.Marshal(map[string]any{"structuredQuery": query})
	if err != nil {
		return false, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, base+parent+":runQuery", bytes.NewReader(body))
	if err != nil {
		return false, err
	}
	request.Header.Set("Content-Type", "application/json")

	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false, err
	}
	defer response.Body.Close()
	const most = 1 << 16
	text, err := io.ReadAll(io.LimitReader(response.Body, most))
	switch {
	case err != nil:
		return false, err
	case response.StatusCode == http.StatusForbidden:
		return false, nil
	case response.StatusCode != http.StatusOK:
		return false, fmt.Errorf("listing %s: %s: %s", collection, response.Status, strings.Join(strings.Fields(string(text)), " "))
	}
	return true, nil
}
