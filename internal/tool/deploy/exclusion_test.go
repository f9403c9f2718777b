package deploy

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// aboutRequests matches what only an entry of Cloud Run's about a request has.
var aboutRequests = regexp.MustCompile(`httpRequest|requests`)

// The exclusion keeps out entries of the requests' log and nothing of the functions' own, and no
// metric, no alert and no playbook reads what it keeps out.
func TestNothingReadsWhatIsExcluded(t *testing.T) {
	for _, part := range []string{`log_id("run.googleapis.com/requests")`, `service_name="tally-on-write"`, "status>=200 AND httpRequest.status<300"} {
		if !strings.Contains(succeeded, part) {
			t.Errorf("the exclusion %s does not say %s", succeeded, part)
		}
	}

	filters := map[string]string{"metric tally_lag": lagMetric.Get("filter")}
	for _, m := range logMetrics {
		filters["metric "+m.name] = m.filter
	}
	for _, a := range allAlerts(DefaultMaxInstances) {
		filters["alert "+a.name] = a.filter
	}
	for name, filter := range filters {
		if aboutRequests.MatchString(filter) {
			t.Errorf("%s reads entries about requests: %s", name, filter)
		}
	}

	playbooks, err := filepath.Glob("../../../docs/playbooks/*.md")
	if err != nil || len(playbooks) == 0 {
		t.Fatalf("no playbooks: %v", err)
	}
	for _, file := range playbooks {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			reads := strings.Contains(line, "gcloud logging read") && aboutRequests.MatchString(line)
			if reads && !strings.Contains(line, "httpRequest.status>=400") {
				t.Errorf("%s reads entries that may be excluded: %s", filepath.Base(file), line)
			}
		}
	}
}

// What somebody decided stays where no tally.yaml says otherwise; what nobody decided is excluded.
func TestRequestLogs(t *testing.T) {
	for _, test := range []struct {
		name, option string
		have         Object
		want         string // the arguments; "": nothing is to be done
	}{
		{name: "new", want: "--add-exclusion='name=tally-on-write-requests,filter="},
		{name: "new, and all kept", option: AllRequests, want: "disabled=true"},
		{name: "as it is to be", have: Object{"filter": succeeded}},
		{name: "disabled by hand", have: Object{"filter": succeeded, "disabled": true}},
		{name: "disabled by hand, and tally.yaml wants it", option: FailedRequests, have: Object{"filter": succeeded, "disabled": true},
			want: "--update-exclusion=name=tally-on-write-requests,disabled="},
		{name: "another filter", have: Object{"filter": "severity=ERROR"}, want: "--update-exclusion='name=tally-on-write-requests,filter="},
	} {
		t.Run(test.name, func(t *testing.T) {
			have := newState("p")
			if test.have != nil {
				test.have["name"] = exclusionName
				have.add(Exclusion, nil, test.have)
			}
			o := options(t, "counters/{c}/shards/{s} -> rollups/{c} : count")
			o.RequestLogs = test.option
			if o.RequestLogs == "" {
				o.RequestLogs = have.RequestLogs()
			}
			d, err := Describe(o, have, "")
			if err != nil {
				t.Fatal(err)
			}

			got := ""
			for _, s := range d.Mend(have).Steps {
				if s.Of == Exclusion {
					got += s.Command.String()
				}
			}
			if test.want == "" && got != "" || !strings.Contains(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}

	o := options(t, "counters/{c}/shards/{s} -> rollups/{c} : count")
	o.RequestLogs = "none"
	if _, err := Describe(o, newState("p"), ""); err == nil || err.Error() != `request_logs: "none": want failed or all` {
		t.Errorf("error: %v", err)
	}
}
