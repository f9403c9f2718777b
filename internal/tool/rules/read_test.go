package rules

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	root "github.com/firestore-tally/tally"
	"github.com/firestore-tally/tally/rollup/route"
	"github.com/google/go-cmp/cmp"
)

const routes = `posts/{post}/likes/{user} -> posts/{post} : count() as likes : existing
posts/{post} by author -> users/{author} : likes as karma : existing
counters/{counter}/shards/{shard} -> rollups/{counter} : count`

// in returns rules with these blocks.
func in(blocks string) string {
	return "rules_version = '2';\nservice cloud.firestore {\n match /databases/{database}/documents {\n" + blocks + "\n }\n}\n"
}

// parsed returns the routes in a text.
func parsed(t testing.TB, text string) route.Routes {
	t.Helper()
	all, err := route.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Two blocks of one path that both allow writes are found, and only these.
func TestDoubles(t *testing.T) {
	double := func(line, other int, methods, path string) []string {
		return []string{fmt.Sprintf("%d: this block and that of line %d both allow %s of %s, and one that allows is enough: merge their conditions into one block", line, other, methods, path)}
	}
	for _, test := range []struct {
		name, rules string
		want        []string
	}{
		{"Tally's own", root.Rules, nil},
		{"nothing", "", nil},
		{"another service alone", "service firebase.storage { match /b/{b}/o { match /{all=**} { allow write: if fine(request.resource.data); } } }", nil},
		{"two blocks", in("match /posts/{p} { allow create: if a(); }\nmatch /posts/{post} { allow read; allow write: if b(); }"), double(5, 4, "create", "posts/{post}")},
		{"two nested blocks", in("match /posts/{p} { match /likes/{u} { allow create: if a(); } }\nmatch /posts/{p}/likes/{like} { allow create: if false; allow create: if b(); }"), double(5, 4, "create", "posts/{post}/likes/{user}")},
		{"all documents, twice", in("match /{document=**} { allow write: if a(); }\nmatch /{all=**} { allow update: if b(); }"), double(5, 4, "update", "posts/{post}/likes/{user}")},
		{"without semicolons", in("match /posts/{p} {\n allow update: if a()\n match /likes/{u} { allow create: if b()\n }\n}\nmatch /posts/{post} { allow update: if c() }"), double(9, 4, "update", "posts/{post}")},
		{"behind a map", in("match /posts/{p} { allow create: if request.resource.data == {'at': request.time, 'by': {'id': u}}; }\nmatch /posts/{p} { allow create: if a(); }"), double(5, 4, "create", "posts/{post}")},
		{"in a comment and in texts", in("match /posts/{p} { // allow create;\n /* allow create; */ allow update: if x != 'allow create; }' && y != \"it\\\"s; allow create;\"; }\nmatch /posts/{p} { allow create: if a(); }"), nil},
		{"behind a quote in a text", in("match /posts/{p} { allow update: if x != 'it\\'s'; allow create: if a(); }\nmatch /posts/{p} { allow create: if a(); }"), double(5, 4, "create", "posts/{post}")},
		{"a captured collection", in("match /{index}/{token} { allow write: if index in ['CDEX']; }\nmatch /posts/{p} { allow write: if a(); }"), nil},
		{"all documents and some", in("match /{document=**} { allow write: if a(); }\nmatch /posts/{p} { allow write: if b(); }"), nil},
		{"literal and capture", in("match /posts/featured { allow update: if a(); }\nmatch /posts/{p} { allow update: if b(); }"), nil},
		{"a literal, twice", in("match /posts/a { allow update: if a(); }\nmatch /posts/a { allow update: if b(); }"), double(5, 4, "update", "posts/{post}")},
		{"a literal below, twice", in("match /posts/a/likes/b { allow update: if a(); }\nmatch /posts/a/likes/b { allow update: if b(); }"), double(5, 4, "update", "posts/{post}/likes/{user}")},
		{"two literals", in("match /posts/a { allow update: if a(); }\nmatch /posts/b { allow update: if b(); }"), nil},
		{"other methods", in("match /posts/{p} { allow create: if a(); }\nmatch /posts/{post} { allow update: if b(); }"), nil},
		{"reads", in("match /posts/{p} { allow write: if a(); }\nmatch /posts/{post} { allow read; }"), nil},
		{"of no route", in("match /notes/{p} { allow write: if a(); }\nmatch /notes/{post} { allow write: if b(); }"), nil},
		{"refused by one", in("match /posts/{p} { allow write: if a(); }\nmatch /posts/{post} { allow write: if false; }"), nil},
		{"undecided by one", in("match /posts/{p} { allow write: if a(); }\nmatch /posts/{post} { allow write: if (b() || c()) && false; }"), nil},
		{"a choice in one", in("match /posts/{p} { allow write: if a(); }\nmatch /posts/{post} { allow write: if b() || c() && false; }"), double(5, 4, "create, update, delete", "posts/{post}")},
	} {
		for _, text := range []string{test.rules, strings.ReplaceAll(test.rules, "\n", "\r\n")} {
			r := Parse(text)
			if d := cmp.Diff(test.want, r.DuplicateBlocks(parsed(t, routes))); d != "" || r.unread != "" {
				t.Errorf("%s: %s (-want +got):\n%s", test.name, r.unread, d)
			}
		}
	}
}

// Documents that no block lets a client create are named: the app's servers may write them.
func TestClosed(t *testing.T) {
	const likes, shard = "posts/{post}/likes/{user}", "counters/{counter}/shards/{shard}"
	of := parsed(t, likes+" -> posts/{post} : count() as likes : existing\n"+shard+" -> rollups/{counter} : count")
	for _, test := range []struct {
		rules string
		want  []string
	}{
		{root.Rules, []string{likes}},
		{in("match /posts/{p} { allow write: if a(); }"), []string{likes}},
		{in("match /posts/{p}/likes/{u} { allow read, update, delete: if a(); }"), []string{likes}},
		{in("match /posts/{p}/likes/{u} { allow create: if false; }"), []string{likes}},
		{in("match /posts/{p}/likes/{u} { allow create: if a(); }"), nil},
		{in("match /posts/featured/likes/{u} { allow write: if a(); }"), nil},
		{in("match /posts/{all=**} { allow write: if a(); }"), nil},
	} {
		if d := cmp.Diff(test.want, Parse(test.rules).ClosedPaths(of)); d != "" {
			t.Errorf("(-want +got):\n%s\n%s", d, test.rules)
		}
	}
}

// Names beyond ASCII are compared as they are.
func TestNamesBeyondASCII(t *testing.T) {
	r := Parse(in("match /größe/{p} { allow write; }\nmatch /gr_ße/{p} { allow create; }\nmatch /größe/{id} { allow update: if a('größe'); } // größe"))
	of := parsed(t, "größe/{g}/likes/{user} -> größe/{g} : count() as likes : existing")
	if got := r.DuplicateBlocks(of); len(got) != 1 || !strings.HasPrefix(got[0], "6: this block and that of line 4 both allow update of ") {
		t.Errorf("got %q", got)
	}
	if got, want := r.Lines("größe/1", "create"), []int{4}; !slices.Equal(got, want) {
		t.Errorf("lines %v, want %v", got, want)
	}
	if said := r.bodyText("größe/1", "update"); !strings.Contains(said, "a('größe')") {
		t.Errorf("said %q", said)
	}
}

// Lines are those of statements that may allow the method.
func TestLines(t *testing.T) {
	r := Parse(in("match /posts/{p} {\n allow read: if true;\n allow update: if false;\n allow write: if a();\n allow create, delete: if b() && false; // decide\n}\nmatch /{all=**} { allow get, update; }"))
	for method, want := range map[string][]int{"get": {5, 10}, "list": {5}, "update": {7, 10}, "create": {7}, "delete": {7}} {
		if got := r.Lines("posts/1", method); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", method, got, want)
		}
	}
}

// What conditions say is what they and all functions say that they call, in any scope.
func TestSaid(t *testing.T) {
	r := Parse(in("function a() { return b() && c(); }\nfunction b() { return request.auth.uid == resource.data.author; }\nfunction d() { return 'no'; }\nmatch /posts/{p} {\n function c() { return a(); }\n allow write: if a() && x('d()');\n allow read: if d();\n}"))
	said := r.bodyText("posts/1", writeMethods...)
	for text, want := range map[string]bool{"resource.data.author": true, "'no'": false} {
		if strings.Contains(said, text) != want {
			t.Errorf("%s is said: %v in\n%s", text, !want, said)
		}
	}
}

// What is not known is named, and what stands before it is read.
func TestUnread(t *testing.T) {
	r := Parse(in("match /posts/{p} { allow update; }\nsurprise /posts/{p} {\n allow write; }"))
	if want := `5: from "surprise /posts/{p} {" on the rules could not be read`; r.unread != want || len(r.Lines("posts/1", "update")) != 1 {
		t.Errorf("got %q, want %q", r.unread, want)
	}
}

// The first text is long, so add -fuzzminimizetime=10x: by default each text that is new to the
// fuzzer is first made shorter, for up to a minute.
func FuzzParse(f *testing.F) {
	f.Add(root.Rules)
	f.Add(in("match /posts/{p} { function f(a) { return 'x'; } allow write: if f(1); }"))
	f.Add("match /{a=**}/{b=**} { allow write; } /* '")
	for _, text := range hostile(100) {
		f.Add(text)
	}
	all := parsed(f, routes)
	f.Fuzz(func(_ *testing.T, text string) {
		Parse(text).DuplicateBlocks(all)
		Invent(text, all.Templates()[0])
	})
}

// hostile are texts that would take minutes if their characters were looked at again and again.
func hostile(length int) (texts []string) {
	for _, unit := range []string{
		"'\"/*", "'\\'", "/*", "/", "\"\\", "allow ", "allow read\n ", ", read", " ", "\n", "/a", "function a(", "data . size", "f(",
		"match /a/{b} {\n", "match /{b=**} {\nallow write;\n", "match /posts/{b} {\nallow write: if a();}\n", "allow write: if f(keys().size());\n",
		"function f(a) { return f(f()); }\nallow update: if f();\n", "function f(a) { let a = a + a; return f(a, f(a)); }\nallow update: if f(f(1));\n",
		"function f(a) { " + strings.Repeat("a ", 1000) + "; let a = " + strings.Repeat("f ", 1000) + "; }\nallow update: if f(" + strings.Repeat("a ", 500) + ");\n",
	} {
		for _, begin := range []string{"service cloud.firestore {\n", "service cloud.firestore { match /posts/{p} { allow update: if "} {
			texts = append(texts, begin+strings.Repeat(unit, (length-len(begin))/len(unit)))
		}
	}
	return texts
}

func TestHostileTexts(t *testing.T) {
	all := parsed(t, routes)
	for _, text := range hostile(maxText) {
		found := Parse(text).DuplicateBlocks(all)
		Invent(text, all.Templates()[0])
		if lines := strings.Count(text, "\n") + 1; len(found) > lines {
			t.Errorf("%.60q…: %d sentences about %d lines", text, len(found), lines)
		}
	}
}

// What Firestore would not take is not looked at.
func TestLimits(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"ten matches":        {strings.Repeat("match /a/{b} {\n", 10), ""},
		"eleven":             {strings.Repeat("match /a/{b} {\n", 11), "11: from here on the rules could not be read: more than 10 matches within each other, or 100 segments, are more than Firestore takes"},
		"a hundred segments": {"match " + strings.Repeat("/a/{b}", 50) + " {", ""},
		"and two":            {"match " + strings.Repeat("/a/{b}", 51) + " {", "1: from here on"},
		"256 KB":             {strings.Repeat(" ", maxText), ""},
		"a byte more":        {strings.Repeat(" ", maxText+1), "1: the rules are longer than 256 KB, which Firestore does not take"},
	} {
		got := Parse(test.text).unread
		if got == "" != (test.want == "") || !strings.HasPrefix(got, test.want) {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}

// Paths of many segments that stand for any others take no time by their number's power.
func TestManyWildcards(t *testing.T) {
	path := strings.Repeat("/{a=**}/b", 48)
	rules := in("match " + path + "/c { allow write; }\nmatch " + path + "/likes/{d} { allow write; }")
	if found := Parse(rules).DuplicateBlocks(parsed(t, routes)); found != nil {
		t.Errorf("found %v", found)
	}
}

// A made-up document has the fields that rules list, and none that are parts of Tally's own map.
func TestInvent(t *testing.T) {
	const text = `service cloud.firestore { match /databases/{database}/documents {
		match /posts/{post} {
			allow create: if changesOnly(['title', 'likes']) && isText('title') && !(request.resource.data.title in ['']);
			allow update: if changesOnly(['title']) && keepsInt(['tally', 'num_shards']) && keepsInt(['tally', 'took']);
		}
	} }`
	parsed, err := route.Parse("posts/{post}/likes/{user} -> posts/{post} : count() as likes : existing")
	if err != nil {
		t.Fatal(err)
	}
	documents := Invent(text, parsed.Templates()[0])
	got := slices.Sorted(maps.Keys(documents[len(documents)-1].Fields))
	if want := []string{"likes", "title"}; !slices.Equal(got, want) {
		t.Errorf("got the fields %v, want %v", got, want)
	}
}
