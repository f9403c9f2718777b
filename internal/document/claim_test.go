package document_test

import (
	"strings"
	"testing"
	"time"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/google/go-cmp/cmp"
)

func TestClaim(t *testing.T) {
	claim := document.Claim{By: "GEZDGNBV", Over: time.Date(2026, 1, 2, 3, 4, 5, 678901000, time.UTC)}
	for _, test := range []struct {
		name   string
		fields map[string]any
		want   document.Claim
	}{
		{"whole", claim.Encode("rollups/likes"), claim},
		{"of no roll-up", document.Claim{By: "A"}.Encode("rollups/likes"), document.Claim{By: "A"}},
		{"nothing", nil, document.Claim{}},
		{"no text", map[string]any{"claim": 7}, document.Claim{}},
		{"no time", map[string]any{"claim": "GEZDGNBV"}, document.Claim{}},
		{"another time", map[string]any{"claim": "GEZDGNBV now"}, document.Claim{}},
	} {
		if d := cmp.Diff(test.want, document.DecodeClaim(test.fields)); d != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, d)
		}
	}
}

// The id is short however long the path of the roll-up is, and another for another path.
func TestClaimPath(t *testing.T) {
	seen := make(map[string]bool)
	for _, rollUp := range []string{"rollups/likes", "rollups/like", strings.Repeat("rollups/", 700) + "likes"} {
		path := document.ClaimPath(rollUp)
		id, ok := strings.CutPrefix(path, document.ClaimsCollection+"/")
		if err := document.CheckID(id); !ok || err != nil || len(id) != 32 || seen[id] {
			t.Errorf("the claim of a roll-up is %s: %v", path, err)
		}
		seen[id] = true
	}
}
