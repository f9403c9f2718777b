package appfolder

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"

	"github.com/tailscale/hujson"
)

// A jsonFile is a file of the Firebase CLI's. It is read as the CLI reads it
// (https://www.npmjs.com/package/cjson): it may hold comments and byte order marks, but no comma
// before a closing brace, and keys match exactly.
type jsonFile struct {
	name  string
	text  []byte // with blanks in place of the comments, so places are those in the file
	value hujson.Value
}

// parseJSON parses the text of a file. Its error names the file, and the place.
func parseJSON(name string, text []byte) (*jsonFile, error) {
	text = bytes.ReplaceAll(text, []byte(byteOrderMark), nil)
	value, err := parseAnyJSON(text)
	if err == nil && blankRepeated(text, value) {
		value, err = parseAnyJSON(text)
	}
	if err != nil {
		return nil, noJSON(name, err)
	}
	for v := range value.All() {
		comma := trailingComma(v)
		if comma > 0 {
			return nil, fmt.Errorf("%sis not JSON: the Firebase CLI allows no comma before a closing brace or bracket: remove it", placeAt(text, comma).in(name))
		}
	}

	value.Standardize()
	return &jsonFile{name, value.Pack(), value}, nil
}

// parseAnyJSON parses a text with comments.
func parseAnyJSON(text []byte) (hujson.Value, error) {
	value, err := hujson.Parse(text)
	if err == nil {
		return value, nil
	}
	ended, errEnded := hujson.Parse(append(bytes.Clone(text), '\n')) // a comment may end the file, which package hujson does not take
	if errEnded == nil {
		return ended, nil
	}
	return value, err
}

// blankRepeated writes spaces over each key that is there again later, and over its value: the CLI
// takes the last. It reports whether there were any.
func blankRepeated(text []byte, value hujson.Value) (some bool) {
	for v := range value.All() {
		object, ok := v.Value.(*hujson.Object)
		if !ok {
			continue
		}
		last := make(map[string]int)
		for i, m := range object.Members {
			last[m.Name.Value.(hujson.Literal).String()] = i
		}
		for i, m := range object.Members {
			if last[m.Name.Value.(hujson.Literal).String()] == i {
				continue
			}
			some = true
			for at := m.Name.StartOffset; at < object.Members[i+1].Name.StartOffset; at++ {
				if text[at] != '\n' {
					text[at] = ' '
				}
			}
		}
	}
	return some
}

// trailingComma returns the offset of the comma behind the last part of a list or of keys and
// values; 0 if there is none.
func trailingComma(v *hujson.Value) int {
	last := func(v hujson.Value) int {
		if v.AfterExtra == nil {
			return 0
		}
		return v.EndOffset + len(v.AfterExtra)
	}
	switch v := v.Value.(type) {
	case *hujson.Array:
		if n := len(v.Elements); n > 0 {
			return last(v.Elements[n-1])
		}
	case *hujson.Object:
		if n := len(v.Members); n > 0 {
			return last(v.Members[n-1].Value)
		}
	}
	return 0
}

// has reports whether the file has a key, such as "/firestore", with a value other than null.
func (f *jsonFile) has(key string) bool {
	v := f.value.Find(key)
	return v != nil && v.Value.Kind() != 'n'
}

// isList reports whether the value of a key, such as "/firestore", is a list.
func (f *jsonFile) isList(key string) bool {
	v := f.value.Find(key)
	return v != nil && v.Value.Kind() == '['
}

// decode decodes the value of a key, such as "/emulators/auth", or of the whole file, "". If there
// is none, it changes nothing. Its error names the place, and the key.
func (f *jsonFile) decode(key string, into any) error {
	v := f.value.Find(key)
	if v == nil {
		return nil
	}
	hideInexact(f.text, *v, reflect.TypeOf(into).Elem())
	err := json.Unmarshal(f.text[v.StartOffset:v.EndOffset], into)
	if err == nil {
		return nil
	}

	at := place{}
	wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
	if ok && wrong.Offset > 0 { // it is behind the value, or behind its first character
		at = placeAt(f.text, v.StartOffset+int(wrong.Offset)-1)
	}
	return fmt.Errorf("%s%w", at.in(f.name), wrongJSON(strings.ReplaceAll(strings.TrimPrefix(key, "/"), "/", "."), err))
}

// hideInexact changes the keys of a value that differ only in case from those of the Go type that
// it is decoded into. To package json they are the same.
func hideInexact(text []byte, v hujson.Value, into reflect.Type) {
	list, isList := v.Value.(*hujson.Array)
	if isList && into.Kind() == reflect.Slice {
		for _, element := range list.Elements {
			hideInexact(text, element, into.Elem())
		}
	}

	object, isObject := v.Value.(*hujson.Object)
	if !isObject || into.Kind() != reflect.Map && into.Kind() != reflect.Struct {
		return
	}
	for _, m := range object.Members {
		if into.Kind() == reflect.Map {
			hideInexact(text, m.Value, into.Elem())
			continue
		}
		name := m.Name.Value.(hujson.Literal).String()
		for field := range into.Fields() {
			key := field.Tag.Get("json")
			switch {
			case name == key:
				hideInexact(text, m.Value, field.Type)
			case strings.EqualFold(name, key):
				text[m.Name.StartOffset+1] = '_'
			}
		}
	}
}

// wrong returns an error about the value of a key, with its place.
func (f *jsonFile) wrong(key, reason string) error {
	at := place{}
	v := f.value.Find(key)
	if v != nil {
		at = placeAt(f.text, v.StartOffset)
	}
	return fmt.Errorf("%s%s: %s", at.in(f.name), strings.ReplaceAll(strings.TrimPrefix(key, "/"), "/", "."), reason)
}

// noJSONAt matches the errors of package hujson.
var noJSONAt = regexp.MustCompile(`^hujson: line (\d+), column (\d+): (.*)$`)

// noJSON returns the error for a file that is not JSON, with the place.
func noJSON(file string, err error) error {
	found := noJSONAt.FindStringSubmatch(err.Error())
	if found == nil {
		return fmt.Errorf("%s: is not JSON: %w", file, err)
	}

	why := found[3]
	if strings.HasSuffix(why, "unexpected EOF") {
		why = "the file ends before its last brace is closed"
	}
	return fmt.Errorf("%s:%s:%s: is not JSON: %s", file, found[1], found[2], why)
}

// placeAt returns the place of an offset in a text.
func placeAt(text []byte, offset int) place {
	before := text[:min(offset, len(text))]
	return place{bytes.Count(before, []byte("\n")) + 1, len(before) - bytes.LastIndexByte(before, '\n')}
}

// wrongJSON returns an error of json.Unmarshal in plain words. It names the key, which is below
// another one unless above is "".
func wrongJSON(above string, err error) error {
	wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
	if !ok {
		return err
	}

	key := strings.Trim(above+"."+wrong.Field, ".")
	if key != "" {
		key += ": "
	}
	value, number, _ := strings.Cut(wrong.Value, " ") // "number 80.5"
	found := found[value]
	if number != "" {
		found = number
	}
	return errors.New(key + "want " + wanted(wrong.Type) + ", and found " + found)
}

// found are what messages call the values of JSON.
var found = map[string]string{
	"string": "text", "number": "a number", "bool": "true or false", "array": "a list in brackets", "object": "keys and values in braces",
}

// wanted returns what messages call the values that a Go type takes.
func wanted(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "text"
	case reflect.Int:
		return "a whole number"
	case reflect.Slice:
		return "a list in brackets"
	case reflect.Bool:
		return "true or false"
	default:
		return "keys and values in braces"
	}
}
