package apps

import (
	"bytes"
	"sync"
	"testing"

	"github.com/firestore-tally/tally/internal/test/emulatortest"
)

func TestMain(m *testing.M) {
	serve()
	emulatortest.Main(m)
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
