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

// What a route across parents cannot do is refused by name, with a remedy.
func TestRefusedAcross(t *testing.T) {
	const source, to = "posts/{post}/comments/{comment} by author", " -> users/{author} : "
	for route, want := range map[string]string{
		"posts/{post}/comments/{comment} -> users/all : count()":                                                            "counters that differ only in it would share one roll-up",
		source + to + "maximum(stars) as most : existing":                                                                   "has no maximum: its query would go through the values of other documents, too; sum, count or average them, or keep the documents in one collection, as in comments/{comment}",
		source + to + "latest(at) as last : existing":                                                                       "has no latest",
		source + to + "count() where stars > 3 as n : existing":                                                             "test with == or in",
		source + to + "count() where at > now - 1h as n : existing":                                                         "compares the documents' paths already",
		source + to + "count() as n":                                                                                        "must say existing",
		source + ", day(at) -> users/{author}/days/{day} : count() as n : within users/{author}":                            "a route across parents has no days, weeks or months; keep the documents in one collection, as in comments/{comment} by author, day(at)",
		source + to + "stars : documents : existing":                                                                        "documents is for plain sums",
		"users/{user}/posts/{post}/comments/{comment} by author -> authors/{author} : count() as n : existing":              "so the documents count in collections comments at any depth below users; spell the source users/{user}/comments/{comment}",
		"users/{user}/posts/{post}/comments/{comment} by author -> posts/{post}/authors/{author} : count() as n : existing": "counters that differ only in it would share one roll-up: keep the documents in one collection, as in comments/{comment} by author",
		"comments/{parent}/comments/{comment} by author -> users/{author} : count() as n : existing":                        "so the documents comments/{parent} would count, too",
		"comments/{parent}/comments/{comment} by author -> comments/{author} : count() as n : existing":                     "would count, too",

		acrossParents + "\nposts/{post}/comments/{comment} -> posts/{post} : count() as comments : existing":         "",
		acrossParents + "\nposts/{p}/x/{y}/comments/{c} -> posts/{p}/x/{y} : count() as comments : existing":         "",
		acrossParents + "\nposts/{p}/x/{y}/comments/{c} by author -> posts/{p}/y/{author} : count() as n : existing": "",
		acrossParents + "\nposts/{p}/comments/{c}/likes/{l} -> posts/{p}/comments/{c} : count() as likes : existing": "",
		acrossParents + " : every 10s\nposts/{p}/comments/{c} -> posts/{p} : count() as n : existing":                `say the same "every" in both`,
		acrossParents + "\nposts/{p}/likes/{l} -> posts/{p}/x/{p} : count() as likes":                                "is a document above the source posts/{post}/comments/{comment}",
		acrossParents + "\nusers/{user} by g -> posts/1/x/2/comments/{g} : sum(comments) as n : existing":            "each roll-up would trigger another, without end",
		"posts/{post}/comments/{comment} by author -> posts/1/x/2/comments/{author} : count() as author : existing":  "it reads the field author",
	} {
		_, err := Parse(route)
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", route, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: got %v, want an error with %q", route, err, want)
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
