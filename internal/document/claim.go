package document

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"
)

// A Claim says that an instance sums a counter, whose sums take long, for the next roll-up. It holds
// until the roll-up is another or its time is over. A claim that is lost costs time or a sum, never
// a total.
//
//	rollup_claims/5f0c…  {roll_up: "rollups/likes", claim: "GEZDGNBV… 2026-11-21T08:00:00.123456Z"}
type Claim struct {
	By   string    // who claims, and no other claim
	Over time.Time // as_of of the roll-up that is to be replaced
}

const (
	claimField  = "claim"
	rollUpField = "roll_up" // the path, which the id does not tell
)

// ClaimPath is the path of the claim of the counter with a roll-up at a path.
func ClaimPath(rollUp string) string {
	hash := sha256.Sum256([]byte(rollUp))
	return ClaimsCollection + "/" + hex.EncodeToString(hash[:16])
}

// Encode returns the fields of the claim of the counter with a roll-up at a path. They begin with
// something random, because an index of what only grows is slow.
func (c Claim) Encode(rollUp string) map[string]any {
	return map[string]any{rollUpField: rollUp, claimField: c.By + " " + c.Over.UTC().Format(time.RFC3339Nano)}
}

// DecodeClaim returns the claim that a document's fields hold; the zero Claim if they hold none.
func DecodeClaim(fields map[string]any) Claim {
	text, _ := fields[claimField].(string)
	by, over, _ := strings.Cut(text, " ")
	at, err := time.Parse(time.RFC3339Nano, over)
	if err != nil {
		return Claim{}
	}
	return Claim{by, at}
}
