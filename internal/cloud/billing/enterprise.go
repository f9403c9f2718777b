package billing

// Units are what the Enterprise edition of Firestore bills instead of operations
// (https://firebase.google.com/docs/firestore/enterprise/pricing-examples).
type Units struct {
	Reads  int64 // each of 4 KiB that are read
	Writes int64 // each of 1 KiB that are written, of a document or of an entry of an index
}

// Add returns the sum of u and v.
func (u Units) Add(v Units) Units { return Units{u.Reads + v.Reads, u.Writes + v.Writes} }

// Times returns the units of n times as much.
func (u Units) Times(n int64) Units { return Units{n * u.Reads, n * u.Writes} }

// Sizes of Enterprise's units in bytes, and of what a query reads.
const (
	readUnit  = 4 << 10
	writeUnit = 1 << 10

	// NameEntry is what a count reads of each document: the least that is billed.
	NameEntry = 32

	// SumEntry is about what a sum reads of each document, an entry of an index. The size is that of
	// Google's example.
	SumEntry = 128
)

// PointReads returns the units of reading n documents of so many bytes by their names.
func PointReads(n, bytes int64) Units { return Units{Reads: n * units(bytes, readUnit)} }

// Scan returns the units of a query that goes through n documents, or entries of an index, of so
// many bytes each.
func Scan(n, bytes int64) Units { return Units{Reads: units(n*bytes, readUnit)} }

// Write returns the units of writing a document of so many bytes, and entries of indexes of up to
// 1 KiB.
func Write(bytes, entries int64) Units {
	return Units{Writes: units(bytes, writeUnit) + entries}
}

// units returns how many units bytes take: one at least.
func units(bytes, unit int64) int64 { return max(1, (bytes+unit-1)/unit) }

// List prices of the Enterprise edition in US dollars per unit: us-central1, without the free
// quota, as of 2026 (https://cloud.google.com/firestore/enterprise/pricing).
const (
	readUnitPrice  = 0.05 / 1e6
	writeUnitPrice = 0.26 / 1e6
)

// CostIn returns what the units cost at list price, in US dollars, in a database of the location.
// The prices of multi-regions are not known here, and taken to be twice as high.
func (u Units) CostIn(location string) float64 {
	cost := float64(u.Reads)*readUnitPrice + float64(u.Writes)*writeUnitPrice
	if MultiRegion(location) {
		return multiRegionFactor * cost
	}
	return cost
}

// UnitsPerRead are the most units that Enterprise bills for what Standard bills as one read: a sum
// of 1,000 entries.
const UnitsPerRead = (entriesPerRead*SumEntry + readUnit - 1) / readUnit

// SameMoney returns how many sums of 1,000 entries cost as much on Enterprise as so many reads cost
// on Standard. It is at least 1, unless there are no reads.
func SameMoney(reads int64) int64 {
	const dearer = UnitsPerRead * readUnitPrice / (readPrice / pricePer)
	if reads <= 0 {
		return reads
	}
	return max(1, int64(float64(reads)/dearer))
}
