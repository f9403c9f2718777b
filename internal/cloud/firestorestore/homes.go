package firestorestore

import (
	"context"
	"crypto/rand"
	"fmt"
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

	first := most
	if count > int64(most) {
		first = most / 2
	}
	for _, part := range []struct {
		from string
		most int
	}{{"", first}, {anywhere(segments), most - first}} {
		if part.most == 0 {
			continue
		}
		docs, err := s.group(segments, part.from).Select(rollUpFields(t)...).Limit(part.most).Documents(ctx).GetAll()
		if err != nil {
			return 0, nil, fmt.Errorf("firestore: reading documents of %s: %w", t, err)
		}
		sample = append(sample, homesOf(t, docs, sample)...)
	}
	return count, sample, nil
}

// homesOf returns the documents that are at paths of the template, without those that are known.
func homesOf(t *route.Template, docs []*firestore.DocumentSnapshot, known []rollup.FoundCounter) (homes []rollup.FoundCounter) {
	for _, doc := range docs {
		c, ok := t.Counter(Path(doc.Ref))
		isKnown := slices.ContainsFunc(known, func(f rollup.FoundCounter) bool { return f.Counter == c })
		if ok && !isKnown {
			homes = append(homes, rollup.FoundCounter{Counter: c, RollUp: rollup.RollUpOf(t, doc.Data(), doc.UpdateTime)})
		}
	}
	return homes
}

// anywhere returns a place in a walk of the segments, at a random id of the first capture.
func anywhere(segments route.Path) string {
	place := slices.Clone(segments)
	id := rand.Text()
	for i, segment := range place {
		if segment.Capture {
			place[i], id = route.Segment{Name: id}, firstID
		}
	}
	return place.String()
}
