package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/firestore-tally/tally/internal/tool/rulesfile"
	"github.com/firestore-tally/tally/internal/tool/rulestrial"
	"github.com/firestore-tally/tally/rollup/route"
)

// maxTried is on how many documents of a template the same rules are tried. A document may name no
// user who may edit it.
const maxTried = 3

// tried is the last document of a template on which rules were tried.
type tried struct {
	written
	times int
	known bool // the rules allowed some edit, so there is an answer
}

// tryRules tries the security rules on one of the app's own documents, which holds totals or will.
// It tells whether the totals lock an owner out, and which totals a client may write. Package
// rulesfile finds some of that in the text of the rules, and this the rest.
func (h *hints) tryRules(ctx context.Context, database, path string) {
	for _, t := range h.routes.Templates() {
		_, holds := t.Counter(path)
		if !holds || !t.Existing {
			continue
		}
		rules, may := h.mayTry(t, written{database, path})
		if !may {
			continue
		}

		trial := rulestrial.Trial{Addr: h.addr, Project: h.project, Database: database, Rules: rules.text}
		result, err := trial.Try(ctx, t, path)
		if err == nil { // without an answer there is no hint
			h.tellTrial(t, rules, path, result)
		}
	}
}

// mayTry returns the rules that are in force, and reports whether to try them on another document
// of a template. If so, it notes the document.
func (h *hints) mayTry(t *route.Template, document written) (appRules, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	last := h.tried[t.String()]
	if h.rules.file == "" || last.known || last.times == maxTried {
		return appRules{}, false
	}
	if h.tried == nil {
		h.tried = make(map[string]tried)
	}
	h.tried[t.String()] = tried{written: document, times: last.times + 1}
	return h.rules, true
}

// tellTrial tells what a trial of rules found, unless the rules have changed since, or their text
// said so already.
func (h *hints) tellTrial(t *route.Template, rules appRules, path string, r rulestrial.Result) {
	h.mu.Lock()
	changed := h.rules != rules
	if !changed && r.Allowed {
		last := h.tried[t.String()]
		last.known = true
		h.tried[t.String()] = last
	}
	told := func(locks bool) bool {
		return slices.ContainsFunc(h.findings, func(f rulesfile.Finding) bool { return f.Template == t && f.Locks == locks })
	}
	toldRefused, toldOpen := told(true), told(false)
	h.mu.Unlock()
	if changed {
		return
	}

	by := rules.quote(rulesfile.Parse(rules.text).Lines(path, "update"))
	fields := "'tally', '" + strings.Join(t.Totals(), "', '") + "'"
	if r.Refused && !toldRefused {
		h.sayOnce(fmt.Sprintf("tried: %s may edit %s until it has totals, and then no more (%s). Compare only what changes: request.resource.data.diff(resource.data).affectedKeys(). Tally adds %s",
			inWords(r.Editor), path, by, fields))
	}
	if r.Open != nil && !toldOpen {
		h.sayOnce(fmt.Sprintf("tried: %s may write %s of %s, and only Tally may (%s): a user makes up a total, which stays until the next roll-up. Leave totals out: !request.resource.data.diff(resource.data).affectedKeys().hasAny([%s])",
			inWords(r.Writer), strings.Join(r.Open, ", "), path, by, fields))
	}
}

// sayOnce says a text if it was not said yet.
func (h *hints) sayOnce(text string) {
	if h.first("tried", text) {
		h.say("%s", text)
	}
}

// inWords returns who a user is.
func inWords(u rulestrial.User) string {
	switch u {
	case rulestrial.SignedOut:
		return "a client that is not signed in"
	case rulestrial.Anybody:
		return "any signed-in user"
	}
	return "user " + string(u)
}
