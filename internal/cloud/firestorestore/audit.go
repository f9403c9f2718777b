package firestorestore

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"cloud.google.com/go/firestore"
	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
	"golang.org/x/sync/errgroup"
)

const (
	// pageTime is how long a page of counters makes further queries, at most; see pageEnd. It
	// matters where each query takes long: an emulator may go through thousands of documents for
	// one.
	pageTime = 10 * time.Second

	// queriesAtOnce is how many queries are made at once: enough to hide Firestore's latency.
	queriesAtOnce = 8
)

// Counters returns up to limit counters that have shards by the route, from a place on. The place
// "" is the beginning. Counters that come or go meanwhile may be missed. A page may hold fewer than
// limit, or none, although more follow.
//
// Each query finds one document: the first behind the shards of the counter that was found last. So
// a counter costs about one read, however many shards it has. Some queries find a document that
// belongs to no counter, of another collection with the same name. A page makes at most 2*limit
// queries, so many such documents make a page short. The counters must not be FoundByHomes.
func (s *Store) Counters(ctx context.Context, route *route.Route, from string, limit int) (rollup.Page, error) {
	return s.counters(ctx, route, time.Time{}, from, limit, pageEnd(ctx, time.Now()))
}

// pageEnd returns until when a page of counters that begins now makes further queries. The page
// ends before its context, so what it has found is not lost. The other half of the time is for its
// last query, and for the roll-ups of what it has found.
func pageEnd(ctx context.Context, now time.Time) time.Time {
	most := pageTime
	deadline, ok := ctx.Deadline()
	if ok {
		most = min(most, deadline.Sub(now)/2)
	}
	return now.Add(most)
}

// counters is Counters. Of days or months it leaves out those that ended before since. It makes one
// query at least, and none that would begin later than until.
func (s *Store) counters(ctx context.Context, r *route.Route, since time.Time, from string, limit int, until time.Time) (rollup.Page, error) {
	lane := s.lane(r, since)
	page := rollup.Page{Next: from}
	for len(page.Found) < limit && page.Reads < int64(2*limit) {
		docs, err := lane.query(page.Next).Limit(1).Documents(ctx).GetAll()
		if err != nil {
			return rollup.Page{}, fmt.Errorf("firestore: finding shards of %s: %w", r, err)
		}
		page.Reads++

		var c route.Counter
		ok := false
		if len(docs) == 0 {
			page.Next = lane.end(page.Next)
		} else {
			c, ok, page.Next = lane.counter(docs[0], page.Next)
		}
		if ok {
			page.Found = append(page.Found, rollup.FoundCounter{Counter: c, Next: page.Next})
		}
		if page.Next == "" || time.Now().After(until) {
			break
		}
	}
	return page, nil
}

// Missing implements rollup.AuditStore. A counter costs the read that finds it, and that of its
// roll-up. One without a roll-up costs another read for each earlier route of its template.
func (s *Store) Missing(ctx context.Context, route *route.Route, since time.Time, from string, limit int) (rollup.Page, error) {
	page, err := s.counters(ctx, route, since, from, limit, pageEnd(ctx, time.Now()))
	if err != nil {
		return page, err
	}
	if len(page.Found) == 0 {
		return page, nil
	}
	err = s.readRollUps(ctx, route.Template, &page)
	if err != nil {
		return rollup.Page{}, fmt.Errorf("firestore: finding roll-ups of %s: %w", route.Template, err)
	}
	page.Found = slices.DeleteFunc(page.Found, func(f rollup.FoundCounter) bool { return !f.RollUp.Tally.AsOf.IsZero() })

	routes := route.Template.Routes
	for _, earlier := range routes[:slices.Index(routes, route)] {
		has, err := s.haveShards(ctx, page.Found, earlier)
		if err != nil {
			return rollup.Page{}, fmt.Errorf("firestore: finding shards of %s: %w", earlier, err)
		}
		page.Reads += int64(len(page.Found))
		page.Found = filter(page.Found, func(i int) bool { return !has[i] })
	}
	return page, nil
}

// readRollUps reads the roll-up documents of a page's counters, in one call.
func (s *Store) readRollUps(ctx context.Context, t *route.Template, page *rollup.Page) error {
	req := &firestorepb.BatchGetDocumentsRequest{
		Mask:                maskOf(t),
		ConsistencySelector: &firestorepb.BatchGetDocumentsRequest_NewTransaction{NewTransaction: readOnly()},
	}
	found := make(map[string]*rollup.FoundCounter)
	for i, f := range page.Found {
		name := s.database + "/documents/" + f.Counter.RollUp
		req.Documents = append(req.Documents, name)
		found[name] = &page.Found[i]
	}

	return s.batchGet(ctx, req, func(answer *firestorepb.BatchGetDocumentsResponse) {
		if answer.Result == nil {
			return
		}

		page.Reads++
		page.ReadTime = answer.ReadTime.AsTime().Truncate(time.Microsecond)
		d := answer.GetFound()
		if d != nil {
			found[d.Name].RollUp = rollup.RollUpOf(t, decodeFields(d.Fields), d.UpdateTime.AsTime())
		}
	})
}

// haveShards returns which of the counters have shards by a route. It asks one query for each.
func (s *Store) haveShards(ctx context.Context, found []rollup.FoundCounter, r *route.Route) ([]bool, error) {
	has := make([]bool, len(found)) // each goroutine writes its own element
	asking, all := errgroup.WithContext(ctx)
	asking.SetLimit(queriesAtOnce)
	for i, f := range found {
		of := &snapshot{store: s, counter: f.Counter}
		query, ok := of.documents(r)
		if !ok {
			continue
		}
		asking.Go(func() error {
			docs, err := query.Select().Limit(1).Documents(all).GetAll()
			has[i] = len(docs) > 0
			return err
		})
	}
	return has, asking.Wait()
}

// RollUps implements rollup.AuditStore. It costs one read for each document that its query finds:
// those at paths of the template, and those between them in other collections of the same name.
func (s *Store) RollUps(ctx context.Context, t *route.Template, from string, limit int) (rollup.Page, error) {
	template := t.Segments()
	if lastCapture(template) < 0 { // one roll-up
		c, _ := t.Counter(t.String())
		v, err := s.View(ctx, c)
		if err != nil {
			return rollup.Page{}, err
		}
		page := rollup.Page{ReadTime: v.ReadTime(), Reads: 1}
		if v.RollUp().Exists() {
			page.Found = []rollup.FoundCounter{{Counter: c, RollUp: v.RollUp(), Ownerless: v.Ownerless()}}
		}
		err = s.leaveOut(ctx, t, &page, pageEnd(ctx, time.Now()))
		return page, err
	}
	return s.rollUps(ctx, t, from, limit, pageEnd(ctx, time.Now()))
}

// rollUps is RollUps of several roll-ups. It makes no query for a shard that would begin later than
// until, except for the first documents.
func (s *Store) rollUps(ctx context.Context, t *route.Template, from string, limit int, until time.Time) (rollup.Page, error) {
	docs, err := s.group(t.Segments(), from).Select(rollUpFields(t)...).Limit(limit).Documents(ctx).GetAll()
	if err != nil {
		return rollup.Page{}, fmt.Errorf("firestore: finding roll-ups of %s: %w", t, err)
	}

	page := rollup.Page{Reads: int64(max(1, len(docs)))}
	addFound(&page, t, docs)
	if len(docs) < limit {
		page.Next = ""
	}
	err = s.readOwners(ctx, &page)
	if err != nil {
		return rollup.Page{}, fmt.Errorf("firestore: finding owners of %s: %w", t, err)
	}
	err = s.leaveOut(ctx, t, &page, until)
	return page, err
}

// Recent implements rollup.AuditStore. A collection costs a read, that of its owner, and one for
// each roll-up that is found.
func (s *Store) Recent(ctx context.Context, t *route.Template, since func(string) time.Time, from string, limit int) (rollup.Page, error) {
	until := pageEnd(ctx, time.Now())
	page := rollup.Page{Next: from}
	for page.Reads < int64(limit) {
		err := s.recent(ctx, t, since, &page, limit)
		if err != nil {
			return rollup.Page{}, fmt.Errorf("firestore: finding roll-ups of %s: %w", t, err)
		}
		late := time.Now().After(until)
		if page.Next == "" || late {
			break
		}
	}

	err := s.readOwners(ctx, &page)
	if err != nil {
		return rollup.Page{}, fmt.Errorf("firestore: finding owners of %s: %w", t, err)
	}
	err = s.leaveOut(ctx, t, &page, until)
	return page, err
}

// recent adds to a page what is recent in the next collection of days.
func (s *Store) recent(ctx context.Context, t *route.Template, since func(string) time.Time, page *rollup.Page, limit int) error {
	segments := t.Segments()
	docs, err := s.group(segments, page.Next).Select(rollUpFields(t)...).Limit(1).Documents(ctx).GetAll()
	page.Reads++
	if err != nil || len(docs) == 0 {
		page.Next = ""
		return err
	}
	path := Path(docs[0].Ref)
	collection, id, matches := t.CutTime(path)
	if !matches {
		page.Next = next(segments, path)
		return nil
	}
	c, ok := t.Counter(path)
	if !ok { // no day has such an id
		page.Next = path
		return nil
	}

	end := collection + "\x00/" + firstID
	rest := s.client.CollectionGroup(segments.CollectionID()).OrderBy(firestore.DocumentID, firestore.Asc).EndBefore(s.client.Doc(end))
	first, err := s.firstRecent(ctx, c, collection, since, page)
	if err != nil {
		return err
	}
	if id < first {
		rest = rest.StartAt(s.client.Doc(placeOf(segments, collection, first)))
	} else {
		addFound(page, t, docs)
		rest = rest.StartAfter(docs[0].Ref)
	}

	most := limit - int(page.Reads)
	if most <= 0 && id >= first {
		return nil
	}
	most = max(1, most) // or the page would not get behind what is left out
	docs, err = rest.Select(rollUpFields(t)...).Limit(most).Documents(ctx).GetAll()
	if err != nil {
		return err
	}
	page.Reads += int64(max(1, len(docs)))
	addFound(page, t, docs)
	if len(docs) < most {
		page.Next = end
	}
	return nil
}

// firstRecent returns the first id of a collection of days that a walk finds; "" if it finds all.
// The counter is one of the collection's.
func (s *Store) firstRecent(ctx context.Context, c route.Counter, collection string, since func(string) time.Time, page *rollup.Page) (id string, err error) {
	at := since(collection)
	if at.IsZero() {
		return "", nil
	}
	owner := c.Owner()
	if owner != "" && strings.HasPrefix(collection, owner+"/") {
		docs, err := s.client.GetAll(ctx, []*firestore.DocumentRef{s.client.Doc(owner)})
		page.Reads++
		if err != nil || !docs[0].Exists() {
			return "", err
		}
	}
	return c.Template.TimeID(at), nil
}

// placeOf returns the first place in a collection of days at which a path of the segments may come
// that has an id there, or a later one.
func placeOf(segments route.Path, collection, id string) string {
	place := collection + "/" + id
	for _, segment := range segments[strings.Count(place, "/")+1:] {
		if segment.Capture {
			segment.Name = firstID
		}
		place += "/" + segment.Name
	}
	return place
}

// addFound adds to a page what documents say, and moves it behind them.
func addFound(page *rollup.Page, t *route.Template, docs []*firestore.DocumentSnapshot) {
	for _, doc := range docs {
		if page.ReadTime.IsZero() {
			page.ReadTime = doc.ReadTime.Truncate(time.Microsecond)
		}
		page.Next = Path(doc.Ref)
		c, ok := t.Counter(page.Next)
		if ok {
			r := rollup.RollUpOf(t, doc.Data(), doc.UpdateTime)
			page.Found = append(page.Found, rollup.FoundCounter{Counter: c, RollUp: r, Next: page.Next})
		}
	}
}

// readOwners notes which counters of a page have lost their owners. It reads each owner once.
func (s *Store) readOwners(ctx context.Context, page *rollup.Page) error {
	owners := make(map[string][]*rollup.FoundCounter)
	for i, f := range page.Found {
		owner := f.Counter.Owner()
		if owner != "" && !f.RollUp.Tally.AsOf.IsZero() {
			owners[owner] = append(owners[owner], &page.Found[i])
		}
	}
	if len(owners) == 0 {
		return nil
	}

	var refs []*firestore.DocumentRef
	for _, owner := range slices.Sorted(maps.Keys(owners)) {
		refs = append(refs, s.client.Doc(owner))
	}
	docs, err := s.client.GetAll(ctx, refs)
	if err != nil {
		return err
	}
	page.Reads += int64(len(docs))
	for _, doc := range docs {
		for _, f := range owners[Path(doc.Ref)] {
			f.Ownerless = !doc.Exists()
		}
	}
	return nil
}

// leaveOut leaves out of a page of homes those that have neither a tally nor shards, nor totals
// that no roll-up wrote. Each takes a query for each route of the template, until one finds a
// shard. If that takes too long, the page ends where leaveOut has come to.
func (s *Store) leaveOut(ctx context.Context, t *route.Template, page *rollup.Page, until time.Time) error {
	if !t.FoundByHomes() {
		return nil
	}

	found := page.Found
	page.Found = nil
	for n, part := range slices.Collect(slices.Chunk(found, queriesAtOnce)) {
		if n > 0 && time.Now().After(until) {
			page.Next = found[n*queriesAtOnce-1].Next
			return nil
		}

		isBare, err := s.toLeaveOut(ctx, t, part, page)
		if err != nil {
			return err
		}
		page.Found = append(page.Found, filter(part, func(i int) bool { return !isBare[part[i].Counter.RollUp] })...)
	}
	return nil
}

// toLeaveOut returns which documents of a page to leave out.
func (s *Store) toLeaveOut(ctx context.Context, t *route.Template, part []rollup.FoundCounter, page *rollup.Page) (map[string]bool, error) {
	bare := filter(part, func(i int) bool { return part[i].RollUp.Tally.AsOf.IsZero() && len(part[i].RollUp.Unwritten()) == 0 })
	for _, r := range t.Routes {
		has, err := s.haveShards(ctx, bare, r)
		if err != nil {
			return nil, fmt.Errorf("firestore: finding shards of %s: %w", r, err)
		}
		page.Reads += int64(len(bare))
		bare = filter(bare, func(i int) bool { return !has[i] })
	}

	isBare := make(map[string]bool)
	for _, f := range bare {
		isBare[f.Counter.RollUp] = true
		page.LeaveOut(f)
	}
	return isBare, nil
}

// filter returns the counters whose index meets a condition.
func filter(found []rollup.FoundCounter, meets func(i int) bool) []rollup.FoundCounter {
	var matching []rollup.FoundCounter
	for i, f := range found {
		if meets(i) {
			matching = append(matching, f)
		}
	}
	return matching
}

// group returns a query for the documents behind the path from; "" is the beginning. It finds all
// documents whose paths match the segments, which must hold a capture. It also finds documents of
// other collections that have the same name and lie between. It needs only the index of names.
func (s *Store) group(segments route.Path, from string) firestore.Query {
	capture := slices.IndexFunc(segments, func(s route.Segment) bool { return s.Capture })
	first := segments[:capture].String()

	query := s.client.CollectionGroup(segments.CollectionID()).
		OrderBy(firestore.DocumentID, firestore.Asc).
		EndBefore(s.client.Doc(first + "\x00/" + firstID))

	if from == "" {
		return query.StartAt(s.client.Doc(first + "/" + firstID))
	}
	return query.StartAfter(s.client.Doc(from))
}

// Remove implements rollup.AuditStore. It costs one read in addition to the delete or write.
func (s *Store) Remove(ctx context.Context, c route.Counter, r rollup.RollUp) error {
	ref := s.client.Doc(c.RollUp)
	doc, err := ref.Get(ctx)
	if err != nil {
		return outcome(err, "removing", c.RollUp)
	}

	others := doc.Data()
	fields := slices.Concat(c.Template.Totals(), r.Tally.Former, []string{document.TallyField})
	for name, id := range c.Labels() {
		if others[name] == id { // any other text is the app's
			fields = append(fields, name)
		}
	}
	var updates []firestore.Update
	for _, field := range fields {
		delete(others, field)
		updates = append(updates, firestore.Update{FieldPath: firestore.FieldPath{field}, Value: putBack(r, field)})
	}

	// If the document has changed since r was read, Firestore refuses this, and nothing is removed.
	unchanged := firestore.LastUpdateTime(r.UpdateTime)
	if len(others)+len(r.Tally.Before) > 0 || c.Template.Existing {
		_, err = ref.Update(ctx, updates, unchanged)
	} else {
		_, err = ref.Delete(ctx, unchanged)
	}
	return outcome(err, "removing", c.RollUp)
}

// putBack returns what becomes of a field whose total is removed: what stood there before the first
// roll-up, or nothing.
func putBack(r rollup.RollUp, field string) any {
	before, there := r.Tally.Before[field]
	if there {
		return before.Firestore()
	}
	return firestore.Delete
}

// firstID sorts before every id.
//
// Firestore orders paths segment by segment. Numeric ids, such as __id7__, come first, in the order
// of their numbers. They stem from imports from Datastore. The other ids follow in the order of
// their bytes. So the id that comes right after "likes" would be "likes\x00".
//
// A query may begin or end at an id that does not exist. It may even be one that cannot exist, such
// as firstID.
const firstID = "__id-9223372036854775808__"

// placeAfter returns the place behind all documents of one counter. The ids are those of a path,
// and the last capture of the segments says which of them is the counter's. For the segments
// counters/{counter}/shards that is
//
//	counters/likes/shards/0   →  counters/likes\x00
//	counters/__id7__/shards/0 →  counters/__id7__/shards\x00/__id-9223372036854775808__
//
// An id with a zero byte appended comes right after the id and all that lies below it. Two kinds of
// ids cannot have that byte: a numeric id would turn into an ordinary one, which sorts elsewhere,
// and an id of the greatest length would become too long. For those the byte goes to the name of
// the collection below, and the place lies behind that collection.
func placeAfter(segments route.Path, ids []string) string {
	i := lastCapture(segments)
	if strings.HasPrefix(ids[i], "__id") || len(ids[i]) == document.LongestID {
		return strings.Join(ids[:i+2], "/") + "\x00/" + firstID
	}
	return strings.Join(ids[:i+1], "/") + "\x00"
}

// next returns where to go on after a document whose path does not match the segments. A query for
// a collection group finds such documents in other collections of the same name. next returns the
// first place behind the path at which a matching path may come. For the segments
// counters/{counter}/shards/{shard} that is
//
//	counters/likes/drafts/x/shards/0  →  counters/likes/shards/__id-9223372036854775808__
//	counters/likes/zzz/x/shards/0     →  counters/likes\x00
//	counters/likes/shards/0/shards/1  →  counters/likes/shards/0\x00
//
// The first path is in the collection drafts, which comes before shards, so the shards of likes are
// still to come. The second is in zzz, which comes behind shards, so they are over. The third lies
// below a document that matches.
func next(segments route.Path, path string) string {
	ids := strings.Split(path, "/")
	for i, s := range segments {
		if i < len(ids) && (s.Capture || s.Name == ids[i]) {
			continue
		}

		if i < len(ids) && ids[i] > s.Name && !isNumeric(ids, i) {
			return placeAfter(segments[:i], ids)
		}
		start := append(slices.Clone(ids[:i]), s.Name)
		if i%2 == 0 {
			start = append(start, firstID)
		}
		return strings.Join(start, "/")
	}
	return placeAfter(segments, ids) // it lies below a document that matches
}

// isNumeric reports whether a segment is a numeric id, which comes before all that are none.
func isNumeric(ids []string, i int) bool { return i%2 == 1 && strings.HasPrefix(ids[i], "__id") }

// lastCapture returns the index of the last capture. It is -1 if there is none.
func lastCapture(segments route.Path) int {
	for i, segment := range slices.Backward(segments) {
		if segment.Capture {
			return i
		}
	}
	return -1
}
