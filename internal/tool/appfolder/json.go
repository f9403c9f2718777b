package appfolder

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"
)

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

// placeAt returns the place of an error of json.Unmarshal in a file; zero if it has none.
func placeAt(data []byte, err error) place {
	wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
	if !ok || wrong.Offset < 1 || wrong.Offset > int64(len(data)) {
		return place{}
	}
	before := data[:wrong.Offset-1] // the offset is behind the value, or behind its first character
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
	default:
		return "keys and values in braces"
	}
}
