package rulesfile

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	root "github.com/firestore-tally/tally"
	"github.com/firestore-tally/tally/internal/tool/clientrules"
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

func TestFindings(t *testing.T) {
	parsed, err := route.Parse(routes)
	if err != nil {
		t.Fatal(err)
	}
	const (
		lockedPosts = ": this lists or counts the fields of posts/{post} on update, and Tally adds tally, likes: "
		lockedUsers = ": this lists or counts the fields of users/{author} on update, and Tally adds tally, karma: "
		openRollUps = ": this lets users write rollups/{counter}, and only Tally may: "
		openPosts   = ": this lets users change likes of posts/{post}, and only Tally may: "
		owner       = "request.auth.uid == resource.data.author"
	)
	double := func(line, other int, methods, path string) string {
		return fmt.Sprintf("%d: this block and that of line %d both allow %s of %s, and what either allows is allowed: put their conditions together in one block", line, other, methods, path)
	}
	for _, test := range []struct {
		name, rules string
		want        []string // how each begins
	}{
		{"Tally's own", root.Rules, nil},
		{"nothing", "", nil},
		{"another service alone", "service firebase.storage { match /b/{b}/o { match /{all=**} { allow write: if fine(request.resource.data); } } }", nil},

		{"keys listed", in("match /posts/{p} { allow update: if " + owner + " && request.resource.data.keys().hasOnly(['title']); }"), []string{"4" + lockedPosts}},
		{"keys counted", in("match /posts/{p} {\n allow create: if fine(request.resource.data);\n allow write: if request.resource.data.keys().size() == 3; }"), []string{"6" + lockedPosts}},
		{"fields counted", in("match /posts/{p} { allow update: if request.resource.data.size() == 3; }"), []string{"4" + lockedPosts}},
		{"keys compared", in(`match /users/{u} { allow update: if request.resource.data.keys() == ["name"]; }`), []string{"4" + lockedUsers}},
		{"in a function", in("function isPost(data) { return data.keys().hasOnly(['title']) && isText(data); }\nmatch /posts/{p} { allow update: if isPost(request.resource.data); }"), []string{"5" + lockedPosts}},
		{"in a function of a function above", in("function only(data) { return data.keys().hasOnly(['title']); }\nmatch /posts/{p} {\n function mine() {\n let data = request.resource.data; return only(data); }\n allow update: if mine(); }"), []string{"8" + lockedPosts}},
		{"in rules of several documents", in("match /{collection}/{id} { allow update: if request.resource.data.keys().hasOnly(['title']); }"), []string{"4" + lockedPosts, "4" + lockedUsers, "4" + openRollUps}},
		{"by a value", in("match /posts/{p} {\nfunction only() {\n let mine = ['title']; let keys = request.resource.data.keys();\n return keys.hasOnly(mine); }\n allow update: if only();\n}"), []string{"8" + lockedPosts}},
		{"keys as an argument", in("function among(keys, all) { return keys.hasOnly(all); }\nmatch /posts/{p} { allow update: if among(request.resource.data.keys(), ['a', \"b)\"]); }"), []string{"5" + lockedPosts}},
		{"the document as an argument", in("function count(doc, n) { return doc.data.keys().size() == n; }\nmatch /posts/{p} { allow update: if count(request.resource, 2); }"), []string{"5" + lockedPosts}},
		{"keys that a list has", in("match /posts/{p} { allow update: if ['title', 'text'].hasAll(request.resource.data.keys()); }"), []string{"4" + lockedPosts}},
		{"all fields compared", in("match /posts/{p} { allow update: if request.resource.data == {'title': 'x'}; }"), []string{"4" + lockedPosts}},
		{"the second of two calls", in("function only(data, all) { return data.keys().hasOnly(all); }\nmatch /posts/{p} { allow update: if only(resource.data.map, ['x']) && only(request.resource.data, ['x']); }"), []string{"5" + lockedPosts}},
		{"fields of a map", in("match /posts/{p} { allow update: if request.resource.data.place.keys().hasOnly(['lat', 'lng']) && request.resource.data.place.size() == 2 && fine(request.resource.data); }"), nil},
		{"fields of another document", in("match /posts/{p} { allow update: if get(/databases/$(database)/documents/a/b).data.keys().hasOnly(['x']); }"), nil},
		{"on create alone", in("match /posts/{p} { allow create: if request.resource.data.keys().hasOnly(['title']); }"), nil},
		{"all that must be there", in("match /posts/{p} { allow update: if request.resource.data.keys().hasAll(['title']); }"), nil},
		{"what changes", in("match /posts/{p} { allow update: if request.resource.data.diff(resource.data).affectedKeys().hasOnly(['title']); }"), nil},
		{"Tally's fields are listed", in("match /posts/{p} { allow update: if request.resource.data.keys().hasOnly(['title', 'tally', \"likes\"]); }"), nil},
		{"of other documents", in("match /notes/{p} { allow update: if request.resource.data.keys().hasOnly(['title']); }"), nil},
		{"of sources", in("match /posts/{p}/likes/{u} { allow update: if request.resource.data.keys().hasOnly(['on']); }"), nil},
		{"of Tally's own documents", in("match /rollups/{r} { allow update: if request.resource.data.keys().hasOnly(['on']); }"), []string{"4" + openRollUps}},
		{"without semicolons", strings.ReplaceAll(in("match /posts/{p} {\n allow read: if isMine() && true\n allow update: if isMine()\n match /likes/{u} { allow create: if fine(request.resource.data)\n allow create: if fine(request.resource.data) } \n function isMine() { return request.resource.data.keys().hasOnly(['a'])\n }\n}\nmatch /posts/{post} { allow update: if fine(request.resource.data) }"), ";", ""), []string{"6" + lockedPosts, double(12, 4, "update", "posts/{post}")}},
		{"behind a map", in("match /posts/{p}/likes/{u} { allow create: if request.resource.data == {'at': request.time, 'by': {'id': u}}; }\nmatch /posts/{p} { allow update: if request.resource.data.keys().hasOnly(['title']); }"), []string{"5" + lockedPosts}},
		{"in a comment", in("match /posts/{p} { // keys().hasOnly(['title']);\n /* allow update: if data.size() == 3; */ allow update: if fine(request.resource.data); }"), nil},
		{"in a text", in("match /posts/{p} { allow update: if resource.data.title != 'keys().size(); }' && fine(request.resource.data); }"), nil},

		{"a total that may change", in("match /posts/{p} { allow update: if request.auth != null && request.resource.data.diff(resource.data).affectedKeys().hasOnly(['title', 'likes']); }"), []string{"4" + openPosts}},
		{"by a function", in("function changesOnly(fields) {\n let before = resource.data;\n return request.resource.data.diff(before).affectedKeys().hasOnly(fields);\n}\nmatch /posts/{p} { allow update: if " + owner + " && changesOnly(['title']) || changesOnly([\"likes\"]); }"), []string{"8" + openPosts}},
		{"a total that may grow", in("match /posts/{p} { allow update: if request.resource.data.likes == resource.data.likes + 1; }"), []string{"4" + openPosts}},
		{"a total that stays", in("match /posts/{p} { allow update: if request.resource.data.likes == resource.data.likes && request.resource.data.diff(resource.data).affectedKeys().hasOnly(['title', 'likes']); }"), nil},
		{"a total on create", in("match /posts/{p} { allow create: if request.resource.data.diff({}).affectedKeys().hasOnly(['title', 'likes']); }"), nil},
		{"a total of another document", in("match /users/{u} { allow update: if request.resource.data.diff(resource.data).affectedKeys().hasOnly(['likes']); }"), nil},

		{"all fields by their owner", in("match /posts/{p} { allow read, update: if " + owner + " && request.resource.data.title is string; }"), []string{"4" + openPosts}},
		{"all fields by an administrator", in("function isAdmin() { return get(/databases/$(database)/documents/users/$(request.auth.uid)).data.role == 'admin'; }\nmatch /posts/{p} { allow update: if isAdmin(); allow write: if request.auth.token.admin; allow write: if request.auth.uid in ['root']; }"), nil},
		{"all fields as a function checks them", in("function isPost(data) { return data.title is string && data.get('likes', 0) == 0; }\nmatch /posts/{p} { allow update: if isPost(request.resource.data); }"), nil},
		{"a total that is checked", in("match /posts/{p} { allow update: if request.resource.data.likes == 0; }"), nil},
		{"of Tally's own documents, by users", in("match /rollups/{r} { allow create: if request.auth != null; }"), []string{"4" + openRollUps}},
		{"test mode", in("match /{document=**} { allow read, write: if request.time < timestamp.date(2030, 1, 1); }"), []string{"4" + openPosts, "4: this lets users change karma of users/{author}, ", "4" + openRollUps}},

		{"two blocks", in("match /posts/{p} { allow create: if fine(request.resource.data); }\nmatch /posts/{post} { allow read; allow write: if " + owner + " && fine(request.resource.data); }"), []string{double(5, 4, "create", "posts/{post}")}},
		{"literal and capture", in("match /posts/featured { allow update: if fine(request.resource.data); }\nmatch /{c}/{p} { allow update, delete: if fine(request.resource.data); }"), []string{"5" + openRollUps, double(5, 4, "update", "posts/{post}")}},
		{"two nested blocks", in("match /posts/{p} { match /likes/{u} { allow create: if fine(request.resource.data); } }\nmatch /posts/{p}/likes/{like} { allow create: if false; allow create: if fine(request.resource.data); }"), []string{double(5, 4, "create", "posts/{post}/likes/{user}")}},
		{"two literals", in("match /posts/a { allow update: if fine(request.resource.data); }\nmatch /posts/b { allow update: if fine(request.resource.data); }"), nil},
		{"other methods", in("match /posts/{p} { allow create: if fine(request.resource.data); }\nmatch /posts/{post} { allow update: if fine(request.resource.data); }"), nil},
		{"reads", in("match /posts/{p} { allow write: if fine(request.resource.data); }\nmatch /posts/{post} { allow read; }"), nil},
		{"of no route", in("match /notes/{p} { allow write: if fine(request.resource.data); }\nmatch /notes/{post} { allow write: if fine(request.resource.data); }"), nil},
		{"refused by one", in("match /posts/{p} { allow write: if fine(request.resource.data); }\nmatch /posts/{post} { allow write: if false; }"), nil},
		{"all documents for all users", in("match /{document=**} { allow read, write: if request.auth != null && fine(request.resource.data); }\nmatch /rollups/{r} { allow create: if fine(request.resource.data); }"), []string{"4" + openRollUps, "5" + openRollUps, double(5, 4, "create", "rollups/{counter}")}},
		{"all documents by a claim", in("function isAdmin() { return request.auth.token.admin == true; }\nmatch /{document=**} { allow write: if isAdmin(); }\nmatch /posts/{r} { allow write: if fine(request.resource.data); }"), nil},
		{"all documents for no one", in("match /{document=**} { allow read, write: if false; }\nmatch /posts/{r} { allow write: if fine(request.resource.data); }"), nil},
		{"of a group", in("match /{path=**}/likes/{like} { allow create: if fine(request.resource.data); }\nmatch /posts/{p}/likes/{like} { allow create: if fine(request.resource.data); }"), []string{double(5, 4, "create", "posts/{post}/likes/{user}")}},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, text := range []string{test.rules, strings.ReplaceAll(test.rules, "\n", "\r\n")} {
				r := Parse(text)
				if r.unread != "" {
					t.Error(r.unread)
				}
				var got []string
				for i, f := range r.Findings(parsed) {
					text := f.Text
					if i < len(test.want) && strings.HasPrefix(text, test.want[i]) {
						text = test.want[i]
					}
					got = append(got, text)
				}
				if d := cmp.Diff(test.want, got); d != "" {
					t.Errorf("(-want +got):\n%s", d)
				}
			}
		})
	}
}

// The rules of the recipes, and those that tally init writes for their routes, have none.
func TestOwnRules(t *testing.T) {
	page, err := os.ReadFile("../../../docs/recipes.md")
	if err != nil {
		t.Fatal(err)
	}
	var paths, blocks string
	for _, code := range regexp.MustCompile("(?ms)^```(\\w*)\n(.*?)^```$").FindAllStringSubmatch(string(page), -1) {
		switch {
		case code[1] == "":
			paths += code[2]
		case strings.HasPrefix(code[2], "match "):
			blocks += code[2]
		}
	}
	all, err := route.Parse(paths)
	if err != nil {
		t.Fatal(err)
	}
	written := clientrules.For(root.Rules, all, clientrules.Answers{})
	answered := regexp.MustCompile(`false(;?) // decide: [^\n]*`).ReplaceAllString(written, "mayWrite()$1")
	shared, closed := strings.CutSuffix(root.Rules, "  }\n}\n")
	if !closed {
		t.Fatal("Tally's rules end otherwise")
	}
	for name, rules := range map[string]string{"recipes": shared + blocks + "  }\n}\n", "init": written, "answered": answered} {
		if found := Check(name, rules, all); found != nil || !strings.Contains(rules, "match /essays/{essay}") {
			t.Errorf("%s: found %q", name, found)
		}
	}
}

// What is not known is named, and what stands before it is read.
func TestUnread(t *testing.T) {
	parsed, err := route.Parse(routes)
	if err != nil {
		t.Fatal(err)
	}
	got := Check("my.rules", in("match /posts/{p} { allow update: if request.resource.data.size() == 3; }\nsurprise /posts/{p} {\n allow write; }"), parsed)
	want := []string{"my.rules:4: this lists", `my.rules:5: from "surprise /posts/{p} {" on the rules could not be read, and were not checked`}
	if len(got) != len(want) || !strings.HasPrefix(got[0], want[0]) || got[1] != want[1] {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Firestore compiles rules that call a function which nothing defines.
func TestUndefined(t *testing.T) {
	const missing = "isSeat"
	for _, test := range []struct {
		name, blocks string
		line         int // of the statement that needs the function; 0: none does
	}{
		{"none", "match /seats/{s} {\n allow create: if isSeat(s); }", 5},
		{"in a function", "function mine(s) { return isSeat(s); }\nmatch /seats/{s} { allow create: if mine(s); }", 5},
		{"in a function that nothing calls", "function mine(s) { return isSeat(s); }\nmatch /seats/{s} { allow create; }", 0},
		{"defined in a block of another path", "match /seats/{s} { allow create: if isSeat(s); }\nmatch /other/{o} { function isSeat(s) { return true; } }", 4},
		{"called twice", "match /seats/{s} { allow create: if isSeat(s); }\nmatch /other/{o} { allow create: if isSeat(o); }", 4},

		{"defined below", "match /seats/{s} { allow create: if isSeat(s); }\nfunction isSeat(s) { return true; }", 0},
		{"a method", "match /seats/{s} { allow create: if s . isSeat(1) && s.matches('a'); }", 0},
		{"built in", "match /seats/{s} { allow create: if exists(/databases/$(database)/documents/seats/$(s)) && int(s) in ([1]) && string(s) != ''; }", 0},
		{"in a text and in a comment", "match /seats/{s} { allow create: if s != 'isSeat(1)'; } // isSeat(1)", 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			found := Check("my.rules", in(test.blocks), nil)
			var want []string
			if test.line > 0 {
				want = []string{fmt.Sprintf("my.rules:%d: this calls %s(), which these rules do not define", test.line, missing)}
			}
			if len(found) != len(want) || len(want) > 0 && !strings.HasPrefix(found[0], want[0]) {
				t.Errorf("got %q, want %q", found, want)
			}
		})
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
	parsed, err := route.Parse(routes)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(_ *testing.T, text string) { Parse(text).Findings(parsed) })
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
	parsed, err := route.Parse(routes)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range hostile(maxText) {
		found := Check("my.rules", text, parsed)
		if lines := strings.Count(text, "\n") + 1; len(found) > 3*lines {
			t.Errorf("%.60q…: %d sentences about %d lines", text, len(found), lines)
		}
	}
}

// What Firestore would not take is not looked at.
func TestLimits(t *testing.T) {
	parsed, err := route.Parse(routes)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct{ text, want string }{
		"ten matches":        {strings.Repeat("match /a/{b} {\n", 10), ""},
		"eleven":             {strings.Repeat("match /a/{b} {\n", 11), "my.rules:11: from here on the rules were not checked: more than 10 matches within each other, or 100 segments, are more than Firestore takes"},
		"a hundred segments": {"match " + strings.Repeat("/a/{b}", 50) + " {", ""},
		"and two":            {"match " + strings.Repeat("/a/{b}", 51) + " {", "my.rules:1: from here on"},
		"256 KB":             {strings.Repeat(" ", maxText), ""},
		"a byte more":        {strings.Repeat(" ", maxText+1), "my.rules:1: the rules are longer than 256 KB, which Firestore does not take, and were not checked"},
	} {
		got := strings.Join(Check("my.rules", test.text, parsed), "\n")
		if got == "" != (test.want == "") || !strings.HasPrefix(got, test.want) {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}

// Paths of many segments that stand for any others take no time by their number's power.
func TestManyWildcards(t *testing.T) {
	parsed, err := route.Parse(routes)
	if err != nil {
		t.Fatal(err)
	}
	path := strings.Repeat("/{a=**}/b", 48)
	rules := in("match " + path + "/c { allow write; }\nmatch " + path + "/likes/{d} { allow write; }")
	if found := Parse(rules).Findings(parsed); found != nil {
		t.Errorf("found %v", found)
	}
}
