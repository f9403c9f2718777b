package storetest

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/test/memstore"
	"github.com/firestore-tally/tally/internal/value"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
)

// testForeignKinds reads values that no total can be: in a look, on a page, and in a lock, where
// nothing is written over them.
func testForeignKinds(t *testing.T, b backend) {
	two := counter("posts/{post}/likes/{user} -> posts/{post} : count() as likes, latest(at) as last : existing", "posts/7/likes")
	for _, one := range memstore.OwnValues(false) {
		kind, own := one.Kind, one.Value
		b.Put(t, two.RollUp, map[string]any{"likes": own, "last": int64(7)})
		want := map[string]string{"likes": kind, "last": "a number"}
		for _, got := range []rollup.RollUp{open(t, b, two).RollUp(), onlyOne(t, b, two)} {
			if !maps.Equal(got.Foreign, want) || len(got.Values) > 0 || len(got.Unwritten()) > 0 {
				t.Errorf("%s is read as %+v", kind, got)
			}
		}

		r := rollup.RollUp{Values: map[string]value.Value{"likes": value.Int(1)}, Tally: document.Tally{AsOf: someTime, Routes: two.Template.Hash(), Totals: []string{"likes"}}}
		if err := b.WriteLocked(t.Context(), two, r, document.Tally{}); !errors.Is(err, rollup.ErrConflict) {
			t.Errorf("a locked write over %s: %v, want ErrConflict", kind, err)
		}
		if got := b.Get(t, two.RollUp); got["tally"] != nil || got["last"] != int64(7) {
			t.Errorf("a refused write over %s left %v", kind, got)
		}

		r.Values, r.Tally.Totals = nil, nil
		if err := b.WriteLocked(t.Context(), two, r, document.Tally{}); err != nil {
			t.Errorf("a locked write of no total next to %s: %v", kind, err)
		}
		b.Put(t, two.RollUp, map[string]any{"likes": own, "last": "", "tally": document.Tally{AsOf: someTime, Totals: []string{"likes"}}.Encode()})
		if got := open(t, b, two).RollUp(); got.Foreign != nil {
			t.Errorf("%s in the field of a total that a roll-up wrote is read as %+v", kind, got)
		}
	}

	for _, nothing := range memstore.Nothings {
		b.Put(t, two.RollUp, map[string]any{"likes": nothing, "last": nothing})
		if got := open(t, b, two).RollUp(); got.Foreign != nil || len(got.Unwritten()) > 0 {
			t.Errorf("%#v is read as %+v", nothing, got)
		}
	}
}

// onlyOne returns the roll-up that a walk finds.
func onlyOne(t *testing.T, b backend, c route.Counter) rollup.RollUp {
	t.Helper()
	page, err := b.RollUps(t.Context(), c.Template, "", 10)
	if err != nil || len(page.Found) != 1 {
		t.Fatalf("found %+v, %v", page, err)
	}
	return page.Found[0].RollUp
}

// testBefore writes over numbers that no roll-up wrote: in a lock, the tally keeps them as they are
// then. They are read back whatever a client does to their types, and put back with a removal.
func testBefore(t *testing.T, b backend) {
	two := counter("posts/{post}/likes/{user} -> posts/{post} : count() as likes, sum(n) as n, latest(at) as last : existing", "posts/7/likes")
	b.Put(t, two.RollUp, map[string]any{"likes": 1234, "n": math.NaN(), "last": someTime, "title": "x"})
	r := rollup.RollUp{
		Values: map[string]value.Value{"likes": value.Int(1), "n": value.Int(2), "last": value.Null},
		Tally:  document.Tally{AsOf: someTime, Routes: two.Template.Hash(), Totals: two.Template.Totals()},
	}
	want := map[string]value.Value{"likes": value.Int(1234), "last": value.Timestamp(someTime)}
	for range 3 {
		seen := open(t, b, two).RollUp()
		if err := b.WriteLocked(t.Context(), two, r, seen.Tally); err != nil {
			t.Fatal(err)
		}
		if d := diff(want, open(t, b, two).RollUp().Tally.Before); d != "" {
			t.Fatalf("before (-want +got):\n%s", d)
		}
		fields := b.Get(t, two.RollUp)
		tally := fields["tally"].(map[string]any)
		tally["before"].(map[string]any)["likes"] = 1234.0 // to security rules it is the same
		b.Put(t, two.RollUp, fields)
		want["likes"] = value.Double(1234)
	}

	over, ok := r.WrittenOver(open(t, b, two).RollUp())
	over.UpdateTime = open(t, b, two).RollUp().UpdateTime
	write(t, b, two, over)
	if got := open(t, b, two).RollUp(); !ok || !maps.Equal(got.Tally.Before, want) {
		t.Errorf("a write without a lock left %+v", got)
	}

	if err := b.Remove(t.Context(), two, open(t, b, two).RollUp()); err != nil {
		t.Fatal(err)
	}
	if got := b.Get(t, two.RollUp); got["likes"] != 1234.0 || !got["last"].(time.Time).Equal(someTime) || len(got) != 3 {
		t.Errorf("a removal leaves %v", got)
	}
}

// testUnwrittenHomes finds a document that holds totals and no tally once, by its roll-up, whether
// or not it has sources, and counts those that hold a foreign kind and are left out.
func testUnwrittenHomes(t *testing.T, b backend) {
	for name, text := range map[string]string{
		"by path": "posts/{post}/likes/{user} -> posts/{post} : count() as likes : existing",
		"by key":  "likes/{like} by post -> posts/{post} : count() as likes : existing",
	} {
		routes, err := route.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		homes := routes[0].Template.FoundByHomes()
		for id, likes := range map[string]any{"forged": 1e6, "nan": math.NaN(), "zero": 0, "null": nil, "none": "", "list": []any{"ann"}, "text": "x", "liked": 5, "liked list": []any{"ann"}} {
			b.Put(t, "posts/"+id, map[string]any{"likes": likes})
			if strings.HasPrefix(id, "liked") {
				b.Put(t, "posts/"+id+"/likes/ann", map[string]any{})
				b.Put(t, "likes/"+id, map[string]any{"post": id})
			}
		}

		page, err := b.RollUps(t.Context(), routes[0].Template, "", 100)
		if err != nil {
			t.Fatal(err)
		}
		var unwritten, all []string
		for _, f := range page.Found {
			all = append(all, f.Counter.RollUp)
			if len(f.RollUp.Unwritten()) > 0 {
				unwritten = append(unwritten, f.Counter.RollUp)
			}
		}
		if want := []string{"posts/forged", "posts/liked", "posts/nan"}; !slices.Equal(unwritten, want) {
			t.Errorf("%s: found %v, want %v", name, unwritten, want)
		}
		if want := []string{"posts/forged", "posts/liked", "posts/liked list", "posts/nan"}; homes && !slices.Equal(all, want) {
			t.Errorf("%s: found %v, want %v", name, all, want)
		}
		if homes && (page.Foreign != 2 || !strings.HasPrefix(page.ForeignExample, "posts/list: likes is an array")) {
			t.Errorf("%s: %d of a foreign kind were left out, such as %s", name, page.Foreign, page.ForeignExample)
		}

		for _, path := range all {
			b.Delete(t, fmt.Sprint(path, "/likes/ann"))
		}
	}
}
