package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	root "github.com/firestore-tally/tally"
	"github.com/firestore-tally/tally/rollup/route"
)

// Who writes the documents that a route counts or adds up.
const (
	byOwner   = "owner"   // each user the one document whose id is the user's
	byUsers   = "users"   // any user creates documents
	byServers = "servers" // only servers, which no rules bind
)

// writerOf returns who most likely writes the documents of a route: below another document, such as
// a post, there is mostly one for each user.
func writerOf(r *route.Route) string {
	if len(r.Pattern()) > 2 {
		return byOwner
	}
	return byUsers
}

// Parts of Tally's rules, by the lines with which they begin.
const (
	partService  = "service cloud.firestore {"
	partCounters = "    // What one write adds to a shard."
	partLists    = "    // ---- What every list needs ----"
	partShards   = "    // ---- What the shards of every route need ----"
	partEnd      = "  }\n}\n"
)

// rulesHead begins the rules that tally init writes.
const rulesHead = `rules_version = '2';

// Who may write what is counted, and read the totals. They do not bind servers and Tally's
// functions. To change: https://github.com/firestore-tally/tally/blob/main/docs/recipes.md has
// rules for likes, orders, ratings and more. firebase deploy puts these in place of the rules that
// your project has.
`

// rulesFor returns security rules for the routes: Tally's own, with a block for each route that is
// not the default one. writers says who writes the documents of a route.
func rulesFor(routes route.Routes, writers map[*route.Route]string) string {
	head, rest, _ := strings.Cut(root.Rules, partCounters)
	_, head, _ = strings.Cut(head, partService)
	head = rulesHead + partService + head
	counters, rest, _ := strings.Cut(rest, partLists)
	lists, rest, _ := strings.Cut(rest, partShards)
	shards := strings.TrimSuffix(rest, partEnd)
	counters, lists, shards = partCounters+counters, partLists+lists, partShards+shards

	isDefault := func(r *route.Route) bool { return r.String() == route.Default }
	if !slices.ContainsFunc(routes, isDefault) {
		counters = ""
	}
	blocks := blocksFor(routes, writers)
	if counters == "" && !strings.Contains(blocks, "isShard(") && !strings.Contains(blocks, "isVote(") {
		shards = ""
	}
	if !strings.Contains(blocks, "isUncounted(") {
		return strings.TrimRight(head+counters+blocks+lists+shards, "\n") + "\n" + partEnd
	}
	return head + counters + blocks + lists + shards + isUncounted + partEnd
}

// isUncounted is a function of the rules for the app's own documents.
const isUncounted = `
    // A new document has no total yet, or 0, by which it can be sorted at once.
    function isUncounted(total) {
      let value = request.resource.data.get(total, 0);
      return value is int && value == 0;
    }
`

// blocksFor returns a block of rules for the documents of each route, and one for those that hold
// its totals.
func blocksFor(routes route.Routes, writers map[*route.Route]string) string {
	var b strings.Builder
	for _, r := range routes {
		if r.String() != route.Default {
			fmt.Fprintf(&b, "    // %s\n%s\n", strings.ReplaceAll(r.String(), "\n", " "), sourceBlock(r, writers[r]))
		}
	}
	for _, t := range routes.Templates() {
		if t.Routes[0].String() != route.Default {
			b.WriteString(targetBlock(t) + "\n")
		}
	}
	return b.String()
}

// sourceBlock returns the block for the documents of a route.
func sourceBlock(r *route.Route, writer string) string {
	path, captures, ok := matchPath(r.Pattern())
	if !ok {
		return "    // To write: the rules of its documents, whose names need care.\n"
	}

	id := captures[len(captures)-1]
	ids := ""
	for _, capture := range captures[:len(captures)-1] {
		ids += " && isId(" + capture + ")"
	}
	own := " && request.auth.uid == " + id
	fields := r.Fields()
	isVote := slices.ContainsFunc(r.Totals, route.Total.OfVotes)
	switch {
	case r.HasShards() && len(fields) == 1 && fields[0].Simple():
		field := quoted(string(fields[0]))
		return block(path,
			"allow get: if true;",
			"allow list: if skipsNothing();",
			"// 10 is the number of shards.",
			"allow create, update: if mayWrite()"+ids+" && holdsOnly(["+field+"])",
			"  && isShard("+id+", 10) && adds("+field+");")
	case r.HasShards():
		return "    // To write: the rules of its shards, each for one of their fields.\n"
	case isVote:
		return block(path,
			"allow get: if request.auth != null"+own+";",
			"allow create, update: if mayWrite()"+ids+" && isVote("+id+", 'on')",
			"  && request.resource.data.keys().hasOnly(['on']);")
	case writer == byOwner:
		return block(path,
			"allow get, delete: if mayWrite()"+own+";",
			"// To change: what it may hold.",
			"allow create, update: if mayWrite()"+ids+own+windowTimes(r)+";")
	case writer == byUsers:
		return block(path,
			"// To change: who may read it, and what it may hold. Only servers change and delete it.",
			"allow get: if request.auth != null;",
			"allow create: if mayWrite()"+ids+" && isId("+id+")"+windowTimes(r)+";")
	default:
		return "    // Only servers read and write these documents.\n"
	}
}

// windowTimes returns the condition that the times of a route's windows are the server's. A client
// that names a time in the future would be in the window for longer.
func windowTimes(r *route.Route) string {
	var text string
	for _, w := range r.Windows() {
		of := "request.resource.data[" + quoted(string(w.Field)) + "] == request.time"
		if w.Field.Simple() && !strings.Contains(text, of) {
			text += "\n        && " + of
		}
	}
	return text
}

// targetBlock returns the block for the documents that hold the totals of a template.
func targetBlock(t *route.Template) string {
	path, captures, ok := matchPath(t.Segments())
	if !ok {
		return "    // To write: the rules of the documents with the totals, whose names need care.\n"
	}
	lines := []string{"// To change: who may read the totals.", "allow get: if true;"}
	if len(captures) > 0 {
		lines = append(lines, "allow list: if listsAtMost(100);")
	}
	if !t.Existing {
		return block(path, lines...)
	}

	create := "allow create: if mayWrite()"
	for _, capture := range captures {
		create += " && isId(" + capture + ")"
	}
	lines = append(lines, "// To change: who may create it, and what it may hold. Only servers and Tally change it.", create)
	for _, name := range t.Totals() {
		lines = append(lines, "  && isUncounted("+quoted(name)+")")
	}
	lines = append(lines, "  && !('tally' in request.resource.data);")
	return block(path, lines...)
}

// block returns the rules of the documents at a path.
func block(path string, lines ...string) string {
	return "    match /" + path + " {\n      " + strings.Join(lines, "\n      ") + "\n    }\n"
}

// plainName matches the names of collections and captures that rules take as they are.
var plainName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// matchPath returns a path as rules match it, and the names of its captures. It reports false if
// rules do not take the names as they are.
func matchPath(path route.Path) (match string, captures []string, ok bool) {
	var segments []string
	for _, s := range path {
		name := s.Name
		if s.Capture {
			name = strings.ReplaceAll(name, ".", "_")
			captures = append(captures, name)
		}
		if !plainName.MatchString(name) {
			return "", nil, false
		}
		if s.Capture {
			name = "{" + name + "}"
		}
		segments = append(segments, name)
	}
	return strings.Join(segments, "/"), captures, true
}

// quoted returns a text as rules spell it.
func quoted(text string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(text) + "'"
}
