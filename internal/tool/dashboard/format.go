package dashboard

import (
	"fmt"
	"html/template"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/firestore-tally/tally/internal/cloud/billing"
	"github.com/firestore-tally/tally/internal/value"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
	"golang.org/x/text/number"
)

// formats are what page.html calls to show numbers, times and ids.
var formats = template.FuncMap{
	"age": age, "capital": capital, "clock": clock, "cost": cost, "decimal": decimal, "last": last, "pending": pending, "plural": plural,
	"rate": rate, "since": since, "signed": signed, "steps": steps, "total": total, "visible": visible,
}

// cost returns what a bill costs at list price.
func cost(b billing.Bill) string { return fmt.Sprintf("$%.4f", b.CostIn(billing.PriceRegion)) }

var english = message.NewPrinter(language.English)

// decimal returns a number with its digits in groups of three. An integer is exact, also beyond
// 2^53.
func decimal(n any) string {
	return english.Sprint(number.Decimal(n, number.MaxFractionDigits(3)))
}

// total returns a total: a number, a time by the local zone, or a dash for null.
func total(v value.Value) string {
	t, isTime := v.Time()
	switch {
	case v.IsNull():
		return "–"
	case isTime:
		return clock(t.UnixMicro())
	default:
		return decimal(v.Firestore())
	}
}

// capital returns a word with a capital letter, as it begins a sentence.
func capital(word string) string { return strings.ToUpper(word[:1]) + word[1:] }

// pending returns in words what is not rolled up yet: the difference from a total to what its
// documents add up to now.
func pending(total, now value.Value) string {
	numbers := total.IsNumber() && now.IsNumber()
	switch {
	case total == now, numbers && change(total, now) == 0:
		return "as rolled up"
	case numbers:
		return signed(change(total, now)) + " not rolled up yet"
	default:
		return "not rolled up yet"
	}
}

// signed returns a difference with its sign.
func signed(n float64) string {
	if n < 0 {
		return decimal(n)
	}
	return "+" + decimal(n)
}

// last returns the value of the last point, or 0.
func last(points []point) float64 {
	if len(points) == 0 {
		return 0
	}
	return points[len(points)-1].value
}

// plural returns a number of things in words. one is the word for a single thing.
func plural(n any, one string) string {
	many := decimal(n)
	if many == "1" {
		return "1 " + one
	}
	return many + " " + one + "s"
}

// rate returns how often something happens a second.
func rate(n float64) string {
	if n == 0 || math.Abs(n) >= 100 {
		return decimal(math.Round(n))
	}
	return fmt.Sprintf("%.1f", n)
}

// since returns the seconds between two times in microseconds. It returns 0 for a time after now:
// Firestore's clock is known only about.
func since(at, now int64) float64 { return max(0, float64(now-at)/1e6) }

// age returns some seconds in words.
func age(s float64) string {
	switch {
	case s < 9.95:
		return fmt.Sprintf("%.1f s", s)
	case s < 120:
		return fmt.Sprintf("%.0f s", s)
	case s < 7200:
		return fmt.Sprintf("%.0f min", s/60)
	case s < 172800:
		return fmt.Sprintf("%.0f h", s/3600)
	}
	return decimal(math.Round(s/86400)) + " d"
}

// clock returns a time in microseconds by the local zone.
func clock(at int64) string { return time.UnixMicro(at).Format("2 Jan 2006 15:04:05.000") }

// visible returns an id as it may be shown. Characters that break a line or turn the direction of
// the text are escaped.
func visible(id string) string {
	var b strings.Builder
	for _, r := range id {
		if strconv.IsPrint(r) {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}
