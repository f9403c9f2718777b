package document

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"
)

// A Claim says that an instance is summing a counter for the next roll-up, so that the others need
// not. Only counters whose sums take long have claims. A claim holds until there is another
// roll-up, or until its time is over. If a claim is lost, that costs time or one more sum, but no
// total is wrong.
//
//	rollup_claims/5f0c…  {roll_up: "rollups/likes", claim: "GEZDGNBV… 2026-11-21T08:00:00.123456Z"}
type Claim struct {
	By   string    // a random text of the instance, so that it recognizes its own claims
	Over time.Time // as_of of the roll-up to replace
}

const (
	claimField  = "claim"
	rollUpField = "roll_up" // the path of the roll-up; the id is only its hash
)

// ClaimPath returns the path of the claim of the counter whose roll-up is at the path rollUp.
func ClaimPath(rollUp string) string { return ClaimsCollection + "/" + IDOf(rollUp) }

// IDOf returns an id for a document about the counter whose roll-up is at the path rollUp. It is a
// hash, because an id has less room than a path.
func IDOf(rollUp string) string {
	hash := sha256.Sum256([]byte(rollUp))
	return hex.EncodeToString(hash[:16])
}

// Encode returns the claim's fields. rollUp is the path of the counter's roll-up. The claim's text
// begins with By, which differs between instances, and not with the time, because writes to an
// index whose values only grow are slow.
func (c Claim) Encode(rollUp string) map[string]any {
	return map[string]any{rollUpField: rollUp, claimField: c.By + " " + c.Over.UTC().Format(time.RFC3339Nano)}
}

// DecodeClaim returns the claim that a document's fields hold. It returns the zero Claim if they
// hold none.
func DecodeClaim(fields map[string]any) Claim {
	text, _ := fields[claimField].(string)
	by, over, _ := strings.Cut(text, " ")
	at, err := time.Parse(time.RFC3339Nano, over)
	if err != nil {
		return Claim{}
	}
	return Claim{by, at}
}
