package mistakes

import (
	"fmt"
	"slices"
	"strings"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/rollup/route"
)

// A habit is what people write who know another language.
type habit struct {
	kinds []string // of mistakes that come of it

	// instead says what to write instead; "" if the mistake does not come of this habit.
	instead func(m *route.Mistake) string
}

// habits has the habits in the order in which they are looked for.
var habits = []habit{
	// In paths.
	{[]string{"want by or ->", "want a colon", afterOption}, glued},
	{[]string{"want by or ->", "want a comma or ->"}, next("the arrow is written ->", "→", "⇒", "⟶", "➔", "➜")},
	{[]string{"want by or ->"}, groupBy},
	{[]string{"want a comma or ->"}, ofList},
	{[]string{"want a segment"}, leadingSlash},
	{[]string{"want a segment"}, otherCapture},
	{[]string{"want a segment"}, emptySegment},
	{[]string{"want a segment", "want a capture"}, manySegments},
	{[]string{"want a capture"}, someDocuments},

	// In functions.
	{[]string{"unknown function of a key", "unknown function of a total"}, otherFunction},
	{[]string{"function of a function"}, func(m *route.Mistake) string { return lengthOf(m.Values[0].(string)) }},
	{[]string{"want )"}, formula},

	// Where a total or a condition could end.
	{atEnd, next("there is no or: list the values of one field with in, or add up two totals in the app", "or")},
	{atEnd, next(`"by" follows the source pattern; for values that are known, write a total for each, as in count() where kind == "a" as a`, "by")},
	{atEnd, func(m *route.Mistake) string { return window(m.Next, "at") }},
	{[]string{afterName}, conditionLast},
	{afterTotal, next(`a condition begins with "where", and stands before "as", as in count() where approved == true as comments`, "if", "when", "filter", "having")},
	{[]string{afterCondition, afterFunction}, nameWithoutAs},

	// In conditions and options.
	{[]string{"want a comparison", "want a list"}, func(m *route.Mistake) string { return window(m.Next, spell(m.Values[0].(document.Field))) }},
	{[]string{"want a value"}, emptyList},
	{[]string{"unknown option"}, otherOption},
	{[]string{"existing with within", "every with within", "within a document that is not above", "within without a time"}, windowWithin},
}

// The kinds of mistakes where a total could end.
const (
	afterName      = "want a comma, a colon or the end"
	afterCondition = "want and, as, a comma, a colon or the end"
	afterFunction  = "want where, as, a comma, a colon or the end"
	afterField     = "want where, as, a comma, a colon or the end after a field"
	afterOption    = "want a colon or the end" // where the route could end
)

var (
	afterTotal = []string{afterName, afterCondition, afterFunction, afterField}
	atEnd      = append(afterTotal, afterOption)
)

// ofHabit says what to write instead of what a habit had somebody write; "" if none had.
func ofHabit(m *route.Mistake) string {
	for _, h := range habits {
		if !slices.Contains(h.kinds, m.Kind) {
			continue
		}
		instead := h.instead(m)
		if instead != "" {
			return instead
		}
	}
	return ""
}

// next returns the habit of words that come next.
func next(instead string, words ...string) func(*route.Mistake) string {
	return func(m *route.Mistake) string {
		t := m.Next[0]
		isWritten := (t.Kind == route.Word || t.Kind == route.Odd) && slices.Contains(words, strings.ToLower(t.Text))
		if !isWritten {
			return ""
		}
		return instead
	}
}

const insteadOfPaths = "write a route for each path, or one across parents, as in posts/{post}/comments/{comment} by author -> users/{author} (docs/routes.md#across-parents)"

// glued says what to do with what follows a capture, or precedes it, in one segment.
func glued(m *route.Mistake) string {
	t := m.Next[0]
	before := m.Text[:m.At]
	switch {
	case t.Is("{") || t.Is("}"):
		return wantCapture
	case !strings.HasSuffix(before, "}") || !t.Named():
		return ""
	case strings.HasPrefix(t.Text, "."):
		capture := before[strings.LastIndex(before, "{"):]
		return fmt.Sprintf("a roll-up is a document, and its totals are its top-level fields; end the template with %s, and name the total with \"as\"", capture)
	default:
		return wantCapture
	}
}

// groupBy is "group by", as in SQL.
func groupBy(m *route.Mistake) string {
	if strings.EqualFold(m.Next[0].Text, "group") && strings.EqualFold(m.Next[1].Text, "by") {
		return `"by" stands alone, as in orders/{order} by shop`
	}
	return ""
}

// ofList is a key of each element of a list.
func ofList(m *route.Mistake) string {
	if m.Next[0].Is("[") || m.Name.Text == "each" {
		return insteadOfList
	}
	return ""
}

// leadingSlash is a path that begins as a URL's does.
func leadingSlash(m *route.Mistake) string {
	if m.Next[0].Is("/") && m.Values[0] == 1 {
		return "a path begins with a collection's name; remove the slash before it"
	}
	return ""
}

// otherCapture is a capture as other languages spell it.
func otherCapture(m *route.Mistake) string {
	mark := m.Next[0]
	if mark.Kind == route.Odd && mark.Text == "*" {
		return "a capture stands in braces, and has a name, as in {post}"
	}
	if !slices.Contains([]string{":", "$", "@", "<"}, mark.Text) || len(m.Next) < 3 {
		return ""
	}

	name := m.Next[1]
	if name.Kind != route.Word || name.From != mark.To || m.Next[2].Is("(") {
		return ""
	}
	return fmt.Sprintf("a capture stands in braces: {%s}", name.Text)
}

// emptySegment is a path with nothing between two slashes, or at its end.
func emptySegment(m *route.Mistake) string {
	t := m.Next[0]
	if t.Is("/") || t.Is("->") || t.Is(":") || t.Kind == route.End {
		return fmt.Sprintf("segment %d is empty", m.Values[0])
	}
	return ""
}

// manySegments is a capture of several segments, as security rules have.
func manySegments(m *route.Mistake) string {
	switch {
	case strings.HasPrefix(m.Next[0].Text, "**"):
		return "a route is of one path; " + insteadOfPaths
	case strings.HasPrefix(m.Next[0].Text, "=**"):
		return wantCapture + "; " + insteadOfPaths
	default:
		return ""
	}
}

// someDocuments is a capture of some documents, as API paths have.
func someDocuments(m *route.Mistake) string {
	if strings.ContainsAny(m.Next[0].Text, "=*") {
		return wantCapture
	}
	return ""
}

// otherFunctions are functions that other databases have, with what does their work.
var otherFunctions = map[string]string{
	"each": insteadOfList, "unnest": insteadOfList,

	"top": insteadOfFirstList, "list": insteadOfFirstList, "rank": insteadOfFirstList,

	"distinct": insteadOfDistinct, "unique": insteadOfDistinct, "countdistinct": insteadOfDistinct, "count_distinct": insteadOfDistinct,

	"percentile": insteadOfPercentile, "quantile": insteadOfPercentile, "median": insteadOfPercentile,

	"histogram": "write a total for each value, as in count() where stars == 5 as five",

	"hour": insteadOfHour, "minute": insteadOfHour, "year": insteadOfYear, "quarter": insteadOfYear,
	"string": insteadOfText, "text": insteadOfText,
	"bool": insteadOfBoolean, "boolean": insteadOfBoolean,

	"size": insteadOfLength, "length": insteadOfLength, "len": insteadOfLength,

	"stddev": insteadOfDeviation, "variance": insteadOfDeviation,
}

const (
	insteadOfList       = "a document is in one group, so a list is no key: let the app write a document for each element, as for posts by tag (docs/recipes.md#posts-by-tag)"
	insteadOfFirstList  = "a total is one value, not a list of documents: let the app query those, with orderBy and limit (docs/recipes.md#leaderboard)"
	insteadOfDistinct   = "let the app write a document for each user, named by the user's ID, and count those (docs/recipes.md#unique-visitors)"
	insteadOfPercentile = "count the documents below some bounds, as in count() where ms < 100 as fast"
	insteadOfText       = "a field that holds texts is a key as it is, as in by shop"
	insteadOfHour       = "group by day(at), or give each hour a counter of its own, which the app names (docs/recipes.md#totals-per-day-and-per-hour)"
	insteadOfYear       = "months add up: group by month(at), and have the app add up the twelve of a year"
	insteadOfBoolean    = "a boolean is no key: write a total for each value, as in count() where done == true as done"
	insteadOfLength     = "a total does not look into a list or a text: let the app keep the length in a field of its own, and sum that, as in sum(members_count)"
	insteadOfDeviation  = "let the app write the square into a field of its own; the sums of both and the count give it"
	insteadOfFormula    = "a total takes one field; let the app write the result into a field of its own"
)

// otherFunction is a function that other databases have.
func otherFunction(m *route.Mistake) string {
	name := fmt.Sprint(m.Values[0])
	instead := otherFunctions[strings.ToLower(name)]
	first := m.Next[0]
	if first.Kind == route.Word && strings.Trim(first.Text, "0123456789") == "" && m.Next[1].Is(",") {
		instead = insteadOfFirstList // as in first(3, at)
	}
	if instead == "" {
		return ""
	}
	return fmt.Sprintf("there is no %s(): %s", name, instead)
}

// lengthOf is the length of a list in a total, as in sum(size(members)).
func lengthOf(function string) string {
	if otherFunctions[strings.ToLower(function)] == insteadOfLength {
		return insteadOfLength
	}
	return ""
}

// formula is a total of a calculation, as in sum(price * quantity).
func formula(m *route.Mistake) string {
	t := m.Next[0]
	_, ofTotal := m.Values[0].(route.Aggregate)
	if ofTotal && (t.Is("/") || t.Is("+") || t.Is("-") || t.Kind == route.Odd && (t.Text == "*" || t.Text == "%")) {
		return insteadOfFormula
	}
	return ""
}

// window is the length of a window, maybe after some words. field is the one whose times should be
// in the window.
func window(tokens []route.Token, field string) string {
	for _, t := range tokens {
		_, isLength := route.ParseAgo(t.Text)
		if t.Kind == route.Word && isLength {
			return insteadOfWindow(field, t.Text)
		}
		if t.Kind != route.Word || !slices.Contains([]string{"in", "the", "last", "past", "within", "window", "since"}, strings.ToLower(t.Text)) {
			return ""
		}
	}
	return ""
}

func insteadOfWindow(field, length string) string {
	return fmt.Sprintf("for what is later than a while ago, write a condition, as in count() where %s > now - %s", field, length)
}

// conditionLast is a condition behind the total's name.
func conditionLast(m *route.Mistake) string {
	if !m.Next[0].Is("where") {
		return ""
	}
	to := m.At
	for _, t := range m.Next {
		if t.Kind == route.End || t.Is(",") || t.Is(":") {
			break
		}
		to = t.To
	}
	total := strings.TrimSuffix(m.Values[0].(string), "as")
	return fmt.Sprintf(`the condition stands before "as": %s %s as %s`, strings.TrimSpace(total), m.Text[m.At:to], m.Values[1])
}

// nameWithoutAs is a total's name without "as" before it.
func nameWithoutAs(m *route.Mistake) string {
	t, behind := m.Next[0], m.Next[min(1, len(m.Next)-1)]
	last := behind.Kind == route.End || behind.Is(",") || behind.Is(":")
	if last && t.Named() && prints(t.Text) && !slices.Contains(options, t.Text) && meant(t.Text, words[m.Kind]...) == "" {
		return `a total's name follows "as": as ` + route.Quote(t.Text)
	}
	return ""
}

// emptyList is a list without values.
func emptyList(m *route.Mistake) string {
	if m.Next[0].Is("]") && strings.HasSuffix(strings.TrimSpace(m.Text[:m.At]), "[") {
		return "the list is empty, so no document would count; " + wantList
	}
	return ""
}

// otherOption is an option for a history, or for a window.
func otherOption(m *route.Mistake) string {
	name := m.Values[0].(string)
	if name == "history" {
		return "a roll-up holds the total of now; for one of each day, group by day(at) (docs/routes.md#groups)"
	}
	return window(append([]route.Token{{Kind: route.Word, Text: name}}, m.Next...), "at")
}

// windowWithin is the length of a window behind "within".
func windowWithin(m *route.Mistake) string {
	written := strings.Fields(m.Text[m.At:])
	if len(written) < 2 || written[0] != "within" {
		return ""
	}
	return window([]route.Token{{Kind: route.Word, Text: written[1]}}, "at")
}

// noValue says how to write what stands in the place of a value, if that is known.
func noValue(written string) string {
	if strings.HasPrefix(written, "'") {
		return `; a text stands in double quotes, as in "up"`
	}
	if _, isLength := route.ParseAgo(written); isLength {
		return "; " + insteadOfWindow("at", written)
	}
	lower := strings.ToLower(written)
	if strings.Contains(lower, "day") || strings.Contains(lower, "midnight") {
		return "; for the documents of a day, group by day(at); for the last 24 hours, write now - 24h"
	}
	return ""
}
