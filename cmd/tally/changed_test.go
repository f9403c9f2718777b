package main

import (
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/reason"
	"github.com/firestore-tally/tally/internal/test/emulatortest"
	"github.com/google/go-cmp/cmp"
)

// A total that is renamed, and on which another route relies, is told with both names.
func TestRenamed(t *testing.T) {
	const (
		likes  = "posts/{post}/likes/{user} -> posts/{post} : count() as likes : existing\n"
		hearts = "posts/{p}/likes/{user} -> posts/{p} : count() as hearts : existing\n"
		karma  = "posts/{post} by author -> users/{author} : sum(likes) as karma, count() as posts : existing\n"
		other  = "posts/{post} by author -> users/{author} : sum(hearts) as karma : existing\n"
		fresh  = "posts/{post}/likes/{user} -> posts/{post} : count() as likes, count() where on == true as on : existing\n"
		reads  = "posts/{post} by author -> users/{author} : likes as karma, count() as posts : existing reads likes of posts/{post}, which no route updates any more"
	)
	for _, test := range []struct {
		name, former, routes string
		want                 []string
	}{
		{"nothing changed", likes + karma, likes + karma, nil},
		{"renamed", likes + karma, hearts + karma, []string{reads + ". If you renamed likes to hearts, rename it there, too"}},
		{"renamed in both", likes + karma, hearts + other, nil},
		{"the route went", likes + karma, karma, []string{reads}},
		{"another total, too", likes + karma, fresh + karma, nil},
		{"no route relies on it", likes, hearts, nil},
	} {
		if d := cmp.Diff(test.want, renamedTotals(parsed(t, test.former), parsed(t, test.routes))); d != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, d)
		}
	}
}

func TestNearly(t *testing.T) {
	for _, test := range []struct {
		a, b string
		want bool
	}{
		{"likes", "like", true}, {"Likes", "likes", true}, {"likes", "hearts", false}, {"comments", "coments", true}, {"userLikes", "user_likes", true},
		{"a", "b", false}, {"", "", false}, {"", "a", false}, {"posts", "ports", true}, {"posts", "parts", false},
	} {
		if got := reason.Nearly(test.a, test.b); got != test.want {
			t.Errorf("nearly(%q, %q) = %t", test.a, test.b, got)
		}
	}
}

// Documents that are written in another collection than the route's, those that no route counts any
// more, and a total among its own shards are told once.
func TestHintsOfOtherSources(t *testing.T) {
	var said []string
	db := servedDatabase{firestore.DefaultDatabaseID, emulatortest.Client(t)}
	h := hints{say: heard(&said)}
	h.routes = parsed(t, "posts/{post}/like/{user} -> posts/{post} : count() as likes : existing\nposts/{post}/hearts/{user} -> posts/{post} : count() as hearts : existing\n"+
		"talks/{talk}/votes/{vote} -> talk_totals/{talk} : n\norders/{order} -> totals/orders : count() as orders")
	former := parsed(t, "posts/{post}/likes/{user} -> posts/{post} : count() as likes : existing\nposts/{post}/heart/{user} -> posts/{post} : count() as hearts : existing\n"+
		"order/{order} -> totals/orders : count() as orders")
	set := func(path string, fields map[string]any) {
		t.Helper()
		if _, err := db.client.Doc(path).Set(t.Context(), fields); err != nil {
			t.Fatal(err)
		}
	}
	look := func() {
		t.Helper()
		for _, path := range []string{"posts/1", "posts/1/likes/ann", "posts/1/likes/bob", "posts/1/notes/ann", "order/1", "orders/1", "talks/1/votes/0", "talks/1/votes/total"} {
			doc, err := db.client.Doc(path).Get(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			h.inspect(t.Context(), db, doc)
		}
	}

	set("posts/1", map[string]any{"title": "One"})
	set("posts/1/likes/ann", map[string]any{"on": true})
	set("posts/1/likes/bob", map[string]any{"on": true})
	set("posts/1/notes/ann", map[string]any{"on": true})
	set("order/1", map[string]any{"amount": 5.5})
	set("orders/1", map[string]any{"amount": 5.5}) // so the source has documents
	set("talks/1/votes/0", map[string]any{"n": 3})
	set("talks/1/votes/1", map[string]any{"n": 4.5})
	set("talks/1/votes/total", map[string]any{"n": 7})
	look()
	want := []string{"no route covers posts/1/likes/ann, and the source posts/{post}/like/{user} has no documents: the document is in likes, and the route says like: " +
		"posts/{post}/like/{user} -> posts/{post} : count() as likes : existing"}
	if d := cmp.Diff(want, said); d != "" {
		t.Errorf("said (-want +got):\n%s", d)
	}

	set("talks/1/votes/total", map[string]any{"n": 7.5})
	for range 2 {
		look()
		h.reportDroppedRoutes(t.Context(), db, former)
	}
	want = append(want,
		"talks/1/votes/total lies among the shards of talks/{talk}/votes/{vote} -> talk_totals/{talk} : n, and its n equals the sum of all others. If n is a total, it counts twice: move the document out of talks/1/votes",
		"no route counts posts/{post}/likes/{user} any more, but such documents still exist, such as posts/1/likes/ann; the totals in posts/{post} are now those of posts/{post}/like/{user}",
		"no route counts order/{order} any more, but such documents still exist, such as order/1; the totals in totals/orders are now those of orders/{order}",
	)
	if d := cmp.Diff(want, said); d != "" {
		t.Errorf("said (-want +got):\n%s", d)
	}
}

// A field that no document of a route has is told once, with the name that the documents have
// instead. One document with the field is enough to be silent.
func TestHintsOfAbsentFields(t *testing.T) {
	var said []string
	db := servedDatabase{firestore.DefaultDatabaseID, emulatortest.Client(t)}
	h := hints{say: heard(&said)}
	const (
		revenue  = "orders/{order} by shop -> shops/{shop} : amounts as revenue : existing"
		approved = "posts/{post}/comments/{c} -> posts/{post} : count() where aproved == true as comments : existing"
		karma    = "posts/{post} by author -> users/{author} : comments as karma, count() where hidden == false as posts : existing"
		last     = "notes/{note} -> totals/notes : latest(edited) as last"
		items    = "carts/{cart} -> totals/carts : items.price as revenue"
	)
	h.routes = parsed(t, strings.Join([]string{revenue, approved, karma, last, items}, "\n"))
	for path, fields := range map[string]map[string]any{
		"orders/1": {"shop": "s", "amount": 5}, "orders/2": {"shop": "s", "amount": 5}, "shops/s": {"revenue": 0},
		"posts/1": {"author": "ann"}, "users/ann": {}, "posts/1/comments/1": {"approved": true},
		"notes/1": {"text": "one"}, "notes/2": {"edited": time.Now()},
		"carts/1": {"items": []map[string]any{{"price": 5}}},
	} {
		_, err := db.client.Doc(path).Set(t.Context(), fields)
		if err != nil {
			t.Fatal(err)
		}
	}

	for range 2 {
		for _, path := range []string{"orders/1", "orders/2", "posts/1", "posts/1/comments/1", "notes/1", "carts/1"} {
			doc, err := db.client.Doc(path).Get(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			h.inspect(t.Context(), db, doc)
		}
	}
	want := []string{
		"orders hold amount, and the route sums amounts: 2 of 2 documents have no such field: " + revenue,
		"posts hold no hidden, and the route asks for hidden: the only document has no such field: " + karma,
		"comments hold approved, and the route asks for aproved: the only document has no such field: " + approved,
		"carts/1: its items is an array, and no path leads through one, so it has no items.price, which the route sums: " + items,
	}
	if d := cmp.Diff(want, said); d != "" {
		t.Errorf("said (-want +got):\n%s", d)
	}
}
