package trial

import (
	"context"
	"fmt"

	"github.com/firestore-tally/tally/internal/tool/deploy"
)

// An Answer is the project's to a question.
type Answer string

const (
	Yes       Answer = "yes"
	No        Answer = "no"
	NotLooked Answer = "not looked" // it could not be asked
)

// A Question is one that no emulator can answer.
type Question struct {
	Asks     string `json:"asks"`
	Answer   Answer `json:"answer"`
	Expected string `json:"expected"`
	Seen     string `json:"seen"` // or why the trial could not look
}

// ask asks all questions, one after the other.
func (r *run) ask(ctx context.Context) []Question {
	var all []Question
	for _, q := range []struct {
		asks string
		find func(context.Context) finding
	}{
		{"does an id that ends in a space arrive as it is?", r.spaces},
		{"does a sum see the instant of its transaction's first read?", r.instant},
		{"do the rules see a query's offset?", r.offset},
	} {
		f := q.find(ctx)
		all = append(all, Question{q.asks, f.answer, f.expected, f.seen})
	}
	return all
}

// A finding is what is known of a question. Each of its methods returns it with an answer, and what
// was seen.
type finding struct {
	expected, seen string
	answer         Answer
}

func (f finding) yes(format string, args ...any) finding { return f.is(Yes, format, args) }

func (f finding) no(format string, args ...any) finding { return f.is(No, format, args) }

func (f finding) notLooked(format string, args ...any) finding {
	return f.is(NotLooked, format, args)
}

// failed says that the question could not be asked because of an error.
func (f finding) failed(err error) finding { return f.notLooked("%v", err) }

// unread says that the question could not be asked because something could not be read.
func (f finding) unread(u *deploy.Unread) finding {
	return f.notLooked("%s could not be read: %s", u.What, u.Why)
}

func (f finding) is(a Answer, format string, args []any) finding {
	f.answer, f.seen = a, fmt.Sprintf(format, args...)
	return f
}

// noEvents is why nothing about events can be asked.
const noEvents = "the schedule keeps all routes, so there are no events"
