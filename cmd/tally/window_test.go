//go:build unix

package main

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/firestore-tally/tally/internal/document"
)

// Where time alone explains how a roll-up differs, get says so. Where an alarm will ring, ls says
// when, unless changes wait for longer.
func TestWindows(t *testing.T) {
	const routes = "rooms/{room}/members/{user} -> rooms/{room} : count() as members, count() where seen > now - 1h as online : existing"
	t.Setenv("TALLY_ROUTES", routes)
	t.Setenv("TALLY_BURST", "1")
	c := newConsole(t)
	template := c.counter(routes, "rooms/a/members/ann").Template
	now := time.Now().Truncate(time.Microsecond).UTC()
	asOf, soon, past := now.Add(-30*time.Minute), now.Add(time.Hour), now.Add(-time.Minute)
	for room, said := range map[string]struct {
		online int
		rings  time.Time
	}{"a": {2, soon}, "b": {2, past}, "c": {2, asOf}, "d": {1, soon}, "e": {7, soon}, "f": {1, time.Time{}}} {
		tally := document.Tally{AsOf: asOf, NumShards: 2, PacedUntil: asOf.Add(40 * time.Minute), Routes: template.Hash(), Totals: template.Totals(), Rings: said.rings}
		c.set("rooms/"+room, map[string]any{"members": 2, "online": said.online, document.TallyField: tally.Encode()})
		c.set("rooms/"+room+"/members/ann", map[string]any{"seen": now.Add(-80 * time.Minute)})
		c.set("rooms/"+room+"/members/bob", map[string]any{"seen": now.Add(-40 * time.Minute)})
	}

	stamp := func(t time.Time) string { return t.Format(time.RFC3339Nano) }
	const left = ` old  documents have left a window since; `
	for args, want := range map[string]string{
		"get rooms/a":        left + `its alarm rings at ` + stamp(soon) + "\n$",
		"get rooms/a --json": `"rings":"` + stamp(soon) + `","left":true}`,
		"get rooms/b":        left + `its alarm was due at ` + stamp(past) + "\n$",
		"get rooms/c":        left + `it has no alarm, so the next change or audit rolls it up\n$`,
		"get rooms/c --json": `"age_ms":[\d.]+,"left":true}`,
		"get rooms/d":        ` old\n$`, // nothing has left
		"get rooms/d --json": `"rings":"` + stamp(soon) + `"}`,
		"get rooms/e":        ` old\n$`, // it was wrong when it was written

		"ls": `^COUNTER  members  online  DOCUMENTS  AS OF +DUE
rooms/a  2 +2 +2 +\S+ +by ` + stamp(soon) + `
rooms/b  2 +2 +2 +\S+ +by ` + stamp(past) + `
rooms/c  2 +2 +2 +\S+ +on change
rooms/d  2 +1 +2 +\S+ +by ` + stamp(soon) + `
rooms/e  2 +7 +2 +\S+ +by ` + stamp(soon) + `
rooms/f  2 +1 +2 +\S+ +on change
$`,
		"ls --routes " + strings.ReplaceAll(routes, " ", "\t") + ":cadence\t40m": ` +` + stamp(asOf.Add(40*time.Minute)) + "\n",
	} {
		status, out, errors := c.run(strings.Split(args, " ")...)
		if status != 0 || !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("%s: status %d, %s%s\nwant %s", args, status, out, errors, want)
		}
	}
}
