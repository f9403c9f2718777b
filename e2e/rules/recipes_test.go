package rules

import (
	"fmt"
	"maps"
	"math"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
)

// recipes are the blocks of the recipes in docs/recipes.md, by heading. docs/test/recipes.test.mjs
// runs the page's code under them.
var recipes = map[string]blockTest{
	"Likes and comments in a post": {
		seed: map[string]fields{"posts/p": {"title": "p"}, comments + "bob's": {"by": "bob", "text": "b"}},
		honest: map[string][]*firestorepb.Write{
			"write, edit, delete": writes(say("ann's", "ann", "a"), say("ann's", "ann", "A"), remove(comments+"ann's")),
			"send twice":          writes(say("ann's", "ann", "a"), say("ann's", "ann", "a")),
			"1,000 letters":       writes(say("ann's", "ann", strings.Repeat("a", 1000))),
		},
		attacks: []blockAttack{
			{"signed out", "mayWrite() && isId(post) && isId(comment) && isComment(request.resource.data)", signedOut, writes(say("x", "ann", "a"))},
			{"of a post whose id no header carries", "isId(post)", ann, writes(set("posts/p /comments/x", fields{"by": "ann", "text": "a"}))},
			{"an id that no header carries", "isId(comment)", ann, writes(say("x ", "ann", "a"))},
			{"a long id", "isId(comment)", ann, writes(say(strings.Repeat("x", 201), "ann", "a"))},
			{"as another", "data.by == request.auth.uid", ann, writes(say("x", "bob", "a"))},
			{"edit another's", "resource.data.by == request.auth.uid", ann, writes(say("bob's", "ann", "a"))},
			{"delete another's", "resource.data.by == request.auth.uid", ann, writes(remove(comments + "bob's"))},
			{"no text", "isComment(request.resource.data)", ann, writes(set(comments+"x", fields{"by": "ann"}))},
			{"a number", "isComment(request.resource.data)", ann, writes(set(comments+"x", fields{"by": "ann", "text": 1}))},
			{"a map", "data.text is string", ann, writes(set(comments+"x", fields{"by": "ann", "text": fields{"a": 1}}))},
			{"1,001 letters", "data.text.size() <= 1000", ann, writes(say("x", "ann", strings.Repeat("a", 1001)))},
			{"another field", "data.keys().hasOnly(['by', 'text'])", ann, writes(set(comments+"x", fields{"by": "ann", "text": "a", "x": 1}))},
		},
		reads:   map[string]func(*database, user) error{"one": get(comments + "bob's"), "100": query("posts/p", "comments", 100)},
		secrets: map[string]func(*database, user) error{"all": query("posts/p", "comments", 0)},
	},
	"A site's statistics in one document": {
		seed: map[string]fields{"profiles/bob": {"name": "b"}, "stats/site": {"users": 1}},
		honest: map[string][]*firestorepb.Write{
			"join, and another name": writes(set("profiles/ann", fields{"name": "a"}), set("profiles/ann", fields{"name": "A"})),
		},
		attacks: []blockAttack{
			{"signed out", "mayWrite() && request.auth.uid == user", signedOut, writes(set("profiles/ann", fields{"name": "a"}))},
			{"as another", "request.auth.uid == user", ann, writes(set("profiles/dan", fields{"name": "d"}))},
			{"another's name", "request.auth.uid == user", ann, writes(set("profiles/bob", fields{"name": "B"}))},
			{"another field", "changesOnly(['name'])", ann, writes(set("profiles/ann", fields{"name": "a", "x": 1}))},
			{"a long name", "isText('name', 100)", ann, writes(set("profiles/ann", fields{"name": strings.Repeat("a", 101)}))},
			{"delete", "", ann, writes(remove("profiles/bob"))},
			{"the total", "", ann, writes(merge("stats/site", fields{"users": 1000}, "users"))},
			{"another total", "", ann, writes(set("stats/other", fields{"users": 1000}))},
		},
		reads:   map[string]func(*database, user) error{"the totals": get("stats/site"), "a profile": get("profiles/bob")},
		secrets: map[string]func(*database, user) error{"all totals": query("", "stats", 1), "all profiles": query("", "profiles", 1)},
	},
	"Counts by owner": {
		seed: map[string]fields{
			"notes/ann's": note("ann", "a"), "notes/bob's": note("bob", "b"), "accounts/ann": {"notes": 1}, "accounts/bob": {"notes": 1}, "notes/ann's ": note("ann", "a"),
		},
		honest: map[string][]*firestorepb.Write{
			"write":          writes(set("notes/x", note("ann", "a"))),
			"10,000 letters": writes(set("notes/x", note("ann", strings.Repeat("a", 10_000)))),
			"edit":           writes(merge("notes/ann's", fields{"text": "ab", "size": 2}, "text", "size")),
			"delete a note":  writes(remove("notes/ann's")),
		},
		attacks: []blockAttack{
			{"signed out", "mayWrite() && isId(note) && isNote(request.resource.data)", signedOut, writes(set("notes/x", note("ann", "a")))},
			{"an id that no header carries", "isId(note)", ann, writes(set("notes/x ", note("ann", "a")))},
			{"as another", "data.owner == request.auth.uid", ann, writes(set("notes/x", note("bob", "a")))},
			{"give away", "isNote(request.resource.data)", ann, writes(merge("notes/ann's", fields{"owner": "bob"}, "owner"))},
			{"take another's", "resource.data.owner == request.auth.uid", ann, writes(set("notes/bob's", note("ann", "b")))},
			{"delete another's", "resource.data.owner == request.auth.uid", ann, writes(remove("notes/bob's"))},
			{"10,001 letters", "data.text.size() <= 10000", ann, writes(set("notes/x", note("ann", strings.Repeat("a", 10_001))))},
			{"a list", "data.text is string", ann, writes(set("notes/x", fields{"owner": "ann", "text": array("a"), "size": 1}))},
			{"a size made up", "data.size == data.text.size()", ann, writes(set("notes/x", fields{"owner": "ann", "text": "a", "size": -1000}))},
			{"a size of 1.0", "data.size is int", ann, writes(set("notes/x", fields{"owner": "ann", "text": "a", "size": 1.0}))},
			{"another field", "data.keys().hasOnly(['owner', 'text', 'size'])", ann, writes(set("notes/x", fields{"owner": "ann", "text": "a", "size": 1, "x": 1}))},
			{"the total", "", ann, writes(merge("accounts/ann", fields{"notes": 0}, "notes"))},
		},
		reads:   map[string]func(*database, user) error{"one's own": get("notes/ann's"), "one's own numbers": get("accounts/ann")},
		secrets: map[string]func(*database, user) error{"another's": get("notes/bob's"), "another's numbers": get("accounts/bob"), "all": query("", "notes", 1)},
	},
	"Replies": {
		seed: map[string]fields{
			thread + "ann's": reply("ann", "a", nil), thread + "bob's": merged(reply("bob", "b", "ann's"), fields{"replies": 2, "tally": fields{"num_shards": 2, "took": 1}}),
			thread + "ann's2": merged(reply("ann", "a", nil), fields{"replies": 2, "tally": fields{"num_shards": 2, "took": 1}}),
		},
		honest: map[string][]*firestorepb.Write{
			"begin":           writes(set(thread+"x", reply("ann", "a", nil))),
			"answer":          writes(set(thread+"x", reply("ann", "a", "bob's"))),
			"1,000 letters":   writes(set(thread+"x", reply("ann", strings.Repeat("a", 1000), "bob's"))),
			"without a total": writes(set(thread+"x", fields{"by": "ann", "text": "a", "parent": nil})),
			"edit":            writes(merge(thread+"ann's2", fields{"text": ""}, "text")),
		},
		attacks: []blockAttack{
			{"signed out", "mayWrite() && isId(thread) && isId(comment) && request.resource.data.by == request.auth.uid", signedOut, writes(set(thread+"x", reply("ann", "a", nil)))},
			{"in a thread whose id no header carries", "isId(thread)", ann, writes(set("threads/t /comments/x", reply("ann", "a", nil)))},
			{"an id that no header carries", "isId(comment)", ann, writes(set(thread+"x ", reply("ann", "a", nil)))},
			{"as another", "request.resource.data.by == request.auth.uid", ann, writes(set(thread+"x", reply("bob", "a", nil)))},
			{"1,001 letters", "isText('text', 1000)", ann, writes(set(thread+"x", reply("ann", strings.Repeat("a", 1001), nil)))},
			{"with replies", "isUncounted('replies')", ann, writes(set(thread+"x", merged(reply("ann", "a", nil), fields{"replies": 5})))},
			{"another field", "changesOnly(['by', 'text', 'parent', 'replies'])", ann, writes(set(thread+"x", merged(reply("ann", "a", nil), fields{"tally": fields{}})))},
			{"an answer to none that is there", "exists(/databases/$(database)/documents/threads/$(thread)/comments/$(parent))", ann, writes(set(thread+"x", reply("ann", "a", "gone")))},
			{"an answer to itself", "exists(/databases/$(database)/documents/threads/$(thread)/comments/$(parent))", ann, writes(set(thread+"x", reply("ann", "a", "x")))},
			{"an answer to a number", "isReply(thread, request.resource.data.parent)", ann, writes(set(thread+"x", reply("ann", "a", 5)))},
			{"edit another's", "resource.data.by == request.auth.uid", ann, writes(merge(thread+"bob's", fields{"text": "a"}, "text"))},
			{"move", "changesOnly(['text'])", ann, writes(merge(thread+"ann's2", fields{"text": "a", "parent": "bob's"}, "text", "parent"))},
			{"edit the total", "changesOnly(['text'])", ann, writes(merge(thread+"ann's2", fields{"text": "a", "replies": 3}, "text", "replies"))},
			{"the total of another kind", "keepsInt('replies')", ann, writes(merge(thread+"ann's2", fields{"text": "a", "replies": 2.0}, "text", "replies"))},
			{"a number of another kind", "keepsInt(['tally', 'num_shards'])", ann, writes(merge(thread+"ann's2", fields{"text": "a", "tally": fields{"num_shards": 2.0, "took": 1}}, "text", "tally"))},
			{"a time of another kind", "keepsInt(['tally', 'took'])", ann, writes(merge(thread+"ann's2", fields{"text": "a", "tally": fields{"num_shards": 2, "took": 1.0}}, "text", "tally"))},
			{"a long edit", "isText('text', 1000)", ann, writes(merge(thread+"ann's2", fields{"text": strings.Repeat("a", 1001)}, "text"))},
			{"delete", "", ann, writes(remove(thread + "ann's"))},
		},
		reads:   map[string]func(*database, user) error{"one": get(thread + "bob's"), "100": query("threads/t", "comments", 100)},
		secrets: map[string]func(*database, user) error{"all": query("threads/t", "comments", 0)},
	},
	"Sales by day, and totals of any size": {
		seed: map[string]fields{
			"sales/1": {"store": "s", "amount": 5, "at": time.Unix(1, 0)}, "stores/s": {"owner": "ann", "sales": 1}, "stores/r": {"owner": "bob", "sales": 1},
			"stores/s/days/2026-11-27": {"sales": 1}, "stores/r/days/2026-11-27": {"sales": 1},
		},
		attacks: []blockAttack{
			{"a sale", "", ann, writes(transform(set("sales/2", fields{"store": "s", "amount": 1000}), serverTime("at")))},
			{"delete a sale", "", ann, writes(remove("sales/1"))},
			{"a day", "", ann, writes(set("stores/s/days/2026-11-28", fields{"sales": 1000}))},
			{"a day's total", "", ann, writes(merge("stores/s/days/2026-11-27", fields{"sales": 1000}, "sales"))},
			{"the total", "", ann, writes(merge("stores/s", fields{"sales": 1000}, "sales"))},
			{"take a store", "", ann, writes(merge("stores/r", fields{"owner": "ann"}, "owner"))},
		},
		reads: map[string]func(*database, user) error{
			"one's own": get("stores/s"), "a day of it": get("stores/s/days/2026-11-27"), "100 days": query("stores/s", "days", 100)},
		secrets: map[string]func(*database, user) error{
			"another's": get("stores/r"), "another's day": get("stores/r/days/2026-11-27"), "another's days": query("stores/r", "days", 100),
			"all days": query("stores/s", "days", 0), "all stores": query("", "stores", 1), "a sale": get("sales/1")},
	},
	"Tokens by user and month": {
		seed: map[string]fields{
			"usage/1": {"user": "ann", "tokens": 5, "at": time.Unix(1, 0)}, "customers/ann": {}, "customers/bob": {},
			"customers/ann/months/2026-11": {"tokens": 5}, "customers/bob/months/2026-11": {"tokens": 5},
		},
		attacks: []blockAttack{
			{"an entry", "", ann, writes(transform(set("usage/2", fields{"user": "bob", "tokens": 1000}), serverTime("at")))},
			{"delete an entry", "", ann, writes(remove("usage/1"))},
			{"the total", "", ann, writes(merge("customers/ann/months/2026-11", fields{"tokens": 0}, "tokens"))},
			{"a month", "", ann, writes(set("customers/ann/months/2026-12", fields{"tokens": 0}))},
		},
		reads:   map[string]func(*database, user) error{"one's own": get("customers/ann/months/2026-11")},
		secrets: map[string]func(*database, user) error{"another's": get("customers/bob/months/2026-11"), "all": query("customers/ann", "months", 1)},
	},
	"A board for each week": {
		seed: map[string]fields{
			"laps/1": {"racer": "ann", "points": 5, "at": time.Unix(1, 0)}, "racers/ann": {}, "racers/bob": {},
			"racers/ann/weeks/2026-W48": {"points": 5, "racer": "ann", "week": "2026-W48"}, "racers/bob/weeks/2026-W48": {"points": 6, "racer": "bob", "week": "2026-W48"},
		},
		attacks: []blockAttack{
			{"a lap", "", ann, writes(transform(set("laps/2", fields{"racer": "ann", "points": 1000}), serverTime("at")))},
			{"delete a lap", "", ann, writes(remove("laps/1"))},
			{"the total", "", ann, writes(merge("racers/ann/weeks/2026-W48", fields{"points": 1000}, "points"))},
			{"another's name", "", ann, writes(merge("racers/ann/weeks/2026-W48", fields{"racer": "bob"}, "racer"))},
			{"a week", "", ann, writes(set("racers/ann/weeks/2026-W49", fields{"points": 1000, "week": "2026-W48"}))},
			{"a week elsewhere", "", ann, writes(set("weeks/2026-W48", fields{"points": 1000, "week": "2026-W48"}))},
			{"a week below", "", ann, writes(set("racers/ann/weeks/2026-W48/weeks/x", fields{"points": 1000, "week": "2026-W48"}))},
		},
		reads: map[string]func(*database, user) error{
			"the board": list{collection: "weeks", limit: 10, group: true}.query, "a rank": sum("", "weeks", 1000, true)},
		secrets: map[string]func(*database, user) error{
			"all": list{collection: "weeks", group: true}.query, "a lap": get("laps/1"), "all racers": query("", "racers", 1)},
	},
	"Followers": {
		seed: map[string]fields{
			"follows/bob_ann": {"follower": "bob", "followee": "ann"}, "people/ann": {"followers": 1}, "follows/ann_x_y": {"follower": "ann_x", "followee": "y"},
		},
		honest: map[string][]*firestorepb.Write{
			"follow":           writes(follow("ann_bob", "ann", "bob")),
			"follow twice":     writes(follow("ann_bob", "ann", "bob"), follow("ann_bob", "ann", "bob")),
			"follow, unfollow": writes(follow("ann_bob", "ann", "bob"), remove("follows/ann_bob")),
		},
		attacks: []blockAttack{
			{"signed out", "mayWrite() && isId(follow) && isFollow(follow, request.resource.data)", signedOut, writes(follow("ann_bob", "ann", "bob"))},
			{"an id that no header carries", "isId(follow)", ann, writes(follow("ann_b\n", "ann", "b\n"))},
			{"as another", "data.follower == request.auth.uid", ann, writes(follow("dan_bob", "dan", "bob"))},
			{"oneself", "data.followee != data.follower", ann, writes(follow("ann_ann", "ann", "ann"))},
			{"under another id", "id == data.follower + '_' + data.followee", ann, writes(follow("x", "ann", "bob"))},
			{"a number", "isFollow(follow, request.resource.data)", ann, writes(transform(set("follows/ann_1", fields{"follower": "ann", "followee": 1}), serverTime("at")))},
			{"without the server's time", "data.at == request.time", ann, writes(set("follows/ann_bob", fields{"follower": "ann", "followee": "bob", "at": time.Unix(1, 0)}))},
			{"another field", "data.keys().hasOnly(['follower', 'followee', 'at'])", ann,
				writes(transform(set("follows/ann_bob", fields{"follower": "ann", "followee": "bob", "x": 1}), serverTime("at")))},
			{"over the follow of a user whose id goes on", "resource.data.follower == request.auth.uid", ann, writes(follow("ann_x_y", "ann", "x_y"))},
			{"unfollow for another", "resource.data.follower == request.auth.uid", ann, writes(remove("follows/bob_ann"))},
			{"the total", "", ann, writes(merge("people/ann", fields{"followers": 1000}, "followers"))},
		},
		reads:   map[string]func(*database, user) error{"a follow": get("follows/bob_ann"), "a person": get("people/ann"), "100 people": query("", "people", 100)},
		secrets: map[string]func(*database, user) error{"all follows": query("", "follows", 1), "all people": query("", "people", 0)},
	},
	"Numbered seats": {
		seed: map[string]fields{
			"events/e": {"seats": 3, "taken": 1}, "events/e/seats/1": {"by": "bob"}, "events/e/seats/2": {"by": "ann"}, "events/e ": {"seats": 3},
		},
		honest: map[string][]*firestorepb.Write{
			"take":              writes(seat("e", "0", "ann")),
			"leave":             writes(remove("events/e/seats/2")),
			"leave, take again": writes(remove("events/e/seats/2"), seat("e", "2", "ann")),
		},
		attacks: []blockAttack{
			{"signed out", "mayWrite() && isId(event)\n    && isShard(seat, get(/databases/$(database)/documents/events/$(event)).data.seats)\n    && request.resource.data == {'by': request.auth.uid, 'at': request.time}",
				signedOut, writes(seat("e", "0", "ann"))},
			{"of an event whose id no header carries", "isId(event)", ann, writes(seat("e ", "0", "ann"))},
			{"for another", "request.resource.data == {'by': request.auth.uid, 'at': request.time}", ann, writes(seat("e", "0", "bob"))},
			{"another field", "request.resource.data == {'by': request.auth.uid, 'at': request.time}", ann,
				writes(transform(set("events/e/seats/0", fields{"by": "ann", "x": 1}), serverTime("at")))},
			{"the seat behind the last", "isShard(seat, get(/databases/$(database)/documents/events/$(event)).data.seats)", ann, writes(seat("e", "3", "ann"))},
			{"a seat with another spelling", "isShard(seat, get(/databases/$(database)/documents/events/$(event)).data.seats)", ann, writes(seat("e", "00", "ann"))},
			{"a seat below zero", "isShard(seat, get(/databases/$(database)/documents/events/$(event)).data.seats)", ann, writes(seat("e", "-1", "ann"))},
			{"of an event that is not there", "isShard(seat, get(/databases/$(database)/documents/events/$(event)).data.seats)", ann, writes(seat("none", "0", "ann"))},
			{"a taken one", "", ann, writes(seat("e", "1", "ann"))},
			{"a taken one, at once", "", ann, writes(remove("events/e/seats/1"), seat("e", "1", "ann"))},
			{"free another's", "resource.data.by == request.auth.uid", ann, writes(remove("events/e/seats/1"))},
			{"more seats", "", ann, writes(merge("events/e", fields{"seats": 1000}, "seats"))},
			{"the total", "", ann, writes(merge("events/e", fields{"taken": 0}, "taken"))},
		},
		reads:   map[string]func(*database, user) error{"a seat": get("events/e/seats/1"), "the event": get("events/e")},
		secrets: map[string]func(*database, user) error{"all seats": query("events/e", "seats", 1), "all events": query("", "events", 1)},
	},
	"Unread by member and room": {
		seed: map[string]fields{
			"chats/c/members/ann": {"unread": 1}, "chats/c/members/bob": {"unread": 1}, "chats/c /members/ann": {}, "chats/c /members/bob": {},
			"chats/c/inbox/1": {"from": "bob", "to": "ann", "text": "b", "read": false}, "chats/c/inbox/2": {"from": "ann", "to": "bob", "text": "a", "read": false},
			"chats/d/members/bob": {},
		},
		honest: map[string][]*firestorepb.Write{
			"send":             writes(said("c", "ann", "bob", "a")),
			"read, and unread": writes(merge("chats/c/inbox/1", fields{"read": true}, "read"), merge("chats/c/inbox/1", fields{"read": false}, "read")),
			"delete":           writes(remove("chats/c/inbox/1")),
		},
		attacks: []blockAttack{
			{"signed out", "mayWrite() && isId(chat) && isId(message) && isSaid(chat, request.resource.data)", signedOut, writes(said("c", "ann", "bob", "a"))},
			{"in a room whose id no header carries", "isId(chat)", ann, writes(said("c ", "ann", "bob", "a"))},
			{"an id that no header carries", "isId(message)", ann, writes(set("chats/c/inbox/x ", fields{"from": "ann", "to": "bob", "text": "a", "read": false}))},
			{"as another", "data.from == request.auth.uid", ann, writes(said("c", "bob", "ann", "a"))},
			{"read already", "data.read == false", ann, writes(set("chats/c/inbox/x", fields{"from": "ann", "to": "bob", "text": "a", "read": true}))},
			{"a list", "data.text is string", ann, writes(said("c", "ann", "bob", array("a")))},
			{"1,001 letters", "data.text.size() <= 1000", ann, writes(said("c", "ann", "bob", strings.Repeat("a", 1001)))},
			{"another field", "data.keys().hasOnly(['from', 'to', 'text', 'read'])", ann, writes(set("chats/c/inbox/x", fields{"from": "ann", "to": "bob", "text": "a", "read": false, "x": 1}))},
			{"from outside", "isMember(chat, data.from)", ann, writes(said("d", "ann", "bob", "a"))},
			{"to somebody outside", "isMember(chat, data.to)", ann, writes(said("c", "ann", "dan", "a"))},
			{"read another's", "resource.data.to == request.auth.uid", ann, writes(merge("chats/c/inbox/2", fields{"read": true}, "read"))},
			{"delete another's", "resource.data.to == request.auth.uid", ann, writes(remove("chats/c/inbox/2"))},
			{"pass on", "changesOnly(['read'])", ann, writes(merge("chats/c/inbox/1", fields{"to": "bob"}, "to"))},
			{"read is text", "request.resource.data.read is bool", ann, writes(merge("chats/c/inbox/1", fields{"read": "no"}, "read"))},
			{"the total", "", ann, writes(merge("chats/c/members/ann", fields{"unread": 0}, "unread"))},
			{"join", "", ann, writes(set("chats/d/members/ann", nil))},
		},
		reads: map[string]func(*database, user) error{"one's own": get("chats/c/inbox/1"), "one's own number": get("chats/c/members/ann")},
		secrets: map[string]func(*database, user) error{
			"another's": get("chats/c/inbox/2"), "all": query("chats/c", "inbox", 100), "another's number": get("chats/c/members/bob")},
	},
	"Trending": {
		seed: map[string]fields{
			"songs/p": {"title": "p", "likes": 2, "trending": 1, "tally": tallied(2)}, "songs/p/likes/bob": {"at": time.Unix(1, 0)}, "songs/p\n": {},
		},
		honest: map[string][]*firestorepb.Write{
			"like":          writes(likeSong("ann")),
			"like twice":    writes(likeSong("ann"), likeSong("ann")),
			"take back":     writes(likeSong("ann"), remove("songs/p/likes/ann")),
			"publish":       writes(song(fields{"likes": 0, "trending": 0})),
			"another title": writes(merge("songs/p", fields{"title": "P"}, "title")),
		},
		attacks: []blockAttack{
			{"signed out", "mayWrite() && isId(song) && request.auth.uid == user", signedOut, writes(likeSong("ann"))},
			{"of a song whose id no header carries", "isId(song)", ann, writes(transform(set("songs/p\n/likes/ann", nil), serverTime("at")))},
			{"of a song that is not there", "exists(/databases/$(database)/documents/songs/$(song))", ann,
				writes(transform(set("songs/none/likes/ann", nil), serverTime("at")))},
			{"for another", "request.auth.uid == user", ann, writes(likeSong("dan"))},
			{"take another's back", "request.auth.uid == user", ann, writes(remove("songs/p/likes/bob"))},
			{"forever", "request.resource.data == {'at': request.time}", ann,
				writes(set("songs/p/likes/ann", fields{"at": time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)}))},
			{"for a day longer", "request.resource.data == {'at': request.time}", ann,
				writes(set("songs/p/likes/ann", fields{"at": time.Now().Add(24 * time.Hour)}))},
			{"without a time", "request.resource.data == {'at': request.time}", ann, writes(set("songs/p/likes/ann", nil))},
			{"another field", "request.resource.data == {'at': request.time}", ann,
				writes(transform(set("songs/p/likes/ann", fields{"x": "y"}), serverTime("at")))},
			{"publish, signed out", "mayWrite()", signedOut, writes(song(nil))},
			{"publish with an id that no header carries", "isId(song)", ann, writes(set("songs/q ", fields{"title": "q"}))},
			{"publish what trends", "isUncounted('trending')", ann, writes(song(fields{"trending": 1000}))},
			{"publish with likes", "isUncounted('likes')", ann, writes(song(fields{"likes": 1000}))},
			{"publish with tally", "changesOnly(['title', 'likes', 'trending'])", ann, writes(song(fields{"tally": fields{}}))},
			{"publish with a long title", "isText('title', 200)", ann, writes(song(fields{"title": strings.Repeat("a", 201)}))},
			{"a long title", "isText('title', 200)", ann, writes(merge("songs/p", fields{"title": strings.Repeat("a", 201)}, "title"))},
			{"have it trend", "changesOnly(['title'])", ann, writes(merge("songs/p", fields{"trending": 1000}, "trending"))},
			{"have it trend by increment", "changesOnly(['title'])", ann, writes(transform(merge("songs/p", nil), increment("trending", 1)))},
			{"trending from 1 to 1.0", "keepsInt('trending')", ann, writes(merge("songs/p", fields{"trending": 1.0}, "trending"))},
			{"likes from 2 to 2.0", "keepsInt('likes')", ann, writes(merge("songs/p", fields{"likes": 2.0}, "likes"))},
			{"num_shards from 2 to 2.0", "keepsInt(['tally', 'num_shards'])", ann, writes(merge("songs/p", fields{"tally": tallied(2.0)}, "tally"))},
			{"took from 15000 to 15000.0", "keepsInt(['tally', 'took'])", ann, writes(merge("songs/p", fields{"tally": fields{"took": 15000.0}}, "tally.took"))},
			{"delete a song", "", ann, writes(remove("songs/p"))},
		},
		reads:   map[string]func(*database, user) error{"own": get("songs/p/likes/ann"), "a song": get("songs/p"), "100 songs": query("", "songs", 100)},
		secrets: map[string]func(*database, user) error{"another's": get("songs/p/likes/bob"), "all": query("songs/p", "likes", 1), "all songs": query("", "songs", 0)},
	},
	"Online now": {
		seed: map[string]fields{"rooms/r": {"online": 1}, "rooms/r/members/bob": {"seen": time.Unix(1, 0)}, "rooms/r ": {}},
		honest: map[string][]*firestorepb.Write{
			"enter, and stay": writes(beat("ann"), beat("ann")),
			"leave":           writes(beat("ann"), remove("rooms/r/members/ann")),
		},
		attacks: []blockAttack{
			{"signed out", "mayWrite() && isId(room) && request.auth.uid == user", signedOut, writes(beat("ann"))},
			{"of a room whose id no header carries", "isId(room)", ann, writes(transform(set("rooms/r /members/ann", nil), serverTime("seen")))},
			{"in a room that is not there", "exists(/databases/$(database)/documents/rooms/$(room))", ann,
				writes(transform(set("rooms/none/members/ann", nil), serverTime("seen")))},
			{"for another", "request.auth.uid == user", ann, writes(beat("dan"))},
			{"send another away", "request.auth.uid == user", ann, writes(remove("rooms/r/members/bob"))},
			{"forever", "request.resource.data == {'seen': request.time}", ann,
				writes(set("rooms/r/members/ann", fields{"seen": time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)}))},
			{"without a time", "request.resource.data == {'seen': request.time}", ann, writes(set("rooms/r/members/ann", nil))},
			{"another field", "request.resource.data == {'seen': request.time}", ann,
				writes(transform(set("rooms/r/members/ann", fields{"x": "y"}), serverTime("seen")))},
			{"the room's total", "", ann, writes(merge("rooms/r", fields{"online": 1000}, "online"))},
		},
		reads:   map[string]func(*database, user) error{"own": get("rooms/r/members/ann"), "the room": get("rooms/r")},
		secrets: map[string]func(*database, user) error{"another": get("rooms/r/members/bob"), "all": query("rooms/r", "members", 1), "all rooms": query("", "rooms", 100)},
	},
	"Karma of authors": {
		seed: map[string]fields{
			"essays/ann's": {"author": "ann", "title": "a", "likes": 2, "tally": tallied(2)}, "essays/bob's": {"author": "bob", "title": "b", "likes": 1, "tally": tallied(1)},
			"essays/bob's/likes/cat": {"at": "x"}, "essays/bob_gone/likes/cat": {"at": "x"}, "authors/ann": {"karma": 2, "essays": 1}, "authors/bob": {"karma": 1, "essays": 1},
		},
		honest: map[string][]*firestorepb.Write{
			"publish":           writes(set("essays/ann_new", fields{"author": "ann", "title": "n", "likes": 0})),
			"another title":     writes(merge("essays/ann's", fields{"title": "A"}, "title")),
			"like":              writes(likeEssay("bob's", "ann")),
			"like twice":        writes(likeEssay("bob's", "ann"), likeEssay("bob's", "ann")),
			"take a like back":  writes(likeEssay("bob's", "ann"), remove("essays/bob's/likes/ann")),
			"take back what is": writes(remove("essays/ann's/likes/ann")),
		},
		attacks: []blockAttack{
			{"like, signed out", "mayWrite() && request.auth.uid == user && authorOf(essay) != request.auth.uid", signedOut, writes(likeEssay("bob's", "ann"))},
			{"like one's own", "authorOf(essay) != request.auth.uid", ann, writes(likeEssay("ann's", "ann"))},
			{"like as another", "request.auth.uid == user", ann, writes(likeEssay("bob's", "dan"))},
			{"take another's like back", "request.auth.uid == user", ann, writes(remove("essays/bob's/likes/cat"))},
			{"like an essay that is not there", "authorOf(essay) != request.auth.uid", ann, writes(likeEssay("none", "ann"))},
			{"text in a like", "request.resource.data == {'at': request.time}", ann, writes(set("essays/bob's/likes/ann", fields{"at": "x"}))},
			{"publish, signed out", "", signedOut, writes(set("essays/ann_new", fields{"author": "ann", "title": "n"}))},
			{"publish with an id that no header carries", "isId(essay)", ann, writes(set("essays/ann_new ", fields{"author": "ann", "title": "n"}))},
			{"publish as another", "request.resource.data.author == request.auth.uid", ann, writes(set("essays/ann_new", fields{"author": "bob", "title": "n"}))},
			{"publish under the id of another's essay that was deleted", "essay.split('_')[0] == request.auth.uid", ann,
				writes(set("essays/bob_gone", fields{"author": "ann", "title": "n"}))},
			{"publish under an id that names no author", "essay.split('_')[0] == request.auth.uid", ann, writes(set("essays/new", fields{"author": "ann", "title": "n"}))},
			{"publish with likes", "isUncounted('likes')", ann, writes(set("essays/ann_new", fields{"author": "ann", "title": "n", "likes": 1000}))},
			{"publish with tally", "changesOnly(['author', 'title', 'likes'])", ann, writes(set("essays/ann_new", fields{"author": "ann", "title": "n", "tally": fields{}}))},
			{"publish with a long title", "isText('title', 200)", ann, writes(set("essays/ann_new", fields{"author": "ann", "title": strings.Repeat("a", 201)}))},
			{"raise one's own likes", "changesOnly(['title'])", ann, writes(merge("essays/ann's", fields{"likes": 1000}, "likes"))},
			{"likes from 2 to 2.0", "keepsInt('likes')", ann, writes(merge("essays/ann's", fields{"title": "A", "likes": 2.0}, "title", "likes"))},
			{"num_shards from 2 to 2.0", "keepsInt(['tally', 'num_shards'])", ann,
				writes(merge("essays/ann's", fields{"title": "A", "tally": fields{"num_shards": 2.0}}, "title", "tally.num_shards"))},
			{"give an essay to a friend", "changesOnly(['title'])", ann, writes(merge("essays/ann's", fields{"author": "dan"}, "author"))},
			{"take another's essay", "resource.data.author == request.auth.uid", ann, writes(merge("essays/bob's", fields{"title": "A"}, "title"))},
			{"a long title", "isText('title', 200)", ann, writes(merge("essays/ann's", fields{"title": strings.Repeat("a", 201)}, "title"))},
			{"delete an essay", "", ann, writes(remove("essays/ann's"))},
			{"raise one's own karma", "", ann, writes(merge("authors/ann", fields{"karma": 1000}, "karma"))},
			{"raise a friend's", "", ann, writes(transform(merge("authors/bob", nil), increment("karma", 1)))},
			{"an author", "", dan, writes(set("authors/dan", fields{"karma": 1000}))},
		},
		reads: map[string]func(*database, user) error{
			"one": get("essays/bob's"), "100": query("", "essays", 100), "an author": get("authors/bob"), "100 authors": query("", "authors", 100), "one's own like": get("essays/bob's/likes/ann")},
		secrets: map[string]func(*database, user) error{
			"all": query("", "essays", 0), "all authors": query("", "authors", 0), "another's like": get("essays/bob's/likes/cat"), "all likes": query("essays/bob's", "likes", 1)},
	},
	"Approved comments, and the latest": {
		seed: map[string]fields{
			approvals + "bob's": {"by": "bob", "text": "b", "at": time.Unix(1, 0), "approved": true},
			approvals + "new":   {"by": "bob", "text": "b", "at": time.Unix(1, 0), "approved": false},
			approvals + "ann's": {"by": "ann", "text": "a", "at": time.Unix(1, 0), "approved": true},
			"articles/p":        {"title": "p", "comments": 2, "last_comment": time.Unix(1, 0)},
		},
		honest: map[string][]*firestorepb.Write{
			"write, edit, delete": writes(await("x", "ann", "a"), await("x", "ann", "A"), remove(approvals+"x")),
			"send twice":          writes(await("x", "ann", "a"), await("x", "ann", "a")),
			"edit an approved one": writes(transform(
				merge(approvals+"ann's", fields{"text": "A", "approved": false}, "text", "approved"), serverTime("at"))),
			"delete an approved one": writes(remove(approvals + "ann's")),
		},
		attacks: []blockAttack{
			{"signed out", "mayWrite() && isId(article) && isId(comment) && isPending(request.resource.data)", signedOut, writes(await("x", "ann", "a"))},
			{"of an article whose id no header carries", "isId(article)", ann,
				writes(transform(set("articles/p /comments/x", fields{"by": "ann", "text": "a", "approved": false}), serverTime("at")))},
			{"an id that no header carries", "isId(comment)", ann, writes(await("x ", "ann", "a"))},
			{"as another", "data.by == request.auth.uid", ann, writes(await("x", "bob", "a"))},
			{"approved at once", "data.approved == false", ann,
				writes(transform(set(approvals+"x", fields{"by": "ann", "text": "a", "approved": true}), serverTime("at")))},
			{"approve one's own", "isPending(request.resource.data)", ann, writes(merge(approvals+"ann's", fields{"approved": true}, "approved"))},
			{"approve another's", "resource.data.by == request.auth.uid && isPending(request.resource.data)", ann, writes(merge(approvals+"new", fields{"approved": true}, "approved"))},
			{"edit an approved one, which stays so", "data.approved == false", ann,
				writes(transform(merge(approvals+"ann's", fields{"text": "A"}, "text"), serverTime("at")))},
			{"edit another's", "resource.data.by == request.auth.uid", ann, writes(await("bob's", "ann", "a"))},
			{"delete another's", "resource.data.by == request.auth.uid", ann, writes(remove(approvals + "bob's"))},
			{"of the year 9999", "data.at == request.time", ann,
				writes(set(approvals+"x", fields{"by": "ann", "text": "a", "at": time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC), "approved": false}))},
			{"an edit of the time before", "data.at == request.time", ann,
				writes(merge(approvals+"ann's", fields{"text": "A", "approved": false}, "text", "approved"))},
			{"without a time", "data.at == request.time", ann, writes(set(approvals+"x", fields{"by": "ann", "text": "a", "approved": false}))},
			{"a map", "data.text is string", ann,
				writes(transform(set(approvals+"x", fields{"by": "ann", "text": fields{"a": 1}, "approved": false}), serverTime("at")))},
			{"1,001 letters", "data.text.size() <= 1000", ann, writes(await("x", "ann", strings.Repeat("a", 1001)))},
			{"another field", "data.keys().hasOnly(['by', 'text', 'at', 'approved'])", ann,
				writes(transform(set(approvals+"x", fields{"by": "ann", "text": "a", "approved": false, "x": 1}), serverTime("at")))},
			{"the article's total", "", ann, writes(merge("articles/p", fields{"comments": 9}, "comments"))},
			{"the article's time", "", ann, writes(transform(merge("articles/p", nil), serverTime("last_comment")))},
			{"an article", "", ann, writes(set("articles/q", fields{"title": "q"}))},
		},
		reads: map[string]func(*database, user) error{
			"an approved one": get(approvals + "bob's"), "one's own": get(approvals + "ann's"), "100": approved(100), "100 articles": query("", "articles", 100)},
		secrets: map[string]func(*database, user) error{
			"one that waits": get(approvals + "new"), "those that wait, too": query("articles/p", "comments", 100), "101": approved(101), "all articles": query("", "articles", 0)},
	},
	"Orders and revenue of a shop, and its last 30 days": {
		seed: map[string]fields{
			"orders/old":   {"shop": "s", "buyer": "ann", "amount": 5, "status": "paid"},
			"orders/bob's": {"shop": "s", "buyer": "bob", "amount": 5, "status": "new"},
			"shop_sales/s": {"owner": "bob", "orders": 2, "revenue": 5},
			"shop_sales/t": {"owner": "ann"},
		},
		honest: map[string][]*firestorepb.Write{
			"order":     writes(order("s", "ann", 1)),
			"the most":  writes(order("s", "ann", 1000000)),
			"one's own": writes(order("t", "ann", 5)),
		},
		attacks: []blockAttack{
			{"signed out", "mayWrite() && isId(order) && isNewOrder(request.resource.data)", signedOut, writes(order("s", "ann", 5))},
			{"an id that no header carries", "isId(order)", ann, writes(place("x ", fields{"shop": "s", "buyer": "ann", "amount": 5, "status": "new"}))},
			{"as another", "data.buyer == request.auth.uid", ann, writes(order("s", "bob", 5))},
			{"paid at once", "data.status == 'new'", ann, writes(place("x", fields{"shop": "s", "buyer": "ann", "amount": 5, "status": "paid"}))},
			{"of a shop that is not", inShop, ann, writes(order("none", "ann", 5))},
			{"of a shop whose id is too long", inShop, ann, writes(order(strings.Repeat("s", 1501), "ann", 5))},
			{"of no shop", inShop, ann, writes(place("x", fields{"buyer": "ann", "amount": 5, "status": "new"}))},
			{"of the shop 5", inShop, ann, writes(order(5, "ann", 5))},
			{"of the shop null", inShop, ann, writes(order(nil, "ann", 5))},
			{"for nothing", "data.amount > 0", ann, writes(order("s", "ann", 0))},
			{"for less", "data.amount > 0", ann, writes(order("s", "ann", -5))},
			{"for too much", "data.amount <= 1000000", ann, writes(order("s", "ann", 1000001))},
			{"for 0.5", "data.amount is int", ann, writes(order("s", "ann", 0.5))},
			{"for text", "data.amount is int && data.amount > 0 && data.amount <= 1000000", ann, writes(order("s", "ann", "5"))},
			{"forever", "data.at == request.time", ann,
				writes(set("orders/x", fields{"shop": "s", "buyer": "ann", "amount": 5, "status": "new", "at": time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)}))},
			{"long ago", "data.at == request.time", ann,
				writes(set("orders/x", fields{"shop": "s", "buyer": "ann", "amount": 5, "status": "new", "at": time.Unix(1, 0)}))},
			{"without a time", "data.at == request.time", ann, writes(set("orders/x", fields{"shop": "s", "buyer": "ann", "amount": 5, "status": "new"}))},
			{"another field", "data.keys().hasOnly(['shop', 'buyer', 'amount', 'status', 'at'])", ann,
				writes(place("x", fields{"shop": "s", "buyer": "ann", "amount": 5, "status": "new", "x": 1}))},
			{"again", "", ann, writes(place("old", fields{"shop": "s", "buyer": "ann", "amount": 5, "status": "new"}))},
			{"pay", "", ann, writes(merge("orders/bob's", fields{"status": "paid"}, "status"))},
			{"another amount", "", ann, writes(merge("orders/old", fields{"amount": 500}, "amount"))},
			{"move to another shop", "", ann, writes(merge("orders/old", fields{"shop": "t"}, "shop"))},
			{"delete", "", ann, writes(remove("orders/old"))},
			{"the totals", "", ann, writes(merge("shop_sales/t", fields{"revenue": 500}, "revenue"))},
			{"a shop", "", ann, writes(set("shop_sales/new", fields{"owner": "ann"}))},
		},
		reads: map[string]func(*database, user) error{"one's own order": get("orders/old"), "one's own sales": get("shop_sales/t")},
		secrets: map[string]func(*database, user) error{
			"another's order": get("orders/bob's"), "all orders": query("", "orders", 1), "another's sales": get("shop_sales/s"), "all sales": query("", "shop_sales", 1)},
	},
	"Leaderboard": {
		seed: map[string]fields{
			"players/ann":          {"name": "Ann", "points": 3, "tally": fields{"num_shards": 1, "took": 15000}},
			"players/bob":          {"name": "Bob"},
			"players/ann/rounds/1": {"points": 3},
		},
		honest: map[string][]*firestorepb.Write{
			"another name":    writes(merge("players/ann", fields{"name": "A."}, "name")),
			"the same points": writes(set("players/ann", fields{"name": "A.", "points": 3, "tally": fields{"num_shards": 1, "took": 15000}})),
		},
		attacks: []blockAttack{
			{"points", "changesOnly(['name'])", ann, writes(merge("players/ann", fields{"points": 4}, "points"))},
			{"points from 3 to 3.0", "keepsInt('points')", ann, writes(merge("players/ann", fields{"points": 3.0}, "points"))},
			{"tally", "changesOnly(['name'])", ann, writes(merge("players/ann", nil, "tally"))},
			{"num_shards from 1 to 1.0, with an edit", "keepsInt(['tally', 'num_shards'])", ann,
				writes(merge("players/ann", fields{"name": "A.", "tally": fields{"num_shards": 1.0}}, "name", "tally.num_shards"))},
			{"took from 15000 to 15000.0, with an edit", "keepsInt(['tally', 'took'])", ann,
				writes(merge("players/ann", fields{"name": "A.", "tally": fields{"took": 15000.0}}, "name", "tally.took"))},
			{"another field", "changesOnly(['name'])", ann, writes(merge("players/ann", fields{"text": "a"}, "text"))},
			{"a long name", "isText('name', 100)", ann, writes(merge("players/ann", fields{"name": strings.Repeat("a", 101)}, "name"))},
			{"another's name", "request.auth.uid == player", ann, writes(merge("players/bob", fields{"name": "B."}, "name"))},
			{"as another", "request.auth.uid == player", ann, writes(set("players/new", fields{"name": "N."}))},
			{"begin with points", "isUncounted('points')", dan, writes(set("players/dan", fields{"name": "Dan", "points": 1}))},
			{"begin with tally", "changesOnly(['name', 'points'])", dan, writes(set("players/dan", fields{"name": "Dan", "tally": fields{}}))},
			{"begin with a long name", "isText('name', 100)", dan, writes(set("players/dan", fields{"name": strings.Repeat("a", 101)}))},
			{"a round", "", ann, writes(set("players/ann/rounds/2", fields{"points": 1000}))},
			{"delete", "", ann, writes(remove("players/ann"))},
		},
		reads: map[string]func(*database, user) error{
			"one": get("players/bob"), "1,000": query("", "players", 1000), "how many, up to 1,000": sum("", "players", 1000, false)},
		secrets: map[string]func(*database, user) error{
			"1,001": query("", "players", 1001), "how many": sum("", "players", 0, false), "a round": get("players/ann/rounds/1")},
	},
	"Best score, and its reset": {
		seed: map[string]fields{"games/g": {"best": 5, "scores": 1}, "games/g/scores/1": {"player": "ann", "points": 5}},
		attacks: []blockAttack{
			{"a score", "", ann, writes(set("games/g/scores/2", fields{"player": "ann", "points": 9}))},
			{"a better score", "", ann, writes(merge("games/g/scores/1", fields{"points": 9}, "points"))},
			{"delete a score", "", ann, writes(remove("games/g/scores/1"))},
			{"the best", "", ann, writes(transform(merge("games/g", nil), maximum("best", 9)))},
		},
		reads:   map[string]func(*database, user) error{"the best": get("games/g"), "a score": get("games/g/scores/1")},
		secrets: map[string]func(*database, user) error{"all games": query("", "games", 1), "all scores": query("games/g", "scores", 1)},
	},
	"Reactions, and polls": {
		seed: map[string]fields{"talks/p": {"love": 1, "laugh": 1}, "talks/p/reactions/bob": {"kind": "love"}, "talks/p/reactions/ann": {"kind": "laugh"}},
		honest: map[string][]*firestorepb.Write{
			"love":       writes(react("ann", "love")),
			"wow":        writes(react("ann", "wow")),
			"send twice": writes(react("ann", "laugh"), react("ann", "laugh")),
			"first":      writes(set("talks/q/reactions/ann", fields{"kind": "love"})),
			"take back":  writes(remove("talks/p/reactions/ann")),
		},
		attacks: []blockAttack{
			{"signed out", "mayWrite() && isId(talk) && request.auth.uid == user", signedOut, writes(react("ann", "love"))},
			{"of a talk whose id no header carries", "isId(talk)", ann, writes(set("talks/p\x00/reactions/ann", fields{"kind": "love"}))},
			{"for another", "request.auth.uid == user", ann, writes(react("dan", "love"))},
			{"over another's", "request.auth.uid == user", ann, writes(react("bob", "laugh"))},
			{"take another's back", "request.auth.uid == user", ann, writes(remove("talks/p/reactions/bob"))},
			{"another kind", oneKind, ann, writes(react("ann", "hate"))},
			{"two kinds", oneKind, ann, writes(react("ann", array("love", "laugh")))},
			{"no kind", oneKind, ann, writes(set("talks/p/reactions/ann", nil))},
			{"null", oneKind, ann, writes(react("ann", nil))},
			{"bytes", oneKind, ann, writes(react("ann", bytes("love")))},
			{"another field", "request.resource.data.keys().hasOnly(['kind'])", ann, writes(set("talks/p/reactions/ann", fields{"kind": "love", "x": "y"}))},
			{"the totals", "", ann, writes(merge("talks/p", fields{"love": 1000}, "love"))},
		},
		reads:   map[string]func(*database, user) error{"one's own": get("talks/p/reactions/ann"), "the totals": get("talks/p")},
		secrets: map[string]func(*database, user) error{"another's": get("talks/p/reactions/bob"), "all": query("talks/p", "reactions", 1), "all totals": query("", "talks", 1)},
	},
	"Votes for what has no document": {
		seed: map[string]fields{"poll_totals/p": {"yes": 1}, "polls/p/votes/bob": {"value": 1}},
		honest: map[string][]*firestorepb.Write{
			"vote":                  writes(vote("ann", 1)),
			"vote twice":            writes(vote("ann", 1), vote("ann", 1)),
			"take back, and again":  writes(vote("ann", 1), vote("ann", 0), vote("ann", 1)),
			"in a poll that is not": writes(set("polls/none/votes/ann", fields{"value": 1})),
		},
		attacks: []blockAttack{
			{"signed out", "mayWrite() && isId(poll) && request.auth.uid == user", signedOut, writes(vote("ann", 1))},
			{"in a poll whose id no header carries", "isId(poll)", ann, writes(set("polls/p\n/votes/ann", fields{"value": 1}))},
			{"for another", "request.auth.uid == user", ann, writes(vote("dan", 1))},
			{"another's back", "request.auth.uid == user", ann, writes(vote("bob", 0))},
			{"2", "request.resource.data.value in [0, 1]", ann, writes(vote("ann", 2))},
			{"1.0", "request.resource.data.value in [0, 1]", ann, writes(vote("ann", 1.0))},
			{"text", "request.resource.data.value in [0, 1]", ann, writes(vote("ann", strings.Repeat("a", 1000)))},
			{"nothing", "request.resource.data.value in [0, 1]", ann, writes(set("polls/p/votes/ann", nil))},
			{"text in addition", "request.resource.data.keys().hasOnly(['value'])", ann, writes(set("polls/p/votes/ann", fields{"value": 1, "x": "y"}))},
			{"delete another's", "", ann, writes(remove("polls/p/votes/bob"))},
			{"below a vote", "", ann, writes(set("polls/p/votes/ann/votes/ann", fields{"value": 1}))},
			{"the total", "", ann, writes(merge("poll_totals/p", fields{"yes": 1000}, "yes"))},
		},
		reads: map[string]func(*database, user) error{"own": get("polls/p/votes/ann"), "the total": get("poll_totals/p")},
		secrets: map[string]func(*database, user) error{
			"another's": get("polls/p/votes/bob"), "all": query("polls/p", "votes", 1), "how many": sum("polls/p", "votes", 0, false)},
	},
	"Unread messages": {
		seed: map[string]fields{
			"users/ann": {"unread": 1}, "users/bob": {"unread": 1},
			"users/ann/messages/1": {"from": "bob", "text": "b", "read": false}, "users/bob/messages/1": {"from": "ann", "text": "a", "read": false},
		},
		honest: map[string][]*firestorepb.Write{
			"send":             writes(message("bob", "ann", "a")),
			"send twice":       writes(message("bob", "ann", "a"), message("ann", "ann", "a")),
			"read, and unread": writes(merge("users/ann/messages/1", fields{"read": true}, "read"), merge("users/ann/messages/1", fields{"read": false}, "read")),
			"delete":           writes(remove("users/ann/messages/1")),
		},
		attacks: []blockAttack{
			{"signed out", "mayWrite() && isId(user) && isId(message) && isMessage(request.resource.data)", signedOut, writes(message("bob", "ann", "a"))},
			{"to a user whose id no header carries", "isId(user)", ann, writes(message("bob ", "ann", "a"))},
			{"an id that no header carries", "isId(message)", ann, writes(set("users/bob/messages/x ", fields{"from": "ann", "text": "a", "read": false}))},
			{"as another", "data.from == request.auth.uid", ann, writes(message("bob", "cid", "a"))},
			{"read already", "data.read == false", ann, writes(set("users/bob/messages/x", fields{"from": "ann", "text": "a", "read": true}))},
			{"a list", "data.text is string", ann, writes(message("bob", "ann", array("a")))},
			{"1,001 letters", "data.text.size() <= 1000", ann, writes(message("bob", "ann", strings.Repeat("a", 1001)))},
			{"another field", "data.keys().hasOnly(['from', 'text', 'read'])", ann, writes(set("users/bob/messages/x", fields{"from": "ann", "text": "a", "read": false, "x": 1}))},
			{"read another's", "request.auth.uid == user", ann, writes(merge("users/bob/messages/1", fields{"read": true}, "read"))},
			{"delete another's", "request.auth.uid == user", ann, writes(remove("users/bob/messages/1"))},
			{"another text", "changesOnly(['read'])", ann, writes(merge("users/ann/messages/1", fields{"read": true, "text": "x"}, "read", "text"))},
			{"read is text", "request.resource.data.read is bool", ann, writes(merge("users/ann/messages/1", fields{"read": "no"}, "read"))},
			{"the total", "", ann, writes(merge("users/ann", fields{"unread": 0}, "unread"))},
		},
		reads: map[string]func(*database, user) error{
			"one's own": get("users/ann/messages/1"), "one's own 100": query("users/ann", "messages", 100), "one's own number": get("users/ann")},
		secrets: map[string]func(*database, user) error{
			"another's": get("users/bob/messages/1"), "all of another": query("users/bob", "messages", 1), "another's number": get("users/bob"),
			"101": query("users/ann", "messages", 101), "all numbers": query("", "users", 1)},
	},
	"Posts by tag": {
		seed: map[string]fields{
			"tags/go": {"stories": 1}, "tags/c": {"stories": 0}, "tags/go/stories/ann's": {}, "tags/go/stories/bob's": {},
			"stories/ann's": {"by": "ann"}, "stories/bob's": {"by": "bob"}, "stories/x ": {"by": "ann"},
		},
		honest: map[string][]*firestorepb.Write{
			"tag":        writes(set("tags/c/stories/ann's", nil)),
			"tag, untag": writes(set("tags/c/stories/ann's", nil), remove("tags/c/stories/ann's")),
			"untag":      writes(remove("tags/go/stories/ann's")),
		},
		attacks: []blockAttack{
			{"signed out", "mayWrite() && isId(story) && request.resource.data.size() == 0\n    && " + tagIs + " && wrote(story)", signedOut, writes(set("tags/c/stories/ann's", nil))},
			{"a story whose id no header carries", "isId(story)", ann, writes(set("tags/c/stories/x ", nil))},
			{"another's story", "wrote(story)", ann, writes(set("tags/c/stories/bob's", nil))},
			{"untag another's story", "wrote(story)", ann, writes(remove("tags/go/stories/bob's"))},
			{"a story that is not", "wrote(story)", ann, writes(set("tags/c/stories/none", nil))},
			{"a tag that is not", tagIs, ann, writes(set("tags/new/stories/ann's", nil))},
			{"text", "request.resource.data.size() == 0", ann, writes(set("tags/c/stories/ann's", fields{"x": "y"}))},
			{"send again", "", ann, writes(set("tags/go/stories/ann's", nil))},
			{"a tag", "", ann, writes(set("tags/new", fields{"stories": 0}))},
			{"the total", "", ann, writes(merge("tags/go", fields{"stories": 9}, "stories"))},
		},
		reads: map[string]func(*database, user) error{
			"a tag": get("tags/go"), "100 tags": query("", "tags", 100), "100 of a tag": query("tags/go", "stories", 100), "one of a tag": get("tags/go/stories/bob's")},
		secrets: map[string]func(*database, user) error{"all tags": query("", "tags", 0), "all of a tag": query("tags/go", "stories", 0)},
	},
	"Unique visitors": {
		seed: map[string]fields{"visitor_totals/2026-11-21": {"visitors": 1}},
		honest: map[string][]*firestorepb.Write{
			"twice":               writes(visit(0, "ann"), visit(0, "ann")),
			"offline until today": writes(visit(-3, "ann"), visit(0, "ann")),
		},
		attacks: []blockAttack{
			{"signed out", "mayWrite() && request.auth.uid == user", signedOut, writes(visit(0, "ann"))},
			{"as another", "request.auth.uid == user", ann, writes(visit(0, "dan"))},
			{"with text", "request.resource.data.size() == 0", ann, writes(set(dayPath(0)+"ann", fields{"x": "y"}))},
			{"nine days ago", "date > request.time.date() - duration.value(7, 'd')", ann, writes(visit(-9, "ann"))},
			{"in two days", "date <= request.time.date()", ann, writes(visit(2, "ann"))},
			{"no day", "request.resource.data.size() == 0 && isThisWeek(day)", ann, writes(set("days/x/visitors/ann", nil))},
			{"today, written another way", "day.matches('[0-9]{4}-[0-9]{2}-[0-9]{2}')", ann, writes(set(strings.ReplaceAll(dayPath(0), "-", ".")+"ann", nil))},
			{"today and more", "day.matches('[0-9]{4}-[0-9]{2}-[0-9]{2}')", ann, writes(set(strings.TrimSuffix(dayPath(0), "/visitors/")+"x/visitors/ann", nil))},
			{"take back", "", ann, writes(remove(dayPath(0) + "ann"))},
			{"the total", "", ann, writes(merge("visitor_totals/2026-11-21", fields{"visitors": 5}, "visitors"))},
		},
		reads: map[string]func(*database, user) error{
			"a total": get("visitor_totals/2026-11-21"), "100 totals": query("", "visitor_totals", 100)},
		secrets: map[string]func(*database, user) error{
			"who visited": query("days/2026-11-21", "visitors", 1), "a visit": get(dayPath(0) + "bob"), "all totals": query("", "visitor_totals", 0)},
	},
	"Increments that count once": {
		seed: map[string]fields{free + "0": {"count": 5}, free + "1": {"count": 1}, tokens + "old": token("0")},
		attacks: []blockAttack{
			{"twice", "", ann, writes(set(tokens+"old", token("0")), add(free+"0", 1))},
			{"twice, by another shard", "", ann, writes(set(tokens+"old", token("1")), add(free+"1", 1))},
			{"twice, after a deletion", "", ann, writes(remove(tokens+"old"), set(tokens+"old", token("0")), add(free+"0", 1))},
			{"signed out", "", signedOut, writes(set(tokens+"new", token("0")), add(free+"0", 1))},
			{"without its increment", "goesUp(counter, request.resource.data.shard)", ann, writes(set(tokens+"new", token("0")))},
			{"of another shard", "goesUp(counter, request.resource.data.shard)", ann, writes(set(tokens+"new", token("1")), add(free+"0", 1))},
			{"of a missing shard", "goesUp(counter, request.resource.data.shard)", ann, writes(set(tokens+"new", token("2")))},
			{"of no shard", "goesUp(counter, request.resource.data.shard)", ann, writes(set(tokens+"new", token(nil)))},
			{"whose id no header carries", "isId(token)", ann, writes(set(tokens+"new\n", token("0")), add(free+"0", 1))},
			{"that never expires", "expiresInTime(request.resource.data.expire_at)", ann, writes(set(tokens+"new", fields{"shard": "0", "expire_at": "never"}), add(free+"0", 1))},
			{"that has expired", "at > request.time + duration.value(1, 'd')", ann, writes(set(tokens+"new", expiring(-time.Hour)), add(free+"0", 1))},
			{"that expires within a day", "at > request.time + duration.value(1, 'd')", ann, writes(set(tokens+"new", expiring(23*time.Hour)), add(free+"0", 1))},
			{"that stays for 61 days", "at < request.time + duration.value(60, 'd')", ann, writes(set(tokens+"new", expiring(61*24*time.Hour)), add(free+"0", 1))},
			{"that stays forever", "at < request.time + duration.value(60, 'd')", ann,
				writes(set(tokens+"new", fields{"shard": "0", "expire_at": time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)}), add(free+"0", 1))},
			{"that holds text", "request.resource.data.keys().hasOnly(['shard', 'expire_at'])", ann,
				writes(merge(tokens+"new", fields{"shard": "0", "expire_at": expiring(time.Hour * 48)["expire_at"], "x": "y"}, "shard", "expire_at", "x"), add(free+"0", 1))},
			{"with 2", "", ann, writes(set(tokens+"new", token("0")), add(free+"0", 2))},
		},
		reads:   map[string]func(*database, user) error{"whether it is there": get(tokens + "new")},
		secrets: map[string]func(*database, user) error{"all": query("counters/free", "tokens", 1)},
	},
	"Counters that clients create": {
		seed: map[string]fields{
			"counters/old": {"num_shards": 12}, "counters/old/shards/0": {"count": 5}, "counters/bad ": {"num_shards": 10},
			"counters/camel": {"numShards": 12}, "counters/untold": {"title": "untold"},
			"counters/frozen": {"frozen": true},
		},
		honest: map[string][]*firestorepb.Write{
			"the number": writes(set("counters/new", fields{"num_shards": 10})),
			"the number as Android and iOS call it, then each shard": writes(
				set("counters/new", fields{"numShards": 12}), zero("new", 0), zero("new", 1), zero("new", 11)),
			"100 shards":                         writes(set("counters/new", fields{"num_shards": 100}), zero("new", 99)),
			"a shard of a counter of the server": writes(zero("old", 11), zero("camel", 11), zero("untold", 9)),
			"a shard that is incremented then":   writes(zero("old", 1), update(add("counters/old/shards/1", 1))),
		},
		attacks: []blockAttack{
			{"signed out", "mayWrite() && isId(counter) && saysShards(request.resource.data)", signedOut, writes(set("counters/new", fields{"num_shards": 10}))},
			{"an id that no header carries", "isId(counter)", ann, writes(set("counters/new ", fields{"num_shards": 10}))},
			{"1 shard", "n >= 10", ann, writes(set("counters/new", fields{"num_shards": 1}))},
			{"9 shards", "n >= 10", ann, writes(set("counters/new", fields{"numShards": 9}))},
			{"no shards", "n >= 10", ann, writes(set("counters/new", fields{"num_shards": -1}))},
			{"101 shards", "n <= 100", ann, writes(set("counters/new", fields{"num_shards": 101}))},
			{"any number of shards", "n <= 100", ann, writes(set("counters/new", fields{"numShards": math.MaxInt64}))},
			{"10.0 shards", "n is int", ann, writes(set("counters/new", fields{"num_shards": 10.0}))},
			{"text for a number", "saysShards(request.resource.data)", ann, writes(set("counters/new", fields{"num_shards": "10"}))},
			{"no number", "saysShards(request.resource.data)", ann, writes(set("counters/new", nil))},
			{"whose shards grow", "data.size() == 1", ann, writes(set("counters/new", fields{"num_shards": 10, "auto_shards": true}))},
			{"frozen", "data.size() == 1", ann, writes(set("counters/new", fields{"num_shards": 10, "frozen": true}))},
			{"two numbers", "data.size() == 1", ann, writes(set("counters/new", fields{"num_shards": 10, "numShards": 100000}))},
			{"text", "data.size() == 1", ann, writes(set("counters/new", fields{"num_shards": 10, "x": strings.Repeat("x", 100_000)}))},
			{"a counter with an increment of 2", "", ann, writes(set("counters/new", fields{"num_shards": 10}), add("counters/new/shards/0", 2))},
			// A counter that exists.
			{"again", "", ann, writes(set("counters/old", fields{"num_shards": 12}))},
			{"with another number", "", ann, writes(set("counters/old", fields{"num_shards": 100}))},
			{"change the number", "", ann, writes(merge("counters/old", fields{"num_shards": 100}, "num_shards"))},
			{"give it a number", "", ann, writes(merge("counters/untold", fields{"num_shards": 100}, "num_shards"))},
			{"unfreeze it", "", ann, writes(set("counters/frozen", fields{"num_shards": 10}))},
			{"delete it, and again", "", ann, writes(remove("counters/old"), set("counters/old", fields{"num_shards": 10}))},

			{"a shard, signed out", "mayWrite() && isId(counter) && isZero(request.resource.data) && isMissingShard(counter, shard)", signedOut, writes(zero("old", 1))},
			{"a shard of an id that no header carries", "isId(counter)", ann, writes(zero("bad ", 1))},
			{"a shard with 2", "data.count == 0", ann, writes(set("counters/old/shards/1", fields{"count": 2}))},
			{"a shard with -1", "data.count == 0", ann, writes(set("counters/old/shards/1", fields{"count": -1}))},
			{"a shard with 0 and 2", "data.count == 0", ann, writes(zero("old", 1), add("counters/old/shards/1", 2))},
			{"a shard with 0.0", "data.count is int", ann, writes(set("counters/old/shards/1", fields{"count": 0.0}))},
			{"a shard with text", "isZero(request.resource.data)", ann, writes(set("counters/old/shards/1", fields{"count": "0"}))},
			{"a shard without a number", "isZero(request.resource.data)", ann, writes(set("counters/old/shards/1", nil))},
			{"a shard with another field", "data.keys().hasOnly(['count'])", ann, writes(set("counters/old/shards/1", fields{"count": 0, "x": "y"}))},
			{"shard N", "isShard(id, data.get('num_shards', data.get('numShards', 10)))", ann, writes(zero("old", 12))},
			{"shard N of a new counter", "isShard(id, data.get('num_shards', data.get('numShards', 10)))", ann,
				writes(set("counters/new", fields{"num_shards": 11}), zero("new", 11))},
			{"shard 10 of a counter that does not say its shards", "isShard(id, data.get('num_shards', data.get('numShards', 10)))", ann, writes(zero("untold", 10))},
			{"shard 00", "isShard(id, data.get('num_shards', data.get('numShards', 10)))", ann, writes(set("counters/old/shards/00", fields{"count": 0}))},
			{"a shard of a counter that is not", "isMissingShard(counter, shard)", ann, writes(zero("none", 0))},
			{"a shard of a frozen counter", "data.get('frozen', false) == false", ann, writes(zero("frozen", 0))},
			{"a shard to 0", "", ann, writes(zero("old", 0))},
			{"a shard to 0, and 1", "", ann, writes(zero("old", 0), add("counters/old/shards/0", 1))},
			{"delete a shard, and 0", "", ann, writes(remove("counters/old/shards/0"), zero("old", 0))},
			{"the total", "", ann, writes(set("rollups/new", fields{"count": 0}))},
		},
		reads:   map[string]func(*database, user) error{"the number": get("counters/old")},
		secrets: map[string]func(*database, user) error{"all counters": query("", "counters", 0)},
	},
}

// Each block of docs/recipes.md and docs/security-rules.md is tested: here, in TestBlocks, in
// TestChanges or in TestRequests.
func TestRecipes(t *testing.T) {
	t.Parallel()
	rules := withBlocks(t, firestoreRules(t), rulesCode(t)["Totals in the app's own documents"]...)
	code := map[string]string{}
	for heading, found := range rulesCode(t) {
		if _, ok := blocks[heading]; ok || heading == "To change" || heading == "What one request can do" {
			continue
		}
		for _, block := range found {
			switch {
			case strings.HasPrefix(block, "import "): // docs/test/recipes.test.mjs runs it
			case !strings.HasPrefix(block, "match ") || code[heading] != "":
				t.Errorf("code under %q that is not tested:\n%s", heading, block)
			default:
				code[heading] = block
			}
		}
	}
	for heading := range code {
		if _, ok := recipes[heading]; !ok {
			t.Errorf("the rules under %q are not tested", heading)
		}
	}
	for heading, test := range recipes {
		t.Run(heading, func(t *testing.T) {
			t.Parallel()
			test.run(t, code[heading], rules)
		})
	}
	t.Run("posts that trend", func(t *testing.T) {
		t.Parallel()
		asPosts := strings.NewReplacer("songs", "posts", "'likes', ", "'likes', 'comments', ",
			"isUncounted('likes')", "isUncounted('likes') && isUncounted('comments')", "keepsInt('likes')", "keepsInt('likes') && keepsInt('comments')")
		_, functions, _ := strings.Cut(rulesCode(t)["Totals in the app's own documents"][0], "\n}\n")
		d := newDatabaseUnder(t, withBlocks(t, firestoreRules(t), functions, code["Likes and comments in a post"], asPosts.Replace(code["Trending"])), map[string]fields{"posts/p": {"title": "p"}})
		none := fields{"title": "q", "likes": 0, "trending": 0, "comments": 0}
		d.judges(ann, map[string][]*firestorepb.Write{
			"create, edit": writes(set("posts/q", none), merge("posts/q", fields{"title": "r"}, "title")),
			"like":         writes(transform(set("posts/p/likes/ann", nil), serverTime("at"))),
			"comment":      writes(say("x", "ann", "a")),
		}, map[string][]*firestorepb.Write{
			"create what trends":    writes(post(fields{"trending": 1000})),
			"create with comments":  writes(post(fields{"comments": 1000})),
			"have it trend":         writes(set("posts/q", none), merge("posts/q", fields{"trending": 1000}, "trending")),
			"comments":              writes(set("posts/q", none), merge("posts/q", fields{"comments": 1000}, "comments")),
			"a like without a time": writes(set("posts/p/likes/ann", nil)),
		})
	})
	t.Run("19 tags at once", func(t *testing.T) {
		t.Parallel()
		documents := map[string]fields{"stories/ann's": {"by": "ann"}}
		var tags []*firestorepb.Write
		for i := range 20 {
			documents[fmt.Sprint("tags/", i)] = fields{"stories": 0}
			tags = append(tags, set(fmt.Sprintf("tags/%d/stories/ann's", i), nil))
		}
		d := newDatabaseUnder(t, withBlocks(t, rules, code["Posts by tag"]), documents)
		d.judges(ann, map[string][]*firestorepb.Write{"19": tags[:19]}, map[string][]*firestorepb.Write{"20": tags})
	})
	t.Run("counters as Firebase's sample for Web creates them", func(t *testing.T) {
		t.Parallel()
		d := newDatabase(t, seed)
		create := func(counter string, numShards int) []*firestorepb.Write {
			ws := writes(set("counters/"+counter, fields{"num_shards": numShards}))
			for i := range numShards {
				ws = append(ws, zero(counter, i))
			}
			return ws
		}
		sample := map[string][]*firestorepb.Write{"10 shards": create("new", 10), "100 shards": create("new", 100)}

		d.judges(ann, nil, sample) // by the shipped rules
		d.setRules(withBlocks(t, rules, code["Counters that clients create"]))
		d.judges(ann, sample, map[string][]*firestorepb.Write{"again": create("free", 10), "101 shards": create("new", 101)})
	})
	t.Run("tokens with their increments", func(t *testing.T) {
		t.Parallel()
		d := newDatabaseUnder(t, withBlocks(t, rules, code["Increments that count once"]), seed)
		d.judges(ann, map[string][]*firestorepb.Write{
			"one":                              writes(set(tokens+"a", token("0")), add(free+"0", 1)),
			"the other way":                    writes(add(free+"0", 1), set(tokens+"a", token("0"))),
			"a new shard":                      writes(set(tokens+"a", token("5")), add(free+"5", 1)),
			"of two shards":                    writes(set(tokens+"a", token("0")), set(tokens+"b", token("1")), add(free+"0", 1), add(free+"1", 1)),
			"no token":                         writes(add(free+"0", 1)),
			"sent after 28 days":               writes(set(tokens+"a", expiring(48*time.Hour)), add(free+"0", 1)),
			"of a phone that is 29 days ahead": writes(set(tokens+"a", expiring(59*24*time.Hour)), add(free+"0", 1)),
		}, nil)
	})
}

const comments, approvals, tokens = "posts/p/comments/", "articles/p/comments/", "counters/free/tokens/"

// Parts of rules.
const (
	inShop  = "exists(/databases/$(database)/documents/shop_sales/$(data.shop))"
	tagIs   = "exists(/databases/$(database)/documents/tags/$(tag))"
	oneKind = "request.resource.data.kind in ['love', 'laugh', 'wow']"
)

func say(id string, by user, text string) *firestorepb.Write {
	return set(comments+id, fields{"by": string(by), "text": text})
}

// await writes a comment that waits for approval.
func await(id string, by user, text string) *firestorepb.Write {
	return transform(set(approvals+id, fields{"by": string(by), "text": text, "approved": false}), serverTime("at"))
}

// approved lists approved comments.
func approved(limit int32) func(*database, user) error {
	return list{parent: "articles/p", collection: "comments", limit: limit, where: "approved"}.query
}

// zero writes a shard as one who creates the counter does.
func zero(counter string, shard int) *firestorepb.Write {
	return set(fmt.Sprintf("counters/%s/shards/%d", counter, shard), fields{"count": 0})
}

func order(shop any, buyer user, amount any) *firestorepb.Write {
	return place("x", fields{"shop": shop, "buyer": string(buyer), "amount": amount, "status": "new"})
}

func place(order string, of fields) *firestorepb.Write {
	return transform(set("orders/"+order, of), serverTime("at"))
}

func react(u user, kind any) *firestorepb.Write {
	return set("talks/p/reactions/"+string(u), fields{"kind": kind})
}

func message(to string, from user, text any) *firestorepb.Write {
	return set("users/"+to+"/messages/x", fields{"from": string(from), "text": text, "read": false})
}

func likeEssay(essay string, u user) *firestorepb.Write {
	return transform(set("essays/"+essay+"/likes/"+string(u), nil), serverTime("at"))
}

func vote(u user, value any) *firestorepb.Write {
	return set("polls/p/votes/"+string(u), fields{"value": value})
}

func likeSong(u user) *firestorepb.Write {
	return transform(set("songs/p/likes/"+string(u), nil), serverTime("at"))
}

func song(f fields) *firestorepb.Write {
	all := fields{"title": "q"}
	maps.Copy(all, f)
	return set("songs/q", all)
}

func beat(u user) *firestorepb.Write {
	return transform(set("rooms/r/members/"+string(u), nil), serverTime("seen"))
}

// dayPath is the path of the visitors' documents, so many days after today in UTC. No case rests on
// the day's end coming after that of the test.
func dayPath(days int) string {
	return "days/" + time.Now().UTC().AddDate(0, 0, days).Format(time.DateOnly) + "/visitors/"
}

func visit(days int, u user) *firestorepb.Write { return set(dayPath(days)+string(u), nil) }

func token(shard any) fields {
	return fields{"shard": shard, "expire_at": expiring(30 * 24 * time.Hour)["expire_at"]}
}

// expiring is a token of shard 0 that stays for so long.
func expiring(after time.Duration) fields {
	return fields{"shard": "0", "expire_at": time.Now().Add(after)}
}

func note(owner user, text string) fields {
	return fields{"owner": string(owner), "text": text, "size": len(text)}
}

const thread = "threads/t/comments/"

func reply(by user, text string, parent any) fields {
	return fields{"by": string(by), "text": text, "parent": parent, "replies": 0}
}

// merged returns fields with others over them.
func merged(f, over fields) fields {
	all := maps.Clone(f)
	maps.Copy(all, over)
	return all
}

func follow(id string, follower, followee user) *firestorepb.Write {
	return transform(set("follows/"+id, fields{"follower": string(follower), "followee": string(followee)}), serverTime("at"))
}

func seat(event, n string, by user) *firestorepb.Write {
	return transform(set("events/"+event+"/seats/"+n, fields{"by": string(by)}), serverTime("at"))
}

func said(chat string, from, to user, text any) *firestorepb.Write {
	return set("chats/"+chat+"/inbox/x", fields{"from": string(from), "to": string(to), "text": text, "read": false})
}
