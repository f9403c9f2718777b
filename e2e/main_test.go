//go:build unix

package e2e

import (
	"flag"
	"fmt"
	"io"
	"os"
	"testing"

	_ "github.com/firestore-tally/tally" // registers the functions
	"github.com/firestore-tally/tally/internal/test/emulatortest"
	"github.com/firestore-tally/tally/internal/tool/local/framework"
)

var (
	long = flag.Bool("faults.long", false, "more load and more faults")
	seed = flag.Uint64("faults.seed", 1, "what decides which calls fail and when a process is killed")
)

func TestMain(m *testing.M) {
	if os.Getenv(asFunctions) != "" {
		functionsMain()
	}
	flag.Parse()
	if testing.Short() {
		fmt.Println("e2e: skipped, for everything here needs the emulator, which -short goes without")
		os.Exit(0)
	}
	emulatortest.Main(m)
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
