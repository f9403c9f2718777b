package deploy

import (
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/firestore-tally/tally/internal/cloud/config"
	"github.com/google/go-cmp/cmp"
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
	logged := func(o *Options) { o.RequestLogs = AllRequests }
	for _, test := range []struct {
		name, routes, location string
		change                 func(*Options)
		want                   string // at rest, 1,000 counters, all audits; alone; crowded
	}{
		{"a region", likes, "us-central1", nil, "0.14 0.86 64.80 4.50 0.74 []"},
		{"a multi-region", likes, "nam5", nil, "0.14 1.73 129.60 6.00 0.76 []"},
		{"with log entries", likes, "us-central1", logged, "0.14 0.86 64.80 5.13 1.37 []"},
		{"by instance", likes, "us-central1", byInstance, "0.14 0.86 64.80 1.57 0.09 []"},
		{"by instance with log entries", likes, "eur3", func(o *Options) { byInstance(o); logged(o) }, "0.14 1.73 129.60 3.70 0.73 []"},
		{"routes of one and two totals", likes + "; a/{a}/b/{b} -> c/{a} : x, y", "us-central1", nil, "0.14 0.86 64.80 4.80 0.74 []"},
		{"a circle", replies, "us-central1", nil, "0.14 0.86 64.80 7.50 0.75 []"},
		{"a circle by instance", replies, "us-central1", byInstance, "0.14 0.86 64.80 1.65 0.09 []"},
		{"two databases, one in a multi-region", likes, "us-central1",
			func(o *Options) { o.Databases = append(o.Databases, Database{"orders", "eur3"}) }, "0.14 1.73 194.40 6.00 0.76 []"},
		{"the schedule alone", likes + " : every 1m", "us-central1", nil, "24.06 0.86 64.80 0.00 0.00 [{1m0s 64.8}]"},
		{"the schedule, as often as it can", likes + " : every 1s", "us-central1", nil, "24.06 0.86 64.80 0.00 0.00 [{1s 972}]"},
		{"the schedule, seldom", likes + " : every 10m", "us-central1", nil, "0.14 0.86 64.80 0.00 0.00 [{10m0s 6.48}]"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := priced(t, test.routes, test.location, test.change).Costs()
			got := fmt.Sprintf("%.2f %.2f %.2f %.2f %.2f %v", c.Rest, c.Audit, c.Audits, c.Alone, c.Crowded, c.Every)
			if got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}

	references := 0 // to metrics, by each of which Google is to charge for alerts
	for _, a := range wantedOf(t, "alert") {
		references += strings.Count(a.Get("conditions.0.conditionPrometheusQueryLanguage.query"), "_googleapis_com:")
	}
	page, err := os.ReadFile("../../../docs/deploy.md")
	if err != nil || !strings.Contains(string(page), fmt.Sprintf("%d metric references", references)) {
		t.Errorf("docs/deploy.md does not say that alerts have %d metric references: %v", references, err)
	}

	page, err = os.ReadFile("../../../docs/recipes.md")
	if err != nil || !strings.Contains(string(page), "Tally costs $0.74 a million") {
		t.Errorf("docs/recipes.md does not say what a region's crowded changes cost: %v", err)
	}
}

// A roll-up of replies is one more event. The plan says so, and its price is the one of the recipe.
func TestCostsOfCircles(t *testing.T) {
	lines := fmt.Sprint(priced(t, replies, "us-central1", nil).prices())
	for _, want := range []string{
		"[changes $7.50 a million if each comes alone, ",
		"[circles each roll-up of comments/{parent} is one more event of comments/{comment}, which the price of changes includes]",
	} {
		if !strings.Contains(lines, want) {
			t.Errorf("got %s, want %s", lines, want)
		}
	}

	page, err := os.ReadFile("../../../docs/recipes.md")
	if err != nil || !strings.Contains(string(page), "| [a reply](#replies) | $1.20 | $7.50 |") {
		t.Errorf("docs/recipes.md does not say the same: %v", err)
	}
	if lines := fmt.Sprint(priced(t, likes, "us-central1", nil).prices()); strings.Contains(lines, "circles") {
		t.Errorf("got %s", lines)
	}
}

// Days and months become more and more, so a plan says what a year of them costs. Audits compare
// old ones in one of 30 cycles.
func TestCostsOfDays(t *testing.T) {
	const days = "o/{o} by shop, day(at) -> shops/{shop}/days/{day} : count() : within shops/{shop}"
	const months = "u/{u} by user, month(at) -> users/{user}/months/{month} : count() : within users/{user}"
	const visits = "v/{v} by day(at) -> days/{day} : count() : within"
	for _, test := range []struct{ routes, location, want string }{
		{likes, "us-central1", "[]"},
		{days, "us-central1", "[{shops/{shop}/days/{day}, 1,000 a day 4.49}]"}, // 120,000 + 379,000 reads a day
		{days, "nam5", "[{shops/{shop}/days/{day}, 1,000 a day 8.98}]"},
		{months, "us-central1", "[{users/{user}/months/{month}, 1,000 a month 0.99}]"}, // what audits of a month may cost by auto
		{visits + ";" + months, "us-central1", "[{days/{day}, one a day 0.11} {users/{user}/months/{month}, 1,000 a month 0.99}]"},
	} {
		d := priced(t, test.routes, test.location, nil)
		got := []string{}
		for _, dated := range d.Costs().Days {
			got = append(got, fmt.Sprintf("{%s %.2f}", dated.What, dated.Price))
		}
		if fmt.Sprint(got) != test.want {
			t.Errorf("%s in %s: got %v, want %s", test.routes, test.location, got, test.want)
		}
	}

	lines := fmt.Sprint(priced(t, days, "us-central1", nil).prices())
	if !strings.Contains(lines, "[days $4.49 a month for the audits of a year of shops/{shop}/days/{day}, 1,000 a day]") {
		t.Errorf("got %s", lines)
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
		"europe-west1":             "us-central1, others of us-central1; europe-west1 may cost up to twice as much",
		"nam7":                     "nam5, others of us-central1; nam7 may cost up to twice as much",
		"us-central1,eur3":         "eur3, others of us-central1",
		"nam5,asia-east1":          "nam5, others of us-central1; asia-east1 may cost up to twice as much",
		"asia-east1,nam7,us-east1": "nam5, others of us-central1; asia-east1, nam7, us-east1 may cost up to twice as much",
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
	for _, part := range []string{"and 14 more", "database database-2 in us-central1, and 13 more", "  every 2s "} {
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

// How deep totals of totals go is said, if there are any.
func TestOpeningTellsLevels(t *testing.T) {
	const posts = "posts/{post}/likes/{user} -> posts/{post} : count() as likes : existing"
	const karma = "posts/{post} by author -> users/{author} : sum(likes) as karma : existing"
	for routes, want := range map[string]int{posts: 0, posts + "; " + karma: 1} {
		d := priced(t, routes, "us-central1", nil)
		text := d.Opening(planned(t, d))
		if n := strings.Count(text, "\n  levels    2 levels, posts/{post}/likes/{user} -> posts/{post} -> users/{author}"); n != want {
			t.Errorf("%s: told %d times in\n%s", routes, n, text)
		}
	}
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
		if d := cmp.Diff(want, p.Shown(reasons)); d != "" {
			t.Errorf("reasons %v (-want +got):\n%s", reasons, d)
		}
	}
}

func TestPeriod(t *testing.T) {
	for d, want := range map[time.Duration]string{config.SchedulePeriod: "10m", 10 * time.Second: "10s", time.Hour: "1h",
		90 * time.Second: "1m30s", 100 * time.Millisecond: "100ms", 70 * time.Minute: "1h10m"} {
		if got := period(d); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
}
