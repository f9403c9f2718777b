package document_test

import (
	"slices"
	"testing"

	"github.com/firestore-tally/tally/internal/document"
)

func TestField(t *testing.T) {
	for _, test := range []struct {
		names []string
		want  document.Field
	}{
		{[]string{"stars"}, "stars"},
		{[]string{"customer", "id"}, "customer.id"},
		{[]string{"unit price", "a.b", "c"}, "`unit price`.`a.b`.c"},
		{[]string{"a`b\\c", "7"}, "`a\\`b\\\\c`.`7`"},
		{[]string{"größe"}, "`größe`"},
	} {
		got := document.FieldOf(test.names...)
		if got != test.want {
			t.Errorf("%q: got %s, want %s", test.names, got, test.want)
		}
		if names := got.Names(); !slices.Equal(names, test.names) {
			t.Errorf("%s: got the names %q, want %q", got, names, test.names)
		}
	}
}

func TestFieldIn(t *testing.T) {
	fields := map[string]any{"a": int64(1), "a.b": int64(2), "m": map[string]any{"x": nil, "y": "text"}}
	for _, test := range []struct {
		field document.Field
		want  any
		ok    bool
	}{
		{"a", int64(1), true},
		{"`a.b`", int64(2), true},
		{"m.x", nil, true},
		{"m.y", "text", true},
		{"m.z", nil, false},
		{"a.b", nil, false},
		{"m.y.z", nil, false},
		{"b", nil, false},
	} {
		if got, ok := test.field.In(fields); got != test.want || ok != test.ok {
			t.Errorf("%s: got %v, %v, want %v, %v", test.field, got, ok, test.want, test.ok)
		}
	}
}

func TestFieldWithin(t *testing.T) {
	for _, test := range []struct {
		field, other document.Field
		want         bool
	}{
		{"a.b", "a.b", true},
		{"a.b", "a", true},
		{"a", "a.b", false},
		{"ab", "a", false},
		{"`a.b`", "a", false},
		{"a.b.c", "a.b", true},
	} {
		if got := test.field.Within(test.other); got != test.want {
			t.Errorf("%s within %s: got %v", test.field, test.other, got)
		}
	}
}
