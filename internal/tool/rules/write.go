package rules

import (
	"slices"
	"strings"

	"github.com/firestore-tally/tally/rollup/route"
)

// Parts of Tally's own rules, by the lines with which they begin.
const (
	partService  = "service cloud.firestore {"
	partAmounts  = "    // What one write adds to a shard."
	partCounters = "    match /counters/{counter} {"
	partLists    = "    // ---- What every list needs ----"
	partShards   = "    // ---- What the shards of every route need ----"
	partEnd      = "  }\n}\n"
)

// head begins the rules.
const head = `rules_version = '2';

// Who may write what is counted, and read the totals. They do not bind servers and Tally's
// functions. Each "decide:" is a question for you: put your answer in the place of the false before
// it. Where no condition lists a document's fields, clients may add others, up to 1 MiB. Limit
// them by a condition such as request.resource.data.keys().hasOnly(['at']).
// https://github.com/firestore-tally/tally/blob/main/docs/recipes.md has rules for likes, orders,
// ratings and more. ` + whereTo + "\n"

// whereTo says what becomes of the rules, and toMerge says so of those for an app that has others.
const (
	whereTo = "firebase deploy puts these in place of the rules that your project has."
	toMerge = "Firebase does not read this file: merge what\n" +
		"// match /databases/{database}/documents holds here into the same block of your own rules."
)

// ToMerge returns the same rules as For, for an app that has rules of its own.
func ToMerge(tallys string, routes route.Routes, answers Answers) string {
	return strings.Replace(For(tallys, routes, answers), whereTo, toMerge, 1)
}

// For returns security rules for the routes: Tally's own, the text of firestore.rules, with a block
// for each path of the routes that are not the default one.
func For(tallys string, routes route.Routes, answers Answers) string {
	start, rest, _ := strings.Cut(tallys, partAmounts)
	_, start, _ = strings.Cut(start, partService)
	amounts, rest, _ := strings.Cut(rest, partCounters)
	counters, rest, _ := strings.Cut(rest, partLists)
	lists, rest, _ := strings.Cut(rest, partShards)
	shards := partShards + strings.TrimSuffix(rest, partEnd)

	hasDefault := slices.ContainsFunc(routes, isDefault)
	blocks := ""
	for _, b := range blocksOf(routes, answers) {
		if hasDefault && b.meetsDefault() {
			blocks += b.defaultComment()
			counters = strings.Replace(counters, openRollUps, b.rollUpsOfAll(), 1)
			continue
		}
		blocks += b.String() + "\n"
	}

	text := head + partService + start
	if hasDefault || strings.Contains(blocks, "adds(") {
		text += partAmounts + amounts
	}
	if hasDefault {
		text += partCounters + counters
	}
	text += blocks + partLists + lists
	if hasDefault || strings.Contains(blocks, "isShard(") {
		text += shards
	}
	for _, f := range functions {
		if strings.Contains(text, f.name+"(") {
			text = strings.TrimRight(text, "\n") + "\n" + f.text
		}
	}
	return strings.TrimRight(text, "\n") + "\n" + partEnd
}

// isDefault reports whether a route is the default one, which Tally's own rules are for.
func isDefault(r *route.Route) bool { return r.String() == route.Default }

// ofDefault are the paths that Tally's own rules have blocks for.
var ofDefault = []*block{
	{path: route.Path{{Name: "counters"}, {Name: "counter", Capture: true}}},
	{path: route.Path{{Name: "counters"}, {Name: "counter", Capture: true}, {Name: "shards"}, {Name: "shard", Capture: true}}},
	{path: route.Path{{Name: "rollups"}, {Name: "counter", Capture: true}}},
}

// meetsDefault reports whether Tally's own rules have a block that matches a document of b. That is
// the narrowest: clients write shards there, and nothing else.
func (b *block) meetsDefault() bool {
	return slices.ContainsFunc(ofDefault, func(own *block) bool {
		return slices.EqualFunc(b.path, own.path, func(s, o route.Segment) bool { return o.Capture || s == o })
	})
}

// defaultComment says that other routes have documents, too, for which Tally's own rules stand.
func (b *block) defaultComment() string {
	isOther := func(s source) bool { return !isDefault(s.Route) }
	if !slices.ContainsFunc(b.sources, isOther) && (b.home == nil || !b.home.Existing) {
		return ""
	}
	return "    //" + decideAs[len(" //"):] + "what else clients write into " + b.path.String() + ", for other routes than the default one\n\n"
}

// openRollUps is how Tally's own rules have the roll-ups of the default route read.
const openRollUps = "    match /rollups/{counter} {\n      allow get: if true;\n      allow list: if listsAtMost(100);\n"

// rollUpsOfAll returns the same, unless other routes have totals there that not everybody reads.
func (b *block) rollUpsOfAll() string {
	if b.readsTotals() == nil {
		return openRollUps
	}
	return "    match /rollups/{counter} {\n" + allow("get", []term{b.readQuestion("gets")}) + b.listStatement(noClient, false)
}

// A function is one of the rules that blocks call.
type function struct{ name, text string }

// writerFields are names of fields that say who wrote a document.
var writerFields = []string{
	"author", "authorId", "author_id", "buyer", "by", "createdBy", "created_by", "creator", "owner", "ownerId", "owner_id",
	"sender", "senderId", "sender_id", "uid", "user", "userId", "user_id", "writer",
}

// namesWriter returns the function of that name.
func namesWriter() string {
	var own []string
	for _, name := range writerFields {
		own = append(own, quoted(name)+": uid")
	}
	var lines []string
	for five := range slices.Chunk(own, 5) {
		lines = append(lines, strings.Join(five, ", "))
	}
	return `
    // A document that says in such a field who wrote it names the user who writes it, and no other.
    // An edit may leave the field as it was.
    function namesWriter(except) {
      let uid = request.auth == null ? null : request.auth.uid;
      let own = {
        ` + strings.Join(lines, ",\n"+inAllow) + `
      };
      let others = request.resource.data.diff(own).changedKeys();
      return others.hasOnly(except)
        || resource != null && !others.hasAny(request.resource.data.diff(resource.data).affectedKeys());
    }
`
}

// functions are those that Tally's own rules do not have, in an order in which each comes after
// those that call it.
var functions = []function{
	{"namesWriter", namesWriter()},
	{"isNow", `
    // A time is the server's, or an edit leaves it as it was.
    function isNow(field) {
      return request.resource.data.get(field, null) == request.time || isLeft(field);
    }
`},
	{"isDated", `
    // A time that says to which day, week or month a document belongs is the server's, and stays.
    function isDated(field) {
      return resource == null ? request.resource.data.get(field, null) == request.time : isLeft(field);
    }
`},
	{"isLeft", `
    // An edit leaves the field as it was. To rules, 2 and 2.0 are equal, and so are null and no field.
    function isLeft(field) {
      let before = resource == null ? null : resource.data.get(field, null);
      let after = request.resource.data.get(field, null);
      return resource != null && after == before && (after is int) == (before is int);
    }
`},
	{"isUncounted", `
    // A new document has no total yet, or 0, by which it can be sorted at once.
    function isUncounted(total) {
      let value = request.resource.data.get(total, 0);
      return value is int && value == 0;
    }
`},
	{"isEmpty", `
    // A new document has no such total yet, or null, by which it can be sorted at once.
    function isEmpty(total) {
      return request.resource.data.get(total, null) == null;
    }
`},
	{"lacks", `
    function lacks(fields) {
      return !request.resource.data.keys().hasAny(fields);
    }
`},
	{"leaves", `
    // A set without merge would remove the totals. Use update, or merge.
    function leaves(fields) {
      return !request.resource.data.diff(resource.data).affectedKeys().hasAny(fields);
    }
`},
	{"keepsInt", `
    // To leaves, 2 and 2.0 are equal.
    function keepsInt(field) {
      return (request.resource.data.get(field, 0) is int) == (resource.data.get(field, 0) is int);
    }
`},
	{"isKept", `
    function isKept(field) {
      let before = resource == null ? 0 : resource.data.get(field, 0);
      let after = request.resource.data.get(field, 0);
      return after == before && (after is int) == (before is int);
    }
`},
}
