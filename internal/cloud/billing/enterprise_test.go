package billing

import (
	"math"
	"os"
	"strings"
	"testing"

	"github.com/firestore-tally/tally/rollup/route"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// The units and prices are those of Google's own examples:
//
//	https://firebase.google.com/docs/firestore/enterprise/pricing-examples
//	https://firebase.google.com/docs/firestore/enterprise/query-realtime-pricing-examples
func TestGooglesExamples(t *testing.T) {
	const kib, mib = 1 << 10, 1 << 20
	for _, test := range []struct {
		example string
		got     Units
		want    Units
		million float64 // dollars for a million of them; 0: Google does not say
	}{
		{"a point read of a document of 1 KiB", PointReads(1, kib), Units{Reads: 1}, 0},
		{"a point read of a document of 4 KiB", PointReads(1, 4*kib), Units{Reads: 1}, 0},
		{"a point read of a document of 1 MiB", PointReads(1, mib), Units{Reads: 256}, 0},
		{"point reads of 100 documents of 1 KiB", PointReads(100, kib), Units{Reads: 100}, 0},
		{"a scan of 100 documents of 1 KiB", Scan(100, kib), Units{Reads: 25}, 0},
		{"a scan of 100 index entries of 1 KiB", Scan(100, kib), Units{Reads: 25}, 0},
		{"a scan of 100 index entries of 128 bytes", Scan(100, SumEntry), Units{Reads: 4}, 0},
		{"a count of 1,000 documents", Scan(1000, NameEntry), Units{Reads: 8}, 0},
		{"a scan of 128 index entries of 256 bytes, and point reads of 128 documents of 4 KiB", Scan(128, 256).Add(PointReads(128, 4*kib)), Units{Reads: 136}, 0},
		{"a query by an index that finds one document of 2 KiB", Scan(1, SumEntry).Add(PointReads(1, 2*kib)), Units{Reads: 2}, 0.10},
		{"the same without the index, of 100 documents", Scan(100, 2*kib), Units{Reads: 50}, 2.50},
		{"the first ten documents of 6 KiB of a listener", Scan(10, SumEntry).Add(PointReads(10, 6*kib)), Units{Reads: 21}, 1.05},
		{"two updates of documents of 6 KiB", Updates(2, 6*kib), Units{Updates: 4}, 1.20},
		{"1,000 updates of documents of 2 KiB", Updates(1000, 2*kib), Units{Updates: 1000}, 300},

		{"a new document of 10 KiB without indexes", Write(10*kib, 0), Units{Writes: 10}, 0},
		{"a new document of 1 KiB with an index entry of 256 bytes", Write(kib, 1), Units{Writes: 2}, 0},
		{"a document of 10 KiB that changes, without indexes", Write(10*kib, 0), Units{Writes: 10}, 0},
		{"a document of 1 KiB whose index entry changes: one is deleted, one made", Write(kib, 2), Units{Writes: 3}, 0},
		{"a document that does not change", Write(kib, 0), Units{Writes: 1}, 0},
		{"a document of 1 KiB that is deleted, with an index", Write(kib, 1), Units{Writes: 2}, 0},
		{"a document of 1 KiB that is deleted, without indexes", Write(kib, 0), Units{Writes: 1}, 0},
		{"a new index of 500 documents", IndexBuild(500), Units{Writes: 500}, 0},
	} {
		if test.got != test.want {
			t.Errorf("%s: got %+v, want %+v", test.example, test.got, test.want)
		}
		price := test.got.Times(1e6).CostIn(PriceRegion)
		if test.million > 0 && math.Abs(price-test.million) > 1e-9 {
			t.Errorf("%s: a million cost $%g, want $%g", test.example, price, test.million)
		}
	}
}

// Each edition has a bill of its own, in its own words.
func TestBills(t *testing.T) {
	used := Usage{Counts{Reads: 12_000, Writes: 1}, Units{Reads: 1_234_567, Updates: 1}}
	small := Counts{Reads: 1e6, Writes: 2e6, Deletes: 1e6}
	for _, test := range []struct {
		bill    Bill
		says    string
		dollars float64
	}{
		{used.On(route.Standard), "12,000 reads, 1 write", 12_000*readPrice/pricePer + writePrice/pricePer},
		{used.On(route.Enterprise), "1,234,567 read units, 1 real-time update unit", 1_234_567*readUnitPrice + updateUnitPrice},
		{Usage{}.On(route.Standard), "0 reads", 0},
		{small.On(route.Standard), "1,000,000 reads, 2,000,000 writes, 1,000,000 deletes", 0.30 + 1.80 + 0.10},
		{small.On(route.Enterprise), "1,000,000 read units, 3,000,000 write units", 0.05 + 0.78},
		{Sum(2500).Times(2).On(route.Standard), "6 reads", 6 * readPrice / pricePer},
		{Sum(2500).Times(2).On(route.Enterprise), "158 read units", 158 * readUnitPrice},
	} {
		if test.bill.String() != test.says || math.Abs(test.bill.CostIn(PriceRegion)-test.dollars) > 1e-9 {
			t.Errorf("got %v, $%g; want %s, $%g", test.bill, test.bill.CostIn(PriceRegion), test.says, test.dollars)
		}
	}
}

// A million roll-ups of one total cost so much, in dollars. docs/performance.md has the table.
func TestEnterpriseRollUps(t *testing.T) {
	page, err := os.ReadFile("../../../docs/performance.md")
	if err != nil {
		t.Fatal(err)
	}
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

		row := message.NewPrinter(language.English).Sprintf("| %d | $%.2f | $%.2f | $%.2f | $%.2f |", test.documents, test.onStandard, test.count, test.sum, test.withoutPlan)
		if !strings.Contains(string(page), row) {
			t.Errorf("docs/performance.md lacks %s", row)
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
