package appfolder

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A tally.yaml is data. What could run code, leave a list of gcloud's or a template of Terraform's,
// or reach a shell, is refused by name and line.
func TestMistakenValues(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"env:\n  LD_PRELOAD: /tmp/x.so", "t.yaml:2: env.LD_PRELOAD: only names in capitals that begin with TALLY_ or OTEL_ may stand here; set any other in the shell, or on the functions by gcloud"},
		{"env: {TALLY_BURST: 3, PATH: /tmp}", "t.yaml:1: env.PATH: only names in capitals that begin with TALLY_ or OTEL_ may stand here; set any other in the shell, or on the functions by gcloud"},
		{"env:\n  TALLY_${x}: 1", "t.yaml:2: env.TALLY_${x}: only names in capitals that begin with TALLY_ or OTEL_ may stand here; set any other in the shell, or on the functions by gcloud"},
		{"env:\n  TALLY_USAGE_FILE: /home/me/.profile", "t.yaml:2: env.TALLY_USAGE_FILE: tally dev names that file itself: take the line out"},
		{"env:\n  TALLY_LOG_LEVEL: \"a\\0b\"", "t.yaml:2: env.TALLY_LOG_LEVEL: \"a\\x00b\" holds a control character: take it out"},
		{"routes: \"a\\0b\"", "t.yaml:1: routes: \"a\\x00b\" holds a control character: take it out"},
		{"databases: [a, \"\\e[2J\"]", "t.yaml:1: databases: \"a,\\x1b[2J\" holds a control character: take it out"},
		{"# a region\n\nregion: us-central1 --impersonate-service-account=x", "t.yaml:3: region: \"us-central1 --impersonate-service-account=x\" is no region: want one such as us-central1; gcloud functions regions list lists them"},
		{"region: ${x}", "t.yaml:1: region: \"${x}\" is no region: want one such as us-central1; gcloud functions regions list lists them"},
		{"region: us-central1-a", "t.yaml:1: region: \"us-central1-a\" is no region: want one such as us-central1; gcloud functions regions list lists them"},
		{"alert_email: a@example.com,type=sms", "t.yaml:1: alert_email: \"a@example.com,type=sms\" is no address: want one alone, such as me@example.com"},
		{"alert_email: Me <me@example.com>", "t.yaml:1: alert_email: \"Me <me@example.com>\" is no address: want one alone, such as me@example.com"},
		{"alert_email: me", "t.yaml:1: alert_email: \"me\" is no address: want one alone, such as me@example.com"},
		{"alert_email: " + strings.Repeat("a", 250) + "@b.cd", "t.yaml:1: alert_email: \"" + strings.Repeat("a", 250) + "@b.cd\" is no address: want one alone, such as me@example.com"},
		{"region: x\nalert_email: y", "t.yaml:1: region: \"x\" is no region: want one such as us-central1; gcloud functions regions list lists them\nt.yaml:2: alert_email: \"y\" is no address: want one alone, such as me@example.com"},
		{"cadence: \xff", "t.yaml: is not text in UTF-8: save it as that"},
		{"env: &e\n  TALLY_BURST: 1", "t.yaml:1: tally.yaml takes no anchors (&) and aliases (*): write the value out"},
		{"cadence: 1s\nenv: *e", "t.yaml:2: tally.yaml takes no anchors (&) and aliases (*): write the value out"},
		{"routes: |\n" + strings.Repeat(" \n", 100), "t.yaml:101: 100 blank lines end here: delete them"},
		{"databases: " + strings.Repeat("[", 9), "t.yaml:1: lists and maps are nested more than 8 deep: tally.yaml needs 2"},
		{"databases:\n" + strings.Repeat("- ", 9), "t.yaml:2: lists and maps are nested more than 8 deep: tally.yaml needs 2"},
	} {
		_, _, err := parse("t.yaml", []byte(test.text))
		if got := fmt.Sprint(err); got != test.want {
			t.Errorf("%q:\n got %s\nwant %s", test.text, got, test.want)
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
alert_email: o'neil+${x}%{y}^z@example.com
env:
  OTEL_RESOURCE_ATTRIBUTES: "a=1,b=x@0"
  OTEL_SERVICE_NAME: '*'
  TALLY_BURST: 3
`
	s, lines, err := parse("t.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	want := Settings{
		Routes:    "a/{a}/b/{b} -> c/{a} : n\n# [[[[[[[[[[\nd/{d}/&e/{f} -> g/{d} : n\n",
		Databases: []string{"(default)", "orders"}, AlertEmail: "o'neil+${x}%{y}^z@example.com",
		Env: map[string]string{"OTEL_RESOURCE_ATTRIBUTES": "a=1,b=x@0", "OTEL_SERVICE_NAME": "*", "TALLY_BURST": "3"},
	}
	if d := cmp.Diff(want, s); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if lines["env.OTEL_SERVICE_NAME"] != 12 || lines["alert_email"] != 9 {
		t.Errorf("lines: %v", lines)
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
	for name, unit := range map[string]string{"empty lines": "\n", "blank lines": " \n", "text": " x\n", "commas": ","} {
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
			if err == nil && name != "documents" && name != "text" {
				t.Error("no error")
			}
			const most = 256 << 20 // bytes
			if allocated := after.TotalAlloc - before.TotalAlloc; allocated > most {
				t.Errorf("%d bytes took %d MB", len(text), allocated>>20)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range hostile(200) {
		f.Add([]byte(text))
	}
	f.Add([]byte("routes: |\n  a\ndatabases: [a, b]\nenv: {TALLY_BURST: 3}\n"))
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
