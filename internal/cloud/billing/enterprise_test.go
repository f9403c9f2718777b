package billing

import (
	"math"
	"testing"
)

// The units are those of Google's own examples:
// https://firebase.google.com/docs/firestore/enterprise/pricing-examples
func TestGooglesExamples(t *testing.T) {
	const kib, mib = 1 << 10, 1 << 20
	for _, test := range []struct {
		example string
		got     Units
		reads   int64
	}{
		{"a point read of a document of 1 KiB", PointReads(1, kib), 1},
		{"a point read of a document of 4 KiB", PointReads(1, 4*kib), 1},
		{"a point read of a document of 1 MiB", PointReads(1, mib), 256},
		{"point reads of 100 documents of 1 KiB", PointReads(100, kib), 100},
		{"a scan of 100 documents of 1 KiB", Scan(100, kib), 25},
		{"a scan of 100 index entries of 1 KiB", Scan(100, kib), 25},
		{"a scan of 100 index entries of 128 bytes", Scan(100, SumEntry), 4},
		{"a count of 1,000 documents", Scan(1000, NameEntry), 8},
		{"a scan of 128 index entries of 256 bytes, and point reads of 128 documents of 4 KiB", Scan(128, 256).Add(PointReads(128, 4*kib)), 136},
	} {
		if test.got != (Units{Reads: test.reads}) {
			t.Errorf("%s: got %+v, want %d read units", test.example, test.got, test.reads)
		}
	}
}

// A million roll-ups of one total cost so much, in dollars. docs/performance.md has the table.
func TestEnterpriseRollUps(t *testing.T) {
	for _, test := range []struct {
		documents   int64
		count, sum  float64
		onStandard  float64
		withoutPlan float64 // a scan of documents of 1 KiB
	}{
		{100, 0.36, 0.51, 1.50, 1.56},
		{1000, 0.71, 1.91, 1.50, 12.81},
		{10_000, 4.26, 15.96, 4.20, 125.31},
		{1_000_000, 390.96, 1562.81, 301.20, 12500.31},
	} {
		of := func(query Units) float64 {
			return PointReads(1, 1<<10).Add(query).Add(Write(1<<10, 0)).Times(1e6).CostIn(PriceRegion)
		}
		standard := Counts{Reads: 1e6 * (1 + (test.documents+entriesPerRead-1)/entriesPerRead), Writes: 1e6}.CostIn(PriceRegion)
		for name, c := range map[string]struct{ got, want float64 }{
			"a count":                    {of(Scan(test.documents, NameEntry)), test.count},
			"a sum":                      {of(Scan(test.documents, SumEntry)), test.sum},
			"a query without its index":  {of(Scan(test.documents, 1<<10)), test.withoutPlan},
			"a count or sum on Standard": {standard, test.onStandard},
		} {
			if math.Abs(c.got-c.want) > 0.005 {
				t.Errorf("%s of %d documents: $%.4f a million, want $%.2f", name, test.documents, c.got, c.want)
			}
		}
	}
}

// What may be read in a second costs the same money on both editions.
func TestSameMoney(t *testing.T) {
	for reads, want := range map[int64]int64{0: 0, 1: 1, 5: 1, 50: 9, 1000: 187} {
		got := SameMoney(reads)
		if got != want {
			t.Errorf("%d reads: got %d, want %d", reads, got, want)
		}
		onEnterprise := Units{Reads: got * UnitsPerRead}.CostIn(PriceRegion)
		onStandard := Counts{Reads: reads}.CostIn(PriceRegion)
		if reads > 5 && onEnterprise > onStandard {
			t.Errorf("%d reads: $%g on Enterprise, $%g on Standard", reads, onEnterprise, onStandard)
		}
	}
}
