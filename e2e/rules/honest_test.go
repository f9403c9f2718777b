package rules

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/firestore-tally/tally/internal/tool/rules"
	"github.com/firestore-tally/tally/rollup/route"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// ofRecipes are the recipes that have routes. Each has the headings of the recipe whose honest
// writes it makes, and which of them a person must allow first.
var ofRecipes = map[string]struct {
	honest []string          // headings
	open   map[string]string // by the name of what is written: how the decision begins
	other  []string          // what the recipe allows otherwise than the decision proposes
}{
	"Likes and comments in a post": {
		honest: []string{"Likes", "Totals in the app's own documents"},
		open: map[string]string{
			"send twice":                     "who changes posts/{post}/comments/{comment}",
			"write, edit, delete":            "who changes posts/{post}/comments/{comment}",
			"create":                         "who creates posts/{post}",
			"create with 200 letters":        "who creates posts/{post}",
			"create with totals of 0":        "who creates posts/{post}",
			"update":                         "who changes posts/{post}",
			"update next to a fraction":      "who changes posts/{post}",
			"update what is not counted yet": "who changes posts/{post}",
			"update with the same total":     "who changes posts/{post}",
		},
	},
	"A site's statistics in one document":  {},
	"Sales by day, and totals of any size": {},
	"Tokens by user and month":             {},
	"A board for each week":                {},
	"Best score, and its reset":            {},
	"Counts by owner": {
		open: map[string]string{
			"write":          "what users may write into size",
			"10,000 letters": "what users may write into size",
			"edit":           "who changes notes/{note}",
			"delete a note":  "who deletes notes/{note}",
		},
		other: []string{"10,000 letters"},
	},
	"Followers": {
		open: map[string]string{
			"follow":           "whose id followee may be",
			"follow twice":     "whose id followee may be",
			"follow, unfollow": "whose id followee may be",
		},
		other: []string{"follow", "follow twice", "follow, unfollow"},
	},
	"Replies": {
		open: map[string]string{
			"begin":           "who creates threads/{thread}/comments/{comment}",
			"answer":          "who creates threads/{thread}/comments/{comment}",
			"1,000 letters":   "who creates threads/{thread}/comments/{comment}",
			"without a total": "who creates threads/{thread}/comments/{comment}",
			"edit":            "who changes threads/{thread}/comments/{comment}",
		},
		other: []string{"begin", "answer", "1,000 letters", "without a total"},
	},
	"Numbered seats": {
		open: map[string]string{
			"leave":             "who deletes events/{event}/seats/{seat}",
			"leave, take again": "who deletes events/{event}/seats/{seat}",
		},
	},
	"Unread by member and room": {
		open: map[string]string{
			"send":             "whose id to may be",
			"read, and unread": "who changes chats/{chat}/inbox/{message}",
			"delete":           "who deletes chats/{chat}/inbox/{message}",
		},
		other: []string{"send", "read, and unread", "delete"},
	},
	"Approved comments, and the latest": {
		open: map[string]string{
			"edit an approved one":   "who changes articles/{article}/comments/{comment}",
			"send twice":             "who changes articles/{article}/comments/{comment}",
			"delete an approved one": "who deletes articles/{article}/comments/{comment}",
			"write, edit, delete":    "who changes articles/{article}/comments/{comment}",
		},
	},
	"Karma of authors": {
		open: map[string]string{
			"publish":       "who creates essays/{essay}",
			"another title": "who changes essays/{essay}",
		},
	},
	"Orders and revenue of a shop, and its last 30 days": {},
	"Trending": {
		open: map[string]string{
			"publish":       "who creates songs/{song}",
			"another title": "who changes songs/{song}",
		},
	},
	"Online now": {
		open: map[string]string{
			"enter, and stay": "who creates rooms/{room}/members/{user}",
			"leave":           "who creates rooms/{room}/members/{user}",
		},
		other: []string{"enter, and stay", "leave"},
	},
	"Leaderboard": {
		open: map[string]string{
			"another name":    "who changes players/{player}",
			"the same points": "who changes players/{player}",
		},
	},
	"Shops by average rating": {
		honest: []string{"Ratings"},
		open: map[string]string{
			"1 star":       "what users may write into stars",
			"5 stars":      "what users may write into stars",
			"another shop": "what users may write into stars",
			"change":       "what users may write into stars",
			"send twice":   "what users may write into stars",
			"take back":    "what users may write into stars",
		},
	},
	"Reactions, and polls": {
		open: map[string]string{
			"first": "who writes kind == ",
			"love":  "who writes kind == ",
			"wow":   "who writes kind == ",
		},
	},
	"Votes for what has no document": {
		open: map[string]string{
			"in a poll that is not": "who writes value == ",
			"take back, and again":  "who writes value == ",
			"vote":                  "who writes value == ",
			"vote twice":            "who writes value == ",
		},
	},
	"Unread messages": {
		open: map[string]string{
			"delete":           "who deletes users/{user}/messages/{message}",
			"read, and unread": "who changes users/{user}/messages/{message}",
		},
	},
	"Posts by tag": {
		open: map[string]string{
			"untag":      "who deletes tags/{tag}/stories/{story}",
			"tag, untag": "who deletes tags/{tag}/stories/{story}",
		},
		other: []string{"untag", "tag, untag"},
	},
	"Unique visitors": {},
}

// What each recipe's code writes is accepted under the rules that tally init writes for the
// recipe's routes, or a person must decide it, exactly. Once the decisions are answered as they
// propose, all of it is accepted. Before, they refuse each read that the recipe's own rules refuse,
// and each of its attacks, unless no total and no user's name is in it: such as a text that is too
// long.
func TestHonestUnderInit(t *testing.T) {
	t.Parallel()
	page := docsPage(t, "recipes.md")
	for _, section := range regexp.MustCompile("(?m)^##+ ").Split(page, -1)[1:] {
		heading, text, _ := strings.Cut(section, "\n")
		_, known := ofRecipes[heading]
		for _, m := range fenced.FindAllStringSubmatch(text, -1) {
			_, err := route.Parse(m[2])
			if _, hasRules := recipes[heading]; err == nil && hasRules && !known {
				t.Errorf("the rules of tally init for %q are not tested", heading)
			}
		}
	}
	for heading, test := range ofRecipes {
		t.Run(heading, func(t *testing.T) {
			t.Parallel()
			m := regexp.MustCompile("(?s)\n##+ " + regexp.QuoteMeta(heading) + "\n.*?\n```\n(.*?)```").FindStringSubmatch(page)
			if m == nil {
				t.Fatal("no routes on the page")
			}
			routes, err := route.Parse(m[1])
			if err != nil {
				t.Fatal(err)
			}
			text := rules.For(firestoreRules(t), routes, rules.Answers{})
			left := rules.Decisions(text)

			refused := make(map[string]string)
			for _, of := range append(test.honest, heading) {
				honest, known := recipes[of]
				if !known {
					honest = blocks[of]
				}
				d := newDatabaseUnder(t, text, honest.seed)
				answered := newDatabaseUnder(t, answeredAsProposed(text), honest.seed)
				for name, ws := range honest.honest {
					for _, w := range ws {
						err := d.commit(ann, w)
						if status.Code(err) == codes.PermissionDenied {
							refused[name] = test.open[name]
						} else if err != nil {
							t.Errorf("%s: %v", name, err)
						}
						if err := answered.commit(ann, w); err != nil && !slices.Contains(test.other, name) {
							t.Errorf("%s, with every decision answered: %v", name, err)
						}
					}
					d.restore(ws, honest.seed)
					answered.restore(ws, honest.seed)
				}
				w := worldOf(d, routes, honest.seed)
				for _, a := range honest.attacks {
					why, accepted := w.request(a.user, a.writes, a.name)
					if why != "" {
						t.Errorf("allowed, and refused by the recipe: %s", why)
					}
					if accepted {
						t.Logf("allowed, and refused by the recipe: %s", a.name)
						w.restoreTo(documents(honest.seed))
					}
				}
				for name, read := range honest.secrets {
					if read(d, ann) == nil {
						t.Errorf("read %s: allowed, and refused by the recipe", name)
					}
				}
			}
			if diff := cmp.Diff(test.open, refused, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("refused (-want +got):\n%s", diff)
			}
			for name, begins := range refused {
				isLeft := func(d rules.Decision) bool { return begins != "" && strings.HasPrefix(d.Text, begins) }
				if !slices.ContainsFunc(left, isLeft) {
					t.Errorf("%s is refused, and no decision begins with %q: %v", name, begins, left)
				}
			}
		})
	}
}

// worldOf returns a database as the law sees it.
func worldOf(d *database, routes route.Routes, seed map[string]fields) *world {
	return &world{database: d, law: law{routes: routes}, docs: documents(seed)}
}

// documents returns what the model of a world holds of documents.
func documents(seed map[string]fields) map[string]map[string]any {
	docs := make(map[string]map[string]any)
	for path, f := range seed {
		docs[path] = decoded(f.proto())
	}
	return docs
}

var (
	proposed   = regexp.MustCompile(`false(;?) // decide: [^\n]*, such as ([^;\n]*)[^\n]*`)
	unproposed = regexp.MustCompile(`false(;?) // decide: who (?:creates|changes)[^\n]*`)
	states     = regexp.MustCompile(`&& [^\n]*?(;?) // decide: who writes (?:kind|value) [^\n]*`)
)

// answeredAsProposed returns rules in which each question has the answer that it proposes, and any
// user creates and changes documents where none is proposed. Users write the kind of a reaction and
// the value of a vote.
func answeredAsProposed(rules string) string {
	rules = proposed.ReplaceAllString(rules, "$2$1")
	rules = unproposed.ReplaceAllString(rules, "mayWrite()$1")
	return states.ReplaceAllString(rules, "&& true$1")
}

// A question about a reference or a number says what a person must decide. Its proposal holds for
// the writer's own documents, or for those that exist.
func TestProposalsForKeys(t *testing.T) {
	t.Parallel()
	refer := func(d *database, path string) *firestorepb.Value {
		return &firestorepb.Value{ValueType: &firestorepb.Value_ReferenceValue{ReferenceValue: d.name + "/documents/" + path}}
	}
	for _, test := range []struct {
		route, field, asks string
		allowed, refused   func(*database) any
	}{
		{"comments/{comment} by ref(author) -> users/{author} : count() as comments : existing", "author", "to whose document author may refer, such as ",
			func(d *database) any { return refer(d, "users/ann") }, func(d *database) any { return refer(d, "users/bob") }},
		{"orders/{order} by ref(shop) -> shops/{shop} : count() as orders : existing", "shop", "to which document shop may refer, such as ",
			func(d *database) any { return refer(d, "shops/7") }, func(d *database) any { return refer(d, "shops/8") }},
		{"orders/{order} by number(shop) -> shops/{shop} : count() as orders : existing", "shop", "which document the number in shop may name, such as ",
			func(*database) any { return 7 }, func(*database) any { return 8 }},
		{"follows/{follow} by number(number) as user -> users/{user} : count() as followers : existing", "number", "whose number number may be, if your server ",
			func(*database) any { return 42 }, func(*database) any { return 43 }},
		{"orders/{order} by shop, number(till) -> shops/{shop}/tills/{till} : count() as orders : existing", "till", "which numbers till may hold, such as ",
			func(*database) any { return 3 }, func(*database) any { return 4 }},
	} {
		t.Run(test.route, func(t *testing.T) {
			t.Parallel()
			routes, err := route.Parse(test.route)
			if err != nil {
				t.Fatal(err)
			}
			text := rules.For(firestoreRules(t), routes, rules.Answers{})
			asked := func(d rules.Decision) bool { return strings.HasPrefix(d.Text, test.asks) }
			if !slices.ContainsFunc(rules.Decisions(text), asked) {
				t.Errorf("no decision begins with %q: %v", test.asks, rules.Decisions(text))
			}

			seed := map[string]fields{"users/ann": {}, "users/bob": {}, "shops/7": {}}
			d := newDatabaseUnder(t, answeredAsProposed(text), seed)
			document := func(path string, value any) *firestorepb.Write {
				return set(path, fields{test.field: value})
			}
			collection, _, _ := strings.Cut(test.route, "/")
			err = d.commit(ann, document(collection+"/1", test.refused(d)))
			if status.Code(err) != codes.PermissionDenied {
				t.Errorf("%v: %v, want PermissionDenied", test.refused(d), err)
			}
			err = d.commit(ann, document(collection+"/1", test.allowed(d)))
			if err != nil {
				t.Errorf("%v: %v", test.allowed(d), err)
			}
		})
	}
}

// An app creates a shop with the totals of no ratings, so that lists can sort by them. The average
// of none is null.
func TestTotalsOfNothing(t *testing.T) {
	t.Parallel()
	routes, err := route.Parse("shops/{shop}/ratings/{user} -> shops/{shop} : count() as ratings, average(stars) as rating, latest(at) as last : existing")
	if err != nil {
		t.Fatal(err)
	}
	answers := rules.Answers{Homes: map[string]rules.Writer{"shops/{shop}": rules.Users}}
	d := newDatabaseUnder(t, rules.For(firestoreRules(t), routes, answers), nil)
	d.judges(ann, map[string][]*firestorepb.Write{
		"none":    writes(set("shops/new", fields{"name": "n"})),
		"nothing": writes(set("shops/new", fields{"ratings": 0, "rating": nil, "last": nil})),
	}, map[string][]*firestorepb.Write{
		"a rating":       writes(set("shops/new", fields{"rating": 5})),
		"a rating of 0":  writes(set("shops/new", fields{"rating": 0})),
		"a time":         writes(transform(set("shops/new", nil), serverTime("last"))),
		"null of counts": writes(set("shops/new", fields{"ratings": nil})),
		"a count":        writes(set("shops/new", fields{"ratings": 1})),
		"tally":          writes(set("shops/new", fields{"tally": fields{}})),
	})
}

// An edit that changes nothing by which a total takes a document passes, once a person decided who
// edits: also of a document that is older than its fields. The time that says to which day or month
// a document belongs never moves.
func TestHonestEdits(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 2, 9, 0, 0, 0, time.UTC)
	moved := func(path, field string) map[string][]*firestorepb.Write {
		return map[string][]*firestorepb.Write{
			"now":          writes(transform(merge(path, fields{"note": "b"}, "note"), serverTime(field))),
			"an hour on":   writes(merge(path, fields{field: at.Add(time.Hour)}, field)),
			"a moment on":  writes(merge(path, fields{field: at.Add(time.Microsecond)}, field)),
			"a month back": writes(merge(path, fields{field: at.AddDate(0, -1, 0)}, field)),
			"no time":      writes(merge(path, nil, field)),
		}
	}
	for name, test := range map[string]struct {
		routes           string
		seed             map[string]fields
		allowed, refused map[string][]*firestorepb.Write
	}{
		"stars": {
			routes: "shops/{shop}/ratings/{user} -> shops/{shop} : count() as ratings, average(stars) as rating, latest(at) as last : existing",
			seed:   map[string]fields{"shops/s": {}, "shops/s/ratings/ann": {"stars": 5, "at": at}, "shops/old/ratings/ann": {"stars": 5}},
			allowed: map[string][]*firestorepb.Write{
				"the stars":  writes(merge("shops/s/ratings/ann", fields{"stars": 4}, "stars")),
				"the words":  writes(merge("shops/s/ratings/ann", fields{"text": "b"}, "text")),
				"both, now":  writes(transform(merge("shops/s/ratings/ann", fields{"stars": 4, "text": "b"}, "stars", "text"), serverTime("at"))),
				"an old one": writes(merge("shops/old/ratings/ann", fields{"stars": 4}, "stars")),
			},
			refused: map[string][]*firestorepb.Write{
				"6 stars":  writes(merge("shops/s/ratings/ann", fields{"stars": 6}, "stars")),
				"a moment": writes(merge("shops/s/ratings/ann", fields{"at": at.Add(time.Microsecond)}, "at")),
			},
		},
		"a title": {
			routes: "posts/{post} by author, month(at) -> authors/{author}/months/{month} : count() as posts : within authors/{author}\n" +
				"posts/{post}/likes/{user} -> posts/{post} : count() as likes : existing",
			seed: map[string]fields{"posts/ann_1": {"author": "ann", "at": at, "likes": 2, "tally": fields{"num_shards": 2, "took": 1}}, "posts/ann_2": {"author": "ann"}},
			allowed: map[string][]*firestorepb.Write{
				"the title":  writes(merge("posts/ann_1", fields{"title": "b"}, "title")),
				"all of it":  writes(merge("posts/ann_1", fields{"author": "ann", "at": at, "title": "b"}, "author", "at", "title")),
				"an old one": writes(merge("posts/ann_2", fields{"title": "b"}, "title")),
			},
			refused: moved("posts/ann_1", "at"),
		},
		"a note": {
			routes: "orders/{order} by buyer, day(at, \"Europe/Berlin\") -> buyers/{buyer}/days/{day} : count() as orders : within buyers/{buyer}",
			seed:   map[string]fields{"orders/1": {"buyer": "ann", "at": at}, "orders/old": {"buyer": "ann"}},
			allowed: map[string][]*firestorepb.Write{
				"the note":   writes(merge("orders/1", fields{"note": "b"}, "note")),
				"an old one": writes(merge("orders/old", fields{"note": "b"}, "note")),
			},
			refused: moved("orders/1", "at"),
		},
		"a note of what lies ahead": {
			routes:  "stays/{stay} by month(startsAt) -> months/{month} : count() as stays : within",
			seed:    map[string]fields{"stays/1": {"by": "ann", "startsAt": at}},
			allowed: map[string][]*firestorepb.Write{"the note": writes(merge("stays/1", fields{"note": "b"}, "note"))},
			refused: moved("stays/1", "startsAt"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			routes, err := route.Parse(test.routes)
			if err != nil {
				t.Fatal(err)
			}
			text := answeredAsProposed(rules.For(firestoreRules(t), routes, rules.Answers{}))
			d := newDatabaseUnder(t, text, test.seed)
			for name, ws := range test.refused {
				if err := d.commit(ann, ws...); status.Code(err) != codes.PermissionDenied {
					t.Errorf("%s: %v, want PermissionDenied", name, err)
				}
			}
			for name, ws := range test.allowed {
				if err := d.commit(ann, ws...); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				d.restore(ws, test.seed)
			}
		})
	}
}
