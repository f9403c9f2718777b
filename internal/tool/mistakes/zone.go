package mistakes

import (
	"fmt"
	"slices"

	"github.com/firestore-tally/tally/rollup/route"
)

// standardTime are zones that are called by abbreviations, and have no summer time, each with a
// place that has.
var standardTime = map[string]string{"EST": "America/New_York", "MST": "America/Denver", "HST": "Pacific/Honolulu"}

// WithoutSummer returns a sentence about the first route by times of a zone that is called EST, MST
// or HST; "" if there is none. Clocks there never show summer time, which hardly anybody means. So
// no new route should name such a zone. Former routes with the same keys go on.
func WithoutSummer(routes, former route.Routes) string {
	for _, r := range routes {
		isSame := func(f *route.Route) bool {
			return f.Pattern().Same(r.Pattern()) && slices.EqualFunc(f.By, r.By, sameKeys)
		}
		for _, k := range r.By {
			place := standardTime[k.Zone()]
			if place != "" && !slices.ContainsFunc(former, isSame) {
				return fmt.Sprintf("%s: clocks in %s never show summer time: name a zone by its city, such as %s", r, k.Zone(), place)
			}
		}
	}
	return ""
}

// sameKeys reports whether two keys give documents the same ids.
func sameKeys(a, b route.Key) bool {
	return a.Function == b.Function && a.Field == b.Field && a.Zone() == b.Zone()
}
