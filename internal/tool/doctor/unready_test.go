package doctor

import (
	"strings"
	"testing"

	"github.com/firestore-tally/tally/rollup/route"
)

// On Enterprise, doctor says what an index is for that is not ready: without it, queries would cost
// so much.
func TestUnready(t *testing.T) {
	const index = "orders (shop ASC) in (default): being built"
	if got := unready(index, route.Standard); got != index {
		t.Errorf("on Standard: %q", got)
	}
	got := unready(index, route.Enterprise)
	if !strings.HasPrefix(got, index+"; until it is ready, Tally runs no query") || !strings.HasSuffix(got, "cost $12.50") {
		t.Errorf("on Enterprise: %q", got)
	}
}
