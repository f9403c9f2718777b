//go:build unix

package e2e

import (
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	_ "github.com/firestore-tally/tally" // registers the functions
	"github.com/firestore-tally/tally/internal/test/emulatortest"
	"github.com/firestore-tally/tally/internal/tool/local/emulator"
	"github.com/firestore-tally/tally/internal/tool/local/eventrelay"
	"github.com/firestore-tally/tally/internal/tool/local/framework"
	"github.com/firestore-tally/tally/internal/tool/local/freeport"
)

var (
	long = flag.Bool("faults.long", false, "more load and more faults")
	seed = flag.Uint64("faults.seed", 1, "what decides which calls fail and when a process is killed")
)

var (
	relays sync.Map // project → *eventrelay.Relay
	events string   // where emulators post to, host:port
)

func TestMain(m *testing.M) {
	if os.Getenv(asFunctions) != "" {
		functionsMain()
	}
	l, err := net.Listen("tcp", freeport.HostPort(0))
	if err != nil {
		log.Fatal(err)
	}
	go func() { log.Fatal(http.Serve(l, http.HandlerFunc(relayEvent))) }()
	events = l.Addr().String()
	flag.Parse()
	if testing.Short() {
		fmt.Println("e2e: skipped, for everything here needs the emulator, which -short goes without")
		os.Exit(0)
	}
	emulatortest.Main(m, emulator.Options{Functions: events})
}

// asFunctions makes the test binary a functions process.
const asFunctions = "E2E_FUNCTIONS"

// functionsMain serves the functions until standard input ends, that is until the parent does.
func functionsMain() {
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	fmt.Fprintln(os.Stderr, framework.Serve(0, framework.Tell))
	os.Exit(1)
}

// relayEvent hands an event to the relay of its project.
func relayEvent(w http.ResponseWriter, r *http.Request) {
	project, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/functions/projects/"), "/")
	if relay, ok := relays.Load(project); ok {
		relay.(*eventrelay.Relay).ServeHTTP(w, r)
	}
}
