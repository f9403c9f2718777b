package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/firestore-tally/tally/rollup/route"
	"github.com/google/go-cmp/cmp"
)

// A warning that goes on is printed again, and all of them if TALLY_LOG_LEVEL asks for more.
func TestWarningsOnce(t *testing.T) {
	for _, all := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var out bytes.Buffer
			l := &lines{out: &out, verbose: all}
			for range 3 { // each from two processes
				for range 2 {
					l.printLogged([]byte(`{"severity":"WARNING","message":"no index"}`))
				}
				time.Sleep(10 * time.Minute)
			}
			want := 3
			if all {
				want = 6
			}
			if n := strings.Count(out.String(), "no index"); n != want || len(l.printedAt) > 1 {
				t.Errorf("all %v: printed %d times, want %d: %s", all, n, want, &out)
			}
		})
	}
}

func rolledUpLine(database, counter string, n int) string {
	now := time.Now().UTC().Format(time.RFC3339Nano)
	return fmt.Sprintf(`{"time":%q,"severity":"DEBUG","message":"rolled up","database":%q,"counter":%q,"event_id":"e","totals":{"b":"2","a":"%d"},"num_shards":10,"as_of":%[1]q}`+"\n", now, database, counter, n)
}

// The functions' log is shown in lines that a person reads.
func TestLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		midnight := time.Now().Format("15:04:") // what local clocks show when it is midnight in UTC, as now
		var out bytes.Buffer
		var early bytes.Buffer
		l := &lines{out: &early}
		l.setRoutes(parsed(t, route.Default+"; orders/{order} by shop -> shops/{shop} : count() as orders : existing"))
		log := func(line string) { l.printLogged([]byte(line)) }
		log(rolledUpLine("(default)", "rollups/early", 1))
		l.redirect(&out, "Hello.\n")
		log(rolledUpLine("other", `rollups/\u001b\u202e`, 2))
		log(`{"time":"2000-01-01T00:00:00.5Z","severity":"INFO","message":"configured"}`)
		log(`{"time":"2000-01-01T00:00:00.5Z","severity":"WARNING","message":"rolled up late","database":"(default)","counter":"rollups/x","lag_seconds":9007199254740993,"logging.googleapis.com/trace":"t"}`)
		for _, event := range []string{"1", "2", "1"} { // each process logs it, by an event of its own
			log(`{"time":"2000-01-01T00:00:00.5Z","severity":"WARNING","message":"shards left out of the sum","counter":"rollups/x","event_id":"` + event + `","count":1}`)
		}
		log(`{"time":"2000-01-01T00:00:00.5Z","severity":"WARNING","message":"shards left out of the sum","counter":"rollups/y","event_id":"3","count":1}`)
		for _, counter := range []string{"rollups/z", "shops/7"} {
			log(`{"time":"2000-01-01T00:00:00.5Z","severity":"WARNING","message":"shards left out of the sum","counter":"` + counter + `","shards":["a/1"]}`)
		}
		log("panic: \x1b")
		time.Sleep(time.Second)
		log(rolledUpLine("(default)", "rollups/busy", 499))
		log(rolledUpLine("(default)", "shops/7", 3))
		log(`{"time":"2000-01-01T00:00:02.5Z","severity":"DEBUG","message":"removed","database":"(default)","counter":"rollups/x","totals":{},"as_of":"2000-01-01T00:00:02Z"}`)
		l.close()
		log(rolledUpLine("(default)", "rollups/late", 1))
		if want := midnight + "00.000  rollups/early  a 1  b 2  10 shards  as of " + midnight + "00.000\n"; early.String() != want {
			t.Errorf("printed early %q, want %q", &early, want)
		}
		want := `Hello.
00:00:00.000  other: rollups/\u001b\u202e  a 2  b 2  10 shards  as of 00:00:00.000
00:00:00.500  WARNING  rolled up late  counter rollups/x  lag_seconds 9007199254740993
00:00:00.500  WARNING  shards left out of the sum  count 1  counter rollups/x  event_id 1
00:00:00.500  WARNING  shards left out of the sum  count 1  counter rollups/y  event_id 3
00:00:00.500  WARNING  shards left out of the sum  counter rollups/z  shards [a/1]
00:00:00.500  WARNING  documents left out of the sum  counter shops/7  documents [a/1]
00:00:00.000  panic: \u001b
00:00:01.000  rollups/busy  a 499  b 2  10 shards  as of 00:00:01.000
00:00:01.000  shops/7  a 3  b 2  10 documents  as of 00:00:01.000
00:00:02.500  rollups/x  removed
`
		want = strings.ReplaceAll(want, "00:00:", midnight)
		if diff := cmp.Diff(strings.Split(want, "\n"), strings.Split(out.String(), "\n")); diff != "" {
			t.Errorf("printed (-want +got):\n%s", diff)
		}
	})
}
