package route

import (
	"fmt"
	"slices"
	"strings"

	"github.com/firestore-tally/tally/internal/document"
)

// Routes cannot say everything that people count. The texts below say what does it instead.

const (
	insteadOfList      = "a document is in one group, so a list is no key: let the app write a document for each element, as for posts by tag (docs/recipes.md#posts-by-tag)"
	insteadOfPaths     = "write a route for each path"
	insteadOfHistory   = "a roll-up holds the total of now; for one of each day, group by day(at) (docs/routes.md#groups)"
	insteadOfOr        = "there is no or: list the values of one field with in, or add up two totals in the app"
	insteadOfBy        = `"by" follows the source pattern; for values that are known, write a total for each, as in count() where kind == "a" as a`
	insteadOfFormula   = "a total takes one field; let the app write the result into a field of its own"
	insteadOfNow       = "now stands before a length, as in at > now - 24h; count what is due by a query of the app, or let the app set a field when it is due"
	insteadOfInfix     = "; a condition does not look into a text or a list: let the app keep a field that says it, such as isGo: true"
	insteadOfDay       = "; for the documents of a day, group by day(at); for the last 24 hours, write now - 24h"
	insteadOfWindow    = "for what is later than a while ago, write a condition, as in count() where %s > now - %s"
	insteadOfSingle    = `; a text stands in double quotes, as in "up"`
	insteadOfMap       = "a roll-up is a document, and its totals are its top-level fields; end the template with %s, and name the total with \"as\""
	insteadOfFullPath  = "the path begins behind documents/, as in posts/{post}/likes/{user}"
	insteadOfCapture   = "a capture stands in braces: {%s}"
	insteadOfStar      = "a capture stands in braces, and has a name, as in {post}"
	insteadOfArrow     = "the arrow is written " + arrow
	insteadOfGroupBy   = `"by" stands alone, as in orders/{order} by shop`
	insteadOfUnnamed   = `a total's name follows "as": as %s`
	insteadOfIf        = `a condition begins with "where", and stands before "as", as in count() where approved == true as comments`
	insteadOfFirstList = "a total is one value, not a list of documents: let the app query those, with orderBy and limit (docs/recipes.md#leaderboard)"
)

// insteadOf says what does the work of functions that other databases have.
var insteadOf = map[string]string{
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
	insteadOfDistinct   = "let the app write a document for each user, named by the user's ID, and count those (docs/recipes.md#unique-visitors)"
	insteadOfPercentile = "count the documents below some bounds, as in count() where ms < 100 as fast"
	insteadOfText       = "a field that holds texts is a key as it is, as in by shop"
	insteadOfHour       = "group by day(at), or give each hour a counter of its own, which the app names (docs/recipes.md#totals-per-day-and-per-hour)"
	insteadOfYear       = "months add up: group by month(at), and have the app add up the twelve of a year"
	insteadOfBoolean    = "a boolean is no key: write a total for each value, as in count() where done == true as done"
	insteadOfLength     = "a total does not look into a list or a text: let the app keep the length in a field of its own, and sum that, as in sum(members_count)"
	insteadOfDeviation  = "let the app write the square into a field of its own; the sums of both and the count give it"
)

// noFunction says that there is no such function, and what does its work if that is known. The
// parser has read the name.
func (p *parser) noFunction(name token, want, did string) error {
	instead := insteadOf[strings.ToLower(name.text)]
	if strings.Trim(p.tokens[0].text, "0123456789") == "" && p.tokens[0].kind == word && p.tokens[1].is(",") {
		instead = insteadOfFirstList // as in first(3, at)
	}
	if instead != "" {
		return p.mistake(name.from, "there is no %s(): %s", name.text, instead)
	}
	return p.mistake(name.from, "unknown function %s(); %s%s", name.text, want, did)
}

// insteadOfNested says what to do where a function of a function stands. The names are those of the
// inner function.
func insteadOfNested(names []string) string {
	instead := insteadOf[strings.ToLower(names[0])]
	if instead == insteadOfLength {
		return instead
	}
	return insteadOfFormula
}

// infixes are comparisons of other databases that look into a text or a list.
var infixes = []string{"contains", "array-contains", "array-contains-any", "like", "startswith", "starts", "matches"}

// beforeLengths are words that people write before how long a window is.
var beforeLengths = []string{"in", "the", "last", "past", "within", "window", "since"}

// noWindow returns an error if the length of a window stands here, maybe after some words. field
// is the one whose times should be in the window.
func (p *parser) noWindow(field string) error {
	for _, t := range p.tokens {
		_, isLength := parseWindow(t.text)
		if t.kind == word && isLength {
			return p.wrong(insteadOfWindow, field, t.text)
		}
		if t.kind != word || !slices.Contains(beforeLengths, strings.ToLower(t.text)) {
			return nil
		}
	}
	return nil
}

// noValue says how to write what stands in the place of a value, if that is known.
func noValue(written string) string {
	if strings.HasPrefix(written, "'") {
		return insteadOfSingle
	}
	if _, isLength := parseWindow(written); isLength {
		return "; " + fmt.Sprintf(insteadOfWindow, "at", written)
	}
	lower := strings.ToLower(written)
	if strings.Contains(lower, "day") || strings.Contains(lower, "midnight") {
		return insteadOfDay
	}
	return ""
}

// isFormula reports whether the token goes on with a calculation, as in sum(price * quantity).
func (t token) isFormula() bool {
	return t.kind == odd && slices.Contains([]string{"*", "/", "%"}, t.text) || t.is("/") || t.is("+") || t.is("-")
}

// insteadOfUnused says what to do with documents of several collections that one roll-up is for. A
// query is of one collection.
func (n routeNode) insteadOfUnused() string {
	pattern := pathOf(n.pattern)
	if n.by != nil {
		return fmt.Sprintf("keep the documents in one collection, as in %s by %s", pattern[len(pattern)-2:], quoteField(document.FieldOf(n.by[0].field.names...)))
	}
	return fmt.Sprintf("total the documents of each %s first, and add up those totals by a second route (docs/routes.md#totals-of-totals)", pattern[:len(pattern)-2])
}

// byField is the beginning of a route by a field that holds what the pattern's last capture stands
// for.
func (n routeNode) byField(field string) string {
	collection := pathOf(n.pattern)[len(n.pattern)-2]
	return fmt.Sprintf("%s/{id} by %s", collection, quoteField(document.FieldOf(field)))
}
