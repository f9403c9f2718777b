package deploy

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// An Object is a resource as an API of Google's has it, in JSON.
type Object map[string]any

// asObject returns what JSON holds as an object; nil if it is none.
func asObject(v any) Object {
	switch o := v.(type) {
	case Object:
		return o
	case map[string]any:
		return o
	}
	return nil
}

// Get returns the value at a path such as "serviceConfig.uri" as text; "" if there is none. The
// elements of a list are separated by commas.
func (o Object) Get(path string) string { return text(o.at(strings.Split(path, "."))) }

// at returns the value at a path; nil if there is none.
func (o Object) at(path []string) any {
	var at any = map[string]any(o)
	for _, name := range path {
		list, isList := at.([]any)
		if !isList {
			at = asObject(at)[name]
			continue
		}
		i, err := strconv.Atoi(name)
		if err != nil || i >= len(list) {
			return nil
		}
		at = list[i]
	}
	return at
}

// name returns the resource's name.
func (o Object) name() string { return o.Get("name") }

// text returns a value as people read it; "" if there is none.
func text(v any) string {
	list, isList := v.([]any)
	switch {
	case v == nil:
		return ""
	case isList:
		var all []string
		for _, element := range list {
			all = append(all, text(element))
		}
		return strings.Join(all, ",")
	case asObject(v) != nil:
		return toJSON(v)
	}
	return fmt.Sprint(v)
}

// toJSON returns JSON on one line, which is YAML, too.
func toJSON(v any) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err) // it holds nothing but text, numbers and lists
	}
	return strings.TrimSpace(b.String())
}

// A Difference is a field of a resource that is not as the manifest wants it.
type Difference struct {
	Field string `json:"field"` // such as "serviceConfig.timeoutSeconds"
	From  string `json:"from"`
	To    string `json:"to"`

	at []string // path of the field
}

// String returns the difference in words, such as "timeoutSeconds: 80, want 60".
func (d Difference) String() string {
	if d.From == notShown {
		return d.Field + ": its value differs, and is not shown"
	}
	return fmt.Sprintf("%s: %s, want %s", d.Field, orNone(d.From), orNone(d.To))
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

// shared are lists that hold elements of several owners, in any order.
var shared = []string{"notificationChannels"}

// differences returns the fields under a path in which what there is lacks what is wanted, in
// order. null wants no such field. An object that wants no fields is wanted for itself.
func differences(at []string, want, have any) (all []Difference) {
	switch w := want.(type) {
	case map[string]any:
		h := asObject(have)
		given := false
		for _, name := range slices.Sorted(maps.Keys(w)) {
			given = given || w[name] != nil
			all = append(all, differences(append(slices.Clone(at), name), w[name], h[name])...)
		}
		if !given && h == nil && len(at) > 0 {
			return []Difference{difference(at, "", "{}")}
		}
		return all

	case []any:
		h, _ := have.([]any)
		if slices.Contains(shared, at[len(at)-1]) {
			if slices.ContainsFunc(w, func(element any) bool { return !slices.Contains(h, element) }) {
				return []Difference{difference(at, text(have), text(merge(at, have, want)))}
			}
			return nil
		}
		if len(w) != len(h) {
			return []Difference{difference(at, elementCount(h), elementCount(w))}
		}
		for i := range w {
			all = append(all, differences(append(slices.Clone(at), strconv.Itoa(i)), w[i], h[i])...)
		}
		return all
	}

	has, isList := have.([]any)
	switch {
	case isList && want == nil:
		have = elementCount(has)
	case asObject(have) != nil && want == nil: // even an empty object is something
		return []Difference{difference(at, toJSON(have), "")}
	}
	isLiteral := len(at) > 1 && at[len(at)-2] == variables
	if text(want) == text(have) || !isLiteral && canonical(text(want)) == canonical(text(have)) {
		return nil
	}
	return []Difference{difference(at, text(have), text(want))}
}

// variables is the field with a function's variables. Their values are texts, so "0" is not "".
const variables = "environmentVariables"

// difference returns a difference as people may see it.
func difference(at []string, from, to string) Difference {
	if len(at) > 1 && at[len(at)-2] == variables && secret(at[len(at)-1]) {
		from, to = notShown, notShown
	}
	return Difference{Field: strings.Join(at, "."), From: referenceText(from), To: referenceText(to), at: at}
}

// elementCount returns how many elements a list has, in words.
func elementCount(list []any) string {
	switch len(list) {
	case 0:
		return ""
	case 1:
		return "1 element"
	}
	return fmt.Sprintf("%d elements", len(list))
}

// number matches a number, or a duration in seconds.
var number = regexp.MustCompile(`^(-?\d{1,12}(?:\.\d{1,9})?)(s?)$`)

// canonical returns the text that stands for all values that are the same to the APIs. A value that
// is 0 or false may be left out: Cloud Tasks leaves out a duration of 0 s. 500.0 is 500, and
// 60.000s is 60s. Cloud Scheduler adds a slash to addresses.
func canonical(value string) string {
	parts := number.FindStringSubmatch(value)
	if parts != nil {
		n, err := strconv.ParseFloat(parts[1], 64)
		switch {
		case err == nil && n == 0:
			return ""
		case err == nil:
			return strconv.FormatFloat(n, 'f', -1, 64) + parts[2]
		}
	}
	if value == "false" {
		return ""
	}
	return strings.TrimSuffix(value, "/")
}

// merge returns what there is with what is wanted. null takes a field away.
func merge(at []string, have, want any) any {
	switch w := want.(type) {
	case map[string]any:
		all := make(map[string]any)
		h := asObject(have)
		maps.Copy(all, h)
		for name, value := range w {
			if value == nil {
				delete(all, name)
				continue
			}
			all[name] = merge(append(slices.Clone(at), name), h[name], value)
		}
		return all

	case []any:
		h, _ := have.([]any)
		if len(at) > 0 && slices.Contains(shared, at[len(at)-1]) {
			all := slices.Clone(h)
			for _, element := range w {
				if !slices.Contains(all, element) {
					all = append(all, element)
				}
			}
			return all
		}
		all := slices.Clone(w)
		for i := range all {
			if len(h) == len(w) {
				all[i] = merge(append(slices.Clone(at), strconv.Itoa(i)), h[i], w[i])
			}
		}
		return all
	}
	return want
}

// reference matches what stands for a field whose value a server makes up: ${kind name field}.
var reference = regexp.MustCompile(`^\$\{([a-z ]+) (projects/\S+) (\S+)\}$`)

// references returns the references in a value.
func references(v any) (all []string) {
	switch v := v.(type) {
	case string:
		if reference.MatchString(v) {
			return []string{v}
		}
	case []any:
		for _, element := range v {
			all = append(all, references(element)...)
		}
	case map[string]any:
		for _, value := range v {
			all = append(all, references(value)...)
		}
	}
	return all
}

// resolved returns a value with its references replaced.
func resolved(v any, by func(string) string) any {
	switch v := v.(type) {
	case string:
		if reference.MatchString(v) {
			return by(v)
		}
	case []any:
		all := make([]any, len(v))
		for i := range v {
			all[i] = resolved(v[i], by)
		}
		return all
	case map[string]any:
		all := make(map[string]any, len(v))
		for name := range v {
			all[name] = resolved(v[name], by)
		}
		return all
	}
	return v
}

// referenceText returns a reference in words, and any other text as it is.
func referenceText(text string) string {
	of := reference.FindStringSubmatch(text)
	if of == nil {
		return text
	}
	_, id := cut(of[2])
	return fmt.Sprintf("(%s of %s %s)", of[3], of[1], id)
}
