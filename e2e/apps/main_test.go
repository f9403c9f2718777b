package apps

import (
	"bytes"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/firestore-tally/tally/internal/test/emulatortest"
	"github.com/firestore-tally/tally/internal/tool/local/emulator"
	"github.com/firestore-tally/tally/internal/tool/local/eventrelay"
)

var relays sync.Map // project → *eventrelay.Relay

func TestMain(m *testing.M) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	go func() { log.Fatal(http.Serve(l, http.HandlerFunc(relayEvent))) }()
	serve()
	emulatortest.Main(m, emulator.Options{Functions: l.Addr().String()})
}

// relayEvent hands an event to the relay of its project.
func relayEvent(w http.ResponseWriter, r *http.Request) {
	project, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/functions/projects/"), "/")
	if relay, ok := relays.Load(project); ok {
		relay.(*eventrelay.Relay).ServeHTTP(w, r)
	}
}

// A buffer may be written and read by many goroutines.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}
