package route

import (
	"encoding/json"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the ids of times into the file of the web client's tests")

// An idCase is a time, and the ids of its day, week and month in a zone; "" if no counter is of it.
type idCase struct {
	At    time.Time `json:"at"`
	Zone  string    `json:"zone"`
	Day   string    `json:"day"`
	Week  string    `json:"week"`
	Month string    `json:"month"`

	// Whether the zone's clocks show the time again, behind a midnight that they had shown. So its
	// day is not the date that they show.
	Again bool `json:"again,omitempty"`
}

// The web client makes the same ids. Its tests compare its own with those in the file.
func TestIDsOfWebClient(t *testing.T) {
	const file = "../../clients/web/test/days.json"
	var want []idCase
	again := 0
	for _, name := range []string{
		"UTC", "Europe/Berlin", "America/New_York", "Asia/Tokyo", "Asia/Kathmandu", // clocks of most places
		"America/Havana", "America/Sao_Paulo", "America/St_Johns", "America/Asuncion", "Asia/Beirut", "Asia/Amman", // they are moved at midnight, or over it
		"Atlantic/Azores", "America/Scoresbysund", "Africa/Cairo", "Australia/Lord_Howe", "Antarctica/Troll",
		"Pacific/Apia", "Pacific/Kiritimati", "Pacific/Kwajalein", "Antarctica/Casey", // they were moved by hours, or a day
	} {
		zone, err := zoneOf(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, at := range instants(zone) {
			c := idCase{At: at, Zone: name}
			if p := periodOf(Day, zone, at); fits(p) {
				c.Day = p.id()
			}
			if p := periodOf(Week, zone, at); fits(p) {
				c.Week = p.id()
			}
			if p := periodOf(Month, zone, at); fits(p) {
				c.Month = p.id()
			}
			c.Again = c.Day != "" && c.Day != at.In(zone.Location).Format(time.DateOnly)
			if c.Again {
				again++
			}
			want = append(want, c)
		}
	}

	if again < 10 {
		t.Errorf("%d times are shown again, want some", again)
	}

	if *update {
		lines := make([]string, len(want))
		for i, c := range want {
			line, err := json.Marshal(c)
			if err != nil {
				t.Fatal(err)
			}
			lines[i] = string(line)
		}
		text := "[\n" + strings.Join(lines, ",\n") + "\n]\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var got []idCase
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s; -update writes it, and the web client must follow (-want +got):\n%s", file, d)
	}
}

func fits(p period) bool {
	_, _, ok := p.bounds()
	return ok
}

// instants returns times at which a zone's ids change, or might: around both ends of the years that
// Firestore knows, of a plain day, of weeks where years end, and of the latest changes of the
// clocks that were near midnight, or went back over it.
func instants(z *zone) []time.Time {
	var around []time.Time
	for _, day := range []time.Time{firstInstant, firstInstant.AddDate(0, 1, 0), pastInstants.AddDate(0, -1, 0), pastInstants, time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC),
		firstInstant.AddDate(0, 0, 7), time.Date(2024, 12, 30, 0, 0, 0, 0, time.UTC), time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2027, 1, 4, 0, 0, 0, 0, time.UTC), time.Date(9999, 12, 27, 0, 0, 0, 0, time.UTC)} {
		around = append(around, day, z.first(day))
	}

	const most = 4
	moved := 0
	for t := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC); t.Year() > 1975; {
		begin, _ := t.In(z.Location).ZoneBounds()
		if begin.IsZero() {
			break
		}
		t = begin.Add(-time.Second)
		before, after := t.In(z.Location), begin.In(z.Location)

		if hour := before.Hour(); moved < most && (hour < 2 || hour >= 22) {
			moved++
			around = append(around, begin, begin.Add(-time.Hour), begin.Add(time.Hour))
		}
		if after.Format(time.DateOnly) < before.Format(time.DateOnly) {
			shown := time.Duration(after.Hour())*time.Hour + time.Duration(after.Minute())*time.Minute
			around = append(around, begin, begin.Add(time.Hour), begin.Add(day-shown)) // until midnight, again
		}
	}

	var all []time.Time
	for _, at := range around {
		for _, d := range []time.Duration{-time.Second, 0} {
			t := at.Add(d).UTC()
			if !t.Before(firstInstant) && t.Before(pastInstants) {
				all = append(all, t)
			}
		}
	}
	slices.SortFunc(all, time.Time.Compare)
	return slices.CompactFunc(all, time.Time.Equal)
}
