package doctor

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	root "github.com/firestore-tally/tally"
	"github.com/firestore-tally/tally/internal/test/emulatortest"
	"github.com/firestore-tally/tally/internal/tool/appfolder"
	"github.com/firestore-tally/tally/internal/tool/deploy"
	"github.com/firestore-tally/tally/internal/tool/rules"
	"github.com/firestore-tally/tally/rollup/route"
)

func TestMain(m *testing.M) { emulatortest.Main(m) }

func file(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// Files of an app in which all is well.
const (
	someYAML     = "routes: |\n  counters/{counter}/shards/{shard} -> rollups/{counter} : count\n"
	someFirebase = `{"firestore": {"rules": "firestore.rules", "indexes": "firestore.indexes.json"}}`
)

// someRules go together with the default route.
var someRules = inRules("match /counters/{c}/shards/{s} { allow create, update; }\nmatch /rollups/{r} { allow get; }")

// inRules returns rules with these blocks, from line 4 on.
func inRules(blocks string) string {
	return "rules_version = '2';\nservice cloud.firestore {\nmatch /databases/{d}/documents {\n" + blocks + "\n} }\n"
}

// fixedPath are routes of which one makes a total at a fixed path.
var fixedPath = []string{"posts/{post}/likes/{user} -> posts/{post} : count() as likes : existing", "posts/{post} -> stats/site : sum(likes) as likes"}

// rulesOfInit returns the rules that tally init writes.
func rulesOfInit(text string) string {
	routes, err := route.Parse(text)
	if err != nil {
		panic(err)
	}
	return rules.For(root.Rules, routes, rules.Answers{})
}

// local are apps of which the project cannot be read, and what is said of them. What stands below
// no check is in a note.
var local = []struct {
	name  string
	files map[string]string
	wrong string // names of checks
	says  string // a line
}{
	{"all is well", nil, "", ""},
	{"no files", map[string]string{"tally.yaml": "", "firebase.json": ""}, "", "- tally-yaml tally.yaml can be read, and tally deploy takes its settings not checked: there is no tally.yaml here or above: the settings are those that are deployed, or the defaults"},
	{"a name of another kind", map[string]string{"tally.yaml": "", "tally.yml": someYAML}, "tally-yaml", "no command reads tally.yml: rename it to tally.yaml mv tally.yml tally.yaml"},
	{"a database of the Enterprise edition", map[string]string{"firebase.json": strings.Replace(someFirebase, `{"rules"`, `{"edition": "enterprise", "rules"`, 1)}, "tally-yaml", "database (default) is of the Enterprise edition, on which no one has tried Tally yet"},
	{"another database than that of firebase.json", map[string]string{"tally.yaml": someYAML + "databases: [(default)]\n", "firebase.json": strings.Replace(someFirebase, `{"rules"`, `{"database": "orders", "rules"`, 1)}, "", "firebase.json names no rules for database (default)"},
	{"no firebase.json", map[string]string{"firebase.json": ""}, "", "not checked: there is no firebase.json here or above"},
	{"no files of firebase.json", map[string]string{"firebase.json": "{}"}, "", "firebase.json names no rules for database (default)"},
	{"a route that is none", map[string]string{"tally.yaml": "routes: counters\n"}, "tally-yaml", "tally.yaml:1:17: want <source pattern>"},
	{"a cadence that is none", map[string]string{"tally.yaml": someYAML + "cadence: often\n"}, "tally-yaml", `tally.yaml:3:1: cadence="often": `},
	{"a billing that is none", map[string]string{"tally.yaml": someYAML + "billing: never\n"}, "tally-yaml", `billing: "never": want request or instance`},
	{"a hold limit that no function has", map[string]string{"tally.yaml": someYAML + "env:\n  TALLY_HOLD_LIMIT: 60s\n"}, "tally-yaml", "TALLY_HOLD_LIMIT"},
	{"a key that is none", map[string]string{"tally.yaml": "route: counters\n"}, "tally-yaml", `tally.yaml:1:1: unknown key "route"`},
	{"rules without Tally's", map[string]string{"firestore.rules": inRules("// later: /counters/ and /shards/ and /rollups/\nmatch /posts/{post} { allow get; }")}, "rules-file",
		"firestore.rules: tried: update of counters/{counter}/shards/{shard} by an increment is refused, so it counts nothing"},
	{"two blocks of one path", map[string]string{"firestore.rules": strings.Replace(someRules, "match /rollups/{r}", "match /counters/{c}/shards/{shard} { allow create: if request.auth != null; }\nmatch /rollups/{r}", 1)},
		"", "firestore.rules:5: this block and that of line 4 both allow create of counters/{counter}/shards/{shard}, and one that allows is enough"},
	{"a database with a name", map[string]string{"firebase.json": strings.Replace(someFirebase, `{"rules"`, `{"database": "orders", "rules"`, 1), "firestore.rules": inRules("match /posts/{post} { allow get; }")}, "rules-file", "update of counters/{counter}/shards/{shard} by an increment is refused"},
	{"an author who is locked out", map[string]string{
		"tally.yaml":      "routes: 'posts/{post}/likes/{user} -> posts/{post} : count() as likes : existing'",
		"firestore.rules": inRules("match /posts/{p} {\nallow update: if request.resource.data.keys().hasOnly(['title']);\nmatch /likes/{u} { allow create; } }"),
		"firebase.json":   `{"firestore": {"rules": "firestore.rules"}}`,
	}, "rules-file", "firestore.rules:5: tried: a client that is not signed in may edit posts/ann until it has totals, and then no more, as if this lists or counts the fields of posts/{post}: Tally adds 'likes', 'tally'."},
	{"rules that ask for a claim", map[string]string{
		"tally.yaml":      "routes: 'posts/{post}/likes/{user} -> posts/{post} : count() as likes : existing'",
		"firestore.rules": inRules("match /posts/{p} { allow update: if request.auth.token.editor; }"),
		"firebase.json":   `{"firestore": {"rules": "firestore.rules"}}`,
	}, "", "? rules-file the rules that firebase.json names let clients do what they need, and write no total FILE: not tried: edits of posts/{post} once it has totals, writes of totals into posts/{post}: the rules ask for the claim editor of a user, which the trial does not have"},
	{"rules that do not compile", map[string]string{"firestore.rules": inRules("function role() { if (request.auth == null) return null; }\nmatch /posts/{p} { allow get: if role() == 1; }")}, "rules-file", "firestore.rules:4:"},
	{"rules of init, with a total at a fixed path", map[string]string{
		"tally.yaml":             "routes: |\n  " + fixedPath[0] + "\n  " + fixedPath[1] + "\n",
		"firestore.rules":        rulesOfInit(fixedPath[0] + ";" + fixedPath[1]),
		"firebase.json":          `{"firestore": {"rules": "firestore.rules"}}`,
		"firestore.indexes.json": "",
	}, "", "✓ rules-file"},
	{"rules that are not there", map[string]string{"firestore.rules": ""}, "rules-file", "firebase.json names a file that is not there: "},
	{"a firebase.json that is none", map[string]string{"firebase.json": "{"}, "rules-file indexes-file", "firebase.json: "},
	{"indexes without Tally's", map[string]string{"firestore.indexes.json": "{}"}, "indexes-file", `{"collectionGroup":"rollups","fieldPath":"tally"`},
}

func TestLocal(t *testing.T) {
	indexes, addr := file(t, "../../../firestore.indexes.json"), emulatortest.Addr(t)
	for _, test := range local {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			files := map[string]string{"tally.yaml": someYAML, "firebase.json": someFirebase, "firestore.rules": someRules, "firestore.indexes.json": indexes}
			maps.Copy(files, test.files)
			for name, content := range files {
				if content == "" {
					continue
				}
				if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}

			folder, unfit := appfolder.Find(dir, "")
			d := Local(folder, unfit, &deploy.Unread{What: "the project", Why: "no one is signed in"})
			d.Judge = func(ctx context.Context, j rules.Judge, routes route.Routes, own map[string][]rules.Document) ([]rules.Answer, error) {
				j.Addr, j.Project = addr, emulatortest.Project(t)
				return j.All(ctx, routes, own)
			}
			findings := d.Examine(t.Context(), nil)
			var wrong []string
			for _, f := range findings {
				switch {
				case f.Verdict == Wrong:
					wrong = append(wrong, f.Name)
				case f.Name == "project" && f.Verdict != Unknown, f.needs >= theProject && f.Verdict != Idle:
					t.Errorf("%s is %s, and there is no project", f.Name, f.Verdict)
				}
			}
			if got := strings.Join(wrong, " "); got != test.wrong {
				t.Errorf("wrong are %q, want %q", got, test.wrong)
			}
			if said := printed(t, findings); !strings.Contains(said, strings.ReplaceAll(strings.Join(strings.Fields(test.says), " "), "FILE", filepath.Join(dir, "firestore.rules"))) {
				t.Errorf("it does not say %s:\n%s", test.says, said)
			}
		})
	}
}

// printed returns what Print writes, on one line.
func printed(t *testing.T, findings []Finding) string {
	t.Helper()
	var b bytes.Buffer
	if err := Print(&b, findings, true); err != nil {
		t.Fatal(err)
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

// What could not be looked at is said on one line, with the reason and the remedy.
func TestNotLookedAt(t *testing.T) {
	d := Local(&appfolder.Folder{}, nil, errors.New("name the project"))
	said := printed(t, d.Examine(t.Context(), nil))
	for _, want := range []string{
		"? project the project can be read name the project - payment, configuration, databases,",
		"rules not checked: the project was not read",
		"Nothing is wrong, as far as was checked: 0 OK, 0 failed, ",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("it does not say %s:\n%s", want, said)
		}
	}
}
