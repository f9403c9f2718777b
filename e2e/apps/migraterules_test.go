package apps

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/firestore-tally/tally/internal/test/emulatortest"
	"github.com/firestore-tally/tally/internal/tool/migration"
	"github.com/firestore-tally/tally/rollup/route"
	"github.com/firestore-tally/tally/shards"
)

// migrationRules gives a project the rules of docs/migrate.md, where the page says to put them.
func migrationRules(t *testing.T, project string) {
	t.Helper()
	blocks := regexp.MustCompile("(?ms)^```rules\n(.*?)^```").FindAllStringSubmatch(page(t, "docs/migrate.md"), -1)
	if len(blocks) != 1 {
		t.Fatalf("docs/migrate.md has %d blocks of rules, want 1", len(blocks))
	}
	const rollUps = "    match /rollups/{counter} {\n"
	setRules(t, project, strings.Replace(page(t, "firestore.rules"), rollUps, blocks[0][1]+rollUps, 1))
}

// incrementBody is what an SDK sends to increment fields of a document, each by a REST value.
func incrementBody(document string, fields ...[2]string) string {
	var transforms []string
	for _, f := range fields {
		transforms = append(transforms, fmt.Sprintf(`{"fieldPath": %q, "increment": {%s}}`, f[0], f[1]))
	}
	return fmt.Sprintf(`{"update": {"name": "%s"}, "updateMask": {}, "updateTransforms": [%s]}`, document, strings.Join(transforms, ","))
}

// The client libraries of the extension write through the rules of docs/migrate.md, before shards
// are folded and after, and so do updated apps.
func TestMigrateClientsOfTheExtension(t *testing.T) {
	t.Parallel()
	client := emulatortest.Client(t)
	project := strings.Split(client.Doc("a/b").Path, "/")[1]
	migrationRules(t, project)
	const collection = "pages/p/_counter_shards_"
	database := "projects/" + project + "/databases/(default)"
	clients := []struct{ library, shard, one string }{
		{"web", "0b9f1c52-7f3a-4d4e-9c1b-2f6e0a9d5c11", `"integerValue": 1`},
		{"Android", "5d4e1c52-7f3a-4d4e-9c1b-2f6e0a9d5c22", `"doubleValue": 1`},
		{"iOS", "E621E1F8-C36C-495A-93FC-0C247A3E6E5F", `"doubleValue": 1`},
	}
	var want int64
	increment := func(who, shard, one string) {
		t.Helper()
		for _, field := range []string{"visits", "likes", "visits"} {
			body := `{"writes": [` + incrementBody(database+"/documents/"+collection+"/"+shard, [2]string{field, one}) + `]}`
			if code, answer := requestAs(t, project, "alice", http.MethodPost, database+"/documents:commit", body); code != http.StatusOK {
				t.Errorf("%s: increment %s of shard %s: status %d\n%s", who, field, shard, code, answer)
			}
		}
		want++
	}
	visits := shards.New(client, "pages/p", shards.Collection(collection), shards.Field("visits"))
	routes, err := route.Parse("pages/{page}/_counter_shards_/{shard} -> page_totals/{page} : visits, likes")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Doc("pages/p").Set(t.Context(), map[string]any{"num_shards": 2}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		for _, c := range clients {
			increment(c.library, c.shard, c.one)
		}
		plan, err := migration.Scan(t.Context(), client, routes, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := plan.Run(t.Context(), client, 1, nil); err != nil {
			t.Fatal(err)
		}
		doubles := 0
		for _, shard := range []string{"0", "1"} {
			doc, err := client.Doc(collection + "/" + shard).Get(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, ok := doc.Data()["visits"].(float64); ok {
				doubles++
			}
			increment("updated app", shard, `"integerValue": 1`)
		}
		if doubles == 0 {
			t.Error("no numbered shard became a double, so nothing was shown")
		}
	}
	likes := shards.New(client, "pages/p", shards.Collection(collection), shards.Field("likes"))
	for field, c := range map[string]struct {
		counter *shards.Counter
		want    int64
	}{"visits": {visits, 2 * want}, "likes": {likes, want}} {
		if total, err := c.counter.Get(t.Context()); err != nil || total.Float64() != float64(c.want) {
			t.Errorf("%s: %v (%v), want %d", field, total, err, c.want)
		}
	}
}

// The rules of docs/migrate.md in the emulator's rules engine.
func TestMigratePageRules(t *testing.T) {
	t.Parallel()
	w := &database{t: t, client: emulatortest.Client(t)}
	project := strings.Split(w.client.Doc("a/b").Path, "/")[1]
	migrationRules(t, project)

	const shards = "pages/p/_counter_shards_/"
	const mine, theirs = shards + "0b9f1c52-7f3a-4d4e-9c1b-2f6e0a9d5c11", shards + "5d4e1c52-7f3a-4d4e-9c1b-2f6e0a9d5c22"
	w.set(mine, map[string]any{"visits": 1})
	w.set(shards+"3", map[string]any{"visits": 1})
	w.set(theirs, map[string]any{"visits": 1, "likes": 1})
	w.set(shards+"5", map[string]any{"visits": 1.0, "likes": 1})
	w.set(shards+"6", map[string]any{"visits": 1.0, "likes": float64(1 << 53)})
	w.set(shards+"7", map[string]any{"visits": "1"})
	w.set("pages/p", map[string]any{"visits": 1})
	w.set("page_totals/p", map[string]any{"visits": 1})
	increment := func(path, field, by string) string {
		return incrementBody("%[1]s/"+path, [2]string{field, by})
	}
	set := func(path, fields string) string {
		return fmt.Sprintf(`{"update": {"name": "%%[1]s/%s", "fields": {%s}}}`, path, fields)
	}
	both := func(path, visits, likes string) string {
		return incrementBody("%[1]s/"+path, [2]string{"visits", visits}, [2]string{"likes", likes})
	}
	const one, double = `"integerValue": 1`, `"doubleValue": 1`
	for _, test := range []struct {
		name, write string
		allow       bool
	}{
		{"own shard", increment(mine, "visits", one), true},
		{"a new one", increment(shards+"11111111-7f3a-4d4e-9c1b-2f6e0a9d5c11", "visits", one), true},
		{"a numbered one", increment(shards+"3", "visits", one), true},
		{"a new numbered one", increment(shards+"9", "visits", one), true},
		{"one that holds more", increment(theirs, "visits", one), true},
		{"a number too high", increment(shards+"10", "visits", one), false},
		{"a number written otherwise", increment(shards+"03", "visits", one), false},
		{"a partial sum", increment(shards+`\t\t\t\t0`, "visits", one), false},
		{"any other id", increment(shards+"x", "visits", one), false},
		{"an id too long", increment(mine+"1", "visits", one), false},
		{"by 2", increment(mine, "visits", `"integerValue": 2`), false},
		{"by -1", increment(mine, "visits", `"integerValue": -1`), false},
		{"by a half", increment(mine, "visits", `"doubleValue": 0.5`), false},
		{"by a double", increment(theirs, "visits", double), true},
		{"a new one by a double", increment(shards+"E621E1F8-C36C-495A-93FC-0C247A3E6E5F", "likes", double), true},
		{"a random one by a double of 2", increment(theirs, "visits", `"doubleValue": 2`), false},
		{"a numbered one by a double", increment(shards+"3", "visits", double), false},
		{"a new numbered one by a double", increment(shards+"8", "visits", double), false},
		{"a numbered one that holds a double", increment(shards+"5", "visits", one), true},
		{"a number next to a double", increment(shards+"5", "likes", one), true},
		{"a number to a double", set(shards+"5", `"visits": {"doubleValue": 3}, "likes": {"doubleValue": 2}`), false},
		{"a double that would not change", increment(shards+"6", "likes", one), false},
		{"text", increment(shards+"7", "visits", one), false},
		{"the other field", increment(mine, "likes", one), true},
		{"both", both(mine, one, one), true},
		{"both, one by 2", both(mine, one, `"integerValue": 2`), false},
		{"both, one by 0", both(mine, one, `"integerValue": 0`), true}, // no other than an increment of one
		{"nothing", increment(mine, "visits", `"integerValue": 0`), false},
		{"another field", increment(mine, "title", one), false},
		{"another field too", incrementBody("%[1]s/"+mine, [2]string{"visits", one}, [2]string{"title", one}), false},
		{"without a field", set(theirs, `"visits": {"doubleValue": 4}`), false},
		{"set to 5", set(mine, `"visits": {"integerValue": 5}, "likes": {"integerValue": 2}`), true}, // no other than an increment by 1
		{"set to 100", set(mine, `"visits": {"integerValue": 100}`), false},
		{"create with 2", set(shards+"4", `"visits": {"integerValue": 2}`), false},
		{"create with text", set(shards+"4", `"visits": {"stringValue": "1"}`), false},
		{"create with more", set(shards+"4", `"visits": {"integerValue": 1}, "_updates_": {"arrayValue": {}}`), false},
		{"delete", `{"delete": "%[1]s/` + mine + `"}`, false},
		{"the page", increment("pages/p", "visits", one), false},
		{"the roll-up", increment("page_totals/p", "visits", one), false},
		{"the note of what was carried", set("pages/p/increment_tokens/carried-1", `"amount": {"integerValue": 0}`), false},
	} {
		database := "projects/" + project + "/databases/(default)"
		body := `{"writes": [` + fmt.Sprintf(test.write, database+"/documents") + `]}`
		code, answer := requestAs(t, project, "alice", http.MethodPost, database+"/documents:commit", body)
		if allowed := code == http.StatusOK; allowed != test.allow || !allowed && code != http.StatusForbidden {
			t.Errorf("%s: status %d, want allowed: %v\n%s", test.name, code, test.allow, answer)
		}
		if code, _ := requestAs(t, project, "", http.MethodPost, database+"/documents:commit", body); code != http.StatusForbidden {
			t.Errorf("%s, not signed in: status %d, want forbidden", test.name, code)
		}
	}
	reads := map[string]bool{"page_totals/p": true, mine: true, strings.TrimSuffix(shards, "/"): true, "pages/p": true, "pages/p/increment_tokens/carried-1": false}
	for _, path := range slices.Sorted(maps.Keys(reads)) {
		code, answer := requestAs(t, project, "", http.MethodGet, "projects/"+project+"/databases/(default)/documents/"+path, "")
		if allowed := code == http.StatusOK; allowed != reads[path] {
			t.Errorf("read %s: status %d, want allowed: %v\n%s", path, code, reads[path], answer)
		}
	}
}

// One request writes the ten numbered shards of a page, and few with random ids, which nothing else
// bounds.
func TestMigrationTakesFewShardsAtOnce(t *testing.T) {
	t.Parallel()
	project := strings.Split(emulatortest.Client(t).Doc("a/b").Path, "/")[1]
	migrationRules(t, project)
	const most = 20 // documents that Firestore reads for the rules of a commit
	database := "projects/" + project + "/databases/(default)"
	random := func(n int) string { return fmt.Sprintf("0b9f1c52-7f3a-4d4e-9c1b-%012d", n) }
	numbered := func(n int) string { return fmt.Sprint(n) }
	for _, test := range []struct {
		what   string
		shards int
		id     func(int) string
		want   int
	}{
		{"numbered", 10, numbered, http.StatusOK},
		{"random", most, random, http.StatusOK},
		{"too many random", most + 1, random, http.StatusForbidden},
		{"far too many random", 40, random, http.StatusForbidden},
	} {
		var all []string
		for n := range test.shards {
			all = append(all, incrementBody(database+"/documents/pages/p/_counter_shards_/"+test.id(n), [2]string{"visits", `"integerValue": 1`}))
		}
		body := `{"writes": [` + strings.Join(all, ",") + `]}`
		if code, answer := requestAs(t, project, "alice", http.MethodPost, database+"/documents:commit", body); code != test.want {
			t.Errorf("%s (%d shards): status %d, want %d\n%.300s", test.what, test.shards, code, test.want, answer)
		}
	}
}

// setRules puts rules in force for a project.
func setRules(t *testing.T, project, rules string) {
	t.Helper()
	type file struct {
		Name    string `json:"name"`
		Content string `json:"content"`
	}
	body, err := json.Marshal(map[string]any{"rules": map[string]any{"files": []file{{"firestore.rules", rules}}}})
	if err != nil {
		t.Fatal(err)
	}
	if code, answer := send(t, http.MethodPut, "/emulator/v1/projects/"+project+":securityRules", "", body); code != http.StatusOK {
		t.Fatalf("rules: status %d\n%s", code, answer)
	}
}

// requestAs makes a REST request as the user, or as no user.
func requestAs(t *testing.T, project, user, method, path, body string) (status int, answer string) {
	t.Helper()
	authorization := ""
	if user != "" {
		claims := fmt.Sprintf(`{"sub": %q, "user_id": %[1]q, "aud": %q, "iss": "https://securetoken.google.com/%[2]s"}`, user, project)
		encode := base64.RawURLEncoding.EncodeToString
		authorization = "Bearer " + encode([]byte(`{"alg": "none"}`)) + "." + encode([]byte(claims)) + "."
	}
	return send(t, method, "/v1/"+path, authorization, []byte(body))
}

func send(t *testing.T, method, path, authorization string, body []byte) (status int, answer string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://"+emulatortest.Addr(t)+path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if authorization != "" {
		req.Header.Set("Authorization", authorization)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(b)
}
