package mistakes

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/firestore-tally/tally/internal/reason"
	"github.com/firestore-tally/tally/rollup/route"
)

// meant asks whether one of the other words was meant. It returns nothing if no other word has
// about half of its characters right.
func meant(word string, others ...string) string {
	nearest, least := "", len(word)+1
	for _, other := range others {
		if len(word) > 2*len(other) {
			continue
		}
		d := reason.Distance(strings.ToLower(word), strings.ToLower(other))
		if d <= len(other)/2 && d < least {
			nearest, least = other, d
		}
	}

	if nearest == "" {
		return ""
	}
	return "; did you mean " + nearest + "?"
}

// options are the names of the options.
var options = []string{"documents", "existing", "within", "every", "cadence"}

// meantKey asks whether another function of a key was meant. The name may be misspelled, or be that
// of a type.
func meantKey(name string) string {
	types := map[string]string{"reference": "ref", "path": "ref", "int": "number", "integer": "number", "date": "day", "timestamp": "day"}
	return meantFunction(name, types, "ref()", "number()", "day()", "week()", "month()")
}

// meantAggregate asks whether another function of a total was meant. The name may be misspelled, or
// a common short form.
func meantAggregate(name string) string {
	short := map[string]string{"avg": "average", "mean": "average", "max": "maximum", "min": "minimum", "last": "latest", "newest": "latest", "first": "earliest", "oldest": "earliest", "total": "sum"}
	return meantFunction(name, short, "count()", "sum()", "average()", "maximum()", "minimum()", "latest()", "earliest()")
}

// meantFunction asks whether one of the functions was meant. Some have other names elsewhere.
func meantFunction(name string, elsewhere map[string]string, functions ...string) string {
	if here, ok := elsewhere[strings.ToLower(name)]; ok {
		name = here
	}
	return meant(name+"()", functions...)
}

// meantComparison says what stands in the place of a comparison that there is not, or asks which
// one was meant.
func meantComparison(written string) string {
	switch strings.ToLower(written) {
	case "=", "===", "is", "equals":
		return "; did you mean ==?"
	case "=>":
		return "; did you mean >=?"
	case "=<":
		return "; did you mean <=?"
	case "in":
		return "; did you mean in?"
	case "!=", "<>", "not":
		return "; there is no !=: list the other values with in, or let the app keep a field that says it"
	case "contains", "array-contains", "array-contains-any", "like", "startswith", "starts", "matches":
		return "; a condition does not look into a text or a list: let the app keep a field that says it, such as isGo: true"
	}
	return ""
}

// meantZone asks whether another zone was meant. The name may be misspelled, or only that of a
// city. Only places are suggested: an abbreviation means several zones, and the sign of an offset
// in the tz database is the opposite of the usual one.
func meantZone(quoted string) string {
	name := strings.Trim(quoted, `"`)
	zones, err := route.Zones()
	if err != nil {
		return ""
	}
	isPlace := func(zone string) bool { return strings.Contains(zone, "/") && !strings.HasPrefix(zone, "Etc/") }
	places := slices.DeleteFunc(zones, func(zone string) bool { return !isPlace(zone) })

	city := "/" + strings.ReplaceAll(strings.ToLower(name), " ", "_")
	i := slices.IndexFunc(places, func(zone string) bool { return strings.HasSuffix(strings.ToLower(zone), city) })
	if i >= 0 {
		return "; did you mean " + places[i] + "?"
	}
	return meant(name, places...)
}

// noNames are the kinds of mistakes where neither a name nor another word may stand.
var noNames = []string{"want a time zone", "want a comparison", "want a list", "want a value", "want a time in quotes"}

// wantsName reports whether a name or another word may stand where a mistake of a kind is.
func wantsName(kind string) bool {
	return strings.HasPrefix(kind, "want ") && !slices.Contains(noNames, kind)
}

// words may stand where a mistake of a kind is.
var words = map[string][]string{
	"want by or ->":      {"->", "by"},
	"want a comma or ->": {"->", "as"},

	afterCondition: {"and", "as"},
	afterFunction:  {"where", "as"},
	afterField:     {"where", "as"},
}

// advice says what may have led to a token where a name or another word may stand.
func advice(m *route.Mistake) string {
	t := m.Next[0]
	if slices.Contains(atEnd, m.Kind) {
		option := t
		if t.Is(",") {
			option = m.Next[1]
		}
		if option.Kind == route.Word && slices.Contains(options, option.Text) {
			return `; an option follows a colon: ": ` + option.Text + `"`
		}
	}

	if t.Continues {
		return "; the line is indented, so it continues the route above"
	}
	if t.Kind != route.Word && t.Kind != route.Odd {
		return ""
	}
	did := meant(t.Text, words[m.Kind]...)
	if did != "" {
		return did
	}
	if t.Text[0] == '#' {
		return "; put a comment on its own line"
	}
	if t.Kind == route.Odd || m.Name.Kind == route.Word && t.Named() {
		return "; put a name with a space or another special character in backticks" + inBackticks(m)
	}
	return ""
}

// inBackticks returns ": " and the name that should stand in backticks. The next token is a part of
// that name. If the name is long or does not print, it returns nothing.
func inBackticks(m *route.Mistake) string {
	const longest = 100 // bytes
	from, to := m.At, m.At
	if m.Name.Kind == route.Word {
		from = m.Name.From
	}
	for _, t := range m.Next {
		if !t.Named() {
			break
		}
		to = t.To
	}

	name := m.Text[from:to]
	if len(name) > longest || !prints(name) {
		return ""
	}
	return ": " + route.Quote(name)
}

// prints reports whether each character of the text prints.
func prints(text string) bool {
	isHidden := func(r rune) bool { return !unicode.IsPrint(r) }
	return utf8.ValidString(text) && !strings.ContainsFunc(text, isHidden)
}
