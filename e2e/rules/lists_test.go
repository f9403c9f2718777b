package rules

import (
	"cmp"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"cloud.google.com/go/firestore"
	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

// lists are all that a client may list, by the path of the rule: of firestore.rules,
// docs/recipes.md, docs/security-rules.md and docs/migrate.md.
var lists = map[string]list{
	"counters/{counter}":                          {collection: "counters", limit: 100},
	"counters/{counter}/shards/{shard}":           {parent: "counters/free", collection: "shards"},
	"rollups/{counter}":                           {collection: "rollups", limit: 100},
	"posts/{post}":                                {collection: "posts", limit: 100},
	"posts/{post}/comments/{comment}":             {parent: "posts/p", collection: "comments", limit: 100},
	"posts/{post}/counters/{name}/shards/{shard}": {parent: "posts/p/counters/c", collection: "shards"},
	"posts/{post}/rollups/{name}":                 {parent: "posts/p", collection: "rollups", limit: 100},
	"players/{player}":                            {collection: "players", limit: 1000},
	"threads/{thread}/comments/{comment}":         {parent: "threads/t", collection: "comments", limit: 100},
	"songs/{song}":                                {collection: "songs", limit: 100},
	"articles/{article}":                          {collection: "articles", limit: 100},
	"articles/{article}/comments/{comment}":       {parent: "articles/p", collection: "comments", limit: 100, where: "approved"},
	"essays/{essay}":                              {collection: "essays", limit: 100},
	"authors/{author}":                            {collection: "authors", limit: 100},
	"shops/{shop}":                                {collection: "shops", limit: 100},
	"users/{user}/messages/{message}":             {parent: "users/ann", collection: "messages", limit: 100, user: ann},
	"people/{user}":                               {collection: "people", limit: 100},
	"chats/{chat}/inbox/{message}":                {parent: "chats/c", collection: "inbox", limit: 100, user: ann, own: "to"},
	"stores/{store}/days/{day}":                   {parent: "stores/s", collection: "days", limit: 100, user: ann},
	"{above=**}/weeks/{week}":                     {collection: "weeks", limit: 1000, group: true},
	"tags/{tag}":                                  {collection: "tags", limit: 100},
	"tags/{tag}/stories/{story}":                  {parent: "tags/go", collection: "stories", limit: 100},
	"visitor_totals/{day}":                        {collection: "visitor_totals", limit: 100},
	"pages/{page}":                                {collection: "pages", limit: 100},
	"pages/{page}/_counter_shards_/{shard}":       {parent: "pages/p", collection: "_counter_shards_"},
	"page_totals/{page}":                          {collection: "page_totals", limit: 100},
}

// allRules are firestore.rules with all blocks of rules of the docs.
func allRules(t *testing.T) string {
	t.Helper()
	var all []string
	for _, found := range rulesCode(t) {
		for _, block := range found {
			if strings.HasPrefix(block, "match ") {
				all = append(all, block)
			}
		}
	}
	for _, block := range regexp.MustCompile("(?ms)^```rules\n(.*?)^```").FindAllStringSubmatch(docsPage(t, "migrate.md"), -1) {
		all = append(all, block[1])
	}
	return withBlocks(t, firestoreRules(t), all...)
}

// Every rule that allows lists asks that nothing is skipped, in firestore.rules and wherever the
// docs have rules, and is in the table above.
func TestListRules(t *testing.T) {
	pages := []string{"../../README.md", "../../clients/web/README.md"}
	err := filepath.WalkDir("../../docs", func(path string, entry os.DirEntry, err error) error {
		if entry != nil && entry.Name() == "test" {
			return filepath.SkipDir
		}
		if strings.HasSuffix(path, ".md") {
			pages = append(pages, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	rules := firestoreRules(t)
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		rules += string(text)
	}

	found := 0
	for _, m := range regexp.MustCompile(`(?s)allow\s+([a-z, ]*?)(?::\s*if\s(.*?))?;`).FindAllStringSubmatch(rules, -1) {
		methods, condition := m[1], m[2]
		if !strings.Contains(methods, "list") && !strings.Contains(methods, "read") {
			continue
		}
		found++
		if strings.Contains(methods, "read") || strings.Contains(methods, "get") {
			t.Errorf("%q: a get has no query, so list is a rule of its own", m[0])
		}
		if !regexp.MustCompile(`^(listsAtMost\(|skipsNothing\(\))[^|]*$`).MatchString(condition) {
			t.Errorf("%q allows an offset", m[0])
		}
	}
	if found != len(lists) {
		t.Errorf("%d rules for lists, and %d are tested", found, len(lists))
	}
}

// No list takes an offset, whose documents are billed and which no limit counts: neither as a query
// nor as an aggregation nor from a listener.
func TestOffsets(t *testing.T) {
	t.Parallel()
	documents := maps.Clone(seed)
	documents["stores/s"] = fields{"owner": "ann"}
	strict := newDatabaseUnder(t, allRules(t), documents)
	soft := newDatabaseUnder(t, soften(t, allRules(t), "lists skip nothing"), documents)
	for _, path := range slices.Sorted(maps.Keys(lists)) {
		honest := lists[path]
		for limit, want := range map[int32]codes.Code{20: codes.OK, 21: codes.PermissionDenied} {
			open := honest
			open.limit = limit
			err := open.query(strict, signedOut)
			if honest.limit > 0 && honest.user == signedOut && status.Code(err) != want {
				t.Errorf("%s, %d for somebody who is not signed in: %v, want %v", path, limit, err, want)
			}
		}
		honest.user = cmp.Or(honest.user, ann)
		attack := honest
		attack.limit, attack.offset = 1, 1<<30
		for name, read := range map[string]func(list) func(*database, user) error{
			"query":       func(l list) func(*database, user) error { return l.query },
			"aggregation": func(l list) func(*database, user) error { return l.sum },
			"listener":    func(l list) func(*database, user) error { return l.listen },
		} {
			if err := read(honest)(strict, honest.user); err != nil {
				t.Errorf("%s, %s: %v", path, name, err)
			}
			if err := read(attack)(strict, honest.user); status.Code(err) != codes.PermissionDenied {
				t.Errorf("%s, %s with an offset: %v, want PermissionDenied", path, name, err)
			}
			if err := read(attack)(soft, honest.user); err != nil {
				t.Errorf("%s, %s with an offset: refused all the same: %v", path, name, err)
			}
		}
	}
}

// Whatever a query without an offset has there, it is allowed: 0, null or nothing.
func TestOffsetIsAbsent(t *testing.T) {
	t.Parallel()
	d := newDatabase(t, seed)
	for query, allowed := range map[string]bool{"{}": true, "{'offset': null}": true, "{'offset': 0}": true, "{'offset': 1}": false, "null": false} {
		condition := strings.ReplaceAll(skipsNothing, "request.query", query)
		d.setRules(replaced(t, firestoreRules(t), skipsNothing, condition))
		for _, path := range []string{"counters/{counter}", "counters/{counter}/shards/{shard}", "rollups/{counter}"} {
			want := codes.PermissionDenied
			if allowed {
				want = codes.OK
			}
			if err := lists[path].query(d, ann); status.Code(err) != want {
				t.Errorf("%s, where request.query is %s: %v, want %v", path, query, err, want)
			}
		}
	}
}

// The listings of the API have no offset, and a size instead of a limit.
func TestListings(t *testing.T) {
	t.Parallel()
	d := newDatabase(t, seed)
	for size, want := range map[int32]codes.Code{0: codes.OK, 100: codes.OK, 101: codes.PermissionDenied} {
		_, err := d.api.ListDocuments(ann.context(t.Context()), &firestorepb.ListDocumentsRequest{
			Parent: d.parent(""), CollectionId: "rollups", PageSize: size,
		})
		if status.Code(err) != want {
			t.Errorf("%d: %v, want %v", size, err, want)
		}
	}
}

// What Go's SDK sends, as a user who signed in. docs/test does this with the other SDKs.
func TestOffsetsOfGo(t *testing.T) {
	t.Parallel()
	d := newDatabase(t, seed)
	conn, err := grpc.NewClient("passthrough:///"+os.Getenv("FIRESTORE_EMULATOR_HOST"),
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithPerRPCCredentials(ann))
	if err != nil {
		t.Fatal(err)
	}
	client, err := firestore.NewClient(t.Context(), d.project, option.WithGRPCConn(conn))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()

	reads := map[string]func(firestore.Query) error{
		"query": func(q firestore.Query) error {
			_, err := q.Documents(t.Context()).GetAll()
			return err
		},
		"aggregation": func(q firestore.Query) error {
			_, err := q.NewAggregationQuery().WithCount("n").Get(t.Context())
			return err
		},
		"listener": func(q firestore.Query) error {
			snapshots := q.Snapshots(t.Context())
			defer snapshots.Stop()
			_, err := snapshots.Next()
			return err
		},
	}
	for name, read := range reads {
		for _, query := range []firestore.Query{
			client.Collection("rollups").Limit(100),
			client.Collection("rollups").OrderBy("count", firestore.Desc).Limit(10),
			client.Collection("rollups").Where("count", ">", 1).Limit(1),
			client.Collection("counters/free/shards").Query,
			client.Collection("counters").Limit(100).Offset(0),
		} {
			if err := read(query); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		for _, query := range []firestore.Query{
			client.Collection("rollups").Limit(1).Offset(1 << 30),
			client.Collection("counters").OrderBy("title", firestore.Asc).Limit(1).Offset(1),
			client.Collection("counters/free/shards").Offset(1),
		} {
			if err := read(query); status.Code(err) != codes.PermissionDenied {
				t.Errorf("%s with an offset: %v, want PermissionDenied", name, err)
			}
		}
	}
}
