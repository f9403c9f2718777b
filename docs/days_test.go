package docs_test

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"testing"
	"time"
	_ "time/tzdata" // for machines without zones
)

// The Go of clients.md gives the ids that Tally makes: around moved clocks, and where months and
// years end. docs/test does the same for Python.
func TestDays(t *testing.T) {
	row := regexp.MustCompile("(?m)^\\| Go \\| `time\\.Now\\(\\)\\.In\\(berlin\\)\\.Format\\(\"(.*?)\"\\)` \\| `year, week := time\\.Now\\(\\)\\.In\\(berlin\\)\\.ISOWeek\\(\\)`, then `fmt\\.Sprintf\\(\"(.*?)\", year, week\\)` \\| `time\\.Now\\(\\)\\.In\\(berlin\\)\\.Format\\(\"(.*?)\"\\)` \\|$").FindStringSubmatch(read(t, "clients.md"))
	if row == nil {
		t.Fatal("clients.md does not say how Go gives the ids of days, weeks and months")
	}
	data, err := os.ReadFile("../clients/web/test/days.json") // the engine's, by a test of rollup/route
	if err != nil {
		t.Fatal(err)
	}
	var made []struct {
		At                     time.Time
		Zone, Day, Week, Month string
		Again                  bool
	}
	if err := json.Unmarshal(data, &made); err != nil {
		t.Fatal(err)
	}

	compared := 0
	for _, want := range made {
		if year := want.At.Year(); year < 2 || year > 9998 { // those that are cut off have no id
			continue
		}
		zone, err := time.LoadLocation(want.Zone)
		if err != nil {
			t.Fatal(err)
		}
		local := want.At.In(zone)
		if want.Again { // clients.md says so
			if local.Format(row[1]) == want.Day {
				t.Errorf("%s in %s is on the date that clocks show", want.At, want.Zone)
			}
			continue
		}
		compared++
		year, week := local.ISOWeek()
		got := [3]string{local.Format(row[1]), fmt.Sprintf(row[2], year, week), local.Format(row[3])}
		if got != [3]string{want.Day, want.Week, want.Month} {
			t.Errorf("%s in %s is of %v, want %s, %s and %s", want.At, want.Zone, got, want.Day, want.Week, want.Month)
		}
	}
	if compared < 100 {
		t.Errorf("%d times were compared", compared)
	}
}
