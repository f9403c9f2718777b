//go:build unix

package emulator

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// Each request that is refused is told once, and none that is allowed, although the emulator tries
// a write several times, and refuses some of the tries.
func TestRefusals(t *testing.T) {
	t.Parallel()
	rules := filepath.Join(t.TempDir(), "firestore.rules")
	content := `rules_version = '2';
service cloud.firestore {
  match /databases/{database}/documents {
    match /own/{uid} {
      allow read: if request.auth.uid == uid;
      allow create: if false;
      allow update: if resource.data.n == 1;
      allow update: if resource.data.n == 2;
    }
    match /updates/{id} {
      allow create: if false;
      allow update: if true;
    }
    match /signed/{id} {
      allow write: if request.auth != null;
    }
    match /created/{id} {
      allow create: if true;
    }
    match /limited/{id} {
      allow list: if request.query.limit <= 100;
      allow get: if resource.data.n <= 100;
    }
    match /open/{id} {
      allow list: if !exists(/databases/$(database)/documents/own/$(request.auth.uid));
      allow get: if resource.data.n == 1 && !exists(/databases/$(database)/documents/own/$(request.auth.uid));
    }
  }
}
`
	if err := os.WriteFile(rules, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	e := start(t, Options{Rules: rules})
	root := "projects/demo-refusals/databases/(default)/documents"
	request := func(user, method, path, body string) int {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, "http://"+e.Addr()+"/v1/"+root+path, strings.NewReader(body))
		if err != nil {
			t.Error(err)
			return 0
		}
		req.Header.Set("Content-Type", "application/json")
		switch user {
		case "":
		case "owner":
			req.Header.Set("Authorization", "Bearer owner")
		default:
			part := base64.RawURLEncoding.EncodeToString
			req.Header.Set("Authorization", "Bearer "+part([]byte(`{"alg":"none"}`))+"."+part(fmt.Appendf(nil, `{"sub":%q}`, user))+".")
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Error(err)
			return 0
		}
		res.Body.Close()
		return res.StatusCode
	}
	set := func(user, path, precondition string) int {
		t.Helper()
		return request(user, http.MethodPost, ":commit", fmt.Sprintf(`{"writes": [{"update": {"name": "%s/%s", "fields": {"n": {"integerValue": 1}}} %s}]}`, root, path, precondition))
	}
	const exists, isNew = `, "currentDocument": {"exists": true}`, `, "currentDocument": {"exists": false}`

	ctx, cancel := context.WithCancel(t.Context())
	refusals, ended := make(chan Refusal), make(chan error, 1)
	go func() {
		ended <- e.Refusals(ctx, func(r Refusal) {
			select {
			case refusals <- r:
			case <-ctx.Done():
			}
		})
	}()
	next := func() Refusal {
		t.Helper()
		var r Refusal
		select {
		case r = <-refusals:
		case err := <-ended:
			t.Fatalf("ended with %v", err)
		}
		return r
	}
	var want, got []Refusal
	for _, test := range []struct {
		status int
		want   *Refusal
	}{
		{set("owner", "own/ann", ""), nil},
		{set("ann", "own/ann", ""), nil}, // a create would be refused
		{set("ann", "own/ann", exists), nil},
		{set("", "own/new", ""), &Refusal{Method: "create", Path: "own/new", Lines: []int{6, 7, 8}}}, // it was tried as an update too
		{set("ann", "signed/1", ""), nil},
		{set("", "signed/1", ""), &Refusal{Method: "create or update", Path: "signed/1", Lines: []int{15}}},
		{set("", "signed/2", isNew), &Refusal{Method: "create", Path: "signed/2", Lines: []int{15}}},
		{set("", "signed/3", `, "updateMask": {"fieldPaths": ["n"]}`), &Refusal{Method: "create or update", Path: "signed/3", Lines: []int{15}}},
		{set("bob", "other/1/shards/2", exists), &Refusal{Method: "update", Path: "other/1/shards/2", User: "bob"}},
		{set("", "created/1", ""), nil}, // an update would be refused
		{set("", "created/2", `, "updateMask": {"fieldPaths": ["n"]}`), nil},
		{set("", "created/3", isNew), nil},
		{set("", "created/1", ""), &Refusal{Method: "update", Path: "created/1"}}, // the statement about creates allowed it
		{set("bob", "created/1", exists), &Refusal{Method: "update", Path: "created/1", User: "bob"}},
		{request("owner", http.MethodGet, "/other/1", ""), nil},
		{request("ann", http.MethodGet, "/own/ann", ""), nil},
		{request("", http.MethodGet, "/own/ann", ""), &Refusal{Method: "get", Path: "own/ann", Lines: []int{5}}},
		{request("bob", http.MethodGet, "/own/ann", ""), &Refusal{Method: "get", Path: "own/ann", Lines: []int{5}, User: "bob"}},
		{request("bob", http.MethodGet, "/own", ""), &Refusal{Method: "list", Path: "own/*", Lines: []int{5}, User: "bob"}},
		{set("owner", "open/1", ""), nil},
		{request("bob", http.MethodGet, "/open", ""), nil}, // tried again once the rules' document is known
		{request("bob", http.MethodGet, "/open/1", ""), nil},
		{request("ann", http.MethodGet, "/open", ""), &Refusal{Method: "list", Path: "open/*", Lines: []int{25}, User: "ann"}},
		{request("", http.MethodGet, "/open", ""), &Refusal{Method: "list", Path: "open/*", Lines: []int{25}}},
		{request("ann", http.MethodGet, "/open/1", ""), &Refusal{Method: "get", Path: "open/1", Lines: []int{26}, User: "ann"}},
		{request("ann", http.MethodGet, "/limited?pageSize=100", ""), nil},
		{request("ann", http.MethodGet, "/limited?pageSize=101", ""), &Refusal{Method: "list", Path: "limited/*", Lines: []int{21}, User: "ann"}},
		{request("bob", http.MethodPost, ":runQuery", `{"structuredQuery": {"from": [{"collectionId": "limited"}]}}`), &Refusal{Method: "list", Path: "limited/*", Lines: []int{21}, User: "bob", Unlimited: true}},
		{request("bob", http.MethodGet, "/limited/none", ""), &Refusal{Method: "get", Path: "limited/none", Lines: []int{22}, User: "bob"}},
		{request("bob", http.MethodDelete, "/own/ann", ""), &Refusal{Method: "delete", Path: "own/ann", User: "bob"}},
	} {
		if test.want == nil {
			if test.status == http.StatusForbidden {
				t.Errorf("refused, want allowed")
			}
			continue
		}
		test.want.Database = DefaultDatabase
		want = append(want, *test.want)
		if test.status != http.StatusForbidden {
			t.Errorf("status %d, want it refused: %+v", test.status, test.want)
		}
	}
	for range want {
		got = append(got, next())
	}
	order := cmpopts.SortSlices(func(a, b Refusal) bool { return a.Path+a.Method+a.User < b.Path+b.Method+b.User })
	for i, r := range got {
		if r.Path == "open/1" && !slices.Equal(r.Document, []string{"n"}) {
			t.Errorf("%+v: want the document's field", r)
		}
		got[i].Document = nil
	}
	if diff := cmp.Diff(want, got, order); diff != "" {
		t.Errorf("refusals (-want +got):\n%s", diff)
	}

	// The trials of requests at once come in any order.
	var clients sync.WaitGroup
	for id := range 16 {
		clients.Go(func() {
			path := fmt.Sprintf("updates/%d", id)
			set("owner", path, "")
			for n := range 10 {
				if status := set("", path, ""); status != http.StatusOK {
					t.Errorf("%s: status %d, want it allowed", path, status)
				}
				path := fmt.Sprintf("created/%d-%d", id, n)
				if status := set("", path, ""); status != http.StatusOK {
					t.Errorf("%s: status %d, want it allowed", path, status)
				}
			}
		})
	}
	clients.Wait()

	// Rules that are tried refuse no one.
	root = "projects/" + RulesProject + "/databases/(default)/documents"
	for _, status := range []int{set("", "signed/tried", isNew), request("", http.MethodGet, "/own/tried", "")} {
		if status != http.StatusForbidden {
			t.Errorf("status %d, want it refused", status)
		}
	}
	root = "projects/demo-refusals/databases/(default)/documents"
	set("", "signed/last", isNew)
	if r := next(); r.Path != "signed/last" {
		t.Errorf("refused: %+v, want it allowed", r)
	}
	cancel()
	if err := <-ended; err != context.Canceled {
		t.Errorf("ended with %v", err)
	}
}
