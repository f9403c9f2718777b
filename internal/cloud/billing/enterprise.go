package billing

import (
	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/protobuf/proto"
)

// Units are what the Enterprise edition of Firestore bills instead of operations
// (https://firebase.google.com/docs/firestore/enterprise/pricing-examples).
type Units struct {
	Reads   int64 `json:"read_units"`             // each of 4 KiB that are read
	Writes  int64 `json:"write_units"`            // each of 1 KiB that are written or deleted, of a document or of an entry of an index
	Updates int64 `json:"update_units,omitempty"` // each of 4 KiB that a listener gets after its first documents
}

// Add returns the sum of u and v.
func (u Units) Add(v Units) Units {
	return Units{u.Reads + v.Reads, u.Writes + v.Writes, u.Updates + v.Updates}
}

// Times returns the units of n times as much.
func (u Units) Times(n int64) Units { return Units{n * u.Reads, n * u.Writes, n * u.Updates} }

// String returns the units in words, such as "3 read units, 1 write unit".
func (u Units) String() string {
	return phrase(noun{u.Reads, "read unit"}, noun{u.Writes, "write unit"}, noun{u.Updates, "real-time update unit"})
}

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

// IndexBuild returns the units of making an index of n documents, with entries of up to 1 KiB.
func IndexBuild(n int64) Units { return Units{Writes: n} }

// Updates returns the units of n documents of so many bytes that a listener gets.
func Updates(n, bytes int64) Units { return Units{Updates: n * units(bytes, readUnit)} }

// units returns how many units bytes take: one at least.
func units(bytes, unit int64) int64 { return max(1, (bytes+unit-1)/unit) }

// unitsOfRead returns the units of a document that was read; nil: it was not found. They are too
// few if only some fields of the document came.
func unitsOfRead(d *firestorepb.Document) Units { return PointReads(1, int64(proto.Size(d))) }

// unitsOfList returns the units of a list of documents.
func unitsOfList(found []*firestorepb.Document) (all Units) {
	all = Scan(int64(len(found)), SumEntry)
	for _, d := range found {
		all = all.Add(unitsOfRead(d))
	}
	return all
}

// unitsOfWrites returns the units of a commit, without those of the documents' indexes. They are
// too few for documents of which the commit does not have all fields.
func unitsOfWrites(writes []*firestorepb.Write) (all Units) {
	for _, w := range writes {
		all = all.Add(Write(int64(proto.Size(w.GetUpdate())), 0))
	}
	return all
}

// entryOf returns how many bytes an aggregation reads for each document that it matches.
func entryOf(query *firestorepb.StructuredAggregationQuery) int64 {
	for _, a := range query.GetAggregations() {
		_, isCount := a.Operator.(*firestorepb.StructuredAggregationQuery_Aggregation_Count_)
		if !isCount {
			return SumEntry
		}
	}
	if query.GetStructuredQuery().GetWhere() != nil {
		return SumEntry
	}
	return NameEntry
}

// List prices of the Enterprise edition in US dollars per unit: us-central1, without the free
// quota, as of 2026 (https://cloud.google.com/firestore/enterprise/pricing).
const (
	readUnitPrice   = 0.05 / 1e6
	writeUnitPrice  = 0.26 / 1e6
	updateUnitPrice = 0.30 / 1e6
)

// CostIn returns what the units cost at list price, in US dollars, in a database of the location.
// The prices of multi-regions are not known here, and taken to be twice as high.
func (u Units) CostIn(location string) float64 {
	cost := float64(u.Reads)*readUnitPrice + float64(u.Writes)*writeUnitPrice + float64(u.Updates)*updateUnitPrice
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
