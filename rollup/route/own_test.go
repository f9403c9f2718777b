package route

import (
	"math"
	"testing"
	"time"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/value"
)

// A document that is a source and a home, and holds a total but no tally, concerns its own counter,
// too.
func TestOwn(t *testing.T) {
	routes, err := Parse(`
		posts/{post}/likes/{user} -> posts/{post} : count() as likes, latest(at) as last : existing
		posts/{post} by author -> users/{author} : sum(likes) as karma : existing
		comments/{comment} by parent -> comments/{parent} : count() as replies : existing`)
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, test := range []struct {
		path   string
		fields map[string]any
		want   string
	}{
		{"posts/7", map[string]any{"likes": int64(1234)}, "posts/7"},
		{"posts/7", map[string]any{"likes": -0.5}, "posts/7"},
		{"posts/7", map[string]any{"likes": math.NaN()}, "posts/7"},
		{"posts/7", map[string]any{"last": at}, "posts/7"},
		{"posts/7", map[string]any{"likes": int64(1234), "tally": map[string]any{}}, "posts/7"},
		{"posts/7", map[string]any{"likes": int64(1234), "tally": map[string]any{"as_of": "now"}}, "posts/7"},
		{"posts/7", map[string]any{"likes": int64(1234), "tally": map[string]any{"as_of": at}}, ""},
		{"posts/7", map[string]any{"likes": int64(0)}, ""},
		{"posts/7", map[string]any{"likes": math.Copysign(0, -1), "last": nil}, ""},
		{"posts/7", map[string]any{"likes": []any{"ann"}, "last": int64(7)}, ""},
		{"posts/7", map[string]any{"karma": int64(7)}, ""},
		{"posts/7", nil, ""},
		{"posts/7/likes/ann", map[string]any{"likes": int64(7)}, ""},
		{"comments/a", map[string]any{"replies": int64(7)}, "comments/a"},
	} {
		source, _ := routes.Source(test.path)
		holds := func(f document.Field) (string, any) {
			held, there := f.In(test.fields)
			if !there {
				return "", nil
			}
			return value.KindOf(held), held
		}
		got := ""
		for _, c := range source.Own(nil, holds) {
			got += c.RollUp
		}
		if got != test.want {
			t.Errorf("%s with %v concerns %q, want %q", test.path, test.fields, got, test.want)
		}
	}

	source, _ := routes.Source("comments/a")
	c, _ := routes.Counter("comments/a")
	concerns := source.Own([]Concern{{Counter: c, Unchanged: true, Circular: true}}, func(f document.Field) (string, any) {
		held, _ := f.In(map[string]any{"replies": int64(7)})
		return "", held
	})
	if len(concerns) != 1 || concerns[0].Unchanged || !concerns[0].Circular {
		t.Errorf("a comment that replies to itself concerns %+v", concerns)
	}
}
