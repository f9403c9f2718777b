package firestorestore

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"cloud.google.com/go/firestore"
	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/rollup/route"
	"golang.org/x/sync/errgroup"
)

// firstDocument and lastDocument are paths before and behind all documents of a database. Firestore
// orders references by project and database, and then by path.
const (
	firstDocument = "\x00/\x00"
	lastDocument  = "\U0010FFFF/\U0010FFFF"
)

// Foreign counts the documents of a route that belong to no counter because a reference in the
// field of a key leads to another database. It also returns the path of the first of them; "":
// there is none. The field is one of the route's keys. A collection costs two reads, one more for
// each 1,000 such documents, and the read that finds the collection. If the route goes across
// parents, the same holds for the collections below which its documents are.
func (s *Store) Foreign(ctx context.Context, r *route.Route, field document.Field) (count int64, example string, err error) {
	var all sync.Mutex
	add := func(n int64, path string) {
		all.Lock()
		defer all.Unlock()
		count += n
		if n > 0 && (example == "" || path < example) {
			example = path
		}
	}

	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(queriesAtOnce)
	err = s.eachCollection(ctx, r, func(documents firestore.Query) {
		for _, query := range []firestore.Query{
			documents.WherePath(field.Names(), "<", s.client.Doc(firstDocument)),
			documents.WherePath(field.Names(), ">", s.client.Doc(lastDocument)),
		} {
			work.Go(func() error {
				n, path, err := countOf(ctx, query.OrderByPath(field.Names(), firestore.Asc))
				add(n, path)
				return err
			})
		}
	})

	failed := work.Wait()
	if failed != nil { // it has canceled the search for collections
		err = failed
	}
	if err != nil {
		return 0, "", fmt.Errorf("firestore: counting references of %s to other databases: %w", r, err)
	}
	return count, example, nil
}

// eachCollection calls f with the query for the documents of each of a route's collections, in the
// order of their paths. If the route goes across parents, one query has those below a collection.
func (s *Store) eachCollection(ctx context.Context, r *route.Route, f func(firestore.Query)) error {
	pattern := r.Pattern()
	collection := pattern[:len(pattern)-1]
	documents := func(path string) firestore.Query { return s.client.Collection(path).Query }
	if r.Across() {
		collection = r.Below()
		documents = func(path string) firestore.Query { return anywhereBelow(s.client, path, pattern.CollectionID()) }
	}
	if lastCapture(collection) < 0 {
		f(documents(collection.String()))
		return nil
	}

	from := ""
	for {
		docs, err := s.group(pattern, from).Select().Limit(1).Documents(ctx).GetAll()
		if err != nil || len(docs) == 0 {
			return err
		}
		found := Path(docs[0].Ref)
		if !r.Covers(found) {
			from = next(pattern[:len(collection)+1], found)
			continue
		}
		ids := strings.Split(found, "/")
		f(documents(strings.Join(ids[:len(collection)], "/")))
		from = placeAfter(collection, ids)
	}
}

// countOf returns how many documents a query finds, and the path of the first.
func countOf(ctx context.Context, query firestore.Query) (n int64, first string, err error) {
	counted, err := query.NewAggregationQuery().WithCount("n").Get(ctx)
	if err != nil {
		return 0, "", err
	}
	n = counted["n"].(*firestorepb.Value).GetIntegerValue()
	if n == 0 {
		return 0, "", nil
	}

	docs, err := query.Select().Limit(1).Documents(ctx).GetAll()
	if err != nil || len(docs) == 0 { // it was deleted meanwhile
		return 0, "", err
	}
	return n, Path(docs[0].Ref), nil
}
