package route

import (
	"testing"
	"time"
)

// Each day begins where the clocks show it first, also at the ends of leap years, where the bounds
// that Go gives end before the instant. With such bounds the search would never end.
func TestDaysBeginAtTheEndsOfYears(t *testing.T) {
	names, err := Zones()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		z, err := zoneOf(name)
		if err != nil {
			continue // a folder
		}
		for _, year := range []int{2023, 2024, 2028, 2100, 2400} {
			for day := range 4 {
				clocks := time.Date(year, 12, 30+day, 0, 0, 0, 0, time.UTC)
				start := z.first(clocks)
				shown := wall(start.In(z.Location))
				before := wall(start.Add(-time.Second).In(z.Location))
				if shown.Before(clocks) || !before.Before(clocks) {
					t.Errorf("%s: %s begins at %s, where clocks show %s, and %s a second before", name, clocks.Format(time.DateOnly), start, shown, before)
				}
			}
		}
	}
}

// wall returns what clocks show, as UTC.
func wall(t time.Time) time.Time {
	_, offset := t.Zone()
	return t.UTC().Add(time.Duration(offset) * time.Second)
}
