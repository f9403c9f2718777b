package billing_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/firestore-tally/tally/internal/cloud/billing"
	"github.com/firestore-tally/tally/rollup/route"
)

// The table of docs/recipes.md is what the prices and the page's routes give.
func TestRecipes(t *testing.T) {
	text, err := os.ReadFile("../../../docs/recipes.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	million := func(c billing.Counts) billing.Counts {
		return billing.Counts{Reads: c.Reads * 1e6, Writes: c.Writes * 1e6, Deletes: c.Deletes * 1e6}
	}
	var b strings.Builder
	b.WriteString("| a million changes that each come alone | Firestore | Tally |\n| --- | --- | --- |\n")
	for _, change := range []struct {
		name, recipe string
		bills        billing.Counts // with what rules read
		counters     int64
	}{
		{"[a like, a comment](#likes-and-comments-in-a-post)", "Likes and comments in a post", billing.Counts{Writes: 1}, 1},
		{"[a new profile of a site](#a-sites-statistics-in-one-document)", "A site's statistics in one document", billing.Counts{Writes: 1}, 1},
		{"[a note of an owner](#counts-by-owner)", "Counts by owner", billing.Counts{Writes: 1}, 1},
		{"[a sale of a day](#sales-by-day-and-totals-of-any-size)", "Sales by day, and totals of any size", billing.Counts{Writes: 1}, 1},
		{"[an entry of a month](#tokens-by-user-and-month)", "Tokens by user and month", billing.Counts{Writes: 1}, 1},
		{"[a lap of a week](#a-board-for-each-week)", "A board for each week", billing.Counts{Writes: 1}, 1},
		{"[a follow](#followers)", "Followers", billing.Counts{Writes: 1}, 2},
		{"[a reply](#replies)", "Replies", billing.Counts{Reads: 1, Writes: 1}, 1},
		{"[a seat that is taken](#numbered-seats)", "Numbered seats", billing.Counts{Reads: 1, Writes: 1}, 1},
		{"[an approval of a comment](#approved-comments-and-the-latest)", "Approved comments, and the latest", billing.Counts{Writes: 1}, 1},
		{"[a like that makes karma](#karma-of-authors)", "Karma of authors", billing.Counts{Reads: 1, Writes: 1}, 1},
		{"[an order of a shop](#orders-and-revenue-of-a-shop-and-its-last-30-days)", "Orders and revenue of a shop, and its last 30 days", billing.Counts{Reads: 1, Writes: 1}, 1},
		{"[a like of a song that trends](#trending)", "Trending", billing.Counts{Reads: 1, Writes: 1}, 1},
		{"[a heartbeat in a room](#online-now)", "Online now", billing.Counts{Reads: 1, Writes: 1}, 1},
		{"[a round of a player](#leaderboard)", "Leaderboard", billing.Counts{Writes: 1}, 1},
		{"[a score](#best-score-and-its-reset)", "Best score, and its reset", billing.Counts{Writes: 1}, 1},
		{"[an increment of a day and an hour](#totals-per-day-and-per-hour)", "Totals per day and per hour", billing.Counts{Reads: 2, Writes: 2}, 2},
		{"[a rating](#shops-by-average-rating)", "Shops by average rating", billing.Counts{Writes: 1}, 1},
		{"[a reaction of one of three kinds](#reactions-and-polls)", "Reactions, and polls", billing.Counts{Writes: 1}, 1},
		{"[a message, or that it is read](#unread-messages)", "Unread messages", billing.Counts{Writes: 1}, 1},
		{"[a message to a member of a room](#unread-by-member-and-room)", "Unread by member and room", billing.Counts{Reads: 2, Writes: 1}, 1},
		{"[a tag of a story](#posts-by-tag)", "Posts by tag", billing.Counts{Reads: 2, Writes: 1}, 1},
		{"[a visitor](#unique-visitors)", "Unique visitors", billing.Counts{Writes: 1}, 1},
		{"a plain increment", "Totals per day and per hour", billing.Counts{Reads: 1, Writes: 1}, 1},
		{"[an increment that counts once](#increments-that-count-once)", "Totals per day and per hour", billing.Counts{Reads: 2, Writes: 2, Deletes: 1}, 1},
	} {
		r := regexp.MustCompile("(?s)\n## " + change.recipe + "\n.*?\n```\n(.*?)```").FindStringSubmatch(page)
		if r == nil {
			t.Fatalf("no route under %q", change.recipe)
		}
		routes, err := route.Parse(r[1])
		if err != nil {
			t.Fatal(err)
		}
		// A roll-up of totals is a change for the next level.
		levels := int64(1)
		if slices.ContainsFunc(routes, (*route.Route).OfRollUps) {
			levels = int64(len(routes.Templates()))
		}
		rollUps := change.counters * levels
		reads := levels // of the roll-ups themselves
		for _, t := range routes.Templates()[:levels] {
			for _, r := range t.Routes {
				reads += int64(len(r.Queries()) + len(r.Windows()))
			}
		}
		rollUp := billing.Counts{Reads: change.counters * reads, Writes: rollUps}
		// The events of a change come together, and keep an instance busy for the least time that is
		// billed.
		events := float64(rollUps)*(billing.Request+billing.Event) + float64(levels)*billing.RoundedUp*billing.OnWriteSecond
		for _, r := range routes {
			if r.Circular() { // each roll-up is an event more, which comes alone
				events += float64(change.counters) * (billing.Request + billing.Event + billing.RoundedUp*billing.OnWriteSecond)
			}
		}
		own, tally := dollars(million(change.bills).Cost()), dollars(million(rollUp).Cost()+1e6*events)
		fmt.Fprintf(&b, "| %s | %s | %s |\n", change.name, own, tally)

		anchor := regexp.MustCompile(`#([^)]*)`).FindStringSubmatch(change.name)
		price := fmt.Sprintf("**Price** of a million, each alone: %s for Firestore, and %s for Tally.", own, tally)
		if anchor != nil && !strings.Contains(section(page, anchor[1]), price) {
			t.Errorf("docs/recipes.md, %s: want %s", anchor[1], price)
		}
	}
	if !strings.Contains(page, "\n\n"+b.String()) {
		t.Errorf("docs/recipes.md does not hold this table:\n%s", &b)
	}
}

// section returns the section of a page whose heading has the anchor, up to the next of the second
// level.
func section(page, anchor string) string {
	for text := range strings.SplitSeq(page, "\n## ") {
		heading, _, _ := strings.Cut(text, "\n")
		dropped := regexp.MustCompile(`[^\w -]`).ReplaceAllString(strings.ToLower(heading), "")
		if strings.ReplaceAll(dropped, " ", "-") == anchor {
			return text
		}
	}
	return ""
}

// The dearest changes that a client can make, in dollars a million without the instances' time: a
// like in a window, which makes a roll-up and then an alarm that makes another; and a like whose
// roll-up makes one of the level above. docs/abuse.md has both.
func TestDearestChanges(t *testing.T) {
	page, err := os.ReadFile("../../../docs/recipes.md")
	if err != nil {
		t.Fatal(err)
	}
	abuse, err := os.ReadFile("../../../docs/abuse.md")
	if err != nil {
		t.Fatal(err)
	}
	reads := func(t *route.Template) (n int64) {
		for _, r := range t.Routes {
			n += int64(len(r.Queries()) + len(r.Windows()))
		}
		return n + 1 // the roll-up
	}
	routesOf := func(recipe string) route.Routes {
		r := regexp.MustCompile("(?s)\n## " + recipe + "\n.*?\n```\n(.*?)```").FindSubmatch(page)
		if r == nil {
			t.Fatalf("no route under %q", recipe)
		}
		routes, err := route.Parse(string(r[1]))
		if err != nil {
			t.Fatal(err)
		}
		return routes
	}

	trending := routesOf("Trending").Templates()[0]
	twice := billing.Counts{Reads: 2 * reads(trending), Writes: 2}
	leaves := 1e6 * (twice.Cost() + billing.Request + billing.Event + 2*billing.Task + billing.Request)
	var levels billing.Counts
	for _, template := range routesOf("Karma of authors").Templates() {
		levels.Reads += reads(template)
		levels.Writes++
	}
	karma := 1e6 * (levels.Cost() + 2*(billing.Request+billing.Event))
	for what, cost := range map[string]float64{"a like of a song": leaves, "a like of an essay": karma} {
		if !strings.Contains(string(abuse), fmt.Sprintf("%s costs %s a million", what, dollars(cost))) {
			t.Errorf("docs/abuse.md does not say that %s costs %s a million", what, dollars(cost))
		}
	}
}
