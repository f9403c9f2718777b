package rules

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/firestore-tally/tally/internal/tool/rules"
	"github.com/firestore-tally/tally/rollup/route"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// comparisons are conditions of routes. Each has a value that is none of the state, so that the
// rules accept it; nil: they cannot say the condition, so they accept nothing.
var comparisons = map[string]any{
	`n in [2, 3]`:                            4,
	`n in [-1, -2.5]`:                        1,
	`n in [7]`:                               8,
	`n in [true, 2, "a"]`:                    "b",
	`n == 2`:                                 3,
	`n == 0`:                                 1,
	`n == -5`:                                5,
	`n == 0.1`:                               0.2,
	`n == 9007199254740992`:                  1,
	`n > 2`:                                  2,
	`n >= 2`:                                 1.5,
	`n < 5`:                                  5,
	`n <= -2.5`:                              0,
	`n > 2 and n < 9`:                        9,
	`n > 1e-7`:                               0,
	`n == true`:                              false,
	`n == "a"`:                               "b",
	`n == ""`:                                "a",
	`n == "it's $(x) \\ \n"`:                 "its",
	`n in ["a", "b"]`:                        "c",
	`n > "b"`:                                "a",
	`n >= "a" and n < "b"`:                   "c",
	`n < "é"`:                                "文",
	`n > "` + "\ud7ff" + `"`:                 "a",
	`n == timestamp("2026-01-31T12:00:00Z")`: now,
	`n > timestamp("2036-01-31T12:00:00Z")`:  now,
	`n in [timestamp("2026-01-31T12:00:00Z"), "x"]`: nil,
	`n == 9007199254740993`:                         nil,
	`n > 9007199254740993`:                          nil,
	`n == 9223372036854775807`:                      nil,
	`n == -9223372036854775808`:                     nil,
	`n in [1, 1e20]`:                                nil,
	`n < 1e300`:                                     nil,
	`n == "\b"`:                                     nil,
	`n == "\u0000x"`:                                nil,
	`n == "it’s"`:                                   nil,
	`n > "` + "\uffee" + `"`:                        nil,
}

// now stands for the server's time.
var now = serverTime("n")

// held are values of every kind that Firestore has, and those next to the condition's own: all of
// its kind, and some of the others.
func held(d *database, condition string) []any {
	numbers := []any{
		0, 1, 2, 3, -1, -5, 7, 1 << 53, 1<<53 + 1, math.MaxInt64, math.MinInt64,
		0.0, math.Copysign(0, -1), 1.0, 2.0, 3.0, -1.0, -5.0, 7.0, -2.5, 0.1, 1e-7, 2e-7, 2.0000000000000004, 4.999999999999999,
		0x1p53, 0x1p53 + 2, 0x1p63, -0x1p63, 1e20, 1e301, math.NaN(), math.Inf(1), math.Inf(-1),
	}
	texts := []any{
		"", "a", "b", "ab", "2", "\b", "\x00x", "it's $(x) \\ \n", "it’s", "é", "e\u0301", "\ud7ff", "\uffee", "\uffff", "😀", "b\U0010ffff",
	}
	at := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	ref := &firestorepb.Value{ValueType: &firestorepb.Value_ReferenceValue{ReferenceValue: d.path("c/d")}}
	others := []any{
		nil, true, false, at, at.Add(time.Microsecond), at.Add(-time.Microsecond), at.AddDate(11, 0, 0),
		ref, bytes("a"), array(2.0), array("a"), fields{"n": 2}, fields{},
	}
	if strings.ContainsAny(condition, `"`) {
		numbers = []any{0, 2.0, math.NaN()}
	} else {
		texts = []any{"", "2"}
	}
	return slices.Concat(numbers, texts, others)
}

// Where rules and queries compare otherwise, no client comes into a state: whatever the rules of
// tally init let a stranger write, no query counts. docs/design/rules.md lists how the two differ,
// under compared-alike.
func TestComparedAlike(t *testing.T) {
	t.Parallel()
	d := newDatabase(t, nil)
	var text []string
	var conditions []string
	for condition := range comparisons {
		text = append(text, fmt.Sprintf("c%d/{x} -> totals/c%[1]d : count() where %s as n", len(text), condition))
		conditions = append(conditions, condition)
	}
	routes, err := route.Parse(strings.Join(text, "\n"))
	if err != nil {
		t.Fatal(err)
	}
	d.setRules(rules.For(firestoreRules(t), routes, rules.Answers{}))

	accepted := make(map[string][]any) // values, by condition
	for i, condition := range conditions {
		try := func(values ...any) bool {
			var ws []*firestorepb.Write
			for _, v := range values {
				path := fmt.Sprintf("c%d/%d", i, len(accepted[condition])+len(ws))
				if v == any(now) {
					ws = append(ws, transform(set(path, nil), now))
				} else {
					ws = append(ws, set(path, fields{"n": v}))
				}
			}
			err := d.commit(ann, ws...)
			if err != nil && status.Code(err) != codes.PermissionDenied {
				t.Fatal(err)
			}
			if err == nil {
				accepted[condition] = append(accepted[condition], values...)
			}
			return err == nil
		}
		outside := comparisons[condition]
		if try(outside) != (outside != nil) {
			t.Errorf("%s: a client writes %v: %t, want the other", condition, outside, outside == nil)
		}
		var counted, others []any
		for _, v := range held(d, condition) {
			if route.HoldAll(routes[i].Totals[0].Where, decoded(fields{"n": v}.proto())) {
				counted = append(counted, v)
			} else {
				others = append(others, v)
			}
		}
		if outside != nil && !try(others...) { // some are refused for nothing
			counted = append(counted, others...)
		}
		for _, v := range counted {
			try(v)
		}
	}

	audited(t, d, routes)
	for i, condition := range conditions {
		doc, err := d.api.GetDocument(server.context(t.Context()), &firestorepb.GetDocumentRequest{Name: d.path(fmt.Sprint("totals/c", i))})
		if err != nil && status.Code(err) != codes.NotFound {
			t.Fatal(err)
		}
		if n := doc.GetFields()["n"].GetIntegerValue(); n != 0 {
			t.Errorf("%s: clients wrote %v, and a query counts %d of these", condition, accepted[condition], n)
		}
	}
}
