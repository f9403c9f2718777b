// Package mistakes says in whole sentences what is wrong with routes, and what to write instead.
//
// route.Parse only finds a mistake: its error has a kind, some values and a place. That is all that
// the functions link, because their routes were checked before they were deployed. The command line
// shows the sentences here:
//
//   - sentences.go has a sentence for each kind, in the order in which Parse finds mistakes, and
//     for some a remedy that is made of the values.
//   - habits.go has what people write who know other languages, each with what to write instead.
//   - meant.go guesses which word was meant.
package mistakes

import (
	"errors"
	"fmt"
	"strings"

	"github.com/firestore-tally/tally/rollup/route"
)

// Parse is route.Parse with errors in sentences.
func Parse(text string) (route.Routes, error) {
	routes, err := route.Parse(text)
	return routes, Explain(err)
}

// Explain returns an error that is err, and says each mistake of routes in it by a sentence.
func Explain(err error) error {
	found := in(err)
	if len(found) == 0 {
		return err
	}

	said := err.Error()
	for _, m := range found {
		said = strings.Replace(said, m.Error(), sentence(m), 1)
	}
	return &explained{err, said}
}

// An explained error has another text.
type explained struct {
	error
	said string
}

func (e *explained) Error() string { return e.said }
func (e *explained) Unwrap() error { return e.error }

// in returns the mistakes that an error wraps.
func in(err error) []*route.Mistake {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var all []*route.Mistake
		for _, err := range joined.Unwrap() {
			all = append(all, in(err)...)
		}
		return all
	}

	if wrapped := errors.Unwrap(err); wrapped != nil {
		return in(wrapped)
	}
	m, ok := errors.AsType[*route.Mistake](err)
	if !ok {
		return nil
	}
	return []*route.Mistake{m}
}

// sentence says what is wrong, with the route or the place.
func sentence(m *route.Mistake) string {
	if m.Route != nil {
		return fmt.Sprintf("route %q: %s", m.Route, route.Visible(why(m)))
	}
	return route.Visible(why(m)) + "\n" + m.Mark()
}

// why says what is wrong, and what to write instead.
func why(m *route.Mistake) string {
	instead := ofHabit(m)
	if instead != "" {
		return instead
	}

	said := sentences[m.Kind]
	if strings.Contains(said, "%") {
		said = fmt.Sprintf(said, m.Values...)
	}
	if remedy := remedies[m.Kind]; remedy != nil {
		said += remedy(m)
	}
	if len(m.Next) > 0 && wantsName(m.Kind) {
		said += advice(m)
	}
	return said
}
