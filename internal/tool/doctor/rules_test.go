package doctor

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/test/emulatortest"
	"github.com/firestore-tally/tally/internal/tool/local/emulator"
	"github.com/firestore-tally/tally/rollup/route"
	"github.com/google/go-cmp/cmp"
)

func TestMain(m *testing.M) { emulatortest.Main(m) }

// This project's own rules pass the cases, as Google's rules engine judges them: requests of
// clients, to the emulator. So do they with the blocks of the docs, and without the blocks'
// conditions they do not.
func TestRuleCases(t *testing.T) {
	const (
		counters  = "counters/{counter}/shards/{shard} by count"
		likes     = "posts/{post}/likes/{user} -> posts/{post} : count() as likes : existing;posts/{post}/comments/{comment} -> posts/{post} : count() as comments : existing"
		several   = "posts/{post}/counters/{name}/shards/{shard} -> posts/{post}/rollups/{name} : likes, views"
		severally = "posts/{post}/counters/{name}/shards/{shard} by "
	)
	totals := blockOf(file(t, "../../../docs/recipes.md"), "### Totals in the app's own documents")
	fields := blockOf(file(t, "../../../docs/security-rules.md"), "## Shards with several fields")
	untallied := strings.NewReplacer("value == 0", "true", "changesOnly(['title', 'likes', 'comments'])", "true", "isText('title', 200)", "true")
	unkept := strings.NewReplacer("changesOnly(['title'])", "true", "isText('title', 200)", "true")
	among := strings.NewReplacer("changesOnly(['title'])", "changesOnly(['title', 'likes'])", "isText('title', 200)", "true")
	everybody := strings.NewReplacer("return request.auth != null;", "return true;")
	frozen := strings.NewReplacer("return request.auth != null;", "return false;")
	updates := strings.NewReplacer("allow create, update: if mayWrite()", "allow update: if mayWrite()")

	shards := []string{rulesIncrements, rulesOwn, rulesReadable, rulesRollUps, rulesShards}
	documents := []string{rulesOwn, rulesRollUps}
	for _, test := range []struct {
		name, routes, block string
		change              *strings.Replacer
		checks              []string
		wrong               []string // the cases that the rules fail
		harmless            []string // those that they fail, which is not wrong
	}{
		{"default route", route.Default, "", nil, shards, nil, []string{"signed out: create " + counters, "signed out: update " + counters}},
		{"increments by everybody", route.Default, "", everybody, shards, nil, nil},
		{"increments by no one", route.Default, "", frozen, shards, []string{"update " + counters},
			[]string{"create " + counters, "signed out: create " + counters, "signed out: update " + counters}},
		{"shards that servers make", route.Default, "", updates, shards, nil,
			[]string{"create " + counters, "signed out: create " + counters, "signed out: update " + counters}},
		{"several fields", several, fields, nil, shards, nil, []string{
			"signed out: create " + severally + "likes", "signed out: update " + severally + "likes", "signed out: create " + severally + "views", "signed out: update " + severally + "views"}},
		{"app documents", likes, totals, nil, documents, nil, nil},
		{"app documents made with totals", likes, totals, untallied, documents, []string{"create the totals of posts/{post}"}, nil},
		{"app documents whose totals change", likes, totals, unkept, documents, []string{"update the totals of posts/{post}", "update comments of posts/{post}", "update likes of posts/{post}"}, nil},
		{"app documents one of whose totals changes", likes, totals, among, documents, []string{"update likes of posts/{post}"}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			routes, err := route.Parse(test.routes)
			if err != nil {
				t.Fatal(err)
			}
			project := emulatortest.Project(t)
			const rollUps = "    match /rollups/{counter} {\n"
			rules := strings.Replace(file(t, "../../../firestore.rules"), rollUps, test.block+rollUps, 1)
			if test.change != nil {
				rules = test.change.Replace(rules)
			}
			if err := emulator.SetRules(t.Context(), emulatortest.Addr(t), project, firestore.DefaultDatabaseID, rules); err != nil {
				t.Fatal(err)
			}

			client := emulatortest.ClientDatabase(t, project, firestore.DefaultDatabaseID)
			var checks, wrong, harmless []string
			for _, c := range ruleCases(routes) {
				checks = append(checks, c.Check)
				says := c.Says
				if c.SignedOut {
					says = "signed out: " + says
				}
				switch allowed := allowed(t, client, c); {
				case allowed == c.Allow:
				case c.Else == "":
					wrong = append(wrong, says)
				default:
					harmless = append(harmless, says)
				}
			}
			slices.Sort(checks)
			if diff := cmp.Diff(test.checks, slices.Compact(checks)); diff != "" {
				t.Errorf("checks (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.wrong, wrong); diff != "" {
				t.Errorf("cases that fail (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.harmless, harmless); diff != "" {
				t.Errorf("cases that fail, which is not wrong (-want +got):\n%s", diff)
			}
		})
	}
}

// blockOf returns the first block of rules below a heading.
func blockOf(page, heading string) string {
	_, section, _ := strings.Cut(page, heading)
	_, code, _ := strings.Cut(section, "```js\n")
	block, _, _ := strings.Cut(code, "```")
	return block
}

func file(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// allowed makes a case's request, and reports whether the rules allow it.
func allowed(t *testing.T, client *firestore.Client, c RuleCase) bool {
	t.Helper()
	doc := client.Doc(c.Path)
	var err error
	if c.Before == nil {
		_, err = doc.Delete(t.Context())
	} else {
		_, err = doc.Set(t.Context(), c.Before)
	}
	if err != nil {
		t.Fatal(err)
	}
	database, _, _ := strings.Cut(doc.Path, "/documents/")
	name := doc.Path
	method, url, body := http.MethodGet, name, ""
	if c.Method != "get" {
		method, url = http.MethodPost, database+"/documents:commit"
		write := fmt.Sprintf(`{"delete": %q}`, name)
		if c.After != nil {
			write = fmt.Sprintf(`{"update": {"name": %q, "fields": %s}, "currentDocument": {"exists": %v}}`, name, integers(c.After), c.Before != nil)
		}
		body = `{"writes": [` + write + `]}`
	}
	req, err := http.NewRequestWithContext(t.Context(), method, "http://"+emulatortest.Addr(t)+"/v1/"+url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if !c.SignedOut {
		req.Header.Set("Authorization", "Bearer "+unsigned(someID))
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	if res.StatusCode != http.StatusOK && res.StatusCode != http.StatusForbidden {
		t.Fatalf("%s: status %d: %s", c.Says, res.StatusCode, answer)
	}
	return res.StatusCode == http.StatusOK
}

// integers returns fields of integers, and of maps of them, as REST has them.
func integers(fields map[string]any) string {
	values := make(map[string]any)
	for name, v := range fields {
		if inner, ok := v.(map[string]any); ok {
			values[name] = map[string]any{"mapValue": map[string]any{"fields": json.RawMessage(integers(inner))}}
		} else {
			values[name] = map[string]any{"integerValue": fmt.Sprint(v)}
		}
	}
	text, err := json.Marshal(values)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// unsigned returns a token of a user, which the emulator takes without a signature.
func unsigned(uid string) string {
	part := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
	return part(`{"alg":"none","typ":"JWT"}`) + "." + part(fmt.Sprintf(`{"sub":%q,"user_id":%q,"iat":0}`, uid, uid)) + "."
}
