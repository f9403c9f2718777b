package deploy

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// An Object is a resource as an API of Google's has it, in JSON.
type Object map[string]any

// asObject returns what JSON holds as an object; an empty one if it is none.
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
func (o Object) Get(path string) string {
	at := o.at(strings.Split(path, "."))
	list, isList := at.([]any)
	switch {
	case at == nil:
		return ""
	case isList:
		return strings.ReplaceAll(strings.Trim(fmt.Sprint(list), "[]"), " ", ",")
	}
	return fmt.Sprint(at)
}

// at returns the value at a path; nil if there is none.
func (o Object) at(path []string) any {
	var at any = o
	for _, name := range path {
		at = inside(at, name)
	}
	return at
}

// inside returns the value that an object has under the name, or a list at that index; nil if there
// is none.
func inside(at any, name string) any {
	list, isList := at.([]any)
	if !isList {
		return asObject(at)[name]
	}
	i, err := strconv.Atoi(name)
	if err != nil || i >= len(list) {
		return nil
	}
	return list[i]
}

// set sets the value at a path of objects.
func (o Object) set(path []string, value any) {
	if len(path) == 1 {
		o[path[0]] = value
		return
	}
	inner, isObject := o[path[0]].(Object)
	if !isObject {
		inner = make(Object)
		o[path[0]] = inner
	}
	inner.set(path[1:], value)
}

// name returns the resource's name.
func (o Object) name() string { return o.Get("name") }

// text returns the object in JSON, on one line.
func (o Object) text() string { return toJSON(o) }

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

// segment returns the id after the collection's name in a resource's name.
func segment(name, collection string) string {
	_, rest, _ := strings.Cut(name, "/"+collection+"/")
	id, _, _ := strings.Cut(rest, "/")
	return id
}
