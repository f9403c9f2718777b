package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/cloud/firestorestore"
	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/reason"
	"github.com/firestore-tally/tally/internal/tool/local/emulator"
	"github.com/firestore-tally/tally/internal/tool/rules"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// hints say once, in a sentence, what a newcomer gets wrong.
type hints struct {
	routes route.Routes

	addr, project string // of the emulator, and the app

	say      func(format string, args ...any)
	reported sync.Map // keys: what was said; values: when, of what is said again

	written chan writtenDocument // documents to look at

	mu       sync.Mutex
	homes    map[*route.Template]int     // how many missing documents of each were told
	rules    appRules                    // security rules that are in force
	refusals map[string]struct{}         // that they made and that were told
	answers  []rules.Answer              // about the rules
	attempts map[*route.Template]attempt // nil: on what only Tally's routes have

	court func(context.Context) (addr string, err error) // where rules are tried, by court.open
}

// setRules notes the security rules that are in force from now on. What they refuse is told, even
// if former rules refused the same.
func (h *hints) setRules(in appRules) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.rules, h.refusals = in, make(map[string]struct{})
}

// checkRules tells where the rules that are in force allow one write in two places, and has them
// tried again on the documents on which others were.
func (h *hints) checkRules() {
	h.mu.Lock()
	in := h.rules
	h.mu.Unlock()
	h.tryAgain()
	if in.file == "" {
		return
	}
	for _, text := range rules.Parse(in.text).DuplicateBlocks(h.routes) {
		if h.firstTime("rules", text) {
			h.say("%s:%s", in.name(), text)
		}
	}
}

// hasTallyField reports whether a document has what Tally adds.
func hasTallyField(fields []string) bool { return slices.Contains(fields, document.TallyField) }

// firstTime reports whether it is called with this for the first time, and notes that it was.
func (h *hints) firstTime(about ...any) bool {
	_, reported := h.reported.LoadOrStore(fmt.Sprintln(about...), nil)
	return !reported
}

// wasReported reports whether firstTime was called with this.
func (h *hints) wasReported(about ...any) bool {
	_, reported := h.reported.Load(fmt.Sprintln(about...))
	return reported
}

// firstTimeThisHour reports whether it was not called with this in the last hour, and notes that it
// was now.
func (h *hints) firstTimeThisHour(about ...any) bool {
	key, now := fmt.Sprintln(about...), time.Now()
	last, reported := h.reported.Load(key)
	if reported && now.Sub(last.(time.Time)) < time.Hour {
		return false
	}
	h.reported.Store(key, now)
	return true
}

// reportIndexes tells which routes need indexes on a project, whose database is of an edition. The
// emulator asks for none.
func (h *hints) reportIndexes(on route.Edition) {
	if on == route.Enterprise {
		h.say("on a project each query needs an index, because the database is of the Enterprise edition; tally deploy builds the indexes, and tally indexes prints them")
		return
	}
	var need []string
	for _, r := range h.routes {
		if len(route.Routes{r}.Indexes(route.Standard)) > 0 || r.Across() {
			need = append(need, r.String())
		}
	}
	if len(need) > 0 {
		h.say("on a project indexes are needed by %s; tally deploy builds them, and tally indexes prints them", strings.Join(need, " and by "))
	}
}

// reportCircles tells which roll-ups are events of their own routes.
func (h *hints) reportCircles() {
	circles := h.routes.Circles()
	if circles != "" {
		h.say("%s; tally deploy says what changes cost", circles)
	}
}

// reportReasons tells the reasons for which totals do not have a document, each once, or once an
// hour if another document may well be left out for it. What documents may be meant to be is not
// told, nor what the functions log, nor what other documents decide.
func (h *hints) reportReasons(path string, fields map[string]any) {
	for _, r := range reason.Of(h.routes, reason.DocumentOf(path, fields)) {
		switch r.Kind {
		case reason.Unmet, reason.Malformed, reason.Absent:
			continue
		}
		first := h.firstTime
		if r.Repeats() {
			first = h.firstTimeThisHour
		}
		if first(r.Kind, r.Route, r.About) {
			h.say("%s", r.Text(path))
		}
	}
}

// mostLacking is how many documents are looked through for a field that one of them lacks.
const mostLacking = 100

// reportAbsentField tells that no document of a route has a field that the route reads: its name is
// misspelled, in the route or in the app.
func (h *hints) reportAbsentField(ctx context.Context, db servedDatabase, path string, fields map[string]any) {
	for _, r := range reason.Of(h.routes, reason.DocumentOf(path, fields)) {
		if r.Kind != reason.Absent || h.wasReported(r.Kind, r.Route, r.About) {
			continue
		}
		lacking, all := 0, examplesOf(ctx, db.client, r.Route, mostLacking)
		for _, doc := range all {
			_, has := r.Field.In(doc.Data())
			if !has {
				lacking++
			}
		}
		if lacking > 0 && lacking == len(all) && h.firstTime(r.Kind, r.Route, r.About) {
			h.say("%s", r.AbsentText(lacking))
		}
	}
}

// maxHomes is how many missing documents of a template are reported. A client that writes sources
// can name any number of them.
const maxHomes = 10

// reportMissingHome reports a document whose totals have no place, because the app has not created
// the document that is to hold the totals, or within which Tally creates that. It reports each
// missing document once, and calls missing once for each document that may be missing.
func (h *hints) reportMissingHome(database, path string, fields map[string]any, missing func(path string) bool) {
	document := reason.DocumentOf(path, fields)
	for _, r := range h.routes {
		c, ok := document.Counter(r)
		if !ok || reason.Home(c) == "" {
			continue
		}
		home := reason.Home(c)
		unasked := h.firstTime("home", database, home)
		if !unasked || !missing(home) {
			continue
		}

		count := h.countMissingHome(r.Template)
		if count > maxHomes {
			continue
		}
		text := reason.MissingHome(c).Text(path)
		if database != firestore.DefaultDatabaseID {
			text = database + ": " + text
		}
		if count == maxHomes {
			text += "; others like it are not reported any more"
		}
		h.say("%s", text)
	}
}

// countMissingHome returns how many missing documents of a template there are to tell, with another
// one.
func (h *hints) countMissingHome(template *route.Template) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.homes == nil {
		h.homes = make(map[*route.Template]int)
	}
	h.homes[template]++
	return h.homes[template]
}

// reportAbandonedTotals reports a document with totals that Tally made and that no route keeps up
// to date. It reports one document of each pattern.
func (h *hints) reportAbandonedTotals(path string, fields map[string]any) {
	made, _ := fields[document.TallyField].(map[string]any)
	_, isRollUp := made["as_of"].(time.Time)
	holdsTotals := func(t *route.Template) bool { _, ok := t.Counter(path); return ok }
	if !isRollUp || slices.ContainsFunc(h.routes.Templates(), holdsTotals) {
		return
	}

	pattern, _ := reason.Generalized(path)
	first := h.firstTime("left", pattern)
	if first {
		h.say("%s has totals that Tally made, and no route updates them any more; they keep their last values", path)
	}
}

// reportAppValues tells, once for each template, that a document of the app's holds or held
// something where a total belongs, although no roll-up wrote it. Of zeros it does not: apps write
// them into new documents.
func (h *hints) reportAppValues(path string, fields map[string]any, updated time.Time) {
	c, ok := h.routes.Counter(path)
	if !ok {
		return
	}
	r := rollup.RollUpOf(c.Template, fields, updated)
	foreign, unwritten := r.ForeignExample(path), r.UnwrittenExample(path)
	for _, name := range slices.Sorted(maps.Keys(r.Tally.Before)) {
		if was := r.Tally.Before[name]; !was.IsZero() {
			unwritten = cmp.Or(unwritten, fmt.Sprintf("%s: %s was %v", path, name, was))
		}
	}

	if foreign != "" && h.firstTime("foreign kind", c.Template) {
		h.say("%s of the app's, which no total can be. Tally leaves the field alone and leaves the total out; give the total another name by \"as\" in the route, or clear the field", foreign)
	}
	if unwritten != "" && h.firstTime("unwritten", c.Template) {
		h.say("%s, which no roll-up wrote. Tally replaces it by what the documents add up to, and keeps the number in tally.before", unwritten)
	}
}

// A servedDatabase is one that the functions serve.
type servedDatabase struct {
	id     string
	client *firestore.Client
}

// inspect tells what is wrong with a document.
func (h *hints) inspect(ctx context.Context, db servedDatabase, doc *firestore.DocumentSnapshot) {
	path := firestorestore.Path(doc.Ref)
	h.reportReasons(path, firestorestore.Data(doc))
	h.reportAbsentField(ctx, db, path, firestorestore.Data(doc))
	h.inspectHome(ctx, db, doc)
	h.reportAbandonedTotals(path, doc.Data())
	h.tryRules(ctx, writtenDocument{db.id, path})
	h.reportSimilar(ctx, db, path)
	h.reportTotalAmongShards(ctx, doc)
}

// inspectHome tells whether the documents that hold a document's totals are missing.
func (h *hints) inspectHome(ctx context.Context, db servedDatabase, doc *firestore.DocumentSnapshot) {
	path := firestorestore.Path(doc.Ref)
	h.reportMissingHome(db.id, path, firestorestore.Data(doc), func(path string) bool {
		home, err := db.client.Doc(path).Get(ctx)
		if err == nil {
			h.reportAppValues(path, home.Data(), home.UpdateTime)
			h.tryRules(ctx, writtenDocument{db.id, path})
		}
		return status.Code(err) == codes.NotFound // without an answer there is no hint
	})
}

// A writtenDocument is a document that an event is about.
type writtenDocument struct{ database, path string }

// maxWritten is how many documents wait until they are looked at. If more are written meanwhile,
// nothing is told about these: the emulator has other things to do.
const maxWritten = 100

// noteWritten has a document looked at that was written. It does not block.
func (h *hints) noteWritten(database, path string) {
	select {
	case h.written <- writtenDocument{database, path}:
	default:
	}
}

// inspectWritten looks at each document that is written, one after another, until ctx ends.
func (h *hints) inspectWritten(ctx context.Context, clients map[string]*firestore.Client) {
	for {
		select {
		case <-ctx.Done():
			return
		case w := <-h.written:
			client := clients[w.database]
			if client == nil {
				continue
			}
			doc, err := client.Doc(w.path).Get(ctx)
			if err != nil {
				continue // such as of a document that was deleted
			}
			h.inspect(ctx, servedDatabase{w.database, client}, doc)
		}
	}
}

// reportRefusal tells that the rules refused a client's request, and which statements of the rules
// did.
func (h *hints) reportRefusal(r emulator.Refusal) {
	cause := h.causeOf(r)
	h.mu.Lock()
	in := h.rules
	about := fmt.Sprintln(r.Method, r.Database, r.Path, r.Lines, r.User != "", cause)
	_, reported := h.refusals[about]
	h.refusals[about] = struct{}{}
	h.mu.Unlock()
	if reported {
		return
	}

	client := "a client that is not signed in"
	if r.User != "" {
		client = "user " + r.User
	}
	path := r.Path
	if r.Database != firestore.DefaultDatabaseID {
		path = r.Database + ": " + path
	}

	by := in.quote(r.Lines)
	if r.Lines == nil {
		by = "nothing in " + in.name() + " allows it"
	}
	if r.Lines == nil && in.file == "" {
		by += "; firebase.json names a file of your own"
	}
	h.say("refused: %s of %s by %s; %s%s", r.Method, path, client, by, cause)
}
