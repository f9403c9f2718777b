package deploy

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// An Object is a resource as an API of Google's has it, in JSON.
type Object map[string]any

// Get returns the value at a path such as "serviceConfig.uri" as text; "" if there is none. The
// elements of a list are separated by commas.
func (o Object) Get(path string) string {
	var at any = o
	for path != "" {
		var name string
		name, path, _ = strings.Cut(path, ".")
		at = inside(at, name)
	}

	switch v := at.(type) {
	case nil:
		return ""
	case []any:
		return strings.ReplaceAll(strings.Trim(fmt.Sprint(v), "[]"), " ", ",")
	}
	return fmt.Sprint(at)
}

// inside returns the value that an object has under the name, or a list at that index; nil if there
// is none. The name # of a list is its length.
func inside(at any, name string) any {
	switch in := at.(type) {
	case map[string]any:
		return in[name]

	case Object:
		return in[name]

	case []any:
		if name == "#" {
			return len(in)
		}
		i, err := strconv.Atoi(name)
		if err == nil && i < len(in) {
			return in[i]
		}
	}
	return nil
}

// name returns the resource's name.
func (o Object) name() string { return o.Get("name") }

// text returns the object in JSON, on one line.
func (o Object) text() string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(o); err != nil {
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
