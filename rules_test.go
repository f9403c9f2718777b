package tally

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/firestore-tally/tally/internal/emulator/emulatortest"
)

// firestore.rules as a client meets them: requests without credentials, to the emulator's own rules
// engine.
func TestRules(t *testing.T) {
	const shard = "counters/c/shards/0"
	client := emulatortest.Client(t)
	project := strings.Split(client.Doc("a/b").Path, "/")[1]
	w := &world{t: t, client: client}
	w.set(shard, map[string]any{"count": 1})
	w.set("counters/c/shards/more", map[string]any{"count": 1, "other": 1})
	w.set("counters/c", map[string]any{"num_shards": 3})
	w.set("rollups/c", map[string]any{"count": 1})

	set := func(path, fields string) string {
		return fmt.Sprintf(`{"update": {"name": "%%[1]s/%s", "fields": {%s}}}`, path, fields)
	}
	increment := func(path, field, by string) string {
		return fmt.Sprintf(`{"update": {"name": "%%[1]s/%s"}, "updateMask": {}, "updateTransforms": [{"fieldPath": "%s", "increment": {%s}}]}`, path, field, by)
	}
	for _, test := range []struct {
		name  string
		write string
		allow bool
	}{
		{"increment a shard", increment(shard, "count", `"integerValue": 1`), true},
		{"by a negative double", increment(shard, "count", `"doubleValue": -0.5`), true},
		{"of a shard that does not exist", increment("counters/c/shards/1", "count", `"integerValue": 1`), true},
		{"of a counter that does not exist", increment("counters/new/shards/1", "count", `"integerValue": 1`), true},
		{"of a shard that holds more", increment("counters/c/shards/more", "count", `"integerValue": 1`), true},
		{"increment what more it holds", increment("counters/c/shards/more", "other", `"integerValue": 1`), false},
		{"create a shard", set("counters/c/shards/2", `"count": {"integerValue": 0}`), true},
		{"create a shard with text", set("counters/c/shards/3", `"count": {"stringValue": "1"}`), false},
		{"create a shard with another field", set("counters/c/shards/3", `"count": {"integerValue": 0}, "x": {"integerValue": 0}`), false},
		{"create a shard without a count", set("counters/c/shards/3", ``), false},
		{"set a shard to text", set(shard, `"count": {"stringValue": "1"}`), false},
		{"set a shard to null", set(shard, `"count": {"nullValue": null}`), false},
		{"increment another field", increment(shard, "other", `"integerValue": 1`), false},
		{"delete a shard", `{"delete": "%[1]s/` + shard + `"}`, false},
		{"write a counter", set("counters/c", `"num_shards": {"integerValue": 9}`), false},
		{"write a roll-up", set("rollups/c", `"count": {"integerValue": 9}`), false},
		{"create a roll-up", set("rollups/new", `"count": {"integerValue": 9}`), false},
		{"increment a roll-up", increment("rollups/c", "count", `"integerValue": 1`), false},
		{"delete a roll-up", `{"delete": "%[1]s/rollups/c"}`, false},
		{"write elsewhere", set("other/x", `"count": {"integerValue": 1}`), false},
		{"write a pending mark", set("rollup_pending/x", `"nonce": {"integerValue": 1}`), false},
	} {
		database := "projects/" + project + "/databases/(default)"
		body := `{"writes": [` + fmt.Sprintf(test.write, database+"/documents") + `]}`
		status, answer := request(t, http.MethodPost, database+"/documents:commit", body)
		if allowed := status == http.StatusOK; allowed != test.allow || !allowed && status != http.StatusForbidden {
			t.Errorf("%s: status %d, want allowed: %v\n%s", test.name, status, test.allow, answer)
		}
	}
	for path, allow := range map[string]bool{"rollups/c": true, "counters/c": true, shard: true, "rollup_pending/x": false, "other/x": false} {
		status, answer := request(t, http.MethodGet, "projects/"+project+"/databases/(default)/documents/"+path, "")
		if allowed := status == http.StatusOK; allowed != allow {
			t.Errorf("read %s: status %d, want allowed: %v\n%s", path, status, allow, answer)
		}
	}
}

// request makes a REST request without credentials.
func request(t *testing.T, method, path, body string) (status int, answer string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://"+emulatortest.Addr()+"/v1/"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
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
