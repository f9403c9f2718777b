// Package emulatortest gives tests a Firestore emulator.
//
// A package that needs one says so in its TestMain, and its tests ask for what they need:
//
//	func TestMain(m *testing.M) { emulatortest.Main(m) }
//
//	func TestSomething(t *testing.T) {
//		client := emulatortest.Client(t)
//		…
//	}
//
// The tests of all packages share one emulator, which starts when a test first asks for it and ends
// a minute after the last test binary (package shared). Each test has a project of its own, with
// its rules ([emulator.SetRules]) and its events ([Handle]), and may run in parallel with any
// other. Some tests start an emulator for themselves, by [Own]: those that pause or kill it, import
// or export, read its refusals, restrict it to one project, have a project id that another test may
// have, or make more than a hundred events a second. FIRESTORE_EMULATOR_HOST does not choose an
// emulator.
//
// Where the emulator cannot be shared, the test binary starts one for itself; so it does under
// -bench, because benchmarks measure. If none can start, it
// prints why and exits with status 1. If this machine lacks anything that the tests need, it prints
// all of that. Only -short skips the tests that need an emulator.
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
	"time"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/test/emulatortest/shared"
	"github.com/firestore-tally/tally/internal/test/needs"
	"github.com/firestore-tally/tally/internal/tool/local/emulator"
)

// used is the emulator of this test binary's tests. A package variable, because TestMain has no
// other way to give the tests something.
var used struct {
	mu     sync.Mutex
	main   bool               // Run was called
	member *shared.Member     // of the shared emulator; nil before a test asks for it
	own    *emulator.Emulator // instead, if that cannot be had
}

// Main runs the tests as [Run] does, and exits.
func Main(m *testing.M) { os.Exit(Run(m)) }

// Run runs the tests, and returns the exit status. An emulator that ended by itself fails the run.
func Run(m *testing.M) int {
	used.main = true

	// Tests that use an emulator mostly wait, so more of them can run than there are processors.
	err := flag.Set("test.parallel", "8")
	if err != nil {
		panic(err)
	}
	code := m.Run()

	used.mu.Lock()
	defer used.mu.Unlock()
	switch {
	case used.member != nil:
		err = used.member.Check()
	case used.own != nil:
		err = used.own.Stop()
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "emulatortest: the emulator ended before the tests did: %v\n", err)
		return max(code, 1)
	}
	return code
}

// Addr returns the host:port of the emulator, and starts the emulator if need be. It sets
// FIRESTORE_EMULATOR_HOST to the address, for every SDK in this process and for the processes that
// it starts. Under -short it skips the test.
func Addr(t testing.TB) string {
	t.Helper()
	skipShort(t)

	used.mu.Lock()
	defer used.mu.Unlock()
	addr := join(t)
	err := os.Setenv("FIRESTORE_EMULATOR_HOST", addr) //nolint:usetesting // it outlives the test
	if err != nil {
		exit(err)
	}
	return addr
}

// join joins the shared emulator if need be, and returns its address. The caller holds the mutex.
func join(t testing.TB) string {
	t.Helper()
	switch {
	case !used.main:
		exit("TestMain of this package does not call emulatortest.Main")
	case used.member != nil:
		return used.member.Addr()
	case used.own != nil:
		return used.own.Addr()
	}

	if flag.Lookup("test.bench").Value.String() == "" {
		member, err := shared.Join(context.Background())
		if err == nil {
			used.member = member
			return member.Addr()
		}
		fmt.Fprintln(os.Stderr, "emulatortest: starts an emulator for this package alone:", err)
	}

	Need(t)
	var err error
	used.own, err = emulator.Start(context.Background(), emulator.Options{Functions: events()})
	if err != nil {
		exit(err)
	}
	return used.own.Addr()
}

// Own starts an emulator for one test, and stops it when the test ends. Its events come to
// [Handle] unless the options say where to post them. If the binary is killed, the emulator ends
// with it. Under -short Own skips the test.
func Own(t testing.TB, o emulator.Options) *emulator.Emulator {
	t.Helper()
	Need(t)

	if o.Functions == "" {
		o.Functions = events()
	}
	e, err := emulator.Start(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		err := e.Stop()
		if err != nil {
			t.Errorf("the emulator ended before the test did: %v", err)
		}
	})
	return e
}

// skipShort skips the test under -short.
func skipShort(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs the Firestore emulator, which -short goes without")
	}
}

// Need is for a test that starts an emulator by itself. Under -short it skips the test. Where no
// emulator can start, it ends the test binary.
func Need(t testing.TB) {
	t.Helper()
	skipShort(t)

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

// Eventually returns how long a test may wait for what comes in the end: a third of the -timeout of
// go test. On a busy machine, set a longer one.
func Eventually() time.Duration {
	timeout, _ := flag.Lookup("test.timeout").Value.(flag.Getter).Get().(time.Duration)
	if timeout == 0 {
		return 24 * time.Hour // forever
	}
	return timeout / 3
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
