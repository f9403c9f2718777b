package deploy

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/monitoring/apiv3/v2/monitoringpb"
	"github.com/firestore-tally/tally/internal/cloud/billing"
	"github.com/firestore-tally/tally/internal/cloud/config"
	"github.com/firestore-tally/tally/rollup/route"
	"github.com/google/go-cmp/cmp"
	metricpb "google.golang.org/genproto/googleapis/api/metric"
	monitoredrespb "google.golang.org/genproto/googleapis/api/monitoredres"
)

// priced returns a description of the routes in a database of the location.
func priced(t *testing.T, routes, location string, change func(*Options)) *Deployment {
	t.Helper()
	o := options(t, routes)
	o.Databases = []Database{{"(default)", location}}
	if change != nil {
		change(&o)
	}
	return described(t, o)
}

// Costs are as docs/performance.md has them, whose tables internal/cloud/billing computes by
// itself.
func TestCosts(t *testing.T) {
	byInstance := func(o *Options) { o.Billing = ByInstance }
	oneWaits := func(o *Options) { o.MinInstances = 1 }
	for _, test := range []struct {
		name, routes, location string
		change                 func(*Options)
		want                   string // at rest, a million changes
	}{
		{"a region", likes, "us-central1", nil, "0.14 4.50"},
		{"a multi-region", likes, "nam5", nil, "0.14 6.00"},
		{"by instance", likes, "us-central1", byInstance, "0.14 1.57"},
		{"an instance that waits", likes, "us-central1", oneWaits, "9.86 4.50"},
		{"an instance that waits, by instance", likes, "us-central1", func(o *Options) { byInstance(o); oneWaits(o) }, "49.39 1.57"},
		{"routes of one and two totals", likes + "; a/{a}/b/{b} -> c/{a} : x, y", "us-central1", nil, "0.14 4.80"},
		{"a circle", replies, "us-central1", nil, "0.14 7.50"},
		{"a circle by instance", replies, "us-central1", byInstance, "0.14 1.65"},
		{"two databases, one in a multi-region", likes, "us-central1",
			func(o *Options) { o.Databases = append(o.Databases, Database{"orders", "eur3"}) }, "0.14 6.00"},
		{"the schedule alone", likes + " : every 1m", "us-central1", nil, "24.06 0.00"},
		{"the schedule, seldom", likes + " : every 10m", "us-central1", nil, "0.14 0.00"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := priced(t, test.routes, test.location, test.change).Costs()
			got := fmt.Sprintf("%.2f %.2f", c.Rest, c.Change)
			if got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}

	references := 0 // to metrics, by each of which Google is to charge for alerts
	for _, a := range wantedOf(t, "alert") {
		references += strings.Count(a.Get("conditions.0.conditionPrometheusQueryLanguage.query"), "_googleapis_com:")
	}
	page := contentOf(t, "../../../docs/deploy.md")
	if !strings.Contains(page, fmt.Sprintf("%d metric references", references)) || math.Round(0.35*float64(references)) != 5 {
		t.Errorf("docs/deploy.md and README.md do not say what %d metric references of alerts cost", references)
	}
}

// auditReads is about how many reads the audit of one counter costs, as docs/performance.md says.
const auditReads = 4

// README says what the code computes: a lone like, in a region and in a multi-region; a thousand
// totals at rest; how many an audit compares in a day; a million changes by deltas.
func TestReadme(t *testing.T) {
	const like = "posts/{post}/likes/{user} -> posts/{post} : count() as likes : existing"
	region, multi := priced(t, like, "us-central1", nil), priced(t, like, "nam5", nil)
	enterprise := priced(t, like, "us-central1", func(o *Options) { o.Config.Edition = route.Enterprise })
	daily := float64(day/config.SchedulePeriod) * float64(region.Config.AuditReads) / auditReads
	thousand := billing.Counts{Reads: 1000 * auditReads * int64(month/region.Config.Takes(1000*auditReads))}.Cost()
	page := contentOf(t, "../../../README.md")
	for _, want := range []string{
		fmt.Sprintf("the roll-up | $%.2f a million; the like itself is $%.2f |", region.Costs().Change, billing.Counts{Writes: million}.Cost()),
		fmt.Sprintf("which is untried | $%.2f a million; the like itself is $%.2f |", enterprise.Costs().Change, billing.Write(1, 0).Times(million).CostIn("us-central1")),
		fmt.Sprintf("a like that comes alone is $%.2f a million, and the like itself $%.2f:", multi.Costs().Change, billing.Counts{Writes: million}.CostIn("nam5")),
		fmt.Sprintf("$%.2f a month for their [audits](docs/config.md#audit), and $%.2f for the schedule", thousand, region.Costs().Rest),
		fmt.Sprintf("within an hour for up to 1,000 totals, within a day for up to %.1f million", daily/million),
		fmt.Sprintf("| $%.2f | $%.2f |", billing.Counts{Reads: 2_700_000, Writes: 675_000}.Cost(), billing.Counts{Writes: 1_282_000}.Cost()),
	} {
		if !strings.Contains(page, want) {
			t.Errorf("README.md does not say %q", want)
		}
	}
	if hour := region.Config.Takes(1000 * auditReads); hour != time.Hour {
		t.Errorf("a cycle of 1,000 totals takes %v", hour)
	}
}

// The table of docs/config.md on audits is what the code computes.
func TestAuditTable(t *testing.T) {
	c := priced(t, likes, "us-central1", nil).Config
	page := contentOf(t, "../../../docs/config.md")
	for counters, name := range map[int64]string{1000: "1,000", 5000: "5,000", 20_000: "20,000", 1_000_000: "1,000,000"} {
		reads := counters * auditReads
		cycle := c.Takes(reads)
		monthly := billing.Counts{Reads: int64(float64(reads) * float64(month) / float64(cycle))}.Cost()
		ticks := int64(month / config.SchedulePeriod)
		often := billing.Counts{Reads: ticks * min(reads, c.AuditReads)}.Cost()

		took := fmt.Sprintf("%.1f hours", cycle.Hours())
		switch cycle {
		case time.Hour:
			took = "an hour"
		case day:
			took = "a day"
		}
		price := fmt.Sprintf("$%.0f", monthly)
		if monthly < 0.95 {
			price = fmt.Sprintf("$%.2f", monthly)
		}
		if want := fmt.Sprintf("| %s | %s | %s | $%.0f", name, took, price, often); !strings.Contains(page, want) {
			t.Errorf("docs/config.md does not say %q", want)
		}
	}
}

// The worst day is of instances at their limit, and of a busy schedule whose 144 calls are at their
// bounds.
func TestWorstDay(t *testing.T) {
	const (
		requests = 86400 * (10*0.00002525 + 0.333*0.000024 + 0.00000125)
		instance = 86400 * (10*0.000019 + 0.333*0.000024 + 0.00000125)
		audits   = 144 * (50_000*0.03 + 50_000/3*0.09) / 100_000
		kept     = 144 * (300_000*0.03 + 150_000*0.09) / 100_000
	)
	for _, test := range []struct {
		name, routes, location string
		change                 func(*Options)
		want                   float64
	}{
		{"a region", likes, "us-central1", nil, requests + audits},
		{"a multi-region", likes, "eur3", nil, requests + 2*audits},
		{"by instance", likes, "us-central1", func(o *Options) { o.Billing = ByInstance }, instance + audits},
		{"one instance less", likes, "us-central1", func(o *Options) { o.MaxInstances-- }, requests - 86400*0.00002525 + audits},
		{"a schedule that keeps", likes + "; a/{a}/b/{b} -> c/{a} : x : every 1m", "us-central1", nil, requests + audits + kept},
		{"two databases", likes, "us-central1", func(o *Options) { o.Databases = append(o.Databases, Database{"orders", "eur3"}) }, requests + 3*audits},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := priced(t, test.routes, test.location, test.change).Costs().WorstDay
			if math.Abs(got-test.want) > 0.005 {
				t.Errorf("$%.2f, want $%.2f", got, test.want)
			}
		})
	}
}

// Prices say of which location they are.
func TestPricesSayWhere(t *testing.T) {
	for databases, want := range map[string]string{
		"us-central1":              "us-central1, others of us-central1",
		"nam5":                     "nam5, others of us-central1",
		"europe-west1":             "us-central1, others of us-central1; other locations may cost up to twice as much",
		"nam7":                     "nam5, others of us-central1; other locations may cost up to twice as much",
		"us-central1,eur3":         "eur3, others of us-central1",
		"nam5,asia-east1":          "nam5, others of us-central1; other locations may cost up to twice as much",
		"asia-east1,nam7,us-east1": "nam5, others of us-central1; other locations may cost up to twice as much",
	} {
		d := priced(t, likes, "us-central1", func(o *Options) {
			o.Databases = nil
			for i, location := range strings.Split(databases, ",") {
				o.Databases = append(o.Databases, Database{fmt.Sprint("database-", i), location})
			}
		})
		lines := d.prices()
		if got := lines[len(lines)-1][1]; !strings.HasSuffix(got, "without free quotas, Firestore's of "+want) {
			t.Errorf("%s: %s\nwant %s", databases, got, want)
		}
	}
}

// However much there is, it is ten lines or so.
func TestOpeningIsShort(t *testing.T) {
	var routes []string
	var databases []Database
	for i := range 16 {
		routes = append(routes, fmt.Sprintf("a%d/{a}/s/{s} -> r%[1]d/{a} : x%[1]d, y : every %ds", i, 1+i%2))
		databases = append(databases, Database{fmt.Sprint("database-", i), "us-central1"})
	}
	routes = append(routes, likes)
	d := priced(t, strings.Join(routes, "; "), "us-central1", func(o *Options) { o.Databases = databases })
	text := d.Opening(planned(t, d))

	if n := strings.Count(text, "\n"); n > 15 {
		t.Errorf("%d lines:\n%s", n, text)
	}
	for _, part := range []string{"and 14 more", "database database-2 in us-central1, and 13 more"} {
		if !strings.Contains(text, part) {
			t.Errorf("no %q in\n%s", part, text)
		}
	}
}

// planned returns the plan of a deployment into a project in which there is nothing.
func planned(t *testing.T, d *Deployment) Plan {
	t.Helper()
	d.Upload = new(Upload)
	p, err := d.Plan(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// The plan says if the other way to bill instances would have cost less on the last day, by the
// instances that were there and the requests that came.
func TestCheaper(t *testing.T) {
	for _, test := range []struct {
		billing                string
		active, idle, requests float64
		want                   string
	}{
		{ByRequest, 1, 0, 1e6, "With billing: instance in tally.yaml they would have cost about $1.64"}, // $2.18 and $0.40
		{ByRequest, 0.5, 0.5, 0, ""},
		{ByRequest, 0.01, 0, 0, ""}, // cents
		{ByInstance, 0.1, 0.9, 1000, "With billing: request in tally.yaml they would have cost about $0.22"},
		{ByInstance, 1, 0, 1e6, ""},
		{ByInstance, 0, 0, 0, ""},
	} {
		d := oneCounter(t)
		d.options.Billing = test.billing
		d.deploy()
		d.measure("run.googleapis.com/container/instance_count", "active", test.active)
		d.measure("run.googleapis.com/container/instance_count", "idle", test.idle)
		d.measure("run.googleapis.com/request_count", "", test.requests)
		got := d.read().Cheaper(t.Context(), time.Now())
		if !strings.HasSuffix(got, test.want) || (got == "") != (test.want == "") {
			t.Errorf("%+v: %q", test, got)
		}
	}
}

// measure has the project measure something of RollUpOnWrite.
func (d *testProject) measure(metric, state string, value float64) {
	d.google.Series = append(d.google.Series, &monitoringpb.TimeSeries{
		Metric:   &metricpb.Metric{Type: metric, Labels: map[string]string{"state": state}},
		Resource: &monitoredrespb.MonitoredResource{Labels: map[string]string{"service_name": OnWriteName}},
		Points:   []*monitoringpb.Point{{Value: &monitoringpb.TypedValue{Value: &monitoringpb.TypedValue_DoubleValue{DoubleValue: value}}}},
	})
}

// Each step has what differs, and if somebody asks, why what is created is needed.
func TestShown(t *testing.T) {
	var p Plan
	p.add(&Step{Does: "create", Of: "metric", Title: "create metric 1", Why: "because"})
	p.add(&Step{Does: "delete", Of: "job", Title: "delete job tally", Reasons: []string{"it is elsewhere"}, Why: "no one asks"})
	for reasons, want := range map[bool]string{
		false: "  create metric 1\n  delete job tally\n      it is elsewhere\n",
		true:  "  create metric 1\n      # because\n  delete job tally\n      it is elsewhere\n",
	} {
		if d := cmp.Diff(want, p.StepsText(reasons)); d != "" {
			t.Errorf("reasons %v (-want +got):\n%s", reasons, d)
		}
	}
}
