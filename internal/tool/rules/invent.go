package rules

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/rollup/route"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// What the text of rules says of other documents and of users. Strings are in it.
var (
	claims  = regexp.MustCompile(`\bauth\s*\.\s*token\s*(?:\.\s*(\w+)\b|\[\s*['"](\w+))`)
	reading = regexp.MustCompile(`\b(?:get|exists)(?:After)?\s*\(\s*/databases/[^/]+/documents/`)
)

// readIn returns the paths of the documents that a text reads, as it has them.
func readIn(text string) (paths []string) {
	for _, at := range reading.FindAllStringIndex(text, -1) {
		open := 1
		rest := text[at[1]:]
		end := strings.IndexFunc(rest, func(c rune) bool {
			switch c {
			case '(':
				open++
			case ')':
				open--
			}
			return open == 0
		})
		if end >= 0 && !slices.Contains(paths, strings.TrimSpace(rest[:end])) {
			paths = append(paths, strings.TrimSpace(rest[:end]))
		}
	}
	return paths
}

// fill returns a path that rules read of a request for the document at another path, by a user. A
// capture has its id there. Everything else that rules compute is taken for the user's id.
func (r *Rules) fill(pattern, path string, u User) string {
	ids := strings.Split(path, "/")
	captured := make(map[string]string)
	for _, b := range r.matching(path) {
		for i, s := range b.path {
			if isRest(s) {
				break
			}
			if isCapture(s) && i < len(ids) {
				captured[strings.Trim(s, "{}")] = ids[i]
			}
		}
	}

	segments := strings.Split(pattern, "/")
	for i, s := range segments {
		name, isComputed := strings.CutPrefix(s, "$(")
		if !isComputed {
			continue
		}
		id, isCapture := captured[strings.TrimSuffix(name, ")")]
		if !isCapture {
			id = u.ID
		}
		segments[i] = id
	}
	return strings.Join(segments, "/")
}

// Names of fields in the text of rules.
var (
	fieldOf  = regexp.MustCompile(`\bdata\s*(?:\.\s*([A-Za-z_]\w*)\b(\s*\()?|\[\s*['"](\w+)['"]\s*\]|\.\s*get\s*\(\s*['"](\w+)['"])`)
	lists    = regexp.MustCompile(`\[\s*((?:['"][^'"\[\]]*['"]\s*,?\s*)+)\]`)
	inQuotes = regexp.MustCompile(`['"]([^'"]+)['"]`)
)

const (
	invented    = "ann" // the user whom made-up documents name
	maxInvented = 20    // fields of each
)

// Invent returns documents that may be those of a template, for rules that no document of the app's
// is there for. They have the fields that the rules name: those that the rules read alone, and
// these with those that they list.
func Invent(text string, t *route.Template) []Document {
	r := Parse(text)
	var ids []string
	for _, s := range t.Segments() {
		if s.Capture {
			ids = append(ids, invented)
		} else {
			ids = append(ids, s.Name)
		}
	}
	path := strings.Join(ids, "/")
	bodies := r.bodyText(path, writeMethods...)

	few, many := make(fields), make(fields)
	for _, found := range fieldOf.FindAllStringSubmatch(bodies, -1) {
		name := found[1] + found[3] + found[4]
		if name != "" && found[2] == "" && len(few) < maxInvented {
			few[name] = guessed(bodies, name)
		}
	}
	maps.Copy(many, few)
	for _, list := range lists.FindAllStringSubmatch(bodies, -1) {
		names := inQuotes.FindAllStringSubmatch(list[1], -1)
		if len(names) > 0 && names[0][1] == document.TallyField { // a path, such as ['tally', 'num_shards']
			continue
		}
		for _, name := range names {
			if len(many) < 2*maxInvented {
				many[name[1]] = guessed(bodies, name[1])
			}
		}
	}
	documents := []Document{{path, few}}
	if len(many) > len(few) {
		documents = append(documents, Document{path, many})
	}
	return documents
}

// guessed returns a value that a field may have, by what the text compares it with. Without a hint
// it is the id of a user.
func guessed(bodies, name string) *firestorepb.Value {
	followed := regexp.MustCompile(`\b` + regexp.QuoteMeta(name) + `\b['"]?\s*[\])]*(?:\.\w+\(\))?\s*(?:is\s+(\w+)|[=!<>]=?\s*(request\.time|true|false|-?\d+|'[^']*'|"[^"]*"))`)
	found := followed.FindStringSubmatch(bodies)
	if found == nil {
		return text(invented)
	}
	kind, with := found[1], found[2]
	n, err := strconv.ParseInt(with, 10, 64)
	switch {
	case kind == "timestamp", with == "request.time":
		return timestamp(time.Now())
	case kind == "bool", with == "true", with == "false":
		return &firestorepb.Value{ValueType: &firestorepb.Value_BooleanValue{BooleanValue: with == "true"}}
	case kind == "int", kind == "number":
		return integer(1)
	case kind == "float":
		return &firestorepb.Value{ValueType: &firestorepb.Value_DoubleValue{DoubleValue: 1.5}}
	case kind == "list":
		return &firestorepb.Value{ValueType: &firestorepb.Value_ArrayValue{ArrayValue: &firestorepb.ArrayValue{Values: []*firestorepb.Value{text(invented)}}}}
	case kind == "map":
		return mapOf(invented, &firestorepb.Value{ValueType: &firestorepb.Value_BooleanValue{BooleanValue: true}})
	case with != "" && err == nil:
		return integer(n)
	case with != "":
		return text(strings.Trim(with, `'"`))
	}
	return text(invented)
}

// valueOf returns a value of a field that Tally writes: of a total, or of its own map.
func valueOf(t *route.Template, name string, n int64) *firestorepb.Value {
	if name == document.TallyField {
		return mapOf("num_shards", integer(n))
	}
	if t.OfTimes(name) {
		return timestamp(time.Unix(n, 0))
	}
	return integer(n)
}

// text and timestamp return values.
func text(s string) *firestorepb.Value {
	return &firestorepb.Value{ValueType: &firestorepb.Value_StringValue{StringValue: s}}
}

func timestamp(at time.Time) *firestorepb.Value {
	return &firestorepb.Value{ValueType: &firestorepb.Value_TimestampValue{TimestampValue: timestamppb.New(at)}}
}
