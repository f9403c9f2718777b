// Package emulatortest gives the tests of a package a Firestore emulator of their own.
//
// A package that needs one says so in its TestMain, and its tests ask for what they need:
//
//	func TestMain(m *testing.M) { emulatortest.Main(m, emulator.Options{}) }
//
//	func TestSomething(t *testing.T) {
//		client := emulatortest.Client(t)
//		…
//	}
//
// The emulator starts when a test first asks for it. So a run that only lists tests, or whose tests
// need no emulator, starts none. All tests of the binary share the emulator, each in a project of
// its own, and may run in parallel. An emulator that somebody else started is used only if [Shared]
// names it; FIRESTORE_EMULATOR_HOST does not choose one.
//
// If the emulator cannot start, the test binary prints why and exits with status 1. If this machine
// lacks anything that the tests need, it prints all of that. Only -short skips the tests that need
// an emulator.
package emulatortest

import (
	"context"
	"crypto/rand"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/test/needs"
	"github.com/firestore-tally/tally/internal/tool/local/emulator"
)

// shared is the emulator of this test binary. A package variable, because TestMain has no other way
// to give the tests something.
var shared struct {
	mu       sync.Mutex
	options  *emulator.Options  // nil until Run is called
	emulator *emulator.Emulator // nil until a test asks for it
}

// Main runs the tests as [Run] does, and exits.
func Main(m *testing.M, o emulator.Options) { os.Exit(Run(m, o)) }

// Run runs the tests, stops the emulator if they started it, and returns the exit status. An
// emulator that ended by itself fails the run. If the binary is killed or panics, for example at a
// test's time limit, the emulator ends with it.
func Run(m *testing.M, o emulator.Options) int {
	shared.options = &o

	// Tests that use an emulator mostly wait, so more of them can run than there are processors.
	err := flag.Set("test.parallel", "8")
	if err != nil {
		panic(err)
	}
	code := m.Run()

	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.emulator == nil {
		return code
	}
	err = shared.emulator.Stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "emulatortest: the emulator ended before the tests did: %v\n", err)
		return max(code, 1)
	}
	return code
}

// Shared is the environment variable that names an emulator by its address. Somebody else starts
// and stops it, for many runs of test binaries. A binary uses it if its own emulator would have no
// options.
const Shared = "EMULATORTEST_SHARED"

// Addr returns the emulator's host:port, and starts the emulator if need be. It sets
// FIRESTORE_EMULATOR_HOST to the address, for every SDK in this process and for the processes that
// it starts. Under -short it skips the test.
func Addr(t testing.TB) string {
	t.Helper()

	addr, o := os.Getenv(Shared), shared.options
	if addr == "" || testing.Short() || o == nil || o.Rules != "" || o.Functions != "" {
		addr = Emulator(t).Addr()
	}

	err := os.Setenv("FIRESTORE_EMULATOR_HOST", addr) //nolint:usetesting // it outlives the test
	if err != nil {
		exit(err)
	}
	return addr
}

// Emulator returns the binary's own emulator, and starts it if need be. It is for a test that
// pauses the emulator, and must leave it running. Under -short it skips the test.
func Emulator(t testing.TB) *emulator.Emulator {
	t.Helper()
	Need(t)

	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.emulator != nil {
		return shared.emulator
	}

	if shared.options == nil {
		exit("TestMain of this package does not call emulatortest.Main")
	}
	e, err := emulator.Start(context.Background(), *shared.options)
	if err != nil {
		exit(err)
	}
	shared.emulator = e
	return e
}

// Need is for a test that starts an emulator by itself. Under -short it skips the test. Where no
// emulator can start, it ends the test binary.
func Need(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs the Firestore emulator, which -short goes without")
	}

	java, jar := find()
	if java != nil || jar != nil {
		exit("\n" + Missing())
	}
}

// find looks for Java and an emulator once, because the machine does not change meanwhile.
var find = sync.OnceValues(func() (java, jar error) { return emulator.Find(context.Background()) })

// Missing returns all that the tests lack on this machine; "" if they lack nothing.
func Missing() string { return needs.Missing(context.Background(), emulator.Find) }

// exit ends the test binary. Without an emulator every test would fail for the same reason; once is
// enough.
func exit(reason any) {
	fmt.Fprintln(os.Stderr, "emulatortest:", reason)
	os.Exit(1)
}

// Project returns a project id that was never used before, in this process or another, so its
// databases are empty. It is logged, so that a failed test names it. The prefix demo- tells
// Google's tools that there is no such project in the cloud.
func Project(t testing.TB) string {
	t.Helper()
	Addr(t)
	id := "demo-" + strings.ToLower(rand.Text()[:20]) // 25 of at most 30 characters: letters and digits
	t.Logf("emulatortest: project %s", id)
	return id
}

// Client returns a client of the default database of a new project. It is closed when the test
// ends.
func Client(t testing.TB) *firestore.Client {
	t.Helper()
	return ClientDatabase(t, Project(t), firestore.DefaultDatabaseID)
}

// ClientDatabase returns a client of one database of a project, which [Project] returned. A
// database needs no creating. It is closed when the test ends.
func ClientDatabase(t testing.TB, project, database string) *firestore.Client {
	t.Helper()
	Addr(t) // sets the variable by which the client finds it
	client, err := firestore.NewClientWithDatabase(context.Background(), project, database)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Errorf("close client: %v", err)
		}
	})
	return client
}
