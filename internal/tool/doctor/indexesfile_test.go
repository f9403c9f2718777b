package doctor

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/firestore-tally/tally/internal/tool/deploy"
	"github.com/firestore-tally/tally/rollup/route"
	"github.com/google/go-cmp/cmp"
)

// What tally indexes prints lacks nothing. What a file lacks is said as the file has it.
func TestCheckIndexesFile(t *testing.T) {
	routes, err := route.Parse(`orders/{order} by shop -> shops/{shop} : count() as orders, maximum(amount) as largest, sum(amount) where status == "paid" as revenue : existing` + "; posts/{post}/likes/{user} -> posts/{post} : sum(on) as likes : existing; a/{a}/hot/{n} -> b/{a} : n : documents; users/{user}/runs/{run} -> users/{user} : maximum(points) as best : existing")
	if err != nil {
		t.Fatal(err)
	}
	needs := NewIndexesFile(routes, route.Standard)
	change := func(change func(f *IndexesFile)) string {
		f := IndexesFile{append([]IndexConfig(nil), needs.Indexes...), append([]deploy.FieldConfig(nil), needs.FieldOverrides...)}
		change(&f)
		text, err := json.Marshal(f)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	exempts := func(group, path string, indexes ...deploy.Object) string {
		return change(func(f *IndexesFile) {
			f.FieldOverrides = append(f.FieldOverrides, deploy.FieldConfig{CollectionGroup: group, Path: path, Indexes: indexes})
		})
	}
	order := func(order string) deploy.Object { return deploy.Object{"order": order, "queryScope": "COLLECTION"} }
	const lost = "FILE, or the next firebase deploy of indexes wants to delete them:\n"
	const undone = "change in fieldOverrides of FILE, or the next firebase deploy of indexes undoes what tally deploy made:\n"
	const taken = "take out of fieldOverrides of FILE what exempts "

	for _, test := range []struct {
		name, text string
		want       []string
	}{
		{"all", change(func(*IndexesFile) {}), nil},
		{"an index too few", change(func(f *IndexesFile) { f.Indexes = f.Indexes[1:] }), []string{
			"add to indexes of " + lost + `  {"collectionGroup":"orders","queryScope":"COLLECTION","fields":[{"fieldPath":"shop","order":"ASCENDING"},{"fieldPath":"amount","order":"DESCENDING"}]}`,
		}},
		{"a field too few", change(func(f *IndexesFile) { f.FieldOverrides = f.FieldOverrides[1:] }), []string{
			"add to fieldOverrides of " + lost + `  {"collectionGroup":"increment_tokens","fieldPath":"expire_at","ttl":true,"indexes":[]}`,
		}},
		{"a group that is exempt", exempts("orders", "shop"), []string{taken + "orders.shop: queries need the indexes that Firestore makes by itself"}},
		{"in one order alone, the other", exempts("likes", "on", order("DESCENDING")), []string{taken + "likes.on: queries need the indexes that Firestore makes by itself"}},
		{"in the one order that a sum needs", exempts("likes", "on", order("ASCENDING")), nil},
		{"all fields, which leaves out those of Tally", strings.ReplaceAll(exempts("posts", "*"), `{"collectionGroup":"posts","fieldPath":"tally","indexes":[]},`, ""), []string{
			"add to fieldOverrides of " + lost + `  {"collectionGroup":"posts","fieldPath":"tally","indexes":[]}`,
		}},
		{"in one order alone, and a maximum needs the other", exempts("runs", "points", order("ASCENDING")), []string{taken + "runs.points: queries need the indexes that Firestore makes by itself"}},
		{"in both orders", exempts("runs", "points", order("ASCENDING"), order("DESCENDING")), nil},
		{"all fields that say nothing of their own", exempts("likes", "*"), []string{taken + "likes.on: queries need the indexes that Firestore makes by itself"}},
		{"an expiry that is taken away", strings.Replace(change(func(*IndexesFile) {}), `"ttl":true`, `"ttl":false`, 1), []string{undone + `  {"collectionGroup":"increment_tokens","fieldPath":"expire_at","ttl":true,"indexes":[]}`}},
		{"an expiry of which nothing is said", strings.Replace(change(func(*IndexesFile) {}), `"ttl":true,`, ``, 1), nil},
		{"times that are indexed", change(func(f *IndexesFile) {
			for i, o := range f.FieldOverrides {
				if o.Path == "tally" {
					f.FieldOverrides[i].Indexes = []deploy.Object{order("ASCENDING")}
				}
			}
		}), []string{undone + `  {"collectionGroup":"shops","fieldPath":"tally","indexes":[]},` + "\n" + `  {"collectionGroup":"posts","fieldPath":"tally","indexes":[]},` + "\n" + `  {"collectionGroup":"b","fieldPath":"tally","indexes":[]},` + "\n" + `  {"collectionGroup":"users","fieldPath":"tally","indexes":[]}`}},
		{"as firebase init begins it", "{\n  // Example:\n  // \"indexes\": [\n  //   { \"a\": [ \"b\", ] },\n  // ]\n" + strings.TrimPrefix(change(func(*IndexesFile) {}), "{"), nil},
		{"with a byte order mark", "\ufeff" + change(func(*IndexesFile) {}), nil},
		{"a field that only an index of several has", exempts("orders", "amount"), nil},
	} {
		file := filepath.Join(t.TempDir(), "firestore.indexes.json")
		if err := os.WriteFile(file, []byte(test.text), 0o600); err != nil {
			t.Fatal(err)
		}
		problems, err := CheckIndexesFile(file, routes, route.Standard)
		for i := range problems {
			problems[i] = strings.ReplaceAll(problems[i], file, "FILE")
		}
		if d := cmp.Diff(test.want, problems); d != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", test.name, err, d)
		}
	}

	for ttl, want := range map[string]string{`"true"`: "found text", "1": "found a number", "[]": "found a list in brackets"} {
		file := filepath.Join(t.TempDir(), "firestore.indexes.json")
		text := strings.Replace(change(func(*IndexesFile) {}), `"ttl":true`, `"ttl":`+ttl, 1)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := CheckIndexesFile(file, routes, route.Standard); err == nil || !strings.HasSuffix(err.Error(), "fieldOverrides.ttl: want true or false, and "+want) {
			t.Errorf("ttl %s: %v", ttl, err)
		}
	}
	if _, err := CheckIndexesFile("nowhere.json", routes, route.Standard); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("of no file: %v", err)
	}
}

// A route across parents needs an index of the collection group. The file says which others the
// field has, because an override replaces the default.
func TestIndexesFileAcross(t *testing.T) {
	routes, err := route.Parse("posts/{post}/comments/{comment} by author -> users/{author} : count() as comments : existing; comments/{c} by author -> guests/{author} : count() as comments : existing")
	if err != nil {
		t.Fatal(err)
	}
	const wanted = `  {"collectionGroup":"comments","fieldPath":"author","indexes":[{"order":"ASCENDING","queryScope":"COLLECTION"},{"order":"DESCENDING","queryScope":"COLLECTION"},{"arrayConfig":"CONTAINS","queryScope":"COLLECTION"},{"order":"ASCENDING","queryScope":"COLLECTION_GROUP"}]}`
	const lost = "add to fieldOverrides of FILE, or the next firebase deploy of indexes wants to delete them:\n" + wanted
	const undone = "change in fieldOverrides of FILE, or the next firebase deploy of indexes undoes what tally deploy made:\n" + wanted

	needs := NewIndexesFile(routes, route.Standard)
	i := slices.IndexFunc(needs.FieldOverrides, func(f deploy.FieldConfig) bool { return f.Path == "author" })
	if i < 0 || element(needs.FieldOverrides[i]) != wanted {
		t.Fatalf("the overrides are %+v", needs.FieldOverrides)
	}
	for _, test := range []struct {
		name    string
		path    string
		indexes []deploy.Object
		want    []string
	}{
		{"all", "author", needs.FieldOverrides[i].Indexes, nil},
		{"no override", "", nil, []string{lost}},
		{"an override of all fields", "*", needs.FieldOverrides[i].Indexes, []string{lost}},
		{"no index of the group", "author", needs.FieldOverrides[i].Indexes[:3], []string{undone}},
		{"the group's alone", "author", needs.FieldOverrides[i].Indexes[3:], []string{undone}},
		{"those that queries need", "author", []deploy.Object{{"order": "ASCENDING"}, needs.FieldOverrides[i].Indexes[3]}, nil},
	} {
		has := needs
		has.FieldOverrides = slices.Delete(slices.Clone(needs.FieldOverrides), i, i+1)
		if test.path != "" {
			has.FieldOverrides = append(has.FieldOverrides, deploy.FieldConfig{CollectionGroup: "comments", Path: test.path, Indexes: test.indexes})
		}
		text, err := json.Marshal(has)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "firestore.indexes.json")
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		problems, err := CheckIndexesFile(file, routes, route.Standard)
		if err != nil {
			t.Fatal(err)
		}
		for i := range problems {
			problems[i] = strings.ReplaceAll(problems[i], file, "FILE")
		}
		if d := cmp.Diff(test.want, problems); d != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, d)
		}
	}
}
