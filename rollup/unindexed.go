package rollup

import (
	"fmt"

	"github.com/firestore-tally/tally/rollup/route"
)

// MaxUnindexed is the most documents that a Store reads one by one because an index is missing. An
// aggregation that costs 2 reads must not cost 200,000.
const MaxUnindexed = 1000

// TooManyUnindexed is the error of a counter that lacks one of the indexes and has more than
// MaxUnindexed documents by the route. It is ErrUnkept.
func TooManyUnindexed(r *route.Route, c route.Counter, indexes []route.Index) error {
	return fmt.Errorf("%w: a query of %s lacks its index, and %s has more than %d documents there; %s",
		ErrUnkept, r.Shards(c), c.RollUp, MaxUnindexed, r.Remedy(indexes))
}

// UnindexedKeys is the error of a counter whose documents cannot even be read one by one, because
// the indexes of the route's keys are missing: a field is exempt from indexing, or a day lacks its
// composite index. It is ErrUnkept.
func UnindexedKeys(r *route.Route, c route.Counter) error {
	indexes, why := r.KeyIndexes(), ""
	if len(indexes) == 1 && len(indexes[0].Fields) == 1 { // Firestore makes it by itself
		why = fmt.Sprintf(", because the field %s is exempt from indexing", indexes[0].Fields[0].Field)
	}
	return fmt.Errorf("%w: a query of %s lacks its index, and the documents of %s cannot be found without one%s; %s",
		ErrUnkept, r.Shards(c), c.RollUp, why, r.Remedy(indexes))
}
