package mistakes

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/rollup/route"
)

// sentences has a sentence for each kind of mistake, in the order in which Parse finds them. Its
// verbs are for the mistake's values.
var sentences = map[string]string{
	// Parts that cannot be read.
	"not UTF-8":              "this is not valid UTF-8",
	"control character":      "unexpected control character; remove it",
	"backslash in backticks": "in backticks a \\ is only allowed before a ` or another \\",
	"name without end":       "the name that begins here does not end on its line; a ` is missing",
	"text without end":       `the text that begins here does not end on its line; a " is missing`,

	// The grammar.
	"want by or ->":                  wantRoute,
	"want a comma or ->":             "want a comma and another key, or -> and the roll-up template",
	"want a colon":                   wantRoute,
	afterName:                        wantEnd,
	afterCondition:                   wantEnd,
	afterFunction:                    wantEnd,
	afterField:                       wantEnd,
	afterOption:                      "want a colon or the route's end",
	"want a segment":                 "want a collection, a document's id or a capture such as {counter}",
	"want a capture":                 wantCapture,
	"path of a project":              "the path begins behind documents/, as in posts/{post}/likes/{user}",
	"want a key":                     "want the field by which documents belong to counters, as in orders/{order} by shop",
	"want a name of a key":           "want a name, which the roll-up template has as a capture",
	"unknown function of a key":      "unknown function %[1]s(); want a field, or ref, number, day, week or month of one",
	"want a field of a function":     "want a field, as in ",
	"want a time zone":               `want a time zone in double quotes, as in %[1]s(at, "Europe/Berlin")`,
	"want )":                         "want )",
	"want a total":                   wantTotal,
	"want ) of count":                "count() is of documents, not of a field; want )",
	"unknown function of a total":    "unknown function %[1]s(); " + wantTotal,
	"function of a function":         insteadOfFormula,
	"want a name of a total":         "want a name",
	"want a condition":               "want a condition, as in approved == true",
	"want a comparison":              "want a comparison: ==, >, >=, <, <= or in",
	"want a list":                    wantList,
	"want a comma or ]":              "want a comma or ]",
	"want a value":                   wantValue,
	"want a time in quotes":          "want a time in quotes, as in " + exampleTime,
	"now without a length":           "write now with a length, as in at > now - 24h. To count what is due, query in the app or let the app set a field when it is due",
	"window with another comparison": "a window needs > or >=, as in at > now - 24h. For older documents, subtract two totals in the app",
	"want a window":                  wantWindow,
	"length with a space":            "write %[1]s, without a space",
	"dot missing in a field":         "a dot is missing between the names of a field's path, as in customer.id",
	"reserved word":                  "%[1]s is a reserved word; put it in backticks to use it as a name: `%[1]s`",
	"control character in a name":    "a name cannot have control characters",
	"want an option":                 "an option is missing; " + wantOption,
	"unknown option":                 "unknown option %[1]s; " + wantOption,
	"want a duration":                "want a duration such as 10s or 5m",

	// The paths.
	"unusable capture":                            wantCapture,
	"unusable segment":                            "segment %[1]d %[2]v",
	"braces in a segment":                         "%[1]q: a literal segment cannot have braces",
	"path of a collection":                        "%[1]q names a collection; a document's path has an even number of segments, and this has %[2]d: name a document of it, as in %[1]s/{id}",
	"too many segments":                           "the path has %[1]d segments; Firestore's limit is %[2]d",
	"pattern without a capture at its end":        "the source pattern ends in the literal %[1]q; its last segment must capture the document, as {shard}",
	"captured collection in the pattern":          "the source pattern captures a collection's name, %[1]v; only document ids can be captured: write a route for each collection",
	"capture twice in the pattern":                "the source pattern captures %[1]v twice; give each capture a name of its own",
	"captured collection in the template":         "the roll-up path captures a collection's name, %[1]v; only document ids can be captured, or the audit could not find the roll-ups",
	"last capture in the template":                "%[1]v is the document's own ID, so each document would get its own roll-up. Group by a field that has the ID: %[2]s/{id} by %[3]s",
	"unknown capture in the template":             "the roll-up path uses %[1]v, which the source pattern does not capture",
	"neither a key nor a capture in the template": "the roll-up path uses %[1]v, which is neither a key nor captured by the source pattern",
	"capture twice in the template":               "the roll-up path uses %[1]s twice; a route with \"by\" uses each capture once",
	"capture that the template lacks":             "the roll-up path does not use %[1]v; counters that differ only in it would share one roll-up: ",

	// The keys.
	"too many keys":                  "a route has at most %[1]d keys after \"by\"; let the app keep a field that says two of them",
	"key twice":                      "%[1]s is a key twice",
	"two keys of one name":           "two keys are called {%[1]s}; name one of them with \"as\"",
	"two keys of time":               "only one of the keys can be a day, a week or a month",
	"capture with the name of a key": "the pattern's capture has the name of the key {%[1]s}; give one of them another name, a key with \"as\"",
	"by without existing":            "add existing: without it, anyone who can write a source could create any number of roll-ups. The app then creates %[1]s",
	"key that the template lacks":    "the roll-up path does not use {%[1]s}, the key %[2]s; all its groups would share one roll-up: end the path in {%[1]s}, or write a total for each value, as in count() where %[3]s == \"a\" as a",
	"unknown time zone":              "%[1]s is not a time zone: name a zone by its city, such as Europe/Berlin or America/New_York, or UTC",

	// Routes across parents.
	"route across two parents":                   "the roll-up path does not use %[1]v, so the documents count in collections ",
	"route across parents of its own collection": "the roll-up path does not use %[1]v, so the documents %[2]s would count, too: call the collections below them otherwise, or keep all documents in one collection",
	"day across parents":                         "the roll-up path does not use %[1]v, and a route across parents has no days, weeks or months; keep the documents in one collection, as in %[2]s by ",
	"best value across parents":                  "a route across parents, whose roll-up path does not use %[2]v, has no %[1]s: its query would go through the values of other documents, too; sum, count or average them, or keep the documents in one collection, as in %[3]s",
	"range across parents":                       "a route across parents, whose roll-up path does not use %[1]v, compares the documents' paths already, and a query has a range of one field; test with == or in, let the app keep a field that says it, or keep the documents in one collection, as in %[2]s",

	// The totals.
	"name with a character that no field has":  "the field %[1]q: want a name without any of . ` [ ] * ~ / ( )",
	"unusable name of a field":                 "a field's name %[1]v",
	"best value of a day":                      "a route by days, weeks or months has no %[1]s: its query would go through the values of all days; sum, count or average them, or let the app keep the %[1]s",
	"best time of another field in a day":      "a route by days, weeks or months has the %[1]s of the key's own field, %[2]s; the times of another one are in no order within a day",
	"total in a map":                           "%[1]s is in a map; a total is a top-level field: as ",
	"total without a name":                     "%[1]s has no name; write %[1]s as %[2]s",
	"total with the name of Tally's own field": "the total %[1]q has the name of a field that Tally itself writes to the roll-up; rename it with \"as\"",
	"total twice":                              "the total %[1]q is named twice",

	// The conditions.
	"null in a range":                   "null has no order; want ==, or another value",
	"unusable window":                   "%[1]s: want whole seconds from %[2]s to %[3]s, in s, m, h or d, such as 90s, 24h, or 7d for a week",
	"null in a list":                    "null in a list matches no document; test it with ==",
	"value twice in a list":             "%[1]s is in the list twice",
	"list too long":                     "the list has more than %[1]d values, which is Firestore's limit",
	"no value":                          "%[1]s: " + wantValue,
	"number too large":                  "%[1]s is beyond the largest number that Firestore holds",
	"integer too large":                 "%[1]s is beyond the largest integer that Firestore holds",
	"no JSON string":                    "this is not a JSON string: %[1]v",
	"text that is not UTF-8":            "this text is not valid UTF-8",
	"text too long":                     "this text has %[1]d bytes; no query takes more than %[2]d",
	"no time":                           "this is not a time as in RFC 3339; want one such as " + exampleTime,
	"year out of range":                 "the year is out of Firestore's range, which is 1 to 9999",
	"time too fine":                     "Firestore keeps microseconds; this time is finer",
	"condition on a key":                "%[1]s is a key, so each counter tests it already",
	"range in a day":                    "a route by days, weeks or months compares the key's time already, and a query has a range of one field; test with == or in, or let the app keep a field that says it",
	"one value of the total's field":    "%[1]s is tested and aggregated; all its values would be the same",
	"list of the total's field":         "%[1]s is tested and aggregated; count the documents of each value instead",
	"value that the total does not see": "%[1]s is of a kind that %[2]s does not see",
	"two conditions on a field":         "%[1]s is tested twice",
	"range of two kinds":                "%[1]s and %[2]s are of two kinds, so no document would count",
	"ranges of two fields":              "%[1]s and %[2]s are both compared; a total has a range of one field",
	"too many alternatives":             "the lists of this total make more than %[1]d alternatives, which is Firestore's limit",

	// The options.
	"option twice":                             "the option %[1]s is given twice",
	"documents with count()":                   "count() needs no index and bills one read for each 1,000 documents; remove the option documents",
	"documents with other than plain sums":     "documents is for plain sums of all documents; remove the option",
	"unusable every":                           "every %[1]s: want a duration of at least %[2]v, such as 10s or 5m",
	"every with a window":                      "every is for totals without a window: when a document leaves a window, an alarm has that rolled up, and not the schedule; remove the option",
	"unusable cadence":                         "cadence %[1]s: want a duration from %[2]v to 24h, such as 10s or 5m",
	"existing with within":                     "existing and within exclude each other: the app creates the documents of a route that says existing, and Tally those of one that says within",
	"every with within":                        "every is not for a route that says within; say cadence and a duration, and events keep its totals at that pace",
	"every with cadence":                       "use either every (the schedule rolls up) or cadence (events do)",
	"within without a time":                    "within is for keys that are days, weeks or months, as in by day(at): anyone who may write a source could make up other roll-ups without end; say existing, and have the app create the documents %[1]s",
	"within a document that is not above":      "within %[1]s: want a document above %[2]s, spelled as in that path",
	"id that sources could make up":            "anyone who may write a source could make up a %[1]v, and roll-ups without end; ",
	"label with the name of Tally's own field": "%[1]v would be a field of the roll-up, and Tally itself writes one of that name; rename the capture, a key with \"as\"",
	"label in a map":                           "%[1]v would be a field of the roll-up, and a top-level field has no dots in its name; rename the capture, as in {%[2]s}",

	// Routes together.
	"one roll-up, and two of every":                      `it and route %[1]q make one roll-up; say the same "every" in both`,
	"one roll-up, and two of cadence":                    `it and route %[1]q make one roll-up; say the same "cadence" in both`,
	"one roll-up, and two kinds of ids":                  "it and route %[1]q make one roll-up, and their ids differ; name numbers, days, weeks and months by the same functions and zones in both",
	"one roll-up, and two of within":                     `it and route %[1]q make one roll-up; say the same "within" in both, or in neither`,
	"one roll-up, and two names of captures":             "it and route %[1]q make one roll-up, which has its ids in fields that are called as the captures are; give the captures the same names in both",
	"one roll-up, and one existing":                      `it and route %[1]q make one roll-up; say "existing" in both, or in neither`,
	"sources of two patterns that may be one document":   "its source and that of route %[1]q could be one document; spell both patterns alike, so that they share a trigger, or keep the documents apart",
	"one source, and two of every":                       `it and route %[1]q have the same source; say the same "every" in both`,
	"one source and one roll-up":                         "it and route %[1]q make one roll-up of one source; put all totals into one of them",
	"roll-ups of two templates that may be one document": "its roll-ups and those of route %[1]q could be one document; spell both alike, or give each its own roll-ups",
	"roll-up above a source":                             "the roll-up %[1]s is a document above the source %[2]s, and Tally would create and remove it; add the option existing if the app writes it, or choose another path",
	"owner that Tally creates":                           "it makes its roll-ups within %[1]s, which Tally creates and removes itself by route %[2]q; add the option existing there if the app writes it, or choose another document",
	"total with the name of a counter's field":           "the total %[1]q has the name of a field by which the counter's own document %[2]s tells clients and rules about its shards; rename it with \"as\"",
	"source among Tally's own documents":                 "the source matches %[1]s, which Tally writes itself; every roll-up would trigger another, without end",
	"roll-up among Tally's own documents":                "the roll-up %[1]s is where Tally keeps %[2]s; choose another path",
	"roll-up that triggers itself":                       "its roll-ups are among its own sources, and it reads the field %[1]s, which ",
	"roll-up among its own sources":                      "the roll-up %[1]s is a document of its own source %[2]s, and Tally would create and remove it; add the option existing if the app writes it, or choose another path",
	"circle of routes":                                   "its roll-ups are sources of ",
	"total of two routes":                                "its total %[1]q and that of route %[2]q have one name in one roll-up; rename one of them with \"as\"",
	"total with the name of a label":                     "its total %[1]q has the name of a capture, and the roll-up has the capture's id in a field of that name; rename the total with \"as\"",
}

const (
	wantRoute   = "want <source pattern> -> <roll-up template> : <totals>, as in " + route.Default
	wantEnd     = "want a comma, a colon or the route's end"
	wantTotal   = "want a field, count(), or sum, average, maximum, minimum, latest or earliest of a field"
	wantOption  = "want documents, existing, within, or every or cadence and a duration such as 10s"
	wantCapture = "a capture stands for one whole segment, as {counter}"
	wantWindow  = "want now - and how long the window is, with spaces, as in at > now - 24h"
	wantValue   = "want a value as JSON has it: a text in quotes, a number, true, false or null; or a time such as " + exampleTime
	wantList    = `want a list of values in brackets, as in status in ["paid", "sent"]`
	exampleTime = `timestamp("2026-01-31T12:00:00Z")`
)

// remedies are what to write instead, where that depends on more than the sentence's verbs say.
// Each follows its sentence.
var remedies = map[string]func(*route.Mistake) string{
	"unknown function of a key":   func(m *route.Mistake) string { return meantKey(fmt.Sprint(m.Values[0])) },
	"unknown function of a total": func(m *route.Mistake) string { return meantAggregate(fmt.Sprint(m.Values[0])) },
	"want a field of a function":  exampleOf,
	"want a comparison":           func(m *route.Mistake) string { return meantComparison(m.Next[0].Text) },
	"want a value":                func(m *route.Mistake) string { return noValue(m.Next[0].Text) },
	"no value":                    func(m *route.Mistake) string { return noValue(m.Values[0].(string)) },
	"unknown option":              func(m *route.Mistake) string { return meant(m.Values[0].(string), options...) },

	"unknown capture in the template":             unknownCapture,
	"neither a key nor a capture in the template": unknownCapture,
	"capture that the template lacks":             unused,
	"by without existing":                         withinInstead,
	"unknown time zone":                           func(m *route.Mistake) string { return meantZone(m.Values[0].(string)) },
	"route across two parents":                    acrossOne,
	"day across parents":                          func(m *route.Mistake) string { return join(m.Values[2].([]route.Key), ", ") },
	"total in a map":                              topLevel,

	"within a document that is not above": ownedBy,
	"id that sources could make up":       ownerInstead,

	"roll-up that triggers itself": writer,
	"circle of routes":             circle,
}

// exampleOf shows a function with a field of the kind that it takes.
func exampleOf(m *route.Mistake) string {
	function := fmt.Sprint(m.Values[0])
	field := map[string]string{"ref": "author", "number": "user_id", "day": "at", "week": "at", "month": "at"}[function]
	return fmt.Sprintf("%s(%s)", function, cmp.Or(field, "amount"))
}

// unknownCapture asks which capture was meant, or says how a field takes its place.
func unknownCapture(m *route.Mistake) string {
	capture, others := m.Values[0].(route.Segment), m.Values[1].([]string)
	isGrouped := m.Kind == "neither a key nor a capture in the template"
	if isGrouped && route.Function(capture.Name).OfTime() {
		return fmt.Sprintf("; the %s of a timestamp is the key %[1]s(at)", capture.Name)
	}

	did := meant(capture.String(), others...)
	if did == "" && !isGrouped {
		return "; if a field of the documents holds it, put the field after the pattern: by " + capture.Name
	}
	return did
}

// unused says what to do with documents of several collections that one roll-up is for. A query is
// of one collection.
func unused(m *route.Mistake) string {
	pattern, keys := m.Values[1].(route.Path), m.Values[2].([]route.Key)
	parents, last := pattern[:len(pattern)-2], pattern[len(pattern)-2:]
	if len(keys) > 0 {
		return fmt.Sprintf("keep the documents in one collection, as in %s by %s", last, spell(keys[0].Field))
	}
	return fmt.Sprintf("total the documents of each %s first, and add up those totals by a second route (docs/routes.md#totals-of-totals)", parents)
}

// acrossOne says which documents a route across two parents would count, and how it is written.
func acrossOne(m *route.Mistake) string {
	parent, above, last := m.Values[0], m.Values[1], m.Values[2].(route.Path)
	return fmt.Sprintf("%s at any depth below %s; spell the source %[2]s/%s/%s", last[0], above, parent, last)
}

// withinInstead follows the advice to say existing. It says that Tally may create the documents if
// they are days, weeks or months.
func withinInstead(m *route.Mistake) string {
	template, keys := m.Values[0].(route.Path), m.Values[1].([]route.Key)
	var owner route.Path
	timed := false
	for i, s := range template {
		switch {
		case s.Capture && isTime(s, keys):
			timed = true
		case s.Capture:
			owner = template[:i+1]
		}
	}

	switch {
	case !timed:
		return ""
	case owner == nil:
		return "; or say within, and Tally creates these documents"
	case len(owner) == len(template):
		return "; or " + timeLast(owner, keys) + ", and Tally creates these documents while that document exists"
	default:
		return fmt.Sprintf("; or say within %s, and Tally creates these documents while that document exists", owner)
	}
}

// timeLast says how a template with an id behind that of a time is written so that Tally may create
// its documents.
func timeLast(template route.Path, keys []route.Key) string {
	var above, time route.Path
	for pair := range slices.Chunk(template, 2) {
		if isTime(pair[1], keys) {
			time = pair
		} else {
			above = append(above, pair...)
		}
	}
	return fmt.Sprintf("end the path in the time, as in %s : within %s", slices.Concat(above, time), above)
}

// isTime reports whether a segment is that of a key that is a day, a week or a month.
func isTime(s route.Segment, keys []route.Key) bool {
	return slices.ContainsFunc(keys, func(k route.Key) bool { return k.Function.OfTime() && k.Name == s.Name })
}

// topLevel names a total without the maps that it should be in.
func topLevel(m *route.Mistake) string {
	name := m.Values[0].(string)
	return route.Quote(name[strings.LastIndex(name, ".")+1:])
}

// ownedBy shows how the option within names an owner, if there must be one.
func ownedBy(m *route.Mistake) string {
	owner := m.Values[2].(route.Path)
	if len(owner) == 0 {
		return ""
	}
	return fmt.Sprintf(", as in within %s", owner)
}

// ownerInstead says which document must exist, so that sources make up none.
func ownerInstead(m *route.Mistake) string {
	template, owner := m.Values[1].(route.Path), m.Values[2].(route.Path)
	if len(owner) == len(template) {
		return timeLast(template, m.Values[3].([]route.Key))
	}
	return fmt.Sprintf("want within %s, which the app creates", owner)
}

// writer says whose roll-ups write the field that a route reads.
func writer(m *route.Mistake) string {
	by := m.Values[1].(*route.Route)
	writes := fmt.Sprintf("the roll-ups of route %q", by)
	if by == m.Route {
		writes = "they"
	}
	return writes + " write; each roll-up could trigger another, without end; read a field that only the app writes, or keep the totals in another collection"
}

// circle names the routes that a circle goes through.
func circle(m *route.Mistake) string {
	var names []string
	for _, r := range m.Values[0].([]*route.Route) {
		names = append(names, fmt.Sprintf("route %q", r))
	}
	names = append(names, "this route; each roll-up would trigger another, without end")
	return strings.Join(names, ", whose roll-ups are sources of ")
}

// spell returns a field as a route spells it.
func spell(f document.Field) string { return route.KeyOf(route.Text, f).String() }

// join returns the texts of keys, with a separator between them.
func join(keys []route.Key, separator string) string {
	texts := make([]string, len(keys))
	for i, k := range keys {
		texts[i] = k.String()
	}
	return strings.Join(texts, separator)
}
