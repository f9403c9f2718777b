//go:build unix

package main

import (
	"encoding/base64"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/firestore-tally/tally/internal/cloud/firestorestore"
	"github.com/firestore-tally/tally/internal/test/emulatortest"
	"github.com/firestore-tally/tally/internal/tool/local"
	"github.com/firestore-tally/tally/internal/tool/local/emulator"
	"github.com/firestore-tally/tally/internal/tool/local/framework"
	"github.com/firestore-tally/tally/rollup/route"
	"github.com/google/go-cmp/cmp"
)

// startDev starts tally dev with further variables and flags, at ports that are free, and returns
// when it has greeted.
func startDev(t *testing.T, env []string, args ...string) *follower {
	t.Helper()
	c := tally(t, append([]string{"dev", "--firestore-port=0", "--functions-port=0", "--dashboard-port=0"}, args...)...)
	c.Env = append(c.Env, env...)
	out := c.follow(t)
	out.await("Add 1 from here")
	return out
}

// onShared is the environment of a command that works on the tests' emulator.
func onShared(t *testing.T) []string {
	return []string{"FIRESTORE_EMULATOR_HOST=" + emulatortest.Addr(t)}
}

// greeted returns what an expression finds in what the command has printed, or the group in it.
func (f *follower) greeted(expression string) string {
	f.t.Helper()
	found := regexp.MustCompile(expression).FindStringSubmatch(f.read.String())
	if found == nil {
		f.t.Fatalf("nothing matches %s:\n%s", expression, &f.read)
	}
	return found[len(found)-1]
}

// ports returns the ports that the command has greeted with.
func (f *follower) ports() (ports []int) {
	greeting, _, _ := strings.Cut(f.read.String(), "Point an app at it")
	for _, found := range regexp.MustCompile(`127\.0\.0\.1:(\d+)`).FindAllStringSubmatch(greeting, -1) {
		port, _ := strconv.Atoi(found[1]) // they are digits
		ports = append(ports, port)
	}
	return ports
}

// increment adds 1 to a field over REST, as any app can: past the rules, or, to be refused, without
// a signed-in user.
func (f *follower) increment(database, shard, field string, wantStatus int) {
	f.t.Helper()
	f.add(database, shard, field, wantStatus, wantStatus == http.StatusOK)
}

// signedOut adds 1 to a field over REST, as a client without a signed-in user does.
func (f *follower) signedOut(database, shard, field string, wantStatus int) {
	f.t.Helper()
	f.add(database, shard, field, wantStatus, false)
}

// commit makes a write over REST, as a user does, or past the rules as the user "owner". ROOT in it
// is the name of the database's documents.
func (f *follower) commit(user string, wantStatus int, write string) {
	f.t.Helper()
	root := "projects/" + f.greeted(`, project (\S+)`) + "/databases/(default)/documents"
	url := fmt.Sprintf("http://%s/v1/%s:commit", f.greeted(`Firestore +(\S+),`), root)
	body := `{"writes": [` + strings.ReplaceAll(write, "ROOT", root) + `]}`
	req, err := http.NewRequestWithContext(f.t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		f.t.Fatal(err)
	}
	token := user
	if user != "owner" {
		part := base64.RawURLEncoding.EncodeToString
		token = part([]byte(`{"alg":"none"}`)) + "." + part(fmt.Appendf(nil, `{"sub":%q}`, user)) + "."
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		f.t.Fatal(err)
	}
	defer res.Body.Close()
	if answer, _ := io.ReadAll(res.Body); res.StatusCode != wantStatus {
		f.t.Fatalf("%s by %s: %s, want status %d: %s", write, user, res.Status, wantStatus, answer)
	}
}

// add adds 1 to a field over REST. owner says whether that goes past the rules.
func (f *follower) add(database, shard, field string, wantStatus int, owner bool) {
	f.t.Helper()
	name := "projects/" + f.greeted(`, project (\S+)`) + "/databases/" + database
	url := fmt.Sprintf("http://%s/v1/%s/documents:commit", f.greeted(`Firestore +(\S+),`), name)
	body := fmt.Sprintf(`{"writes": [{"transform": {"document": "%s/documents/%s", "fieldTransforms": [{"fieldPath": "%s", "increment": {"integerValue": 1}}]}}]}`, name, shard, field)
	req, err := http.NewRequestWithContext(f.t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		f.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if owner {
		req.Header.Set("Authorization", "Bearer owner")
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		f.t.Fatal(err)
	}
	defer res.Body.Close()
	if answer, _ := io.ReadAll(res.Body); res.StatusCode != wantStatus {
		f.t.Fatalf("%s: %s, want status %d: %s", shard, res.Status, wantStatus, answer)
	}
}

func TestDev(t *testing.T) {
	t.Parallel()
	first := freePorts(t, 3)
	out := startDev(t, []string{"TALLY_LOG_LEVEL=DEBUG"}, // set by the user: then all lines are shown
		"--every=2s", "--firestore-port="+strconv.Itoa(first), "--functions-port="+strconv.Itoa(first+1))
	for _, want := range []string{`Firestore +127\.0\.0\.1:\d+, project demo-tally`, `http://127\.0\.0\.1:\d+/RollUpOnWrite`, "connectFirestoreEmulator", "FIRESTORE_EMULATOR_HOST"} {
		out.greeted(want)
	}
	add := func(n int) {
		t.Helper()
		out.increment("(default)", "counters/likes/shards/0", "count", http.StatusOK)
		out.await(fmt.Sprintf("rollups/likes  count %d  1 shard  as of ", n))
	}
	add(1)
	// The dashboard knows what the functions do. An audit may have written too.
	written := regexp.MustCompile(`, [1-9][0-9]* writes?</dd>`)
	out.readDashboard(func(read string) bool {
		return strings.Contains(read, `<bdi>likes</bdi>`) && strings.Contains(read, `<dd id="events">1</dd>`) && written.MatchString(read)
	})
	add(2)

	// A functions process that dies is replaced.
	pid, _ := strconv.Atoi(out.greeted(`functions +process (\d+)`))
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	out.await("ended (signal: killed); starting another")
	add(3)

	out.await("INFO  audited  report map[")
	if strings.Contains(out.read.String(), "could not read the state of the queue") {
		t.Errorf("a tick does not reach the queue of alarms:\n%s", &out.read)
	}
	ports := append(out.ports(), first, first+1, first+2)
	out.interrupt()
	if said := out.command.stderr.String(); said != starting+"\n" {
		t.Errorf("standard error: %q, want %q", said, starting)
	}
	wantNoListeners(t, ports...)
}

// In a Firebase project, tally dev starts the emulator where firebase.json says. An emulator that
// serves there already is joined, and goes on when Tally ends.
func TestDevOfFirebaseProject(t *testing.T) {
	t.Parallel()
	port := freePorts(t, 1)
	dir := t.TempDir()
	write(t, filepath.Join(dir, "firebase.json"), fmt.Appendf(nil, `{"emulators": {"firestore": {"host": "localhost", "port": %d}, "auth": {"port": 9199}}}`, port))
	begin := func(args ...string) *follower {
		c := tally(t, append([]string{"dev", "--dashboard-port=0", "--every=1h", "--instances=1"}, args...)...)
		c.Dir = dir
		out := c.follow(t)
		out.await("Add 1 from here")
		return out
	}

	own := begin("--functions-port=0")
	own.greeted(fmt.Sprintf(`Firestore +127\.0\.0\.1:%d, project demo-tally\n`, port))
	own.greeted(`connectAuthEmulator\(getAuth\(\), 'http://127\.0\.0\.1:9199'\)`)
	if joined := "joined:"; strings.Contains(own.read.String(), joined) {
		t.Errorf("it says %q of an emulator of its own", joined)
	}

	second := tally(t, "dev", "--dashboard-port=0", "--instances=1")
	second.Dir = dir
	const refused = "another tally dev runs on 127.0.0.1:%d for project demo-tally"
	if err := second.Run(); err == nil || !strings.Contains(second.stderr.String(), fmt.Sprintf(refused, port)) {
		t.Errorf("a second one: %v, %s", err, &second.stderr)
	}

	for n := 1; n <= 2; n++ { // the emulator and its documents stay
		joined := begin("--functions-port=0", "--project", "demo-other")
		joined.greeted(fmt.Sprintf(`Firestore +127\.0\.0\.1:%d, project demo-other\n +joined: it was there already, where firebase\.json says; it keeps running when Tally stops`, port))
		joined.increment("(default)", "counters/likes/shards/0", "count", http.StatusOK)
		joined.await(fmt.Sprintf("rollups/likes  count %d", n))
		joined.interrupt()
	}
	own.interrupt()
	wantNoListeners(t, port)
}

// Rules that list the fields of a document lock its author out once it has totals. tally dev says
// so at its start and with each refusal, and the rule that the docs show lets the author in.
func TestDevTellsOfLockedAuthors(t *testing.T) {
	t.Parallel()
	limits, err := os.ReadFile("../../docs/limits.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := regexp.MustCompile(`(?s)allow update: if request\.auth\.uid == resource\.data\.author.*?;`).Find(limits)
	if shown == nil {
		t.Fatal("docs/limits.md shows no rule")
	}

	dir := t.TempDir()
	rules := func(update string) {
		write(t, filepath.Join(dir, "firestore.rules"), []byte("rules_version = '2';\nservice cloud.firestore {\n  match /databases/{database}/documents {\n    match /posts/{post} {\n      "+update+"\n    }\n  }\n}\n"))
	}
	rules("allow update: if request.auth.uid == resource.data.author && request.resource.data.keys().hasOnly(['author', 'title', 'text']);")
	write(t, filepath.Join(dir, "firebase.json"), []byte(`{"firestore": {"rules": "firestore.rules"}}`))
	write(t, filepath.Join(dir, "tally.yaml"), []byte("routes: 'posts/{post}/likes/{user} -> posts/{post} : count() as likes : existing'\n"))
	c := tally(t, "dev", "--firestore-port=0", "--functions-port=0", "--dashboard=false", "--every=1h", "--instances=1")
	c.Dir = dir
	out := c.follow(t)
	out.await("call        connectAuthEmulator")

	edit := func(user string, wantStatus int) {
		t.Helper()
		out.commit(user, wantStatus, `{"update": {"name": "ROOT/posts/1", "fields": {"title": {"stringValue": "One"}}}, "updateMask": {"fieldPaths": ["title"]}, "currentDocument": {"exists": true}}`)
	}
	out.commit("owner", http.StatusOK, `{"update": {"name": "ROOT/posts/1", "fields": {"author": {"stringValue": "ann"}}}}`)
	edit("ann", http.StatusOK)
	edit("bob", http.StatusForbidden)
	out.await("refused: update of posts/1 by user bob;")
	out.commit("owner", http.StatusOK, `{"update": {"name": "ROOT/posts/1/likes/bob", "fields": {}}}`)
	out.await("  posts/1  likes 1")
	out.await("firestore.rules:5: tried: user ann may edit posts/1 until it has totals, and then no more, as if this lists or counts the fields of posts/{post}: ")
	edit("ann", http.StatusForbidden)
	out.await("refused: update of posts/1 by user ann; firestore.rules line 5:")
	out.await(" (Tally added tally, likes, and these rules may list or count the document's fields: compare request.resource.data.diff(resource.data).affectedKeys() instead)\n")

	rules(string(shown))
	out.await("its rules are in force now")
	edit("ann", http.StatusOK)
	out.interrupt()
}

// tally dev tries the app's rules on its documents once it sees one. On an emulator that it joined
// it tries none: it then starts another. It tells what the text of the rules does not show. Its own
// requests are not told as refused.
func TestDevTriesRules(t *testing.T) {
	t.Parallel()
	for name, env := range map[string][]string{"own": nil, "joined": onShared(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, pids := t.TempDir(), filepath.Join(t.TempDir(), "pids")
			rules := func(update string) {
				write(t, filepath.Join(dir, "firestore.rules"), []byte("rules_version = '2';\nservice cloud.firestore {\n  match /databases/{database}/documents {\n    match /posts/{post} {\n      "+update+"\n    }\n  }\n}\n"))
			}
			write(t, filepath.Join(dir, "firebase.json"), []byte(`{"firestore": {"rules": "firestore.rules"}}`))
			write(t, filepath.Join(dir, "tally.yaml"), []byte("routes: 'posts/{post}/likes/{user} -> posts/{post} : count() as likes : existing'\n"))
			rules("allow update: if request.auth.uid == resource.data.author && request.resource.data.values().size() == 1;")
			c := tally(t, "dev", "--project="+emulatortest.Project(t), "--firestore-port=0", "--functions-port=0", "--dashboard=false", "--every=1h", "--instances=1")
			c.Dir, c.Env = dir, slices.Concat(c.Env, env, recordedJava(t, pids))
			out := c.follow(t)
			out.await("call        connectAuthEmulator")
			out.commit("owner", http.StatusOK, `{"update": {"name": "ROOT/posts/1", "fields": {"author": {"stringValue": "ann"}}}}`)
			out.commit("owner", http.StatusOK, `{"update": {"name": "ROOT/posts/1/likes/bob", "fields": {}}}`)
			out.await("firestore.rules:5: tried: user ann may edit posts/1 until it has totals, and then no more, as if this lists or counts the fields of posts/{post}: Tally adds 'likes', 'tally'. Compare only what changes: request.resource.data.diff(resource.data).affectedKeys().hasOnly([…]) (firestore.rules line 5: allow update: if request.auth.uid == resource.data.author && request.resource.data.values().size() == 1;)\n")

			rules("allow update: if request.auth.uid == resource.data.author && request.resource.data['author'] != null;")
			out.await("firestore.rules:5: tried: this lets users change likes of posts/{post}: user ann may, in posts/1, and only Tally may. ")
			rules("allow create: if request.auth.uid == request.resource.data.author;")
			out.await("firestore.rules:5: tried: this lets users create posts/{post} with likes: user ann may, as posts/1, and only Tally may. ")
			if n := runningOf(t, pids); n != 1 {
				t.Errorf("it runs %d emulators, want one", n)
			}
			out.interrupt()
			if strings.Contains(out.read.String(), "refused") {
				t.Errorf("its own requests are told:\n%s", out.read.String())
			}
		})
	}
}

// tally dev has one file's rules for all databases. It names the file that is not in force, and
// what a changed tally.yaml leaves behind.
func TestDevNamesWhatIsLeftOut(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "firebase.json"), []byte("\ufeff"+`{ // two databases
  "firestore": [{"database": "(default)", "rules": "main.rules"}, {"database": "orders", "rules": "orders.rules"}, {"database": "other"}]
}`))
	for _, name := range []string{"main.rules", "orders.rules"} {
		write(t, filepath.Join(dir, name), []byte("\ufeffrules_version = '2';\r\nservice cloud.firestore {\r\n  match /databases/{database}/documents/a/{a} { allow read; }\r\n}\r\n"))
	}
	const karma = "  posts/{post} by author -> users/{author} : sum(likes) as karma : existing\n"
	settings := func(total string) {
		write(t, filepath.Join(dir, "tally.yaml"), []byte("databases: [(default), orders]\nroutes: |\n  posts/{post}/likes/{user} -> posts/{post} : count() as "+total+" : existing\n"+karma))
	}
	settings("likes")
	c := tally(t, "dev", "--firestore-port=0", "--functions-port=0", "--dashboard=false", "--every=1h", "--instances=1")
	c.Dir = dir
	out := c.follow(t)
	out.await("orders.rules, which firebase.json names for database orders, is not in force: tally dev has one file's rules for all databases, those of main.rules, and firebase emulators:start has none if there are several databases\n")
	out.signedOut("orders", "a/1", "n", http.StatusForbidden)
	write(t, filepath.Join(dir, "main.rules"), []byte("rules_version = '2';\nservice cloud.firestore {\n  match /databases/{database}/documents/a/{a} { allow read, write; }\n}\n"))
	out.await("main.rules changed: its rules are in force now")
	out.signedOut("orders", "a/1", "n", http.StatusOK)
	settings("hearts")
	out.await("posts/{post} by author -> users/{author} : likes as karma : existing reads likes of posts/{post}, which no route updates any more")
	out.await("tally.yaml changed")
	out.interrupt()
	if n := strings.Count(out.read.String(), "is not in force"); n != 1 {
		t.Errorf("told %d times:\n%s", n, &out.read)
	}
}

// The one database that firebase.json names is the app's from tally init on, with the app's rules
// in force, and its edition is told.
func TestDevOfNamedDatabase(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "firebase.json"), []byte(`{"firestore": {"rules": "firestore.rules", "indexes": "firestore.indexes.json", "edition": "enterprise", "database": "my-database-id", "location": "us-central1"}}`))
	write(t, filepath.Join(dir, "firestore.rules"), []byte("rules_version = '2';\nservice cloud.firestore { match /databases/{database}/documents {\n  match /open/{doc} { allow write: if true; }\n} }\n"))
	write(t, filepath.Join(dir, "firestore.indexes.json"), []byte(`{"indexes": [], "fieldOverrides": []}`))
	initial := tally(t, "init")
	initial.Dir = dir
	if err := initial.Run(); err != nil {
		t.Fatal(err)
	}

	settings, err := os.ReadFile(filepath.Join(dir, "tally.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	unsaid := strings.Replace(string(settings), "\nedition: enterprise\n", "\n", 1) // firebase.json still says it
	write(t, filepath.Join(dir, "tally.yaml"), []byte(unsaid))

	c := tally(t, "dev", "--firestore-port=0", "--functions-port=0", "--dashboard=false", "--every=1h", "--instances=1")
	c.Dir = dir
	out := c.follow(t)
	out.await("tally dev asks the emulator to be of the Enterprise edition. Before version 1.22 the emulator ignores that, and answers as Standard does\n")
	out.await("firebase.json says that database my-database-id is of the Enterprise edition, on which no one has tried Tally yet: tally deploy refuses it, unless tally.yaml says edition: enterprise (docs/deploy.md#before)\n")
	for range 3 {
		out.increment("my-database-id", "counters/likes/shards/0", "count", http.StatusOK)
	}
	out.await("rollups/likes  count 3  1 shard")
	out.signedOut("my-database-id", "counters/likes/shards/0", "count", http.StatusForbidden)
	out.signedOut("my-database-id", "open/1", "count", http.StatusOK)
	out.interrupt()
	if strings.Contains(out.read.String(), "several databases") {
		t.Errorf("there is one database:\n%s", &out.read)
	}
}

// A second tally dev says first that one runs, even while that one is still starting and whatever
// ports are named. The ports are those of tally.yaml. Once the first is gone, however it went,
// there is place for another. In a shell that names an emulator that is gone, one is started there.
func TestDevRunsOnce(t *testing.T) {
	t.Parallel()
	port := freePorts(t, 3)
	dir := t.TempDir()
	settings := fmt.Sprintf("dev:\n  firestore_port: %d\n  functions_port: %d\n  dashboard_port: %d\n", port, port+1, port+2)
	write(t, filepath.Join(dir, "tally.yaml"), []byte(settings))
	temporary := t.TempDir()
	begin := func(env ...string) *process {
		c := tally(t, "dev", "--every=1h", "--instances=1")
		c.Dir, c.Env = dir, append(c.Env, append(env, "TMPDIR="+temporary)...)
		return c
	}

	first := begin()
	first.Stdout = nil
	out, err := first.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	following := first.start(t, out)
	awaitFile(t, filepath.Join(temporary, "tally-dev-*"))
	second := begin()
	want := fmt.Sprintf("another tally dev runs in %s, on 127.0.0.1:%d for project demo-tally: stop it", dir, port)
	if err := second.Run(); err == nil || !strings.Contains(second.stderr.String(), want) {
		t.Errorf("a second one: %v, %s, want %s", err, &second.stderr, want)
	}
	following.await("Add 1 from here")
	following.greeted(fmt.Sprintf(`Firestore +127\.0\.0\.1:%d,`, port))
	following.greeted(fmt.Sprintf(`http://127\.0\.0\.1:%d/RollUpOnWrite`, port+1))
	following.greeted(fmt.Sprintf(`dashboard +http://127\.0\.0\.1:%d/`, port+2))
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = first.Wait() // killed
	wantNoListeners(t, port, port+1, port+2)

	third := begin(fmt.Sprintf("FIRESTORE_EMULATOR_HOST=127.0.0.1:%d", port)).follow(t)
	third.await("Add 1 from here")
	third.greeted(fmt.Sprintf(`Firestore +127\.0\.0\.1:%d, project demo-tally\n +emulator `, port))
	write(t, filepath.Join(dir, "tally.yaml"), []byte("dev:\n  firestore_port: 1\n"))
	third.await("the ports of dev: changed: restart tally dev to apply them\n")
	third.interrupt()
}

// A changed tally.yaml is taken while tally dev runs: documents stay, those that were written
// before are counted, routes that went make no more roll-ups. A mistake is told once, and changes
// nothing.
func TestDevTakesChangedSettings(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		env  []string
	}{{"own", nil}, {"joined", onShared(t)}} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			settings := func(text string) { write(t, filepath.Join(dir, "tally.yaml"), []byte(text)) }
			counters, pages := "  "+route.Default+"\n", "  pages/{page}/shards/{shard} -> page_totals/{page} : views\n"
			settings("routes: |\n" + counters)
			c := tally(t, "dev", "--firestore-port=0", "--functions-port=0", "--dashboard-port=0", "--every=1h", "--instances=1", "--project", emulatortest.Project(t))
			c.Dir, c.Env = dir, append(c.Env, test.env...)
			out := c.follow(t)
			out.await("Add 1 from here")
			add := func(shard, field string) { t.Helper(); out.increment("(default)", shard, field, http.StatusOK) }
			add("counters/likes/shards/0", "count")
			out.await("  rollups/likes  count 1  1 shard")
			add("pages/home/shards/0", "views")

			settings("routes: |\n" + counters + "  pages/{page} -> x : views\n")
			out.await("/tally.yaml:3:19: \"x\" names a collection")
			add("counters/likes/shards/0", "count")
			out.await("  rollups/likes  count 2  1 shard")
			settings("# both\nroutes: |\n" + pages + counters)
			out.await("tally.yaml changed: the functions run again with its settings, all documents stay, and an audit brings the totals up to date\n")
			out.await("  page_totals/home  views 1  1 shard")
			add("counters/likes/shards/0", "count")
			out.await("  rollups/likes  count 3  1 shard")
			add("pages/home/shards/1", "views")
			out.await("  page_totals/home  views 2  2 shards")
			out.readDashboard(func(read string) bool {
				return strings.Contains(read, "page_totals") || strings.Contains(read, "pages")
			})

			settings("routes: |\n" + pages)
			out.await("no route updates the totals in rollups/{counter} any more; they keep their last values\n")
			out.await("no route counts counters/{counter}/shards/{shard} any more, but such documents still exist, such as counters/likes/shards/0\n")
			out.awaitCount("tally.yaml changed", 2)
			add("counters/likes/shards/0", "count")
			add("pages/home/shards/1", "views")
			out.await("  page_totals/home  views 3  2 shards")
			settings("# the same\nroutes: |\n" + pages)
			add("pages/home/shards/1", "views")
			out.await("  page_totals/home  views 4  2 shards")
			if strings.Contains(out.read.String(), "rollups/likes  count 4") {
				t.Errorf("a route that went made a roll-up:\n%s", &out.read)
			}
			settings("")
			out.await("tally.yaml names no routes, so the default one runs; no route updates the totals in page_totals/{page} any more; they keep their last values\n")
			out.awaitCount("tally.yaml changed", 3)
			out.interrupt()
			for text, times := range map[string]int{"tally.yaml changed": 3, "names a collection": 1, "ERROR": 0} {
				if n := strings.Count(out.read.String(), text); n != times {
					t.Errorf("%q is there %d times, want %d:\n%s", text, n, times, &out.read)
				}
			}
		})
	}
}

// With --data the documents of all databases outlast tally dev. After an import, an audit brings
// the totals up to date at once, because imports make no events. Only their owner may read the
// documents.
func TestDevKeepsData(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data := filepath.Join(dir, "a folder", "data")
	const pages = "pages/{page}/shards/{shard} -> page_totals/{page} : views"
	begin := func(routes string) *follower {
		c := tally(t, "dev", "--firestore-port=0", "--functions-port=0", "--dashboard=false", "--every=1h", "--instances=1", "--data", data)
		c.Dir, c.Env = dir, append(c.Env, "TALLY_DATABASES=(default),other", "TALLY_ROUTES="+routes)
		out := c.follow(t)
		out.await("Add 1 from here")
		return out
	}

	first := begin(route.Default)
	first.greeted("Tally runs. Stop it with Ctrl-C, which saves all documents in " + regexp.QuoteMeta(data))
	for _, database := range []string{"(default)", "other"} {
		first.increment(database, "pages/home/shards/0", "views", http.StatusOK)
	}
	first.increment("other", "counters/likes/shards/0", "count", http.StatusOK)
	first.await("other: rollups/likes  count 1")
	first.interrupt()
	first.greeted(`the documents of database other are saved in `)
	saved, documents := filesOf(t, data), filepath.Join(data, "firestore_export", "all_namespaces", "all_kinds", "output-0")

	second := begin(route.Default + ";" + pages)
	second.await("  page_totals/home  views 1  1 shard")
	second.await("  other: page_totals/home  views 1  1 shard")
	second.increment("other", "counters/likes/shards/0", "count", http.StatusOK)
	second.await("other: rollups/likes  count 2")
	second.increment("(default)", "pages/home/shards/0", "views", http.StatusOK)
	second.await("  page_totals/home  views 2")
	second.interrupt()
	savedAgain := filesOf(t, data)
	if savedAgain[documents] == saved[documents] {
		t.Errorf("what was written later is not saved: %s", &second.read)
	}
	for _, folder := range []string{data, filepath.Join(data, "firestore_export"), filepath.Join(data, "other")} {
		info, err := os.Stat(folder)
		if err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v, %v; want no rights for others", folder, info.Mode(), err)
		}
	}
	for path, text := range savedAgain {
		if strings.Contains(text, "TALLY_ROUTES") || strings.Contains(path, "saving-") {
			t.Errorf("%s has more than the app's documents", path)
		}
	}
}

// filesOf returns what the files below a folder hold, by their paths.
func filesOf(t *testing.T, folder string) map[string]string {
	t.Helper()
	files := make(map[string]string)
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		files[path] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// Only an emulator that tally dev starts keeps documents in a folder.
func TestDevOpensData(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	write(t, file, nil)
	for _, test := range []struct{ host, data, want string }{
		{"127.0.0.1:8080", "data", "one already runs at 127.0.0.1:8080"},
		{"", file, "--data: "},
	} {
		var d dev
		d.stack.Data, d.stack.Config.EmulatorHost = test.data, test.host
		if err := d.openData(); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s on %q: %v, want %s", test.data, test.host, err, test.want)
		}
	}
}

// What a running tally dev cannot take from a changed tally.yaml changes nothing, and it says why.
func TestDevRefusesChangedSettings(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	file := filepath.Join(dir, "tally.yaml")
	for _, test := range []struct{ text, want string }{
		{"", ""},
		{"region: us-east1", ""}, // is of no concern to it
		{"cadence: 100ms", "changed"},
		{"env:\n  TALLY_HOLD_LIMIT: 20s", "changed"}, // is below the acknowledgement deadline all the same
		{"env:\n  TALLY_HOLD_LIMIT: 40s", "TALLY_HOLD_LIMIT changed: restart tally dev"},
		{"routes: a/{a}/b/{b} -> c/{a}:n", "changed"},
		{"cadence: [", "tally.yaml:1:10: "},
	} {
		write(t, file, nil)
		d := dev{project: "demo-tally", file: file, logs: io.Discard}
		folder, err := d.stack.settings.Here(io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		environment, config, err := d.stack.functions(folder, d.project)
		if err != nil {
			t.Fatal(err)
		}
		s := &local.Stack{Options: local.Options{Environment: environment, Config: config}}

		write(t, file, []byte(test.text))
		changed := false
		folder, err = d.reread()
		if err == nil {
			changed, err = d.compareSettings(folder, s)
			if changed || err != nil {
				t.Errorf("%s: at the first look: %v, %v; an editor may be writing it", test.text, changed, err)
			}
			changed, err = d.compareSettings(folder, s)
		}
		got := fmt.Sprint(err)
		if changed {
			got = "changed"
		}
		if test.want == "" && got != "<nil>" || !strings.Contains(got, test.want) {
			t.Errorf("%s: got %s, want %s", test.text, got, test.want)
		}
	}

	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	d := dev{project: "demo-tally", file: file}
	if folder, err := d.reread(); folder != nil || err != nil {
		t.Errorf("without the file: %v, %v; want nothing", folder, err)
	}
}

// Security rules that change while tally dev runs are put in force. So are those that a
// firebase.json names that appears. A mistake is told once, in its place, and changes nothing. A
// refusal quotes the rules that made it.
func TestDevTakesChangedRules(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rules := func(statements string) {
		text := "rules_version = '2';\nservice cloud.firestore { match /databases/{database}/documents { match /products/{product} {\n" + statements + "\n} } }\n"
		write(t, filepath.Join(dir, "firestore.rules"), []byte(text))
	}
	c := tally(t, "dev", "--firestore-port=0", "--functions-port=0", "--dashboard=false", "--every=1h", "--instances=1", "--project", emulatortest.Project(t))
	c.Dir = dir
	out := c.follow(t)
	out.await("Add 1 from here")
	out.greeted(`  rules +Tally's built-in rules`)

	out.increment("(default)", "products/p1", "n", http.StatusForbidden)
	out.await("refused: create or update of products/p1 by a client that is not signed in; nothing in Tally's built-in rules allows it; firebase.json names a file of your own\n")
	rules("allow create: if true;")
	write(t, filepath.Join(dir, "firebase.json"), []byte(`{"firestore": {"rules": "firestore.rules"}}`))
	out.await("firebase.json names firestore.rules: its rules are in force now\n")
	out.signedOut("(default)", "products/p1", "n", http.StatusOK)
	out.increment("(default)", "products/p1", "n", http.StatusForbidden)
	out.await("refused: update of products/p1 by a client that is not signed in; nothing in firestore.rules allows it\n")

	rules("allow create: if true;\nallow update: if resource.data.n = 5;")
	out.await("firestore.rules:4:34: ")
	out.await("The former rules stay in force.\n")
	out.signedOut("(default)", "products/p2", "n", http.StatusOK)
	rules("allow create: if true;\nallow update: if resource.data.n == 5;")
	out.await("firestore.rules changed: its rules are in force now\n")
	out.increment("(default)", "products/p1", "n", http.StatusForbidden)
	out.await("refused: update of products/p1 by a client that is not signed in; firestore.rules line 4: allow update: if resource.data.n == 5;\n")

	// Other settings make no refusal new.
	write(t, filepath.Join(dir, "tally.yaml"), []byte("cadence: 900ms\n"))
	out.await("tally.yaml changed: ")
	out.increment("(default)", "products/p2", "n", http.StatusForbidden)
	out.await("refused: update of products/p2 ")

	out.interrupt()
	for text, times := range map[string]int{"refused: ": 4, "stay in force": 1, "in force now": 2} {
		if n := strings.Count(out.read.String(), text); n != times {
			t.Errorf("%q is there %d times, want %d:\n%s", text, n, times, &out.read)
		}
	}
}

// Rules are put in force when their file says the same at two looks: at the first, an editor may
// have written half of it.
func TestDevWaitsForWholeRules(t *testing.T) {
	file := filepath.Join(t.TempDir(), "firestore.rules")
	d := &dev{stack: stackFlags{rulesAt: file}}
	nowhere := &local.Stack{Emulator: new(emulator.Emulator), Addr: "127.0.0.1:0"}
	nowhere.Config.Databases = []string{"(default)"}
	for _, look := range []struct {
		rules string
		taken bool
	}{{"", false}, {"half", false}, {"half and half", false}, {"half and half", true}, {"", false}, {"half and half", false}} {
		write(t, file, []byte(look.rules))
		err := d.applyRules(t.Context(), nowhere, nil)
		if taken := err != nil; taken != look.taken { // nothing can be put in force there
			t.Errorf("rules %q: taken: %v (%v), want %v", look.rules, taken, err, look.taken)
		}
	}
}

// Each route and each database has its trigger, and its roll-ups are shown. A route that says
// "every" has no events: the schedule rolls it up. A tally dev that is killed leaves the folder of
// --data as it was.
func TestDevRoutes(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	write(t, filepath.Join(data, "saved"), []byte("before"))
	out := startDev(t, []string{"TALLY_DATABASES=(default),other",
		"TALLY_ROUTES=posts/{p}/shards/{s} -> rollups/{p} : likes; counters/{c}/shards/{s} -> totals/{c} : count; pages/{p}/shards/{s} -> page_totals/{p} : views : every 1s"}, "--every=2s", "--instances=1", "--data", data)
	for n := 1; n <= 2; n++ {
		out.increment("(default)", "pages/home/shards/0", "views", http.StatusOK)
		out.await(fmt.Sprintf("  page_totals/home  views %d  1 shard  as of ", n))
	}
	out.increment("(default)", "counters/c/shards/0", "count", http.StatusOK)
	out.await("  totals/c  count 1  1 shard  as of ")
	out.increment("other", "counters/c/shards/0", "count", http.StatusOK)
	out.await("  other: totals/c  count 1  1 shard  as of ")
	events := regexp.MustCompile(`<dd id="events">[2-9]`)
	if read := out.readDashboard(events.MatchString); events.FindString(read) != `<dd id="events">2` {
		t.Errorf("there were more events than two: %s", read)
	}

	// However tally dies, its children die with it.
	ports := out.ports()
	if err := out.command.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = out.command.Wait() // killed
	wantNoListeners(t, ports...)
	if diff := cmp.Diff(map[string]string{filepath.Join(data, "saved"): "before"}, filesOf(t, data)); diff != "" {
		t.Errorf("the folder (-before +after):\n%s", diff)
	}
}

// Documents that belong to counters by a field are counted where they are, and were: on an emulator
// of tally dev's own, whose events hold them, and on another, whose listener knows what they were.
func TestDevGroups(t *testing.T) {
	t.Parallel()
	routes := "TALLY_ROUTES=" + route.Default + `
posts/{post}/likes/{user} -> posts/{post} : count() as likes : existing
orders/{order} by shop -> shops/{shop} : count() as orders, sum(amount) as revenue : existing
orders/{order} by customer.id -> users/{customer.id} : count() as orders : existing`
	for _, test := range []struct {
		name   string
		env    []string
		events string // that the relay was posted: one for each write, whatever the number of routes
	}{{"own", nil, "6"}, {"joined", onShared(t), "7"}} { // a listener's event of a move are two
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			project := emulatortest.Project(t)
			out := startDev(t, append(test.env, routes), "--every=1h", "--instances=1", "--project", project)
			client, err := firestorestore.Dial(t.Context(), out.greeted(`Firestore +(\S+),`), project, "(default)")
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			write := func(path string, fields map[string]any) {
				t.Helper()
				if _, err := client.Doc(path).Set(t.Context(), fields); err != nil {
					t.Fatal(err)
				}
			}
			for _, path := range []string{"shops/a", "shops/b", "users/ann"} {
				write(path, map[string]any{"name": path})
			}
			order := func(shop string, amount int) map[string]any {
				return map[string]any{"shop": shop, "amount": amount, "customer": map[string]any{"id": "ann"}}
			}

			write("orders/1", order("a", 5))
			out.await("  shops/a  orders 1  revenue 5  1 document  as of ")
			out.await("  users/ann  orders 1  1 document  as of ")
			write("orders/1", order("b", 5))
			out.await("  shops/a  orders 0  revenue 0  0 documents  as of ")
			out.await("  shops/b  orders 1  revenue 5  1 document  as of ")
			write("orders/1", order("b", 7))
			out.await("  shops/b  orders 1  revenue 7  1 document  as of ")
			if _, err := client.Doc("orders/1").Delete(t.Context()); err != nil {
				t.Fatal(err)
			}
			out.await("  shops/b  orders 0  revenue 0  0 documents  as of ")
			out.await("  users/ann  orders 0  0 documents  as of ")

			write("orders/2", order("c", 1))
			out.await("orders/2 belongs to shops/c, which does not exist: the totals come with the next change, or an audit, after the app has created that document\n")
			if test.name == "own" { // a joined emulator tells only of the documents of routes
				write("posts/z/like/ann", map[string]any{"at": "now"})
				out.await("no route covers posts/z/like/ann, and the source posts/{post}/likes/{user} has no documents: the document is in like, and the route says likes: posts/{post}/likes/{user} -> posts/{post} : count() as likes : existing\n")
				write("votes/1/shards/0", map[string]any{"n": 1})
				out.await("no route covers votes/1/shards/0, which looks like a shard; to sum it, add the route votes/{vote}/shards/{shard} -> vote_totals/{vote} : n\n")
				write("pages/1", map[string]any{"tally": map[string]any{"as_of": time.Now()}})
				out.await("pages/1 has totals that Tally made, and no route updates them any more; they keep their last values\n")
			}
			write("posts/z/likes/ann", map[string]any{"at": "now"})
			out.await("posts/z/likes/ann belongs to posts/z, which does not exist: the totals come with the next change, or an audit, after the app has created that document\n")
			out.readDashboard(func(read string) bool { return strings.Contains(read, `<dd id="events">`+test.events+"<") })

			write("orders/3", map[string]any{"shop": client.Doc("shops/a"), "customer": map[string]any{"id": "ann"}})
			out.await("orders/3 belongs to no counter of orders/{order} by shop -> shops/{shop} : count() as orders, amount as revenue : existing: its shop is a reference, not a string: group by ref(shop)\n")
			write("orders/4", map[string]any{"shop": []string{"a", "b"}, "customer": map[string]any{"id": "ann"}})
			out.await("orders/4 belongs to no counter of orders/{order} by shop -> shops/{shop} : count() as orders, amount as revenue : existing: its shop is an array, and a document is in one group")
			out.interrupt()
		})
	}
}

// tally dev says once what a newcomer gets wrong: a field that is not the route's, and a client
// that the rules refuse.
func TestDevHints(t *testing.T) {
	t.Parallel()
	pids := filepath.Join(t.TempDir(), "pids")
	out := startDev(t, recordedJava(t, pids), "--dashboard=false")
	const added = "refused: create or update of counters/likes/shards/4 by a client that is not signed in; firestore.rules line 25: allow create, update: if mayWrite() && isId(counter) && !frozen() && holdsOnly(['count']) && isShard(shard, numShards()) && adds('count');\n"
	for range 2 {
		out.increment("(default)", "counters/likes/shards/3", "Count", http.StatusOK)
		out.await("counters/likes/shards/3 has Count, not count; to sum it, the route is counters/{counter}/shards/{shard} -> rollups/{counter} : Count\n")
		for _, shard := range []string{"counters/likes/shards/4", "posts/7/shards/0"} {
			out.increment("(default)", shard, "count", http.StatusForbidden)
		}
		out.await(added)
		out.await("refused: create or update of posts/7/shards/0 by a client that is not signed in; nothing in firestore.rules allows it\n")
	}
	out.increment("(default)", "counters/last/shards/0", "count", http.StatusOK)
	out.await("rollups/last  count 1")

	// An emulator that ends ends what runs on it, which says so.
	ports := out.ports()
	killRecorded(t, pids)
	out.awaitExit(1)
	if !strings.Contains(out.command.stderr.String(), emulatorEnded) {
		t.Errorf("it did not say %q: %s", emulatorEnded, &out.command.stderr)
	}
	wantNoListeners(t, ports...)
	for text, times := range map[string]int{" has Count": 1, "refused: create or update of counters": 1, "refused: create or update of posts": 1, "dashboard": 0} {
		if n := strings.Count(out.read.String(), text); n != times {
			t.Errorf("%q was said %d times, want %d:\n%s", text, n, times, &out.read)
		}
	}
}

// awaitFile waits until there is a file of a pattern. Nothing tells when it is written.
func awaitFile(t *testing.T, pattern string) {
	t.Helper()
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	deadline := time.After(emulatortest.Eventually())
	for {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		if len(files) > 0 {
			return
		}
		select {
		case <-poll.C:
		case <-deadline:
			t.Fatalf("there is no %s", pattern)
		}
	}
}

// recordedJava returns the environment in which each start of Java leaves its process id in the
// file, a line each. The first start asks for its version.
func recordedJava(t *testing.T, file string) []string {
	t.Helper()
	emulatortest.Need(t)
	java, err := emulator.Java(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	if err := os.Mkdir(filepath.Join(home, "bin"), 0o700); err != nil {
		t.Fatal(err)
	}
	// It makes no archive of classes: that would be of this script, in place of the one of Java. It
	// uses that one, if there is one.
	archives, err := filepath.Glob(filepath.Join(emulators(t), "*.jsa"))
	if err != nil {
		t.Fatal(err)
	}
	option := "-Xshare:auto"
	if len(archives) == 1 {
		option = "-XX:SharedArchiveFile=" + archives[0]
	}
	script := fmt.Sprintf("#!/bin/sh\ncase \"$*\" in *ArchiveClassesAtExit*) exit 1; esac\necho $$ >>'%s'\nexec '%s' '%s' \"$@\"\n", file, java, option)
	if err := os.WriteFile(filepath.Join(home, "bin", "java"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return []string{"JAVA_HOME=" + home}
}

// runningOf returns how many of the processes whose ids are in the file run. Others asked for
// Java's version, or found their port in use.
func runningOf(t *testing.T, file string) (n int) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.FieldsSeq(string(text)) {
		pid, err := strconv.Atoi(line)
		if err != nil {
			t.Fatal(err)
		}
		if syscall.Kill(pid, 0) == nil {
			n++
		}
	}
	return n
}

// killRecorded kills the process whose id is last in the file.
func killRecorded(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pids := strings.Fields(string(text))
	pid, err := strconv.Atoi(pids[len(pids)-1])
	if err == nil {
		err = syscall.Kill(pid, syscall.SIGKILL)
	}
	if err != nil {
		t.Fatal(err)
	}
}

const emulatorEnded = "tally: the Firestore emulator ended by itself: exit status "

// What tally dev and tally demo say first, and what tally demo adds.
const (
	starting  = "tally: starting the Firestore emulator and the functions, which takes some seconds"
	demoTakes = "; then 2000 increments, at 200 a second, take 10 s\n"
)

// A Ctrl-C while the emulator starts reaches every process of the terminal's. It ends all of them,
// and is no error. The first line says what starts.
func TestInterruptedAtStart(t *testing.T) {
	for _, test := range []struct {
		command string
		starts  int // of Java: the first asks for its version, the second is the emulator
		status  int
		stderr  string
	}{
		{"dev", 1, 0, starting + "\n"},
		{"dev", 2, 0, starting + "\n"},
		{"demo", 1, interrupted, starting + demoTakes + "tally: interrupt signal received\n"},
		{"demo", 2, interrupted, starting + demoTakes + "tally: interrupt signal received\n"},
	} {
		t.Run(fmt.Sprintf("%s, Java's start %d", test.command, test.starts), func(t *testing.T) {
			t.Parallel()
			ports, pids := freePorts(t, 3), filepath.Join(t.TempDir(), "pids")
			c := tally(t, test.command, "--firestore-port", strconv.Itoa(ports), "--functions-port", strconv.Itoa(ports+1))
			c.Env = append(c.Env, recordedJava(t, pids)...)
			c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			poll := time.NewTicker(time.Millisecond) // nothing tells when another process has written to a file
			defer poll.Stop()
			for deadline := time.After(emulatortest.Eventually()); ; {
				if text, err := os.ReadFile(pids); err == nil && len(strings.Fields(string(text))) >= test.starts {
					break
				}
				select {
				case <-poll.C:
				case <-deadline:
					t.Fatalf("no start of Java: %s", &c.stderr)
				}
			}
			if err := syscall.Kill(-c.Process.Pid, syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
			_ = c.Wait() // the status says how
			if status := c.ProcessState.ExitCode(); status != test.status || c.stderr.String() != test.stderr || c.stdout.Len() > 0 {
				t.Errorf("status %d, standard error %q, standard output %q; want %d, %q and nothing", status, &c.stderr, &c.stdout, test.status, test.stderr)
			}
			wantNoListeners(t, ports, ports+1, ports+2)
		})
	}
}

// A Ctrl-C that comes while the schedule's function is at work says nothing of that. With an
// "every" route it always is.
func TestDevInterruptedInTick(t *testing.T) {
	t.Parallel()
	c := tally(t, "dev", "--firestore-port=0", "--functions-port=0", "--dashboard=false", "--every=2s", "--instances=1")
	c.Env = append(c.Env, "TALLY_ROUTES=pages/{p}/shards/{s} -> page_totals/{p} : views : every 1s")
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out := c.follow(t)
	out.await("Add 1 from here")
	out.increment("(default)", "pages/home/shards/0", "views", http.StatusOK)
	out.await("  page_totals/home  views 1  1 shard  as of ")

	said := out.read.Len()
	if err := syscall.Kill(-c.Process.Pid, syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	out.awaitExit(0)
	after := out.read.String()[said:]
	if c.stderr.String() != starting+"\n" || regexp.MustCompile("ERROR|WARNING|failed|ended|canceled").MatchString(after) {
		t.Errorf("after Ctrl-C: %s%s", after, &c.stderr)
	}
}

// A Ctrl-C reaches every process of the terminal's, and a functions process leaves its end to its
// parent.
func TestFunctionsIgnoreInterrupt(t *testing.T) {
	t.Parallel()
	c := tally(t, "functions")
	output := framework.NewListener()
	c.Stdout = output
	p, err := local.StartProcess(t.Context(), c.Cmd, output.Port())
	if err != nil { // else it ignores signals by now
		t.Fatal(err)
	}
	defer p.Kill()
	for _, signal := range []os.Signal{os.Interrupt, syscall.SIGHUP} {
		if err := c.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
	}
	res, err := http.Get(p.URL("Nothing"))
	if err != nil {
		t.Fatalf("a signal ended it: %v", err)
	}
	res.Body.Close()
}
