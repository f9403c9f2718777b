package route

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/google/go-cmp/cmp"
)

const acrossParents = "posts/{post}/comments/{comment} by author -> users/{author} : count() as comments : existing"

func mustParse(t *testing.T, text string) Routes {
	t.Helper()
	routes, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	if routes.String() != text {
		t.Errorf("%s\nis spelled\n%s", text, routes)
	}
	return routes
}

// The documents of a route across parents are those of its collection id at any depth below the
// first part of the pattern. Events, queries and people are told so alike.
func TestAcross(t *testing.T) {
	by := func(author any) func(document.Field) any { return func(document.Field) any { return author } }
	for _, test := range []struct {
		route, path, counter, below, id, shown string
	}{
		{acrossParents, "posts/1/comments/a", "users/ann", "posts", "comments", "posts/**/comments"},
		{acrossParents, "posts/1/comments/a/comments/b", "users/ann", "posts", "comments", "posts/**/comments"},
		{acrossParents, "posts/1/x/y/comments/b", "users/ann", "posts", "comments", "posts/**/comments"},
		{route: acrossParents, path: "posts/1"},
		{route: acrossParents, path: "comments/a"},
		{route: acrossParents, path: "posts/comments"},
		{route: acrossParents, path: "pages/1/comments/a"},
		{route: acrossParents, path: "posts/1/comments/a/likes/b"},
		{route: acrossParents, path: "posts/1/x/comments/y/z"},
		{route: acrossParents, path: "posts/1/x/comments/y"},
		{route: acrossParents, path: "pages/1/posts/1/comments/a"},
		{
			"shops/{shop}/days/{day}/orders/{order} by author -> shops/{shop}/users/{author} : count() as orders : existing",
			"shops/a/days/1/orders/2", "shops/a/users/ann", "shops/a/days", "orders", "shops/a/days/**/orders",
		},
	} {
		r := mustParse(t, test.route)[0]
		c, ok := r.Belongs(test.path, by("ann"))
		_, covered := Routes{r}.Source(test.path)
		if ok != (test.counter != "") || covered != ok || r.Covers(test.path) != ok || c.RollUp != test.counter {
			t.Errorf("%s: %s belongs to %q, %v; covered %v, want %q", r, test.path, c.RollUp, ok, covered, test.counter)
		}
		if !ok {
			continue
		}
		below, id, across := r.Group(c)
		if !across || below != test.below || id != test.id || r.Shards(c) != test.shown {
			t.Errorf("%s: the documents of %s are %q at any depth below %q, %v, and called %s", r, c.RollUp, id, below, across, r.Shards(c))
		}
	}

	plain := mustParse(t, "orders/{order} by shop -> shops/{shop} : count() as orders : existing")[0]
	c, _ := plain.Template.Counter("shops/a")
	if _, _, across := plain.Group(c); across || plain.Across() || len(plain.Below()) > 0 {
		t.Errorf("%s goes across parents", plain)
	}
}

// A route across parents goes together with others of the same documents.
func TestTogetherAcross(t *testing.T) {
	for _, other := range []string{
		"posts/{post}/comments/{comment} -> posts/{post} : count() as comments : existing",
		"posts/{p}/x/{y}/comments/{c} -> posts/{p}/x/{y} : count() as comments : existing",
		"posts/{p}/x/{y}/comments/{c} by author -> posts/{p}/y/{author} : count() as n : existing",
		"posts/{p}/comments/{c}/likes/{l} -> posts/{p}/comments/{c} : count() as likes : existing",
	} {
		_, err := Parse(acrossParents + "\n" + other)
		if err != nil {
			t.Errorf("%s: %v", other, err)
		}
	}
}

// Patterns of any depth overlap if some path matches both, and one contains the other if it matches
// all paths of the other.
func TestDeepPatterns(t *testing.T) {
	paths := [][]string{{}}
	var all [][]string
	for range 12 {
		var longer [][]string
		for _, path := range paths {
			longer = append(longer, append(slices.Clone(path), "a"), append(slices.Clone(path), "b"))
		}
		paths = longer
		if len(paths[0])%2 == 0 {
			all = append(all, paths...)
		}
	}

	random := rand.New(rand.NewPCG(1, 2))
	draw := func() Path {
		var p Path
		deep := random.IntN(5) - 2 // the index of the pair with the capture, if there is one
		for n := range 1 + random.IntN(3) {
			p = append(p, Segment{Name: []string{"a", "b"}[random.IntN(2)]})
			isDeep := n == deep
			id := Segment{Name: []string{"a", "b"}[random.IntN(2)], Capture: isDeep || random.IntN(2) == 0, Deep: isDeep}
			p = append(p, id)
		}
		return p
	}
	overlaps, contains := 0, 0
	for range 1000 {
		a, b := draw(), draw()
		wantOverlap, wantContains := false, true
		for _, path := range all {
			inA, inB := a.matches(path), b.matches(path)
			wantOverlap = wantOverlap || inA && inB
			wantContains = wantContains && (inA || !inB)
		}
		if Overlap(a, b) != wantOverlap || Overlap(b, a) != wantOverlap {
			t.Fatalf("%+v and %+v: Overlap is %v and %v, want %v", a, b, Overlap(a, b), Overlap(b, a), wantOverlap)
		}
		if a.Contains(b) != wantContains {
			t.Fatalf("%+v and %+v: Contains is %v, want %v", a, b, a.Contains(b), wantContains)
		}
		if wantOverlap {
			overlaps++
		}
		if wantContains {
			contains++
		}
	}
	if overlaps < 100 || contains < 50 {
		t.Errorf("of 1000 pairs %d overlap, and %d contain each other", overlaps, contains)
	}
}

// A document that a route across parents and another one count is in counters of both, by one
// event.
func TestTriggering(t *testing.T) {
	const each = "posts/{post}/comments/{comment} -> posts/{post} : count() as comments : existing"
	const deep = "posts/{post}/comments/{comment}/comments/{reply} -> posts/{post}/comments/{comment} : count() as replies : existing"
	const other = "pages/{page}/comments/{comment} -> pages/{page} : count() as comments : existing"
	const scheduled = "users/{user}/x/{x}/comments/{comment} by author -> authors/{author} : count() as comments : existing : every 10s"
	routes := mustParse(t, strings.Join([]string{each, deep, acrossParents, other, strings.Replace(acrossParents, "users", "people", 1)}, "\n"))

	var patterns []string
	for _, r := range append(routes, mustParse(t, strings.Replace(scheduled, "/x/{x}", "", 1))...).Triggering() {
		patterns = append(patterns, r.Pattern().String())
	}
	if d := cmp.Diff([]string{"posts/{post}/comments/{comment}", "pages/{page}/comments/{comment}"}, patterns); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}

	for path, want := range map[string]int{"posts/1/comments/a": 3, "posts/1/comments/a/comments/b": 3, "posts/1/x/y/comments/b": 2, "pages/1/comments/a": 1} {
		source, _ := routes.Source(path)
		if got := len(source.Routes()); got != want {
			t.Errorf("%s has %d routes, want %d", path, got, want)
		}
	}
}

// The queries of a route across parents need indexes of the collection group: one for each way to
// count, because Firestore merges none that it makes by itself.
func TestIndexesAcross(t *testing.T) {
	routes := mustParse(t, `posts/{post}/comments/{comment} by author -> users/{author} : count() as comments, count() where shown == true as shown, sum(stars) where shown == true as stars : existing`)
	texts := func(indexes []Index) (all []string) {
		for _, x := range indexes {
			all = append(all, x.String())
		}
		return all
	}
	composite := []string{"collection group comments (author ASC, shown ASC)", "collection group comments (author ASC, shown ASC, stars ASC)"}
	single := []string{"collection group comments (author ASC)"}
	if d := cmp.Diff(composite, texts(routes.Indexes(Standard))); d != "" {
		t.Errorf("composite (-want +got):\n%s", d)
	}
	if d := cmp.Diff(single, texts(routes.FieldIndexes())); d != "" {
		t.Errorf("of one field (-want +got):\n%s", d)
	}
	for _, want := range slices.Concat(composite, single) {
		if !slices.Contains(texts(routes.Indexes(Enterprise)), want) {
			t.Errorf("Enterprise lacks %s: %v", want, texts(routes.Indexes(Enterprise)))
		}
	}
}
