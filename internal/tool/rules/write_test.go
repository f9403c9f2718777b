package rules

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/firestore-tally/tally/internal/test/emulatortest"
	"github.com/firestore-tally/tally/internal/tool/local/emulator"
	"github.com/firestore-tally/tally/rollup/route"
	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the rules into testdata")

// tallys returns Tally's own rules.
func tallys(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../../firestore.rules")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

const (
	postLikes = "posts/{post}/likes/{user} -> posts/{post} : count() as likes : existing"
	karma     = postLikes + "\nposts/{post} by author -> users/{author} : sum(likes) as karma : existing"
	orders    = "orders/{order} by shop -> shops/{shop} : count() as orders, sum(amount) where status == \"paid\" as revenue : existing"
)

// ordersByShop is the spelling of orders.
const ordersByShop = "orders/{order} by shop -> shops/{shop} : count() as orders, amount where status == \"paid\" as revenue : existing"

// cases are routes, and what the rules for them are in testdata.
var cases = []struct {
	name, routes string
	answers      Answers
}{
	{name: "likes", routes: postLikes},
	{name: "likes-by-servers", routes: postLikes, answers: Answers{
		map[string]Writer{postLikes: Servers}, map[string]Writer{"posts/{post}": Servers}}},
	{name: "likes-in-posts-of-users", routes: postLikes, answers: Answers{Homes: map[string]Writer{"posts/{post}": Users}}},
	{name: "karma", routes: karma},
	{name: "karma-of-shops", routes: "posts/{post}/likes/{user} -> posts/{post} : count() as likes : existing\n" +
		"posts/{post} by shop -> shops/{shop} : sum(likes) as likes : existing"},
	{name: "trending", routes: "songs/{song}/likes/{user} -> songs/{song} : count() as likes : existing\n" +
		"songs/{song}/likes/{user} -> songs/{song}/charts/all : count() where at > now - 24h as trending : existing"},
	{name: "votes", routes: "polls/{poll}/votes/{user} -> poll_totals/{poll} : count() where value == 1 as yes"},
	{name: "comments", routes: "articles/{article}/comments/{comment} -> articles/{article} : " +
		"count() where approved == true as comments, latest(at) where approved == true as last : existing"},
	{name: "orders", routes: orders + "\norders/{order} by buyer -> buyers/{buyer} : count() where at > now - 30d as recent : existing"},
	{name: "follows", routes: "follows/{follow} by followed -> users/{followed} : count() as followers : existing"},
	{name: "references-and-numbers", routes: "comments/{comment} by ref(author) -> users/{author} : count() as comments : existing\n" +
		"orders/{order} by number(shop) -> shops/{shop} : count() as orders : existing\n" +
		"follows/{follow} by number(member_id) -> members/{member_id} : count() as followers : existing"},
	{name: "counts-that-tally-keeps", routes: "rooms/{room}/comments/{comment} -> room_counts/{room} : count() as comments, count() where at > now - 1h as recent\n" +
		"rooms/{room}/replies/{reply} -> reply_counts/{room} : count() where startsAt > now - 1h as planned\n" +
		"users/{user}/comments/{comment} -> comment_counts/{user} : count() as comments"},
	{name: "ratings", routes: "shops/{shop}/ratings/{user} -> shops/{shop} : count() as ratings, average(stars) as rating : existing"},
	{name: "online", routes: "rooms/{room}/members/{user} -> rooms/{room} : count() where meta.seen > now - 2m as online : existing : cadence 10s"},
	{name: "bookings", routes: "rooms/{room}/bookings/{booking} -> rooms/{room} : count() where startsAt > now - 1h as booked : existing"},
	{name: "states", routes: "items/{item} -> totals/items : count() where kind in [\"a\", \"b\"] and done == true as x, " +
		"sum(n) where n > 2.5 as y, count() where read == false as unread, count() where it == \"it's\\n\" as z"},
	{name: "shards", routes: "posts/{post}/shards/{shard} -> post_totals/{post} : likes, views"},
	{name: "shards-in-maps", routes: "posts/{post}/shards/{shard} -> post_totals/{post} : a.b as likes"},
	{name: "shards-of-a-counter", routes: "pages/{page}/shards/{shard} -> pages/{page} : count as views : existing"},
	{name: "shards-and-documents", routes: "posts/{post}/shards/{user} -> post_totals/{post} : likes\n" +
		"posts/{post}/shards/{user} -> post_documents/{post} : count() as documents"},
	{name: "a-literal", routes: "posts/{post} by author -> users/{author} : count() as posts : existing\n" +
		"songs/{song} -> posts/featured : sum(n) as likes, count() where at > now - 1h as hot : existing"},
	{name: "names-of-captures", routes: postLikes + "\nposts/{p} by author -> users/{author} : count() where likes > 10 as popular : existing"},
	{name: "narrower-sources", routes: "s/{x}/t/{y}/u/{user} -> a/{x}/b/{y} : count() as n : existing\na/p1/b/{b} -> totals/p1 : count() as n"},
	{name: "shards-that-hold-totals", routes: "pages/{page}/shards/{shard} -> page_totals/{page} : views\n" +
		"pages/{page}/shards/{shard}/likes/{user} -> pages/{page}/shards/{shard} : count() as likes : existing"},
	{name: "latest-of-latest", routes: "rooms/{room}/messages/{message} -> rooms/{room} : latest(at) as last : existing\n" +
		"rooms/{room} by owner -> users/{owner} : latest(last) as last : existing"},
	{name: "shards-of-a-user", routes: "posts/{post}/shards/{user} -> post_totals/{post} : likes"},
	{name: "shards-of-no-word", routes: "posts/{post}/shards/{shard} -> post_totals/{post} : `it's`"},
	{name: "sources-of-servers", routes: "users/{user}/bills/{bill} -> users/{user} : amount as due : existing\nsales/{sale} -> totals/sales : amount",
		answers: Answers{Sources: map[string]Writer{"users/{user}/bills/{bill} -> users/{user} : amount as due : existing": Servers, "sales/{sale} -> totals/sales : amount": Servers}}},
	{name: "karma-of-posts-of-servers", routes: karma,
		answers: Answers{Sources: map[string]Writer{"posts/{post} by author -> users/{author} : likes as karma : existing": Servers}}},
	{name: "orders-of-users", routes: orders, answers: Answers{Sources: map[string]Writer{ordersByShop: Users}}},
	{name: "numbers", routes: "orders/{order} by shop -> shops/{shop} : count() where status in [2, 3] as sent, sum(amount) where n in [\"a\", -2.5, true] as some, count() where n in [7] as sevens : existing"},
	{name: "days", routes: "orders/{order} by buyer, day(at, \"Europe/Berlin\") -> buyers/{buyer}/days/{day} : count() as orders : within buyers/{buyer}\n" +
		"stays/{user} by month(startsAt) -> months/{month} : count() as stays : within"},
	{name: "unsaid", routes: "items/{item} -> totals/items : count() where n in [timestamp(\"2026-01-31T12:00:00Z\"), \"x\"] as a, count() where n == 1e20 as b, count() where n >= 9007199254740993 as c, count() where n == \"\\b\" as d, count() where t > \"\\uffee\" as e, count() where q == \"it’s\" as f"},
	{name: "names-no-rules-have", routes: "a/{x} -> totals/a : count() where `it’s` == 1 as n\nb/{x} -> totals/b : count() where é == \"é\" as n\nc/{x} -> totals/c : count() as `’`"},
	{name: "moving-between-keys", routes: "seats/{user} by table -> tables/{table} : count() where paid == true and `a == b` == 1 as paid, count() where `a == b` == 2 as b : existing"},
	{name: "inbox", routes: "chats/{chat}/inbox/{message} by to as user -> chats/{chat}/members/{user} : count() where read == false as unread : existing"},
	{name: "crossing", routes: "shops/{shop}/orders/{order} -> a/{shop}/b/main : count() as orders : existing\n" +
		"a/x/b/{b} -> totals/b : sum(orders) as orders"},
	{name: "the-default-and-others", routes: route.Default + "\n" + postLikes +
		"\ncounters/{counter}/shards/{shard} -> totals/{counter} : count() as shards\nrollups/{counter} -> totals_of/all : sum(count) as all"},
	{name: "the-default-and-sums", routes: route.Default + "\nstores/{store}/sales/{sale} -> rollups/{store} : sum(amount) as revenue"},
	{name: "names", routes: "`my orders`/{order} -> totals/orders : count() as orders\n" +
		"a/{request}/b/{x}/c/{x.y} -> a_totals/{request}/b/{x} : count() where `it's` == true as n\n" +
		"a/{x.y}/d/{x_y}/e/{else}/f/{x_y_2} -> a_totals/{x.y}/d/{x_y}/e/{else} : count() as n"},
}

// rulesOf returns the part of the rules that the routes make: without Tally's own.
func rulesOf(rules string) string {
	_, text, _ := strings.Cut(rules, "// Who writes. To change.\n    function mayWrite() {\n      return request.auth != null;\n    }\n\n")
	text, after, _ := strings.Cut(text, partLists)
	for _, f := range functions {
		if strings.Contains(after, f.text) {
			text += "    // and the function " + f.name + "\n"
		}
	}
	if strings.Contains(after, partShards) {
		text += "    // and the functions for shards\n"
	}
	return text
}

// The rules for each kind of route are as they were. e2e/rules attacks them in the emulator.
func TestFor(t *testing.T) {
	for _, test := range cases {
		t.Run(test.name, func(t *testing.T) {
			got := rulesOf(For(tallys(t), parsed(t, test.routes), test.answers))
			golden := filepath.Join("testdata", test.name+".rules")
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(want), got); d != "" {
				t.Errorf("-want +got; -update writes it:\n%s", d)
			}
		})
	}
}

// Google's emulator takes the rules for each kind of route, in place of an app's own and to merge.
func TestRulesCompile(t *testing.T) {
	addr, project := emulatortest.Addr(t), emulatortest.Project(t)
	for _, test := range cases {
		routes := parsed(t, test.routes)
		for _, text := range []string{For(tallys(t), routes, test.answers), ToMerge(tallys(t), routes, test.answers)} {
			err := emulator.SetRules(t.Context(), addr, project, emulator.DefaultDatabase, text)
			if err != nil {
				t.Errorf("%s: %v", test.name, err)
			}
		}
	}
}

var (
	matched = regexp.MustCompile(`(?m)^ +match (/.*) \{$`)
	braces  = regexp.MustCompile(`\{\w+\}`)
)

// Rules allow what any block allows. So no two blocks are of one path.
func TestOneBlockForEachPath(t *testing.T) {
	for _, test := range cases {
		seen := make(map[string]bool)
		for _, m := range matched.FindAllStringSubmatch(For(tallys(t), parsed(t, test.routes), test.answers), -1) {
			shape := braces.ReplaceAllString(m[1], "{}")
			if seen[shape] && shape != "/shards/{}" { // Tally's own is within its counter
				t.Errorf("%s: two blocks for %s", test.name, shape)
			}
			seen[shape] = true
		}
	}
}

// Rules read at most ten documents for a write. Where more would have to exist, a person decides.
func TestLookups(t *testing.T) {
	var routes []string
	for i := range 11 {
		routes = append(routes, fmt.Sprintf("rooms/{room}/visitors/{user} -> h%d/{room} : count() where at > now - 1h as n : existing", i))
	}
	for n, want := range map[int]int{10: 10, 11: 0} {
		rules := For(tallys(t), parsed(t, strings.Join(routes[:n], "\n")), Answers{})
		block, _, _ := strings.Cut(rules, "allow delete")
		isLeft := strings.Contains(block, "which of the 11 documents with the totals must exist")
		if got := strings.Count(block, "exists(/databases"); got != want || isLeft != (n > 10) {
			t.Errorf("%d homes: %d must exist, and a person decides: %t", n, got, isLeft)
		}
		told := strings.Contains(block, "// For each write the rules read 10 documents: at most 20 in a batch.\n")
		if told == isLeft {
			t.Errorf("%d homes: says how many documents a batch may read: %t", n, told)
		}
	}
}

// Firestore takes rules of at most 256 KB. Those of 100 routes are shorter, also if all of them are
// of one path.
func TestSize(t *testing.T) {
	var apart, together []string
	for i := range 100 {
		apart = append(apart, fmt.Sprintf("collection%d/{post}/likes/{user} -> collection%d/{post} : count() as likes : existing", i, i))
		together = append(together, fmt.Sprintf("rooms/{room}/members/{user} -> homes_of_members%d/{room} : count() where at > now - 1h and kind == \"k%d\" as n : existing", i, i))
	}
	for name, routes := range map[string][]string{"apart": apart, "together": together} {
		rules := For(tallys(t), parsed(t, strings.Join(routes, "\n")), Answers{})
		if len(rules) > 256<<10 {
			t.Errorf("%s: %d bytes", name, len(rules))
		}
		t.Logf("%s: %d bytes", name, len(rules))
	}
}

// Who is not asked about is guessed, by names.
func TestGuess(t *testing.T) {
	for text, want := range map[string]Writer{
		"posts/{post}/likes/{like} -> posts/{post} : count() as n : existing":       Owner,
		"posts/{post}/hugs/{userId} -> posts/{post} : count() as n : existing":      Owner,
		"posts/{post}/hugs/{created_by} -> posts/{post} : count() as n : existing":  Owner,
		"posts/{post}/comments/{comment} -> posts/{post} : count() as n : existing": Users,
		"orders/{order} -> totals/orders : count() as n":                            Users,
		"players/{p}/rounds/{round} -> players/{p} : count() as n : existing":       Users,
		"votes/{vote} -> totals/votes : count() as n":                               Users, // one for each vote, not for each user
	} {
		if got := Guess(parsed(t, text)[0]); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

// What the rules leave to a person is listed by its line, each once.
func TestDecisions(t *testing.T) {
	rules := For(tallys(t), parsed(t, postLikes), Answers{})
	lines := strings.Split(rules, "\n")
	var got []string
	for _, d := range Decisions(rules) {
		got = append(got, d.Text)
		if !strings.HasSuffix(lines[d.Line-1], d.Text) {
			t.Errorf("line %d is %q, want %q there", d.Line, lines[d.Line-1], d.Text)
		}
	}
	want := []string{
		"who gets posts/{post}, all of its fields, such as request.auth != null",
		"who lists posts/{post}, all of its fields, such as request.auth != null && listsAtMost(100)",
		"who creates posts/{post}, such as mayWrite()",
		"who changes posts/{post}",
		"who deletes posts/{post}; its likes remain, and would count for a new document with its id",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	if twice := Decisions("a // decide: b\n c\n d // decide: b\n"); len(twice) != 1 || twice[0].Line != 1 {
		t.Errorf("%v, want one, in line 1", twice)
	}
}

// A route across parents counts the documents of each block at its depth or below, so its
// conditions are in all of them.
func TestBlocksAcross(t *testing.T) {
	const across = "posts/{post}/comments/{comment} by author -> users/{author} : count() as comments : existing"
	const each = "posts/{post}/comments/{comment} -> posts/{post} : count() as comments : existing"
	const below = "posts/{p}/comments/{c}/comments/{reply} -> posts/{p}/comments/{c} : count() as replies : existing"
	const part = "posts/{post}/comments/{comment} by author -> users/{author} : count() as comments : existing\nposts/{p}/likes/{l} -> posts/{p} : count() as likes : existing"
	for routes, blocks := range map[string][]string{
		across:                {"/posts/{post}/comments/{comment}"},
		across + "\n" + each:  {"/posts/{post}/comments/{comment}"},
		each + "\n" + across:  {"/posts/{post}/comments/{comment}"},
		across + "\n" + below: {"/posts/{post}/comments/{comment}", "/posts/{p}/comments/{c}/comments/{reply}"},
		below + "\n" + across: {"/posts/{post}/comments/{comment}", "/posts/{p}/comments/{c}/comments/{reply}"},
		part:                  {"/posts/{post}/comments/{comment}"},
	} {
		text := For(tallys(t), parsed(t, routes), Answers{})
		found := 0
		for part := range strings.SplitSeq(text, "match ") {
			path, rest, _ := strings.Cut(part, " {")
			shape := braces.ReplaceAllString(path, "{}")
			isBlock := slices.ContainsFunc(blocks, func(b string) bool { return braces.ReplaceAllString(b, "{}") == shape })
			rest, _, _ = strings.Cut(rest, "\n    }\n")
			if isBlock && !strings.Contains(rest, "author") {
				t.Errorf("%s: the block %s does not bind the author:\n%s", routes, path, rest)
			}
			if isBlock {
				found++
			}
		}
		if found != len(blocks) {
			t.Errorf("%s: %d of %d blocks:\n%s", routes, found, len(blocks), text)
		}
	}
}
