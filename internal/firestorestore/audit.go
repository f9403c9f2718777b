package firestorestore

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/rollup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Counters implements rollup.AuditStore. A query finds the first shard behind the last counter's,
// wherever that is, so a counter bills about one read, however many shards it has.
func (s *Store) Counters(ctx context.Context, route *rollup.Route, after string, limit int) ([]rollup.Counter, bool, error) {
	pattern := route.Pattern()
	collection := pattern[:len(pattern)-1]
	if lastCapture(collection) < 0 { // one counter
		c, ok := route.Counter(join(collection))
		if !ok {
			return nil, false, fmt.Errorf("firestore: %s is no collection of shards", join(collection)) // not reached: the path is the pattern's
		}
		return []rollup.Counter{c}, true, nil
	}
	start := first(pattern)
	if after != "" {
		start = behind(pattern, strings.Split(after, "/"), len(collection))
	}
	var found []rollup.Counter
	// Where counters have one shard each, a query may find many at once. Where they have more, each
	// further shard that it finds is a read in vain. So queries grow while they find counters only, and
	// the more patiently, the more often that went wrong.
	page, good, patience := 1, 0, 1
	for start != "" && len(found) < limit {
		page = min(page, limit-len(found))
		docs, err := s.group(pattern, start, page).Select().Documents(ctx).GetAll()
		if err != nil {
			return found, false, fmt.Errorf("firestore: finding shards of %s: %w", route, err)
		}
		last, vain := len(docs) < page, false
		for _, doc := range docs {
			path := Path(doc.Ref)
			c, ok := route.Counter(path[:strings.LastIndexByte(path, '/')])
			if !ok {
				start, last, vain = next(pattern, path), false, true
				break
			}
			if len(found) > 0 && found[len(found)-1] == c {
				vain = true
				continue
			}
			found = append(found, c)
			start = behind(pattern, strings.Split(path, "/"), len(collection))
		}
		switch good += len(docs); {
		case last:
			return found, true, nil
		case vain:
			page, good, patience = 1, 0, 2*patience
		case good >= patience:
			page *= 2
		}
	}
	return found, start == "", nil
}

// RollUps implements rollup.AuditStore. It bills one read for each document that the template gives.
func (s *Store) RollUps(ctx context.Context, route *rollup.Route, after string, limit int) ([]rollup.FoundRollUp, bool, error) {
	template := route.Template()
	if lastCapture(template) < 0 { // one roll-up
		doc, err := s.client.Doc(join(template)).Get(ctx)
		if status.Code(err) == codes.NotFound {
			return nil, true, nil
		}
		if err != nil {
			return nil, false, fmt.Errorf("firestore: reading %s: %w", join(template), err)
		}
		found, _ := foundRollUp(route, doc)
		return []rollup.FoundRollUp{found}, true, nil
	}
	start := first(template)
	if after != "" {
		start = behind(template, strings.Split(after, "/"), len(template))
	}
	var found []rollup.FoundRollUp
	// Where documents of other collections of the same name lie between, a large page would read many
	// of them in vain. So the page after one is small, and doubles as long as it holds roll-ups only.
	page := limit
	for start != "" && len(found) < limit {
		page = min(page, limit-len(found))
		docs, err := s.group(template, start, page).Documents(ctx).GetAll()
		if err != nil {
			return found, false, fmt.Errorf("firestore: finding roll-ups of %s: %w", route, err)
		}
		whole := len(docs) == page
		page *= 2
		for _, doc := range docs {
			f, ok := foundRollUp(route, doc)
			if !ok {
				start, page, whole = next(template, Path(doc.Ref)), 1, true
				break
			}
			found = append(found, f)
			start = behind(template, strings.Split(f.Counter.RollUp, "/"), len(template))
		}
		if !whole {
			return found, true, nil
		}
	}
	return found, start == "", nil
}

func foundRollUp(route *rollup.Route, doc *firestore.DocumentSnapshot) (rollup.FoundRollUp, bool) {
	c, ok := route.CounterOfRollUp(Path(doc.Ref))
	return rollup.FoundRollUp{Counter: c, RollUp: rollUpOf(route, doc)}, ok
}

// Remove implements rollup.AuditStore. It bills one read beside the delete or write.
func (s *Store) Remove(ctx context.Context, c rollup.Counter, r rollup.RollUp) error {
	ref := s.client.Doc(c.RollUp)
	doc, err := ref.Get(ctx)
	if err == nil {
		// What is removed is what was read here, or nothing: its update time is r's, by the precondition.
		others := doc.Data()
		var updates []firestore.Update
		for _, field := range append([]string{rollup.FieldNumShards, rollup.FieldAsOf}, c.Route.Fields...) {
			delete(others, field)
			updates = append(updates, firestore.Update{FieldPath: firestore.FieldPath{field}, Value: firestore.Delete})
		}
		unchanged := firestore.LastUpdateTime(r.UpdateTime)
		if len(others) > 0 {
			_, err = ref.Update(ctx, updates, unchanged)
		} else {
			_, err = ref.Delete(ctx, unchanged)
		}
	}
	return outcome(err, "removing", c.RollUp)
}

// cursorPath is where audits keep their place. Routes that could name it are refused: see rollup.ParseRoutes.
const cursorPath = "rollup_audit/cursor"

// A cursorDocument is the document at cursorPath. A field that is missing reads as zero.
type cursorDocument struct {
	Routes string    `firestore:"routes"` // as the functions were configured, one to a line
	Route  int       `firestore:"route"`  // index of the route
	Found  int       `firestore:"found"`  // 0: walking roll-ups; 1: walking shards
	After  string    `firestore:"after"`  // path of the last roll-up, or of the last counter's collection of shards
	Walked int64     `firestore:"walked"` // found since the beginning
	Whole  int64     `firestore:"whole"`  // found by the last audit that came to the end
	Tick   time.Time `firestore:"tick"`   // when the audit began that wrote this
}

// LoadCursor implements rollup.AuditStore.
func (s *Store) LoadCursor(ctx context.Context) (rollup.Cursor, error) {
	doc, err := s.client.Doc(cursorPath).Get(ctx)
	if status.Code(err) == codes.NotFound {
		return rollup.Cursor{}, nil
	}
	if err != nil {
		return rollup.Cursor{}, fmt.Errorf("firestore: reading %s: %w", cursorPath, err)
	}
	c := rollup.Cursor{UpdateTime: doc.UpdateTime}
	var d cursorDocument
	if err := doc.DataTo(&d); err != nil {
		s.logger.WarnContext(ctx, "the audit's cursor is not one that Tally wrote; the audit begins anew", "document", cursorPath, "error", err)
		return c, nil
	}
	c.Place = rollup.Place{Route: d.Route, Found: rollup.Found(d.Found), After: d.After}
	c.Routes, c.Walked, c.Whole, c.Tick = d.Routes, d.Walked, d.Whole, d.Tick
	return c, nil
}

// SaveCursor implements rollup.AuditStore.
func (s *Store) SaveCursor(ctx context.Context, c rollup.Cursor) (time.Time, error) {
	return s.put(ctx, cursorPath, map[string]any{
		"routes": c.Routes, "route": c.Route, "found": int(c.Found), "after": c.After, "walked": c.Walked, "whole": c.Whole, "tick": c.Tick,
	}, c.UpdateTime)
}

// group returns a query for up to limit documents from start on, in order of their paths, of all
// collections that have the name of the segments' last one and lie where the segments' first capture
// may be. It needs no index but the one of names.
func (s *Store) group(segments []rollup.Segment, start string, limit int) firestore.Query {
	end := first(segments)
	end = end[:strings.LastIndexByte(end, '/')] + "\x00/" + firstID
	return s.client.CollectionGroup(segments[len(segments)-2].Name).OrderBy(firestore.DocumentID, firestore.Asc).
		StartAt(s.client.Doc(start)).EndBefore(s.client.Doc(end)).Limit(limit)
}

// Firestore orders paths segment by segment, each by its bytes. What a query begins or ends at need
// not exist, nor be allowed to: firstID sorts before every id, and an id with a zero byte more is the
// next after that id.
const firstID = "__id-9223372036854775808__"

// first returns where the documents begin whose path is like the segments, which hold a capture.
func first(segments []rollup.Segment) string {
	var path []string
	for _, s := range segments {
		if s.Capture {
			break
		}
		path = append(path, s.Name)
	}
	return strings.Join(append(path, firstID), "/")
}

// behind returns the first document path that differs from ids in a capture among the first n
// segments and comes after it; "" if there is none.
func behind(segments []rollup.Segment, ids []string, n int) string {
	i := lastCapture(segments[:n])
	if i < 0 {
		return ""
	}
	return strings.Join(ids[:i], "/") + "/" + after(ids[i])
}

// after returns the id that follows an id.
func after(id string) string {
	const longest = 1500 // bytes, Firestore's limit
	if len(id) < longest {
		return id + "\x00"
	}
	last, size := utf8.DecodeLastRuneInString(id)
	return id[:len(id)-size] + string(last+1)
}

// next returns where behind path, which is not like the segments, the documents go on whose paths
// are; "" if nowhere.
func next(segments []rollup.Segment, path string) string {
	ids := strings.Split(path, "/")
	for i, s := range segments {
		if i < len(ids) && (s.Capture || s.Name == ids[i]) {
			continue
		}
		if i < len(ids) && ids[i] > s.Name {
			return behind(segments, ids, i)
		}
		start := append(slices.Clone(ids[:i]), s.Name)
		if i%2 == 0 {
			start = append(start, firstID)
		}
		return strings.Join(start, "/")
	}
	return behind(segments, ids, len(segments)) // a document below
}

// lastCapture returns the index of the last capture, -1 if there is none.
func lastCapture(segments []rollup.Segment) int {
	for i := len(segments) - 1; i >= 0; i-- {
		if segments[i].Capture {
			return i
		}
	}
	return -1
}

func join(segments []rollup.Segment) string {
	names := make([]string, len(segments))
	for i, s := range segments {
		names[i] = s.String()
	}
	return strings.Join(names, "/")
}
