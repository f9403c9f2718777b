package trial

import (
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/tool/load"
	"github.com/firestore-tally/tally/rollup/route"
	"github.com/firestore-tally/tally/shards"
)

// A part is one counter of a trial, whose documents are below an id of the trial's own. It is
// listened to from run.begin on.
type part struct {
	load.Counter
	kind       string
	route      *route.Route
	counter    route.Counter
	collection string         // path of its documents' collection
	home       string         // path of the app's document that the totals are in, or that is above them; "": there is none
	total      string         // name of the total that is compared
	field      document.Field // that a write adds 1 to; "": the documents are counted

	shards    *shards.Counter // that writes increment; nil: each write is a document more
	documents atomic.Int64    // how many run.write has written, numbered from 1
}

// newPart returns the counter of a route whose captures are all the id.
func newPart(kind string, r *route.Route, id string) (*part, error) {
	path := collectionOf(r)
	for i, segment := range path {
		if segment.Capture {
			path[i] = route.Segment{Name: id}
		}
	}

	p := &part{kind: kind, route: r, collection: path.String()}
	counter, covered := r.Counter(p.collection)
	if !covered {
		return nil, fmt.Errorf("the route %s makes no counter of %s", r, p.collection)
	}
	p.counter, p.home = counter, counter.Owner()
	if counter.Template.Existing {
		p.home = counter.RollUp
	}

	i := slices.IndexFunc(r.Totals, route.Total.All)
	if i >= 0 {
		p.total = r.Totals[i].Name
		return p, nil
	}
	p.total, p.field = r.Totals[0].Name, r.Totals[0].Field
	return p, nil
}

// document returns the path of the part's document of a number.
func (p *part) document(n int64) string { return fmt.Sprintf("%s/tally-demo-%d", p.collection, n) }

// hasWrites reports whether the functions may have received an event of a write.
func (p *part) hasWrites() bool {
	writes, inDoubt := p.Writes()
	return len(writes) > 0 || inDoubt > 0
}
