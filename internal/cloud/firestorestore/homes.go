package firestorestore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"cloud.google.com/go/firestore"
	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
)

// Homes counts the documents at paths that the template gives, and reads up to a number of them:
// half are the first ones, and half begin at a random id. The count includes documents of other
// collections of the same name that lie between. It costs a read for each 1,000 documents, and one
// for each that is read.
func (s *Store) Homes(ctx context.Context, t *route.Template, most int) (count int64, sample []rollup.FoundCounter, err error) {
	segments := t.Segments()
	if lastCapture(segments) < 0 { // one roll-up
		page, err := s.RollUps(ctx, t, "", 1)
		return int64(len(page.Found)), page.Found, err
	}

	all := s.group(segments, "")
	counted, err := all.NewAggregationQuery().WithCount("n").Get(ctx)
	if err != nil {
		return 0, nil, fmt.Errorf("firestore: counting documents of %s: %w", t, err)
	}
	count = counted["n"].(*firestorepb.Value).GetIntegerValue()

	first, err := s.homes(ctx, t, "", most/2)
	if err != nil || len(first) == 0 {
		return count, homesOf(t, first), err
	}
	somewhere, err := s.homes(ctx, t, anywhere(segments), most-most/2)
	if err != nil {
		return 0, nil, err
	}

	// If the random id is near the end, the others follow the first ones.
	rest, err := s.homes(ctx, t, Path(first[len(first)-1].Ref), most-len(first)-len(somewhere))
	if err != nil {
		return 0, nil, err
	}
	return count, homesOf(t, slices.Concat(first, somewhere, rest)), nil
}

// homes reads some documents behind a place, with the fields of totals only.
func (s *Store) homes(ctx context.Context, t *route.Template, from string, most int) ([]*firestore.DocumentSnapshot, error) {
	if most <= 0 {
		return nil, nil
	}
	docs, err := s.group(t.Segments(), from).Select(rollUpFields(t)...).Limit(most).Documents(ctx).GetAll()
	if err != nil {
		return nil, fmt.Errorf("firestore: reading documents of %s: %w", t, err)
	}
	return docs, nil
}

// homesOf returns the documents that are at paths of the template, each once.
func homesOf(t *route.Template, docs []*firestore.DocumentSnapshot) (homes []rollup.FoundCounter) {
	for _, doc := range docs {
		c, ok := t.Counter(Path(doc.Ref))
		isKnown := slices.ContainsFunc(homes, func(f rollup.FoundCounter) bool { return f.Counter == c })
		if ok && !isKnown {
			homes = append(homes, rollup.FoundCounter{Counter: c, RollUp: rollup.RollUpOf(t, doc.Data(), doc.UpdateTime)})
		}
	}
	return homes
}

// anywhere returns a place in a walk of the segments, at a random id of the first capture. The id
// may begin with any character of those that Firestore makes.
func anywhere(segments route.Path) string {
	const firsts = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	place := slices.Clone(segments)
	id := string(firsts[rand.IntN(len(firsts))]) + string(firsts[rand.IntN(len(firsts))])
	for i, segment := range place {
		if segment.Capture {
			place[i], id = route.Segment{Name: id}, firstID
		}
	}
	return place.String()
}
