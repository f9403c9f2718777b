package local

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/cloud/config"
	"github.com/firestore-tally/tally/internal/test/emulatortest"
	"github.com/firestore-tally/tally/internal/tool/local/emulator"
	"github.com/firestore-tally/tally/rollup/route"
)

func TestMain(m *testing.M) { emulatortest.Main(m) }

// newStack returns a stack of a relay, without functions, and what it says.
func newStack(t *testing.T, project, routes string) (s *Stack, said *[]string) {
	t.Helper()
	parsed, err := route.Parse(routes)
	if err != nil {
		t.Fatal(err)
	}
	said = new([]string)
	say := func(format string, args ...any) { *said = append(*said, fmt.Sprintf(format, args...)) }
	s = &Stack{Options: Options{Config: config.Config{Routes: parsed, Project: project, Databases: []string{firestore.DefaultDatabaseID}}, Say: say}}
	t.Cleanup(s.Stop)
	if err := s.startDeliveries(); err != nil {
		t.Fatal(err)
	}
	return s, said
}

// Whatever characters a route's collections and captures have, and however deep its documents are,
// the emulator takes the writes, and each makes one event. No other document makes any.
func TestTriggersOfAllCharacters(t *testing.T) {
	emulatortest.Need(t)
	var characters []rune
	for c := rune(1); c < 0x80; c++ {
		characters = append(characters, c)
	}
	characters = append(characters, []rune("é߀Ω日😀\u0301\u200b\u2028\ufeff\ufffd")...)

	var paths, routes []string
	for i, c := range characters {
		pattern := route.Quote(fmt.Sprintf("a%cb", c)) + "/{" + route.Quote(fmt.Sprintf("c%cd", c)) + "}"
		r := fmt.Sprintf("%s -> totals/of%d : count() as n", pattern, i)
		if _, err := route.Parse(r); err != nil {
			continue // such as a slash
		}
		paths, routes = append(paths, fmt.Sprintf("a%cb/document", c)), append(routes, r)
	}
	if len(routes) < len(characters)-40 {
		t.Fatalf("routes take only %d of %d characters", len(routes), len(characters))
	}

	routes = append(routes, "posts/{post}/comments/{comment} by author -> users/{author} : count() as n : existing")
	paths = append(paths, "posts/1/comments/a", "posts/1/comments/a/comments/b/comments/c/comments/d/comments/e")

	const last = "last/document" // the emulator posts one event of a trigger after another
	routes = append(routes, "last/{l} -> totals/last : count() as n")
	s, said := newStack(t, "demo-tally", strings.Join(routes, "\n"))
	s.Emulator = emulatortest.Own(t, emulator.Options{Functions: s.RelayAddr})
	s.Addr = s.Emulator.Addr()
	if err := s.begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	got, done := make(map[string]int), make(chan struct{})
	target := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		path := req.Header.Get("Ce-Document")
		got[path]++
		if path == last {
			close(done)
		}
	}))
	t.Cleanup(target.Close)
	s.Relay.SetTargets([]string{target.URL})

	for _, path := range slices.Concat([]string{"other/document", "posts/1", "comments/a", "pages/1/comments/a"}, paths, []string{last}) {
		if _, err := s.Clients[0].Doc(path).Set(t.Context(), map[string]any{"on": true}); err != nil {
			t.Errorf("%q: %v", path, err)
		}
	}
	select {
	case <-done:
	case <-time.After(emulatortest.Eventually()):
		t.Fatal("no event of the last write")
	}
	if err := s.Relay.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}

	mu.Lock()
	defer mu.Unlock()
	for _, path := range append(paths, last) {
		unsent := strings.ContainsFunc(path, unicode.IsControl) // the emulator sends no such events
		if got[path] != 1 && !unsent {
			t.Errorf("%q: %d events, want 1", path, got[path])
		}
		delete(got, path)
	}
	if len(got) > 0 {
		t.Errorf("events of other documents: %v", got)
	}
	if len(*said) > 0 {
		t.Errorf("said %q", *said)
	}
}

// If the emulator cannot match the pattern of somebody else's trigger, tally dev says what that
// means.
func TestFirstWriteFails(t *testing.T) {
	project := emulatortest.Project(t)
	s, said := newStack(t, project, "a/{a}/b/{b} -> c/{a} : n")
	s.Addr = emulatortest.Addr(t)
	if err := s.begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(*said) > 0 {
		t.Fatalf("said %q", *said)
	}
	foreign := emulator.Trigger{Project: project, Name: "foreign", Pattern: "a/{b-c}"}
	if err := emulator.RegisterTrigger(t.Context(), s.Addr, foreign); err != nil {
		t.Fatal(err)
	}
	s.tryWrites(t.Context())
	if len(*said) != 1 || !strings.Contains((*said)[0], "answered a first write to database (default) with an error") {
		t.Errorf("said %q", *said)
	}
}
