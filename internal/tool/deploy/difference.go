package deploy

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// A Change is a field of a resource that is not as the manifest wants it.
type Change struct {
	Field string `json:"field"` // such as "serviceConfig.timeoutSeconds"
	From  string `json:"from"`
	To    string `json:"to"`
	Why   string `json:"why,omitempty"` // the manifest's comment on the field

	at   []string // path of the field
	gone bool     // the resource is to have no such field
}

// String returns the change in words, such as "timeoutSeconds: 80, want 60".
func (c Change) String() string {
	if secret(c.at[len(c.at)-1]) {
		return c.Field + ": its value differs, and is not shown"
	}
	return fmt.Sprintf("%s: %s, want %s", c.Field, orNone(c.From), orNone(c.To))
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

const notShown = "(not shown)" // stands for a secret

// entries are fields that hold entries of several owners by their names. A mask cannot name an
// entry, so an update gives all of them, also those of others.
var entries = []string{"labels", "userLabels", "environmentVariables", "cleanupPolicies"}

// shared are lists that hold elements of several owners.
var shared = []string{"notificationChannels"}

// differ returns the fields under a path that are not as they are wanted, in order.
func differ(at []string, want, have any) []Change {
	list, isList := want.([]any)
	object := asObject(want)
	switch {
	case isList:
		return differInList(at, list, have)
	case object != nil:
		return differInObject(at, object, have)
	}

	from, to := text(have), text(want)
	has, _ := have.([]any)
	switch {
	case want == nil && asObject(have) != nil: // also an empty object is something
		from = toJSON(have)
	case want == nil && len(has) > 0:
		from = counted(has)
	}
	if alike(from, to) {
		return nil
	}
	c := change(at, from, to)
	c.gone = want == nil
	return []Change{c}
}

// differInObject compares an object. One that wants no fields is wanted for itself.
func differInObject(at []string, want Object, have any) []Change {
	var all []Change
	given := 0
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if want[name] != nil {
			given++
		}
		all = append(all, differ(append(slices.Clone(at), name), want[name], inside(have, name))...)
	}

	if given == 0 && len(all) == 0 && len(at) > 0 && have == nil {
		return []Change{change(at, "", "{}")}
	}
	return all
}

// differInList compares a list. A shared one may have more elements, in any order.
func differInList(at []string, want []any, have any) []Change {
	list, _ := have.([]any)
	if slices.Contains(shared, at[len(at)-1]) {
		var all []Change
		for _, element := range want {
			if !slices.Contains(list, element) {
				all = append(all, change(at, text(have), text(merged(at, have, want))))
			}
		}
		return all
	}

	if len(want) != len(list) {
		return []Change{change(at, counted(list), counted(want))}
	}
	var all []Change
	for i, element := range want {
		all = append(all, differ(append(slices.Clone(at), strconv.Itoa(i)), element, list[i])...)
	}
	return all
}

func change(at []string, from, to string) Change {
	if secret(at[len(at)-1]) {
		from, to = notShown, notShown
	}
	return Change{Field: strings.Join(at, "."), From: readable(from), To: readable(to), at: at}
}

// counted returns how many elements a list has, in words.
func counted(list []any) string {
	switch len(list) {
	case 0:
		return ""
	case 1:
		return "1 element"
	}
	return fmt.Sprintf("%d elements", len(list))
}

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

// alike reports whether two values are the same to the API. One that is absent is empty, 0 or
// false. Cloud Scheduler adds a slash to addresses.
func alike(a, b string) bool {
	nothing := func(text string) bool { return text == "" || text == "0" || text == "false" }
	if a == "" || b == "" {
		return nothing(a) && nothing(b)
	}
	return strings.TrimSuffix(a, "/") == strings.TrimSuffix(b, "/")
}

// merged returns what a request gives for a field: what is wanted, and of what is there what others
// own.
func merged(at []string, have, want any) any {
	list, isList := want.([]any)
	object := asObject(want)
	switch {
	case isList:
		return mergedList(at, have, list)
	case object == nil:
		return want
	}

	all := make(Object)
	h := asObject(have)
	if keeps(at, h, object) {
		maps.Copy(all, h)
	}
	for name, value := range object {
		if value == nil {
			delete(all, name)
			continue
		}
		all[name] = merged(append(slices.Clone(at), name), h[name], value)
	}
	return all
}

// keeps reports whether the other fields of an object stay. If the object lacks a field that is
// wanted, the others may be in its place, of which the API takes only one.
func keeps(at []string, have, want Object) bool {
	if len(at) == 0 || slices.Contains(entries, at[len(at)-1]) {
		return true
	}
	for name, value := range want {
		if value != nil && have[name] == nil {
			return false
		}
	}
	return true
}

// mergedList is merged for a list.
func mergedList(at []string, have any, want []any) []any {
	list, _ := have.([]any)
	if slices.Contains(shared, at[len(at)-1]) {
		all := slices.Clone(list)
		for _, element := range want {
			if !slices.Contains(all, element) {
				all = append(all, element)
			}
		}
		return all
	}

	all := make([]any, 0, len(want))
	for i, element := range want {
		if len(list) == len(want) {
			element = merged(append(slices.Clone(at), strconv.Itoa(i)), list[i], element)
		}
		all = append(all, element)
	}
	return all
}

// mask returns the path of a mask that covers the change, for a kind. It ends where several owners
// have entries, and at a list.
func (k *Kind) mask(c Change) []string {
	for i, name := range c.at {
		_, err := strconv.Atoi(name)
		switch {
		case err == nil:
			return c.at[:i]
		case k.top, slices.Contains(entries, name):
			return c.at[:i+1]
		}
	}
	if c.gone && len(c.at) > 1 { // an object without the field is something else than no object
		return c.at[:len(c.at)-1]
	}
	return c.at
}

// masks returns the masks of all changes, each once, in order.
func (k *Kind) masks(changes []Change) [][]string {
	var all [][]string
	for _, c := range changes {
		all = append(all, k.mask(c))
	}
	slices.SortFunc(all, slices.Compare)
	return slices.CompactFunc(all, slices.Equal)
}
