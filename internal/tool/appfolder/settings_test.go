package appfolder

import (
	"fmt"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A tally.yaml is data. What could run code, leave a list of gcloud's or a template of Terraform's,
// or reach a shell, is refused by name and line.
func TestMistakenValues(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"env:\n  LD_PRELOAD: /tmp/x.so", "t.yaml:2:3: env.LD_PRELOAD: only names in capitals that begin with TALLY_ are allowed here; set any other in the shell, or on the functions by gcloud"},
		{"env: {TALLY_BURST: 3, PATH: /tmp}", "t.yaml:1:23: env.PATH: only names in capitals that begin with TALLY_ are allowed here; set any other in the shell, or on the functions by gcloud"},
		{"env:\n  TALLY_${x}: 1", "t.yaml:2:3: env.TALLY_${x}: only names in capitals that begin with TALLY_ are allowed here; set any other in the shell, or on the functions by gcloud"},
		{"dev:\n  firestore: 8080", "t.yaml:2:3: dev.firestore: there is no such port: want one of firestore_port, functions_port, dashboard_port"},
		{"dev:\n  dashboard_port: 65536", "t.yaml:2:3: dev.dashboard_port: 65536: want a port up to 65535, or 0 for any that is free"},
		{"dev:\n  dashboard_port: high", "t.yaml:2:19: want a whole number"},
		{"env:\n  TALLY_USAGE_FILE: /home/me/.profile", "t.yaml:2:3: env.TALLY_USAGE_FILE: tally dev sets this variable itself: remove the line"},
		{"env:\n  TALLY_LOG_LEVEL: \"a\\0b\"", "t.yaml:2:3: env.TALLY_LOG_LEVEL: \"a\\x00b\" contains a control character: remove it"},
		{"routes: \"a\\0b\"", "t.yaml:1:1: routes: \"a\\x00b\" contains a control character: remove it"},
		{"databases: [a, \"\\e[2J\"]", "t.yaml:1:1: databases: \"a,\\x1b[2J\" contains a control character: remove it"},
		{"# a region\n\nregion: us-central1 --impersonate-service-account=x", "t.yaml:3:1: region: \"us-central1 --impersonate-service-account=x\" is no region: want one such as us-central1; https://cloud.google.com/functions/docs/locations lists them"},
		{"region: ${x}", "t.yaml:1:1: region: \"${x}\" is no region: want one such as us-central1; https://cloud.google.com/functions/docs/locations lists them"},
		{"region: us-central1-a", "t.yaml:1:1: region: \"us-central1-a\" is no region: want one such as us-central1; https://cloud.google.com/functions/docs/locations lists them"},
		{"alerts: a@example.com,type=sms", "t.yaml:1:1: alerts: \"a@example.com,type=sms\" is no address: want one alone, such as me@example.com; or console, or a list of channels, as gcloud beta monitoring channels list names them"},
		{"alerts: Me <me@example.com>", "t.yaml:1:1: alerts: \"Me <me@example.com>\" is no address: want one alone, such as me@example.com; or console, or a list of channels, as gcloud beta monitoring channels list names them"},
		{"alerts: me", "t.yaml:1:1: alerts: \"me\" is no address: want one alone, such as me@example.com; or console, or a list of channels, as gcloud beta monitoring channels list names them"},
		{"alerts: " + strings.Repeat("a", 250) + "@b.cd", "t.yaml:1:1: alerts: \"" + strings.Repeat("a", 250) + "@b.cd\" is no address: want one alone, such as me@example.com; or console, or a list of channels, as gcloud beta monitoring channels list names them"},
		{"alerts: [projects/p/notificationChannels/1, me@example.com]", "t.yaml:1:1: alerts: \"me@example.com\" is no notification channel: want one such as projects/my-project/notificationChannels/123; an address stands alone"},
		{"alerts: [console, projects/p/notificationChannels/1]", "t.yaml:1:1: alerts: \"console\" is no notification channel: want one such as projects/my-project/notificationChannels/123; an address stands alone"},
		{"region: x\nalerts: y", "t.yaml:1:1: region: \"x\" is no region: want one such as us-central1; https://cloud.google.com/functions/docs/locations lists them\nt.yaml:2:1: alerts: \"y\" is no address: want one alone, such as me@example.com; or console, or a list of channels, as gcloud beta monitoring channels list names them"},
		{"cadence: \xff", "t.yaml: is not text in UTF-8: save it as that"},
		{"env: &e\n  TALLY_BURST: 1", "t.yaml:1:6: tally.yaml takes no anchors (&) and aliases (*): write the value out"},
		{"cadence: 1s\nenv: *e", "t.yaml:2:6: tally.yaml takes no anchors (&) and aliases (*): write the value out"},
		{"routes: |\n" + strings.Repeat(" \n", 100), "t.yaml:101:1: 100 blank lines end here: delete them"},
		{"routes: |\r\n" + strings.Repeat(" \r\n", 100), "t.yaml:101:1: 100 blank lines end here: delete them"},
		{"routes: |\r" + strings.Repeat("\r", 100), "t.yaml:101:1: 100 blank lines end here: delete them"},
		{"routes: |\n" + strings.Repeat("\n\r", 100), "t.yaml:101:1: 100 blank lines end here: delete them"},
		{"", "<nil>"},
		{"alerts: console", "<nil>"},
		{"alerts: [console]", "<nil>"},
		{"routes: a/{a} -> b/{a} : c", "t.yaml:1:9: mapping value is not allowed in this context; write \"routes: |\" on a line, and each route on a line of its own below, indented"},
		{"routes:\n  - a/{a}/b/{b} -> c/{a} : n", "t.yaml:2:26: want text; write \"routes: |\" on a line, and each route on a line of its own below, indented"},
		{"routes:\n  a/{a}/b/{b} -> c/{a} : n", "t.yaml:2:24: want text; write \"routes: |\" on a line, and each route on a line of its own below, indented"},
		{"routes:\n  a/{a}/b/{b} -> c/{a} : count() as b : existing", "t.yaml:2:26: mapping value is not allowed in this context; write \"routes: |\" on a line, and each route on a line of its own below, indented"},
		{"route: x\ncadence: [1s]", "t.yaml:1:1: unknown key \"route\"; the keys are routes, cadence, reads_per_second, audit, databases, edition, region, billing, min_instances, max_instances, alerts, env, dev"},
		{"cadence: [1s]", "t.yaml:1:10: want text"},
		{"cadence: 1s\nroutes: |\n  a/{a}/b/{b} -> c/{a} : n\n\td/{d}/e/{e} -> f/{d} : n\n\n# more\nregion: x", "t.yaml:4:1: found a tab character where an indentation space is expected"},
		{"billing: by-request\nmin_instances: -1", "t.yaml:1:1: billing: \"by-request\": want request or instance\nt.yaml:2:1: min_instances: -1: want at least 0"},
		{"databases: (default)", "t.yaml:1:12: want a list, such as [(default), orders]"},
		{"databases: [a, [b]]", "t.yaml:1:16: want text"},
		{"max_instances: 1.5\ndev: {firestore_port: 80.1}", "t.yaml:1:1: max_instances: want a whole number\nt.yaml:2:7: dev.firestore_port: want a whole number"},
		{"reads_per_second: -1", "t.yaml:1:1: reads_per_second: -1: want at least 0"},
		{"max_instances: many", "t.yaml:1:16: want a whole number"},
		{"env: x", "t.yaml:1:6: want keys and values"},
		{"env:\n  TALLY_BURST: [3]", "t.yaml:2:16: want text"},
		{"env:\n  [a]: 3", "t.yaml:2:6: found an invalid key for this map"},
		{"- a", "t.yaml:1:1: want keys and values"},
		{"text", "t.yaml:1:1: want keys and values"},
		{"region: !!str us-east1", "<nil>"},
		{"---\ncadence: 1s\n---\ncadence: 2s", "t.yaml:4:1: another document begins here: tally.yaml is one document, without lines of ---"},
		{"cadence: 1s\ncadence: 2s", "t.yaml:2:1: mapping key \"cadence\" already defined at [1:1]"},
		{"env:\n\tTALLY_BURST: 3", "t.yaml:2:1: found character '\t' that cannot start any token"},
		{"env: {TALLY_BURST: 3", "t.yaml:1:6: could not find flow mapping end token '}'"},
		{"cadence: '1s", "t.yaml:1:10: could not find end character of single-quoted text"},
		{"cadence: @1s", "t.yaml:1:10: '@' is a reserved character"},
		{"routes: |\na/{a}/b/{b} -> c/{a} : n", "t.yaml:2:1: a route is not indented: write \"routes: |\" on a line, and each route on a line of its own below, indented"},
		{"routes: |\n  a\ncadence", "t.yaml:3:1: non-map value is specified"},
		{"cadence: %1s", "t.yaml:1:10: unexpected directive value. document not started"},
		{"databases: " + strings.Repeat("[", 9), "t.yaml:1:19: lists and maps are nested more than 8 deep: tally.yaml needs 2"},
		{"databases:\n" + strings.Repeat("- ", 9), "t.yaml:2:17: lists and maps are nested more than 8 deep: tally.yaml needs 2"},
	} {
		_, _, err := parse("t.yaml", []byte(test.text))
		if got := excerpt.Split(fmt.Sprint(err), 2)[0]; got != test.want {
			t.Errorf("%q:\n got %s\nwant %s", test.text, got, test.want)
		}
	}
}

// excerpt matches the first line that an error quotes.
var excerpt = regexp.MustCompile(`\n[> ] +\d+ \|`)

// An error about YAML quotes the lines around it, but nothing long, and nothing that a terminal
// would obey.
func TestExcerpt(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"routes: |\n  a\nenv: {TALLY_BURST: [3]}", "t.yaml:3:20: want text\n   1 | routes: |\n   2 |   a\n>  3 | env: {TALLY_BURST: [3]}\n                          ^"},
		{"databases: \x1b[2J", "t.yaml:1:12: want a list, such as [(default), orders]\n>  1 | databases: \ufffd[2J\n                  ^"},
		{"databases: " + strings.Repeat("a", 1000), "t.yaml:1:12: want a list, such as [(default), orders]"},
	} {
		_, _, err := parse("t.yaml", []byte(test.text))
		if got := fmt.Sprint(err); got != test.want {
			t.Errorf("%.50q:\n got %q\nwant %q", test.text, got, test.want)
		}
	}
}

// However many mistakes there are, ten are told.
func TestFewErrors(t *testing.T) {
	var unknown, variables strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&unknown, "key%d: x\n", i)
		fmt.Fprintf(&variables, "  PATH%d: x\n", i)
	}
	for _, test := range []struct{ text, tenth string }{
		{unknown.String(), `t.yaml:10:1: unknown key "key9"`},
		{"env:\n" + variables.String(), "env.PATH106: only names in capitals"},
	} {
		_, _, err := parse("t.yaml", []byte(test.text))
		lines := strings.Split(fmt.Sprint(err), "\n")
		if len(lines) != 11 || !strings.Contains(lines[9], test.tenth) || lines[10] != "and 990 more mistakes" {
			t.Errorf("%.20q: %d lines, the last are %q; want 11 lines, %q and how many more there are", test.text, len(lines), lines[max(0, len(lines)-2):], test.tenth)
		}
	}
}

// Usual texts are taken, with what looks like a reference or nesting and is none.
func TestUsualSettings(t *testing.T) {
	const text = `# all *of* it & more
routes: |
  a/{a}/b/{b} -> c/{a} : n
  # [[[[[[[[[[
  d/{d}/&e/{f} -> g/{d} : n
databases:
- (default)
- orders
alerts: o'neil+${x}%{y}^z@example.com
env:
  TALLY_BURST_A: "a=1,b=x@0"
  TALLY_BURST_B: '*'
  TALLY_BURST: 3
`
	s, p, err := parse("t.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	want := Settings{
		Routes:    "a/{a}/b/{b} -> c/{a} : n\n# [[[[[[[[[[\nd/{d}/&e/{f} -> g/{d} : n",
		Databases: []string{"(default)", "orders"}, Alerts: Alerts{"o'neil+${x}%{y}^z@example.com"},
		Env: map[string]string{"TALLY_BURST_A": "a=1,b=x@0", "TALLY_BURST_B": "*", "TALLY_BURST": "3"},
	}
	if d := cmp.Diff(want, s); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	wantPlaces := places{
		keys: map[string]place{
			"routes": {2, 1}, "databases": {6, 1}, "alerts": {9, 1}, "env": {10, 1},
			"env.TALLY_BURST_A": {11, 3}, "env.TALLY_BURST_B": {12, 3}, "env.TALLY_BURST": {13, 3},
		},
		routes: []place{{3, 3}, {4, 3}, {5, 3}},
	}
	if d := cmp.Diff(wantPlaces, p, cmp.AllowUnexported(places{}, place{})); d != "" {
		t.Errorf("places (-want +got):\n%s", d)
	}
}

// Routes in a list are those of a text, and the place of each line is known.
func TestRoutesInList(t *testing.T) {
	const text = `routes:
  - 'a/{a}/b/{b} -> c/{a} : n'   # quoted
  - |
    # a block

    d/{d}/e/{f} -> g/{d} :
      n : existing
  - >
    h/{h}/i/{j} ->
    k/{h} : n
  - "l/{l}/m/{n} -> o/{l} : p"
`
	s, p, err := parse("t.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	const want = "a/{a}/b/{b} -> c/{a} : n\n# a block\n\nd/{d}/e/{f} -> g/{d} :\n  n : existing\nh/{h}/i/{j} -> k/{h} : n\nl/{l}/m/{n} -> o/{l} : p"
	if s.Routes != want {
		t.Errorf("got %q\nwant %q", s.Routes, want)
	}
	places := []place{{2, 6}, {4, 5}, {5, 5}, {6, 5}, {7, 5}, {8, 5}, {11, 6}}
	if d := cmp.Diff(places, p.routes, cmp.AllowUnexported(place{})); d != "" {
		t.Errorf("places (-want +got):\n%s", d)
	}
}

// hostile are texts of any length that a parser may follow into gigabytes or for minutes.
func hostile(length int) map[string]string {
	laughs, last := "env:\n  TALLY_A: &a [x,x,x,x,x,x,x,x,x]\n", "a"
	for i := range 7 {
		name := string(rune('b' + i))
		laughs += fmt.Sprintf("  TALLY_%s: &%[1]s [*%s%s]\n", name, last, strings.Repeat(",*"+last, 8))
		last = name
	}
	var stairs strings.Builder
	for i := 0; stairs.Len() < length; i++ {
		stairs.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	texts := map[string]string{"aliases": laughs, "stairs": stairs.String()[:length]}
	for name, unit := range map[string]string{
		"brackets": "[", "braces": "{a: ", "entries": "- ", "keys": "? ", "values": "a: ", "lines": "a:\n", "tags": "!a ", "anchors": "&a ", "documents": "---\n",
	} {
		texts[name] = strings.Repeat(unit, length/len(unit))
	}
	for name, unit := range map[string]string{"empty lines": "\n", "blank lines": " \n", "returns": "\r", "blank returns": " \r", "both ends": "\r\n", "text and returns": " x\r", "text": " x\n", "commas": ","} {
		texts[name] = "routes: |\n" + strings.Repeat(unit, (length-10)/len(unit))
	}
	return texts
}

// No text that is short enough to be read takes gigabytes, or the time to fill them. The worst one
// takes 190 MB.
func TestHostileTexts(t *testing.T) {
	for name, text := range hostile(maxSettings) {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, _, err := parse("t.yaml", []byte(text))
			runtime.ReadMemStats(&after)
			if err == nil && name != "documents" && name != "text" && name != "text and returns" {
				t.Error("no error")
			}
			const most = 256 << 20 // bytes
			if allocated := after.TotalAlloc - before.TotalAlloc; allocated > most {
				t.Errorf("%d bytes took %d MB", len(text), allocated>>20)
			}
		})
	}
}

// Add -fuzzminimizetime=10x: by default each text that is new to the fuzzer is first made shorter,
// for up to a minute.
func FuzzParse(f *testing.F) {
	for _, text := range hostile(200) {
		f.Add([]byte(text))
	}
	f.Add([]byte("routes: |\n  a\ndatabases: [a, b]\nenv: {TALLY_BURST: 3}\n"))
	f.Add([]byte("routes:\r\r\r\r\r |"))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, _, err := parse("t.yaml", text)
		if err != nil {
			return
		}
		for name, value := range s.Env {
			if !variable.MatchString(name) || strings.ContainsRune(value, 0) {
				t.Errorf("%q: took %q: %q", text, name, value)
			}
		}
	})
}
