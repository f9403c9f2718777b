package billing

// The list prices of document operations in US dollars per 100,000: us-central1, Firestore Standard
// edition, without the free quota, as of 2026 (https://cloud.google.com/firestore/pricing). Other
// regions cost up to about twice as much.
const (
	pricePer    = 100_000
	readPrice   = 0.03
	writePrice  = 0.09
	deletePrice = 0.01
)

// Cost returns what the operations cost at list price, in US dollars.
func (c Counts) Cost() float64 {
	return (float64(c.Reads)*readPrice + float64(c.Writes)*writePrice + float64(c.Deletes)*deletePrice) / pricePer
}
