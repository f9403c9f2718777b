package main

import (
	"context"
	"fmt"
	"maps"
	"strings"

	"github.com/firestore-tally/tally/internal/tool/local/emulator"
	"github.com/firestore-tally/tally/internal/tool/rules"
	"github.com/firestore-tally/tally/rollup/route"
)

// try tries rules on one of the app's documents, which holds the totals of a template or will, or
// on what only Tally's routes have if the template is nil.
func (h *hints) try(ctx context.Context, text string, t *route.Template, at writtenDocument) ([]rules.Answer, error) {
	addr, err := h.court(ctx)
	if err != nil {
		return nil, err
	}
	j := &rules.Judge{Addr: addr, Database: at.database, Text: text, Read: rules.FromEmulator(h.addr, h.project, at.database)}
	if t == nil {
		return j.Others(ctx, h.routes)
	}

	fields, err := j.Read(ctx, at.path)
	if err != nil {
		return nil, err
	}
	return j.Home(ctx, t, rules.Document{Path: at.path, Fields: fields})
}

// maxTried is on how many documents of a template the same rules are tried. A document may name no
// user who may edit it.
const maxTried = 3

// attempt is the last document of a template on which rules were tried.
type attempt struct {
	writtenDocument
	times int
	known bool // the rules allowed some edit, so there is an answer
}

// tryRules tries the security rules on one of the app's own documents, which holds totals or will,
// and once on those that only Tally's routes have. It tells whether the totals lock an owner out,
// and what of Tally's a client may write.
func (h *hints) tryRules(ctx context.Context, at writtenDocument) {
	for _, t := range append(h.routes.Templates(), nil) {
		in, may := h.mayTry(t, at)
		if !may {
			continue
		}
		answers, err := h.try(ctx, in.text, t, at)
		switch {
		case err == nil:
			h.reportAnswers(in, t, answers)
		case ctx.Err() != nil:
			return // the user has stopped tally dev, perhaps in the middle
		case h.firstTime("judged", err.Error()):
			h.say("the security rules were not tried: %v", err)
		}
	}
}

// mayTry returns the rules that are in force, and reports whether to try them on a document of a
// template; nil: on what only Tally's routes have. If so, it notes the document.
func (h *hints) mayTry(t *route.Template, at writtenDocument) (appRules, bool) {
	if t != nil {
		_, holds := t.Counter(at.path)
		if !holds || !t.Existing {
			return appRules{}, false
		}
	}

	h.mu.Lock()
	defer h.mu.Unlock()
	last := h.attempts[t]
	if h.rules.file == "" || last.known || last.times == maxTried {
		return appRules{}, false
	}
	if h.attempts == nil {
		h.attempts = make(map[*route.Template]attempt)
	}
	h.attempts[t] = attempt{writtenDocument: at, times: last.times + 1}
	return h.rules, true
}

// reportAnswers tells what does harm by the answers about rules, unless other rules are in force by
// now.
func (h *hints) reportAnswers(in appRules, t *route.Template, answers []rules.Answer) {
	h.mu.Lock()
	changed := h.rules != in
	last := h.attempts[t]
	if !changed {
		last.known = t == nil || answers[0].Verdict != rules.NotTried
		h.attempts[t] = last
		h.answers = append(h.answers, answers...)
	}
	h.mu.Unlock()
	if !changed && !last.known && last.times == maxTried {
		h.say("%s: %s, and writes of totals, could not be tried: %s", in.name(), answers[0], answers[0].Why)
	}

	for _, a := range answers {
		refusesOthers := a.Allow && a.Kind != rules.Edit // which the app's own requests show
		if a.Wrong && !changed && !refusesOthers && h.firstTime("tried", a.Text(in.name())) {
			h.say("%s (%s)", a.Text(in.name()), in.quote(a.Lines))
		}
	}
}

// tryAgain has rules that are in force now tried on the documents on which others were.
func (h *hints) tryAgain() {
	h.mu.Lock()
	former := maps.Clone(h.attempts)
	h.attempts, h.answers = nil, nil
	h.mu.Unlock()
	for _, document := range former {
		h.noteWritten(document.database, document.path)
	}
}

// causeOf returns why rules refused a request, in parentheses, if that is Tally's doing or easily
// overlooked. It returns "" if neither is known.
func (h *hints) causeOf(r emulator.Refusal) string {
	if r.Unlimited {
		return " (the query has no limit)"
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, a := range h.answers {
		if a.Kind != rules.Edit || !a.Wrong || !strings.Contains(r.Method, "update") || !hasTallyField(r.Document) {
			continue
		}
		if _, holds := a.Template.Counter(r.Path); holds {
			return fmt.Sprintf(" (Tally added tally, %s, and these rules may list or count the document's fields: compare request.resource.data.diff(resource.data).affectedKeys() instead)", strings.Join(a.Template.Totals(), ", "))
		}
	}
	return ""
}
