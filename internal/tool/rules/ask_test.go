package rules

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	root "github.com/firestore-tally/tally"
	"github.com/firestore-tally/tally/internal/test/emulatortest"
	"github.com/firestore-tally/tally/rollup/route"
	"github.com/google/go-cmp/cmp"
)

func TestMain(m *testing.M) { emulatortest.Main(m) }

// Each form of rules that refuses an owner's edit once the document has totals is found, however
// the rules tell the owner and whatever an edit must do. None is found of rules that go on to allow
// it.
func TestTry(t *testing.T) {
	t.Parallel()
	routes, err := route.Parse("posts/{post}/likes/{user} -> posts/{post} : count() as likes : existing; posts/{post}/comments/{comment} -> posts/{post} : count() as comments : existing")
	if err != nil {
		t.Fatal(err)
	}
	const (
		after, before = "request.resource.data", "resource.data"
		owner         = "request.auth.uid == resource.data.author"
		locked        = "&& request.resource.data.keys().hasOnly(['author', 'title', 'at', 'n', 'by', 'draft'])"
		untouched     = "&& !request.resource.data.diff(resource.data).affectedKeys().hasAny(['tally', 'likes', 'comments'])"
	)
	type result struct {
		edit   Verdict
		editor string
		open   []string // what writer could write
		writer string
	}
	anybody := Anybody.ID
	unknown := result{edit: NotTried}
	refuses := func(id string) result { return result{edit: Refused, editor: id} }
	allows := func(id string) result { return result{edit: Allowed, editor: id} }
	for _, test := range []struct {
		name, update string // the condition, and functions before it
		want         result
	}{
		{"no owner", "false", result{edit: Refused}},
		{"an owner whom the document does not name", "request.auth.uid == 'root'", unknown},
		{"another document decides", "exists(/databases/$(database)/documents/admins/$(request.auth.uid))", unknown},

		{"anybody", "true " + untouched, allows("")},
		{"a user", "request.auth != null " + untouched, allows(anybody)},
		{"the owner", owner + untouched, allows("ann")},
		{"keys listed", owner + locked, refuses("ann")},
		{"keys counted", owner + "&& " + after + ".keys().size() == 6", refuses("ann")},
		{"fields counted", owner + "&& " + after + ".size() == 6", refuses("ann")},
		{"a list that has all keys", owner + "&& ['author', 'title', 'at', 'n', 'by', 'draft'].hasAll(" + after + ".keys())", refuses("ann")},
		{"keys as a set", owner + "&& " + after + ".keys().toSet() == ['author', 'title', 'at', 'n', 'by', 'draft'].toSet()", refuses("ann")},
		{"values counted", owner + "&& " + after + ".values().size() == 6", refuses("ann")},
		{"fields that stay", owner + "&& " + after + ".diff(" + before + ").unchangedKeys().size() <= 6", refuses("ann")},
		{"fields of a map compared", owner + "&& " + after + ".diff({'author': 'ann'}).addedKeys().size() <= 6", refuses("ann")},
		{"keys of a choice", owner + "&& (" + after + ".draft ? " + after + " : " + before + ").keys().size() == 6", refuses("ann")},
		{"values in functions", "function keys(doc) { let data = doc.data; return data.keys(); } function few(keys, n) { return keys.size() == n; } allow update: if " + owner + "&& few(keys(request.resource), 6)", refuses("ann")},
		{"by id", "request.auth.uid == post " + locked, refuses("p1")},
		{"by e-mail", "request.auth.token.email == resource.data.by.mail && request.auth.token.email_verified " + locked, refuses("ann@example.com")},
		{"by a map's key", "request.auth.uid in resource.data.by " + locked, refuses("cid")},
		{"with the time", owner + "&& " + after + ".at == request.time " + locked, refuses("ann")},
		{"with a higher version", owner + "&& " + after + ".n == " + before + ".n + 1 && " + after + ".at == request.time " + locked, refuses("ann")},
		{"with another title", owner + "&& " + after + ".title != " + before + ".title " + locked, refuses("ann")},

		{"all fields by the owner", owner, result{Allowed, "ann", []string{"comments", "likes"}, "ann"}},
		{"all fields by a user", "request.auth != null", result{Allowed, anybody, []string{"comments", "likes"}, anybody}},
		{"a total by a user", owner + untouched + "|| request.auth != null && " + after + ".diff(" + before + ").affectedKeys().hasOnly(['likes'])",
			result{Allowed, anybody, []string{"likes"}, anybody}},
		{"a total that grows, with the time", "request.auth != null && " + after + ".at == request.time && " + after + ".diff(" + before + ").affectedKeys().hasOnly(['likes', 'at'])",
			result{Allowed, anybody, []string{"likes"}, anybody}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			value := func(v any) *firestorepb.Value {
				switch v := v.(type) {
				case string:
					return text(v)
				case time.Time:
					return timestamp(v)
				case bool:
					return &firestorepb.Value{ValueType: &firestorepb.Value_BooleanValue{BooleanValue: v}}
				}
				return integer(int64(v.(int)))
			}
			by := mapOf("mail", text("ann@example.com"))
			by.GetMapValue().Fields["cid"] = value(true)
			document := Document{"posts/p1", fields{
				"author": text("ann"), "title": text("A long one"), "at": value(time.Unix(1e9, 0)), "n": value(4), "draft": value(true),
				"by": by, "likes": value(3), "tally": mapOf("num_shards", integer(3)),
			}}

			text := test.update
			if !strings.Contains(text, "allow update") {
				text = "allow update: if " + text
			}
			rules := "rules_version = '2';\nservice cloud.firestore {\n  match /databases/{database}/documents/posts/{post} {\n" + text + ";\n  }\n}\n"
			judge := Judge{Addr: emulatortest.Addr(t), Project: emulatortest.Project(t), Database: "(default)", Text: rules}
			answers, err := judge.Home(t.Context(), routes.Templates()[0], document)
			if err != nil {
				t.Fatal(err)
			}
			got := result{edit: answers[0].Verdict, editor: answers[0].User.ID, open: answers[1].Fields, writer: answers[1].User.ID}
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(result{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if answers[1].Verdict == NotTried != (answers[0].Verdict == NotTried) || answers[2].Verdict != Refused {
				t.Errorf("writes are %s, and creates %s", answers[1].Verdict, answers[2].Verdict)
			}
		})
	}
}

// However many fields a document has, the guesses are few: each is a request or two.
func TestGuesses(t *testing.T) {
	own := make(fields)
	for i := range 1000 {
		own[fmt.Sprint("n", i)] = integer(1)
		own[fmt.Sprint("t", i)] = &firestorepb.Value{ValueType: &firestorepb.Value_TimestampValue{}}
		own[fmt.Sprint("s", i)] = &firestorepb.Value{ValueType: &firestorepb.Value_StringValue{StringValue: fmt.Sprint(i)}}
	}
	if users, edits := len(users("auth.token.email", "posts/p1", own)), len(edits(own)); users != 3+2*maxNamed || edits != (1+maxFields)*(2+maxFields) {
		t.Errorf("%d users and %d edits", users, edits)
	}
}

// judge returns the wrong answers, and those that were not tried, about documents that no app has.
func judged(t *testing.T, routes, rules string) (wrong, untried []string) {
	t.Helper()
	j := Judge{Addr: emulatortest.Addr(t), Project: emulatortest.Project(t), Database: "orders", Text: rules}
	answers, err := j.All(t.Context(), parsed(t, routes), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range answers {
		switch {
		case a.Wrong && !a.Harmless():
			wrong = append(wrong, a.Text("f"))
		case a.Verdict == NotTried:
			untried = append(untried, a.String()+": "+a.Why)
		}
	}
	return wrong, untried
}

// Rules of real apps are judged as they are, however they say it, without a document of the app's.
func TestForms(t *testing.T) {
	t.Parallel()
	const own, after = "request.auth.uid == resource.data.author", "request.resource.data"
	const changed = after + ".diff(resource.data).affectedKeys()"
	const open, lock, fine = "lets users change likes", "lists or counts the fields", ""
	for name, test := range map[string]struct{ condition, functions, want string }{
		"a denylist":                 {own + " && !" + changed + ".hasAny(['role'])", "", open},
		"a denylist with in":         {own + ` && !("role" in ` + changed + ")", "", open},
		"a list in a function":       {own + " && " + changed + ".hasOnly(editable())", "function editable() { return ['title', 'likes']; }", open},
		"values that stay":           {own + " && " + after + ".author == resource.data.author && " + after + ".createdAt == resource.data.createdAt", "", open},
		"any e-mail that is checked": {"request.auth.token.email_verified == true", "", open},
		"a title that is a text":     {own + " && " + after + ".title is string && " + after + ".title.size() < 100", "", open},
		"keys of a function":         {own + " && incoming().keys().hasOnly(['author','title'])", "function incoming() { return request.resource.data; }", lock},
		"what stays":                 {own + " && " + after + ".diff(resource.data).unchangedKeys().hasOnly(['author','createdAt'])", "", lock},
		"keys after the write":       {"ok()", "function ok() { let after = getAfter(/databases/$(database)/documents/posts/$(p)).data; return " + own + " && after.keys().hasOnly(['author','title']); }", lock},
		"a published flag":           {own + " && resource.data.published == false && " + after + ".keys().hasOnly(['author','title','published'])", "", lock},
		"keys that were there":       {own + " && " + after + ".keys().hasOnly(resource.data.keys()) && " + changed + ".hasOnly(['title'])", "", fine},
		"by the method":              {"(request.method == 'create' && " + after + ".keys().hasOnly(['author','title'])) || (request.method == 'update' && " + own + " && " + changed + ".hasOnly(['title']))", "", fine},
		"the same size":              {own + " && " + after + ".size() == resource.data.size() && " + changed + ".hasOnly(['title'])", "", fine},
		"on create alone":            {"(resource == null && " + after + ".keys().hasOnly(['author','title'])) || (" + own + " && " + changed + ".hasOnly(['title']))", "", fine},
		"with the time":              {own + " && " + changed + ".hasOnly(['title', 'at']) && " + after + ".at == request.time", "", fine},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rules := in("match /posts/{p} {\n" + test.functions + "\nallow update: if " + test.condition + ";\nmatch /likes/{u} { allow write: if request.auth.uid == u; }\n}")
			wrong, untried := judged(t, "posts/{p}/likes/{u} -> posts/{p} : count() as likes : existing", rules)
			if untried != nil {
				t.Errorf("not tried: %q", untried)
			}
			if want := test.want; len(wrong) > 1 || (want == "") != (len(wrong) == 0) || want != "" && !strings.Contains(wrong[0], want) || want != "" && !strings.HasPrefix(wrong[0], "f:6: tried: ") {
				t.Errorf("got %q; want %q in line 6", wrong, want)
			}
		})
	}
}

// What was not tried is said with the reason, and is not called fine.
func TestNotTried(t *testing.T) {
	t.Parallel()
	const routes = "posts/{p}/likes/{u} -> posts/{p} : count() as likes : existing"
	for condition, want := range map[string]string{
		"request.auth.token.admin == true":                                           "edits of posts/{p} once it has totals: the rules ask for the claim admin of a user, which the trial does not have",
		"request.auth.token['role'] == 'x'":                                          "edits of posts/{p} once it has totals: the rules ask for the claim role of a user, which the trial does not have",
		"get(/databases/$(database)/documents/users/$(request.auth.uid)).data.admin": "edits of posts/{p} once it has totals: the rules ask for the document users/$(request.auth.uid), which the trial does not have",
		"request.auth.uid == 'root'":                                                 "edits of posts/{p} once it has totals: no user and no change that was guessed is allowed",
	} {
		wrong, untried := judged(t, routes, in("match /posts/{p} { allow update: if "+condition+"; }"))
		if wrong != nil || len(untried) != 2 || untried[0] != want {
			t.Errorf("%s: wrong %q, not tried %q; want %q", condition, wrong, untried, want)
		}
	}
}

// A user who may create a document may not create it with totals.
func TestCreate(t *testing.T) {
	t.Parallel()
	const routes = "posts/{p}/likes/{u} -> posts/{p} : count() as likes, latest(at) as last : existing"
	const own = "request.auth.uid == request.resource.data.author"
	for condition, want := range map[string]string{
		own: "with last, likes",
		own + " && request.resource.data.keys().hasOnly(['author', 'title'])":                                                  "",
		own + " && request.resource.data.keys().hasOnly(['author', 'likes'])":                                                  "with likes",
		own + " && request.resource.data.keys().hasOnly(['author', 'last', 'at']) && request.resource.data.at == request.time": "with last",
		own + " && !request.resource.data.keys().hasAny(['likes', 'last', 'tally'])":                                           "",
		own + " && request.resource.data.get('likes', 0) == 0":                                                                 "with last",
		"request.auth.uid == p": "with last, likes",
		"false":                 "",
	} {
		wrong, untried := judged(t, routes, in("match /posts/{p} { allow create, delete: if "+condition+"; }"))
		if untried != nil || (len(wrong) > 0) != (want != "") || want != "" && !strings.Contains(wrong[0], "f:4: tried: this lets users create posts/{p} "+want+": ") {
			t.Errorf("%s: wrong %q, not tried %q; want %q", condition, wrong, untried, want)
		}
	}
}

// Documents that the rules read are copied from the app, for the users who try, and no more than
// five.
func TestReadDocuments(t *testing.T) {
	t.Parallel()
	const isEditor = "get(/databases/$(database)/documents/users/$(request.auth.uid)).data.role == 'editor' && exists(/databases/$(database)/documents/posts/$(p)/locks/open)"
	rules := in("function isEditor() { return " + strings.ReplaceAll(isEditor, "$(p)", "p1") + "; }\nmatch /posts/{p} { allow update: if isEditor(); }")
	var asked []string
	j := Judge{Addr: emulatortest.Addr(t), Project: emulatortest.Project(t), Database: "(default)", Text: rules, Read: func(_ context.Context, path string) (fields, error) {
		asked = append(asked, path)
		return map[string]fields{"users/ann": {"role": text("editor")}, "posts/p1/locks/open": {"by": text("x")}}[path], nil
	}}
	answers, err := j.Home(t.Context(), parsed(t, routes).Templates()[0], Document{"posts/p1", fields{"author": text("ann")}})
	if err != nil {
		t.Fatal(err)
	}
	if a := answers[1]; !a.Wrong || a.User.ID != "ann" || !slices.Contains(asked, "users/ann") {
		t.Errorf("%+v; asked for %q", a, asked)
	}

	asked = nil
	var flags []string
	for i := range 2 * maxRead {
		flags = append(flags, fmt.Sprintf("exists(/databases/$(database)/documents/flags/%d)", i))
	}
	j.Text = in("match /posts/{p} { allow update: if " + strings.Join(flags, " && ") + "; }")
	j.Read = func(_ context.Context, path string) (fields, error) {
		asked = append(asked, path)
		return fields{}, nil
	}
	_, err = j.Home(t.Context(), parsed(t, routes).Templates()[0], Document{"posts/p1", fields{"author": text("ann")}})
	if err != nil || len(asked) != maxRead {
		t.Errorf("%v; asked for %q", err, asked)
	}
}

// What was found before an error is kept.
func TestAnswersBeforeAnError(t *testing.T) {
	t.Parallel()
	unread := errors.New("not now")
	j := Judge{Addr: emulatortest.Addr(t), Project: emulatortest.Project(t), Database: "(default)",
		Text: in("match /posts/{p} { allow update; }\nmatch /shops/{s} { allow update: if get(/databases/$(database)/documents/owners/$(request.auth.uid)).data.ok; }"),
		Read: func(context.Context, string) (fields, error) { return nil, unread }}
	answers, err := j.All(t.Context(), parsed(t, "posts/{p}/likes/{u} -> posts/{p} : count() as likes : existing\nshops/{s}/likes/{u} -> shops/{s} : count() as likes : existing"), nil)
	if !errors.Is(err, unread) || len(answers) != 3 || !answers[1].Wrong {
		t.Errorf("%v; %v", err, answers)
	}
}

// What only Tally's routes have: the rules in firestore.rules are right, and each of these is not.
func TestOthers(t *testing.T) {
	t.Parallel()
	const counters = "counters/{counter}/shards/{shard} -> rollups/{counter} : count"
	const days = "orders/{o} by shop, day(at) -> shops/{shop}/days/{day} : count() as orders : within shops/{shop}"
	for _, test := range []struct {
		name, routes, rules string
		want                []string // what each says
	}{
		{"Tally's own", counters, root.Rules, nil},
		{"everything is open", counters, in("match /{all=**} { allow read, write; }"), []string{
			"create, update, delete of rollups/{counter} is allowed", "delete of counters/{counter}/shards/{shard} is allowed",
			"get, create, update, delete of counters/{counter}/increment_tokens/{token} is allowed",
			"get, create, update, delete of rollup_audit/cursor is allowed", "get, create, update, delete of rollup_claims/{claim} is allowed"}},
		{"nothing is", counters, in("match /a/{a} { allow get; }"), []string{"get of rollups/{counter} is allowed to no one", "update of counters/{counter}/shards/{shard} by an increment is refused"}},
		{"a comment is no block", counters, in("match /a/{a} { allow get; } // later: /counters/ and /shards/ and /rollups/"), []string{"get of rollups", "update of counters"}},
		{"test mode until a day", counters, in("match /rollups/{r} { allow read, write: if request.time < timestamp.date(2999, 1, 1); }\nmatch /counters/{c}/shards/{s} { allow create, update; }"),
			[]string{"f:4: tried: create, update, delete of rollups/{counter} is allowed to a client"}},
		{"who signed in with a checked address", counters, in("match /rollups/{r} { allow get; allow create: if request.auth.token.email_verified; }\nmatch /counters/{c}/shards/{s} { allow create, update; }"),
			[]string{"f:4: tried: create of rollups/{counter} is allowed to any signed-in user"}},
		{"days that a wildcard opens", days, in("match /{path=**}/days/{d} { allow create: if request.auth != null; }"), []string{"create of shops/{shop}/days/{day} is allowed", "create of tally_elsewhere/{document}/days/{day} is allowed to any signed-in user, and lists"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			wrong, _ := judged(t, test.routes, test.rules)
			for i, said := range wrong {
				if i >= len(test.want) || !strings.Contains(said, test.want[i]) {
					t.Errorf("says %s", said)
				}
			}
			if len(wrong) != len(test.want) {
				t.Errorf("%d are wrong, want %d", len(wrong), len(test.want))
			}
		})
	}
}

// A page with a board lists all documents of a collection ID. Rules that refuse that are told, and
// are not wrong.
func TestGroups(t *testing.T) {
	t.Parallel()
	const days = "orders/{o} by shop, day(at) -> shops/{shop}/days/{day} : count() as orders : within shops/{shop}"
	for rules, want := range map[string]Verdict{
		"match /shops/{s}/days/{d} { allow read; }":                                     Refused,
		"match /{path=**}/days/{d} { allow get; }":                                      Refused,
		"match /{path=**}/days/{d} { allow list: if request.query.limit <= 5; }":        Refused,
		"match /{path=**}/days/{d} { allow list: if request.query.limit <= 100; }":      Allowed,
		"match /{path=**}/days/{d} { allow read: if request.auth != null; }":            Allowed,
		"match /{path=**}/days/{d} { allow read: if request.auth.token.boss == true; }": NotTried,
	} {
		j := Judge{Addr: emulatortest.Addr(t), Project: emulatortest.Project(t), Database: "(default)", Text: in(rules)}
		answers, err := j.Others(t.Context(), parsed(t, days))
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(answers, func(a Answer) bool { return a.Kind == Group })
		if a := answers[i]; a.Verdict != want || a.Wrong != (want == Refused) || !a.Harmless() {
			t.Errorf("%s: %+v, want %s", rules, a, want)
		}
		if said := answers[i].Text("f"); !strings.Contains(said, "list of all days/{day} at once") {
			t.Errorf("it says %s", said)
		}
	}
}

// Rules that ask for what a trial does not have are not called wrong, whatever they are about.
func TestReadsNotTried(t *testing.T) {
	t.Parallel()
	const counters = "counters/{counter}/shards/{shard} -> rollups/{counter} : count"
	wrong, untried := judged(t, counters, in("match /rollups/{r} { allow get: if request.auth.token.staff == true; }\nmatch /counters/{c}/shards/{s} { allow create, update; }"))
	if want := []string{"get of rollups/{counter}: the rules ask for the claim staff of a user, which the trial does not have"}; wrong != nil || !slices.Equal(untried, want) {
		t.Errorf("wrong %q, not tried %q; want %q", wrong, untried, want)
	}
}

// Rules that do not compile are told in the emulator's words.
func TestMistakes(t *testing.T) {
	t.Parallel()
	j := Judge{Addr: emulatortest.Addr(t), Project: emulatortest.Project(t), Database: "(default)", Text: in("function role() {\n if (request.auth == null) return null;\n return 1;\n}\nmatch /posts/{p} { allow create: if role() == 1; }")}
	_, err := j.Others(t.Context(), parsed(t, routes))
	if wrong := Mistakes(err, "f"); wrong == nil || !strings.Contains(wrong.Error(), "f:5:") || strings.Contains(wrong.Error(), "if()") {
		t.Errorf("got %v", err)
	}
}
