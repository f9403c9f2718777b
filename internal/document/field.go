package document

import (
	"regexp"
	"strings"
)

// A Field is the path of a field in a document, as Firestore spells it, such as customer.id or
// `unit price`. Dots stand between the names. A name stands in backticks unless it is a simple one
// (https://cloud.google.com/firestore/docs/reference/rest/v1/StructuredQuery#FieldReference). Each
// path has one spelling, so fields can be compared with ==.
type Field string

var simpleName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z_0-9]*$`)

// FieldOf returns the field at the path of names. One name is a top-level field. With more, each
// name except the last names a map.
func FieldOf(names ...string) Field {
	parts := make([]string, len(names))
	for i, name := range names {
		parts[i] = name
		if !simpleName.MatchString(name) {
			parts[i] = "`" + strings.NewReplacer(`\`, `\\`, "`", "\\`").Replace(name) + "`"
		}
	}
	return Field(strings.Join(parts, "."))
}

// Names returns the names of the path, as the Firestore SDK takes them.
func (f Field) Names() []string {
	if f == "" {
		return nil
	}
	if f.Simple() {
		return []string{string(f)}
	}

	var names []string
	var name strings.Builder
	quoted := false
	for i := 0; i < len(f); i++ {
		c := f[i]
		switch {
		case c == '`':
			quoted = !quoted
		case c == '\\' && quoted && i+1 < len(f):
			i++
			name.WriteByte(f[i])
		case c == '.' && !quoted:
			names = append(names, name.String())
			name.Reset()
		default:
			name.WriteByte(c)
		}
	}
	return append(names, name.String())
}

// In returns the field's value in a document with the fields, which are as the Firestore SDK
// decodes them. It reports false when the document lacks the field.
func (f Field) In(fields map[string]any) (value any, ok bool) {
	if f.Simple() {
		value, ok = fields[string(f)]
		return value, ok
	}

	names := f.Names()
	for i, name := range names {
		value, ok = fields[name]
		if !ok || i == len(names)-1 {
			return value, ok
		}
		fields, _ = value.(map[string]any) // if it is not a map, it has none of the names that follow
	}
	return nil, false
}

// Within reports whether f is other or lies in it, so that f changes when other is replaced.
func (f Field) Within(other Field) bool {
	rest, in := strings.CutPrefix(string(f), string(other))
	return in && (rest == "" || rest[0] == '.')
}

// Simple reports whether the path is one name, without backticks, as nearly all are.
func (f Field) Simple() bool { return !strings.ContainsAny(string(f), ".`") }
