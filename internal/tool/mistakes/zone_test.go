package mistakes

import (
	"fmt"
	"strings"
	"testing"

	"github.com/firestore-tally/tally/rollup/route"
)

// Only places are suggested for a zone that there is not. An offset has the opposite sign in the tz
// database, and an abbreviation is that of several zones.
func TestSuggestedZones(t *testing.T) {
	for zone, want := range map[string]string{
		"Berlin": "Europe/Berlin", "europe/berlin": "Europe/Berlin", "New York": "America/New_York", "Europe/Berlim": "Europe/Berlin",
		"GMT+2": "", "GMT+10": "", "GMT-5": "", "UTC+1": "", "UTC-08:00": "", "+02:00": "", "Etc/GMT+20": "", "GMT": "", "utc": "",
		"PST": "", "PDT": "", "CST": "", "EDT": "", "IST": "", "BST": "", "JST": "", "CEST": "", "AEST": "", "Z": "", "PST8PDT0": "",
	} {
		_, err := Parse(fmt.Sprintf("o/{o} by day(at, %q) -> d/{day} : count() as n : within", zone))
		if zone == "GMT" && err == nil {
			continue // the tz database has it
		}
		said, _, _ := strings.Cut(fmt.Sprint(err), "\n")
		_, meant, _ := strings.Cut(said, "did you mean ")
		if err == nil || strings.TrimSuffix(meant, "?") != want || !strings.Contains(err.Error(), "name a zone by its city") {
			t.Errorf("%s: %v; want %q", zone, err, want)
		}
	}
}

func mustParse(t *testing.T, text string) route.Routes {
	t.Helper()
	routes, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return routes
}

// A new route names no zone that is called by an abbreviation. One that runs may.
func TestWithoutSummer(t *testing.T) {
	const running = `o/{o} by day(at, "EST") -> d/{day} : count() as n : within`
	for text, want := range map[string]string{
		running: "",
		`o/{o} by day(at, "EST") -> d/{day} : count() as n, sum(a) as m : within`:            "",
		`o/{o} by day(at, "MST") -> d/{day} : count() as n : within`:                         "such as America/Denver",
		`o/{o} by month(at, "HST") -> d/{month} : count() as n : within`:                     "such as Pacific/Honolulu",
		`o/{o} by paid, day(at, "EST") -> s/{paid}/d/{day} : count() as n : within s/{paid}`: "such as America/New_York",
		`p/{p} by day(at, "EST") -> d/{day} : count() as n : within`:                         "such as America/New_York",
		`o/{o} by day(at, "America/New_York") -> d/{day} : count() as n : within`:            "",
		`o/{o} by day(at) -> d/{day} : count() as n : within; a/{a} -> b/c : count() as n`:   "",
	} {
		got := WithoutSummer(mustParse(t, text), mustParse(t, running))
		if !strings.HasSuffix(got, want) || (got == "") != (want == "") {
			t.Errorf("%s: %q; want %q", text, got, want)
		}
	}
}
