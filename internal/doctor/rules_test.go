package doctor

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/firestore-tally/tally/internal/emulator"
	"github.com/firestore-tally/tally/internal/emulator/emulatortest"
	"github.com/firestore-tally/tally/rollup"
	"github.com/google/go-cmp/cmp"
)

func TestMain(m *testing.M) { emulatortest.Main(m, emulator.Options{Rules: "../../firestore.rules"}) }

// This project's own rules pass the cases, as Google's rules engine judges them: requests of clients, to the
// emulator.
func TestRuleCases(t *testing.T) {
	routes, err := rollup.ParseRoutes(rollup.DefaultRoute)
	if err != nil {
		t.Fatal(err)
	}
	client := emulatortest.Client(t)
	database := strings.TrimSuffix(client.Doc("a/b").Path, "/documents/a/b")
	cases := ruleCases(routes)
	seen := make(map[string]bool)
	for _, c := range cases {
		seen[c.Check] = true
		t.Run(c.Says, func(t *testing.T) {
			doc := client.Doc(c.Path)
			if c.Before == nil {
				_, err = doc.Delete(t.Context())
			} else {
				_, err = doc.Set(t.Context(), c.Before)
			}
			if err != nil {
				t.Fatal(err)
			}
			name := database + "/documents/" + c.Path
			method, url, body := http.MethodGet, name, ""
			if c.Method != "get" {
				method, url = http.MethodPost, database+"/documents:commit"
				write := fmt.Sprintf(`{"delete": %q}`, name)
				if c.After != nil {
					write = fmt.Sprintf(`{"update": {"name": %q, "fields": %s}, "currentDocument": {"exists": %v}}`, name, integers(c.After), c.Before != nil)
				}
				body = `{"writes": [` + write + `]}`
			}
			req, err := http.NewRequestWithContext(t.Context(), method, "http://"+emulatortest.Addr()+"/v1/"+url, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			if c.SignedIn {
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
			want := http.StatusForbidden
			if c.Allow {
				want = http.StatusOK
			}
			if res.StatusCode != want {
				t.Errorf("status %d, want %d: %s", res.StatusCode, want, answer)
			}
		})
	}
	for _, check := range []string{rulesRollUps, rulesReadable, rulesShards, rulesOwn} {
		if !seen[check] {
			t.Errorf("no case is of %s", check)
		}
	}
}

// Of documents of the app's own, the cases are what would forge totals, and nothing that apps do.
func TestRuleCasesOfExisting(t *testing.T) {
	routes, err := rollup.ParseRoutes("posts/{post}/likes/{user} -> posts/{post} : count() as likes : existing\nposts/{post}/ratings/{user} -> posts/{post} : count() as ratings, stars : existing")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range ruleCases(routes) {
		if c.SignedIn && c.Check != rulesOwn {
			got = append(got, fmt.Sprint(c.Says, " ", c.Before, " ", c.After, " ", c.Allow))
		}
	}
	want := []string{
		"create posts/{post} map[] map[likes:1 ratings:1 stars:1 tally:map[num_shards:1]] false",
		"update posts/{post} map[likes:1 ratings:1 stars:1 tally:map[num_shards:1]] map[likes:2 ratings:2 stars:2 tally:map[num_shards:2]] false",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
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
