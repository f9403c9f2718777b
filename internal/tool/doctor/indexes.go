package doctor

import (
	"context"
	"path"
	"slices"
	"time"

	"github.com/firestore-tally/tally/internal/tool/deploy"
	"github.com/firestore-tally/tally/rollup/route"
)

// indexes finds composite indexes that are being built. It also notes indexed times of documents
// that are written often.
func (e *examination) indexes(ctx context.Context) {
	for _, text := range e.wanted.Building() {
		e.wrong([]deploy.Command{e.deploy("--wait")}, "index %s", text)
	}
	e.growing(ctx)
}

// Firestore takes about 500 writes a second to a collection group with an indexed field whose
// values only grow (https://firebase.google.com/docs/firestore/best-practices#hotspots). The
// warning comes at half of that.
const (
	mostGrowing = 500
	muchGrowing = mostGrowing / 2
)

// growing warns of routes whose queries go along the times in a collection, if its documents were
// written often. As a rule such a time only grows. The events of the route's trigger
// tell how often documents were written.
func (e *examination) growing(ctx context.Context) {
	ofTime := func(r *route.Route) bool {
		return slices.ContainsFunc(r.Totals, route.Total.AlongTimes)
	}
	if !slices.ContainsFunc(e.config.Routes.Live(), ofTime) {
		return
	}

	const ofEventarc = `resource.labels.subscription_id = starts_with("eventarc-")`
	pushed := e.ask(ctx, question{pushes, ofEventarc, "ALIGN_SUM", day, time.Hour})
	subscriptions := e.subscriptions()
	for _, database := range e.wanted.Databases {
		for _, r := range e.config.Routes.Live() {
			if !ofTime(r) {
				continue
			}
			for id, trigger := range subscriptions {
				if trigger != deploy.TriggerName(database.ID, r) {
					continue
				}
				if rate := busiest(of(id, pushed)); rate > muchGrowing {
					e.note("the documents of %s in %s were written up to %.0f times a second in an hour of the last day. "+
						"latest, earliest and a range of times index a time, and where it only grows Firestore takes about %d a second: spread them over more collections, or leave that total out",
						r.Pattern(), path.Base(database.ID), rate, mostGrowing)
				}
			}
		}
	}
}

// busiest returns the events per second of the hour that had the most, in the last day.
func busiest(series []deploy.Object) float64 {
	var most float64
	for hour := range int(day / time.Hour) {
		var sum float64
		for _, s := range series {
			sum += point(s, hour)
		}
		most = max(most, sum/time.Hour.Seconds())
	}
	return most
}
