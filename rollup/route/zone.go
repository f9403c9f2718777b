package route

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	_ "embed" // for zoneinfo
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"sync"
	"time"
)

// zoneinfo is the tz database as Go distributes it, 2025c, compressed. Zones are read from this
// file only, and never from the system: two instances with two databases would put a document into
// two counters. To update it:
//
//	gzip -9nc $(go env GOROOT)/lib/time/zoneinfo.zip > zoneinfo.zip.gz
//
//go:embed zoneinfo.zip.gz
var zoneinfo []byte

// zones is the tz database. It is opened once, and only if a route names a zone.
var zones = sync.OnceValues(openZones)

// openZones opens the tz database. That takes some milliseconds.
func openZones() (*zip.Reader, error) {
	unzipped, err := gzip.NewReader(bytes.NewReader(zoneinfo))
	if err != nil {
		return nil, err
	}
	files, err := io.ReadAll(unzipped)
	if err != nil {
		return nil, err
	}
	return zip.NewReader(bytes.NewReader(files), int64(len(files)))
}

// A zone says where days begin.
type zone struct {
	*time.Location
	digest string // of the data, by which instances with other data are told apart; "" for UTC, which has none
}

// utc is the zone of days without one.
var utc = &zone{Location: time.UTC}

// zoneOf returns a zone of the tz database.
func zoneOf(name string) (*zone, error) {
	if name == time.UTC.String() {
		return utc, nil
	}
	files, err := zones()
	if err != nil {
		return nil, err
	}
	data, err := fs.ReadFile(files, name)
	if err != nil {
		return nil, err
	}

	location, err := time.LoadLocationFromTZData(name, data)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(data)
	return &zone{location, hex.EncodeToString(sum[:8])}, nil
}

// Zones returns the names of all zones of the tz database.
func Zones() ([]string, error) {
	files, err := zones()
	if err != nil {
		return nil, err
	}
	names := make([]string, len(files.File))
	for i, f := range files.File {
		names[i] = f.Name
	}
	return names, nil
}

// Zone returns the name of the zone in which the key's days, weeks or months begin. It is "" if the
// key has none.
func (k Key) Zone() string {
	if k.zone == nil {
		return ""
	}
	return k.zone.String()
}

// mostOffset is longer than any zone's offset from UTC.
const mostOffset = 26 * time.Hour

// first returns the first instant at which the zone's clocks show a time of the day or a later one.
// The time is written as if it were UTC.
func (z *zone) first(clocks time.Time) time.Time {
	for t := clocks.Add(-mostOffset); ; {
		in := t.In(z.Location)
		_, offset := in.Zone()
		_, end := in.ZoneBounds()
		if !end.IsZero() && !end.After(t) { // on the last day of a leap year Go's ends with the day before
			end = t.Truncate(day).Add(day)
		}

		at := clocks.Add(-time.Duration(offset) * time.Second)
		if at.Before(t) { // the clocks were moved forward over it
			at = t
		}
		if end.IsZero() || at.Before(end) {
			return at.UTC()
		}
		t = end
	}
}

// A period is one of the days, weeks or months of a zone. It begins with the first instant at which
// the zone's clocks show its first day or a later one, and ends where the next period begins. So
// each instant is in one period, also where clocks are moved at midnight or over it: of the days 1
// and 2, an hour of the 1st that the clocks show again, after they have shown the 2nd, is in the
// 2nd.
type period struct {
	function Function // Day, Week or Month
	zone     *zone
	day      time.Time // its first day by the zone's clocks, as UTC
}

// next returns the period behind p.
func (p period) next() period {
	switch p.function {
	case Month:
		p.day = p.day.AddDate(0, 1, 0)
	case Week:
		p.day = p.day.AddDate(0, 0, 7)
	default:
		p.day = p.day.AddDate(0, 0, 1)
	}
	return p
}

// Firestore's timestamps begin with firstInstant, and end before pastInstants.
var (
	firstInstant = time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)
	pastInstants = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)
)

// bounds returns when the period begins and ends. It reports false if no document can be in it:
// the clocks were moved over it, or it is not wholly within the years that Firestore knows.
func (p period) bounds() (start, end time.Time, ok bool) {
	start, end = p.zone.first(p.day), p.zone.first(p.next().day)
	return start, end, start.Before(end) && !start.Before(firstInstant) && !end.After(pastInstants)
}

// id returns the id that says the period. Ids sort as their periods do.
func (p period) id() string {
	switch p.function {
	case Month:
		return p.day.Format(monthID)
	case Week:
		year, week := p.day.ISOWeek()
		return fmt.Sprintf(weekID, year, week)
	default:
		return p.day.Format(time.DateOnly)
	}
}

// How ids say months and weeks.
const (
	monthID = "2006-01"
	weekID  = "%04d-W%02d"
)

// periodOf returns the period that an instant is in.
func periodOf(f Function, z *zone, t time.Time) period {
	year, month, day := t.In(z.Location).Date()
	if f == Month {
		day = 1
	}

	p := period{f, z, time.Date(year, month, day, 0, 0, 0, 0, time.UTC)}
	if f == Week {
		p.day = mondayOf(p.day)
	}
	for next := p.next(); !z.first(next.day).After(t); next = p.next() { // the clocks show again what they have shown
		p = next
	}
	return p
}

// InUTC returns the id of the day, week or month in UTC that an instant is in.
func (f Function) InUTC(t time.Time) string { return periodOf(f, utc, t).id() }

// periodNamed returns the period that an id says, if it says one.
func periodNamed(f Function, z *zone, id string) (p period, ok bool) {
	p = period{function: f, zone: z}
	switch f {
	case Month:
		p.day, ok = parseDay(monthID, id)
	case Week:
		p.day, ok = parseWeek(id)
	default:
		p.day, ok = parseDay(time.DateOnly, id)
	}
	return p, ok && p.id() == id
}

// parseDay returns the day that a text says.
func parseDay(layout, text string) (day time.Time, ok bool) {
	day, err := time.Parse(layout, text)
	return day, err == nil
}

// parseWeek returns the Monday of the week that a text says. The first week of a year holds the 4th
// of January.
func parseWeek(text string) (monday time.Time, ok bool) {
	var year, week int
	n, err := fmt.Sscanf(text, weekID, &year, &week)
	if err != nil || n < 2 {
		return time.Time{}, false
	}
	return mondayOf(time.Date(year, 1, 4+7*(week-1), 0, 0, 0, 0, time.UTC)), true
}

// mondayOf returns the Monday of the week that a day is in.
func mondayOf(day time.Time) time.Time {
	since := (int(day.Weekday()) + 6) % 7
	return day.AddDate(0, 0, -since)
}
