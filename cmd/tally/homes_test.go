package main

import (
	"strings"
	"testing"
	"time"

	"github.com/firestore-tally/tally/internal/tool/deploy"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
)

// A few junk documents stop no deployment, and lists in most documents that hold the field do.
func TestHomes(t *testing.T) {
	routes, err := route.Parse("posts/{post}/likes/{user} -> posts/{post} : count() as likes : existing")
	if err != nil {
		t.Fatal(err)
	}
	j := newTotals{routes[0].Template, []string{"likes"}}
	for _, test := range []struct {
		numbers, zeros, lists, others int
		stops                         bool
		want                          string
	}{
		{0, 0, 0, 100, false, "52,000 documents posts/{post}; none of 100 holds likes yet: up to 52,000 roll-ups, about $"},
		{37, 10, 0, 53, false, "; about 37 of 100 hold likes that no roll-up wrote, such as posts/a: likes is 1234; each becomes what its documents add up to"},
		{0, 0, 1, 99, false, "; about 1 of 100 hold another kind of likes, such as posts/a: likes is an array; these stay as they are"},
		{0, 49, 51, 0, true, "; about 51 of 100 hold another kind of likes"},
		{50, 0, 50, 0, false, "; about 50 of 100 hold another kind of likes"},
		{0, 0, 3, 0, true, "; about 3 of 3 hold another kind of likes"},
	} {
		var sample []rollup.FoundCounter
		add := func(n int, fields map[string]any) {
			for range n {
				c, _ := j.Counter("posts/a")
				sample = append(sample, rollup.FoundCounter{Counter: c, RollUp: rollup.RollUpOf(j.Template, fields, time.Time{})})
			}
		}
		add(test.numbers, map[string]any{"likes": int64(1234)})
		add(test.zeros, map[string]any{"likes": int64(0)})
		add(test.lists, map[string]any{"likes": []any{"ann"}})
		add(test.others, map[string]any{"likes": nil})
		h := j.home(deploy.Database{ID: "(default)", Location: "us-central1"}, route.Standard, 52000, sample)
		if text := h.String(); !strings.Contains(text, test.want) || (h.foreignError() != nil) != test.stops {
			t.Errorf("it says %s, and stops: %v", text, h.foreignError())
		}
	}
}
