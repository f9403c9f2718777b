package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"cloud.google.com/go/firestore"
	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/firestore-tally/tally/internal/cloud/firestorestore"
	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/reason"
	"github.com/firestore-tally/tally/internal/value"
	"github.com/firestore-tally/tally/rollup/route"
)

// This file tells mistakes in tally.yaml that leave documents uncounted without an error: a changed
// route leaves something behind, or a route's source is not the collection that the app writes.

// renamedTotals returns a sentence about each total that the former routes kept, that none keeps
// now, and on which a route relies.
func renamedTotals(former, routes route.Routes) []string {
	var sentences []string
	for _, t := range former.Templates() {
		now := totalsIn(routes, t)
		gone := slices.DeleteFunc(t.Totals(), func(name string) bool { return slices.Contains(now, name) })
		fresh := slices.DeleteFunc(now, func(name string) bool { return slices.Contains(t.Totals(), name) })
		for _, r := range routes {
			for _, f := range r.Reads() {
				if !r.Covers(t.String()) || !slices.Contains(gone, f.Names()[0]) {
					continue
				}
				text := fmt.Sprintf("%s reads %s of %s, which no route updates any more", r, f, t)
				if len(fresh) > 0 {
					text += fmt.Sprintf(". If you renamed %s to %s, rename it there, too", f, strings.Join(fresh, " or "))
				}
				sentences = append(sentences, text)
			}
		}
	}
	return sentences
}

// totalsIn returns the totals that routes keep in the documents of a template.
func totalsIn(routes route.Routes, t *route.Template) []string {
	for _, other := range routes.Templates() {
		if other.Segments().Same(t.Segments()) {
			return other.Totals()
		}
	}
	return nil
}

// droppedRoutes returns the former routes whose documents no route counts now.
func droppedRoutes(former, routes route.Routes) route.Routes {
	return slices.DeleteFunc(slices.Clone(former), func(r *route.Route) bool {
		return slices.ContainsFunc(routes, func(now *route.Route) bool { return r.AmongThoseOf(now) })
	})
}

// reportDroppedRoutes tells which of the former routes have documents that no route counts now.
func (h *hints) reportDroppedRoutes(ctx context.Context, db servedDatabase, former route.Routes) {
	for _, r := range droppedRoutes(former, h.routes) {
		path := ""
		for _, doc := range examplesOf(ctx, db.client, r, 100) {
			at := firestorestore.Path(doc.Ref)
			if path == "" && !h.routes.Covers(at) { // another route may count those at some depth
				path = at
			}
		}
		if path == "" || !h.firstTime("deserted", db.id, r.Pattern()) {
			continue
		}

		text := fmt.Sprintf("no route counts %s any more, but such documents still exist, such as %s", r.Pattern(), path)
		i := slices.IndexFunc(h.routes, func(now *route.Route) bool { return now.Template.Segments().Same(r.Template.Segments()) })
		if i >= 0 {
			text += fmt.Sprintf("; the totals in %s are now those of %s", r.Template, h.routes[i].Pattern())
		}
		h.say("%s", text)
	}
}

// exampleOf returns the path of a document of the route; "" if there seems to be none.
func exampleOf(ctx context.Context, client *firestore.Client, r *route.Route) string {
	for _, doc := range examplesOf(ctx, client, r, 1) {
		return firestorestore.Path(doc.Ref)
	}
	return ""
}

// examplesOf returns documents of the route, up to a number, as far as they are found at once.
func examplesOf(ctx context.Context, client *firestore.Client, r *route.Route, most int) (found []*firestore.DocumentSnapshot) {
	const looked = 100 // documents at least; others may have a collection of that name
	pattern := r.Pattern()
	query := client.CollectionGroup(pattern.CollectionID()).Limit(max(looked, most))
	if len(pattern) == 2 {
		query = client.Collection(pattern[0].Name).Limit(most)
	}

	docs := query.Documents(ctx)
	defer docs.Stop()
	for len(found) < most {
		doc, err := docs.Next()
		if err != nil { // iterator.Done, or a question that tally dev can do without
			break
		}
		if r.Covers(firestorestore.Path(doc.Ref)) {
			found = append(found, doc)
		}
	}
	return found
}

// reportSimilar tells that a document is in a collection whose name is nearly that of a route's
// source, which has no documents.
func (h *hints) reportSimilar(ctx context.Context, db servedDatabase, path string) {
	for _, r := range reason.Similar(h.routes, path) {
		if exampleOf(ctx, db.client, r.Route) == "" && h.firstTime(r.Kind, r.Route, r.About) {
			h.say("%s", r.WithEmptySource().Text(path))
		}
	}
}

// reportTotalAmongShards tells that a document among a route's shards holds the sum of all the
// others: it is a total of the app's own, and counts twice.
func (h *hints) reportTotalAmongShards(ctx context.Context, doc *firestore.DocumentSnapshot) {
	path := firestorestore.Path(doc.Ref)
	for _, r := range h.routes {
		if !r.HasShards() || !r.Covers(path) || reason.IsShardNumber(doc.Ref.ID) {
			continue
		}
		for _, f := range r.Fields() {
			held, _ := f.In(doc.Data())
			number, ok := value.Number(held)
			if !ok || number.Float64() == 0 || !h.isSumOfOthers(ctx, doc.Ref.Parent, f, number.Float64()) || !h.firstTime("among", r, f) {
				continue
			}
			h.say("%s lies among the shards of %s, and its %s equals the sum of all others. If %[3]s is a total, it counts twice: move the document out of %[4]s",
				path, r, f, strings.TrimSuffix(path, "/"+doc.Ref.ID))
		}
	}
}

// isSumOfOthers reports whether a number is half of what a field adds up to in a collection of at
// least three documents.
func (h *hints) isSumOfOthers(ctx context.Context, collection *firestore.CollectionRef, f document.Field, number float64) bool {
	const few = 3
	answer, err := collection.NewAggregationQuery().WithSumPath(f.Names(), "sum").WithCount("count").Get(ctx)
	if err != nil {
		return false
	}
	sum, _ := answer["sum"].(*firestorepb.Value)
	count, _ := answer["count"].(*firestorepb.Value) // of the documents that have the field
	return count.GetIntegerValue() >= few && sum.GetDoubleValue()+float64(sum.GetIntegerValue()) == 2*number
}
