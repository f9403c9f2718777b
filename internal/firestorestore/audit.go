package firestorestore

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/rollup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Counters implements rollup.AuditStore. A query finds the first shard behind the last counter's,
// wherever that is, so a counter bills about one read, however many shards it has.
func (s *Store) Counters(ctx context.Context, route *rollup.Route, from string, limit int) (rollup.Page, error) {
	pattern := route.Pattern()
	collection := pattern[:len(pattern)-1]
	if lastCapture(collection) < 0 { // one counter
		c, _ := route.Counter(collection.String())
		return rollup.Page{Found: []rollup.Found{{Counter: c}}}, nil
	}
	query := s.client.CollectionGroup(collection[len(collection)-1].Name).Select()
	page, err := s.walk(ctx, query, pattern, len(collection), from, limit, func(doc *firestore.DocumentSnapshot) (rollup.Found, bool) {
		path := Path(doc.Ref)
		c, ok := route.Counter(path[:strings.LastIndexByte(path, '/')])
		return rollup.Found{Counter: c}, ok
	})
	if err != nil {
		return page, fmt.Errorf("firestore: finding shards of %s: %w", route, err)
	}
	return page, nil
}

// RollUps implements rollup.AuditStore. It bills one read for each document that the template
// gives.
func (s *Store) RollUps(ctx context.Context, t *rollup.Template, from string, limit int) (rollup.Page, error) {
	template := t.Segments()
	if lastCapture(template) < 0 { // one roll-up
		c, _ := t.Counter(t.String())
		v, err := s.View(ctx, c)
		if err != nil || !v.RollUp().Exists() {
			return rollup.Page{}, err
		}
		return rollup.Page{Found: []rollup.Found{{Counter: c, RollUp: v.RollUp()}}}, nil
	}
	var fields []firestore.FieldPath
	for _, field := range rollUpFields(t) {
		fields = append(fields, firestore.FieldPath{field})
	}
	query := s.client.CollectionGroup(template[len(template)-2].Name).SelectPaths(fields...)
	page, err := s.walk(ctx, query, template, len(template), from, limit, func(doc *firestore.DocumentSnapshot) (rollup.Found, bool) {
		c, ok := t.Counter(Path(doc.Ref))
		return rollup.Found{Counter: c, RollUp: rollup.RollUpOf(t, doc.Data(), doc.UpdateTime)}, ok
	})
	if err != nil {
		return page, fmt.Errorf("firestore: finding roll-ups of %s: %w", t, err)
	}
	return page, nil
}

// walk finds up to limit counters by the documents of a collection group that are like the
// segments, one for those that are the same in the first n segments. A place is the path from which
// on the next query looks. One page makes at most two queries for each counter that it may hold:
// documents of other collections of the same name, which lie between, end it sooner.
func (s *Store) walk(ctx context.Context, group firestore.Query, segments rollup.Path, n int, from string, limit int, find func(*firestore.DocumentSnapshot) (rollup.Found, bool)) (rollup.Page, error) {
	start := first(segments)
	end := start[:strings.LastIndexByte(start, '/')] + "\x00/" + firstID
	if from == "" {
		from = start
	}
	group = group.OrderBy(firestore.DocumentID, firestore.Asc).EndBefore(s.client.Doc(end)) // needs no index but the one of names
	page := rollup.Page{Next: from}
	// A query may find many counters at once. Where a counter has more documents, or others lie
	// between, what else it finds is a wasted read. So queries grow while they find counters only,
	// and the more patiently, the more often that went wrong.
	size, good, patience := 1, 0, 1
	for queries := 0; page.Next != "" && len(page.Found) < limit && queries < 2*limit; queries++ {
		size = min(size, limit-len(page.Found))
		docs, err := group.StartAt(s.client.Doc(page.Next)).Limit(size).Documents(ctx).GetAll()
		if err != nil {
			return rollup.Page{}, err
		}
		wasted := false
		var last rollup.Found
		for _, doc := range docs {
			ids := strings.Split(Path(doc.Ref), "/")
			f, ok := find(doc)
			switch {
			case !ok:
				page.Next = next(segments, Path(doc.Ref))
			case f.Counter != last.Counter:
				f.Next = behind(segments, ids, n)
				page.Found = append(page.Found, f)
				page.Next, last = f.Next, f
				continue
			}
			wasted = true
			break
		}
		switch good += len(docs); {
		case wasted:
			size, good, patience = 1, 0, 2*patience
		case len(docs) < size:
			page.Next = ""
		case good >= patience:
			size *= 2
		}
	}
	return page, nil
}

// cursorPath is where audits keep their place. Routes that could name it are refused: see
// rollup.ParseRoutes.
const cursorPath = document.AuditCollection + "/cursor"

// LoadCursor implements rollup.AuditStore. The document may be deleted at any time; the next audit
// then begins anew.
func (s *Store) LoadCursor(ctx context.Context) (rollup.Cursor, error) {
	doc, err := s.client.Doc(cursorPath).Get(ctx)
	if status.Code(err) == codes.NotFound {
		return rollup.Cursor{}, nil
	}
	if err != nil {
		return rollup.Cursor{}, fmt.Errorf("firestore: reading %s: %w", cursorPath, err)
	}
	var d struct{ Cursor rollup.Cursor }
	if err := doc.DataTo(&d); err != nil {
		s.logger.WarnContext(ctx, "the audit's cursor is not one that Tally wrote; the audit begins anew", "document", cursorPath, "error", err)
		d.Cursor = rollup.Cursor{}
	}
	d.Cursor.UpdateTime = doc.UpdateTime
	return d.Cursor, nil
}

// SaveCursor implements rollup.AuditStore. It writes one field, Cursor, a map with the fields of a
// rollup.Cursor.
func (s *Store) SaveCursor(ctx context.Context, c rollup.Cursor) (time.Time, error) {
	return s.put(ctx, cursorPath, map[string]any{"Cursor": c}, c.UpdateTime)
}

// Remove implements rollup.AuditStore. It bills one read beside the delete or write.
func (s *Store) Remove(ctx context.Context, c rollup.Counter, r rollup.RollUp) error {
	ref := s.client.Doc(c.RollUp)
	doc, err := ref.Get(ctx)
	if err == nil {
		// What is removed is what was read here, or nothing: its update time is r's, by the
		// precondition.
		others := doc.Data()
		var updates []firestore.Update
		for _, field := range append(rollUpFields(c.Template), r.Tally.Former...) {
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

// Firestore orders paths segment by segment. Numeric ids, such as __id7__, come first, by their
// numbers: an import from Datastore makes them. The others follow by their bytes. A query may begin
// or end at an id that does not exist, and even at one that cannot: firstID sorts before every id,
// and an id with a zero byte more is the next after that id.
const firstID = "__id-9223372036854775808__"

// first returns where the documents begin whose path is like the segments, which hold a capture.
func first(segments rollup.Path) string {
	capture := slices.IndexFunc(segments, func(s rollup.Segment) bool { return s.Capture })
	return segments[:capture].String() + "/" + firstID
}

// behind returns the first document path that differs from ids in a capture among the first n
// segments and comes after it; "" if there is none.
func behind(segments rollup.Path, ids []string, n int) string {
	for i := lastCapture(segments[:n]); i >= 0; i = lastCapture(segments[:i]) {
		if id, ok := after(ids[i]); ok {
			return strings.Join(ids[:i], "/") + "/" + id
		}
	}
	return ""
}

// after returns the id that follows an id, if one does.
func after(id string) (string, bool) {
	if number, ok := strings.CutPrefix(id, "__id"); ok {
		if n, err := strconv.ParseInt(strings.TrimSuffix(number, "__"), 10, 64); err == nil && strings.HasSuffix(number, "__") {
			if n++; n == -1<<63 { // there was no greater one
				return "\x00", true
			}
			return fmt.Sprintf("__id%d__", n), true
		}
	}
	const longest = 1500 // bytes, Firestore's limit
	if len(id) < longest {
		return id + "\x00", true
	}
	for id != "" {
		last, size := utf8.DecodeLastRuneInString(id)
		id = id[:len(id)-size]
		if last++; last == 0xD800 { // surrogates are no characters
			last = 0xE000
		}
		if last <= utf8.MaxRune && len(id)+utf8.RuneLen(last) <= longest {
			return id + string(last), true
		}
	}
	return "", false
}

// next returns where behind path, which is not like the segments, the documents go on whose paths
// are; "" if nowhere.
func next(segments rollup.Path, path string) string {
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
func lastCapture(segments rollup.Path) int {
	for i, segment := range slices.Backward(segments) {
		if segment.Capture {
			return i
		}
	}
	return -1
}
