package migration

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/cloud/firestorestore"
	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/value"
	"github.com/firestore-tally/tally/rollup/route"
	"github.com/firestore-tally/tally/shards"
)

// Names that the extension uses
// (https://github.com/firebase/extensions/tree/next/firestore-counter/functions/src).
const (
	shardsCollection = "_counter_shards_"

	// stateDocument is a document that the extension writes in each run: by default once a minute.
	// It stays when the extension is uninstalled.
	stateDocument = "_firebase_ext_/sharded_counter"

	// A partial sum has this field alone, a list of maps with an id and the amounts by field.
	fieldUpdates = "_updates_"
	fieldData    = "_data_"
)

// Wait is how long the extension must have been idle before it counts as gone. It begins a run each
// minute, and a run takes 2 minutes at most.
const Wait = 3 * time.Minute

// A Plan lists the documents that a scan found.
type Plan struct {
	Routes    route.Routes // those whose shards are in _counter_shards_
	Documents []*Document  // in the order of their paths
	Uncounted []Uncounted
	Reads     int64 // what the scan billed

	leftOut map[string]bool // paths of the documents of which amounts are uncounted

	// Idle is how long ago the extension wrote its state document, by Firestore's clock. It is zero
	// if there is no document at the extension's default path.
	Idle time.Duration

	written time.Time // the state document, last; zero if there is none
}

// A Document is one whose fields are totals of the extension.
type Document struct {
	Path     string  // such as "pages/hello"
	Totals   []Total // one for each of its route's fields
	Shards   int     // how many documents are in _counter_shards_
	Fold     int     // how many of these Run folds into numbered shards
	Partials int     // how many of the folded ones are partial sums

	route     *route.Route
	rollUp    string // path of the roll-up
	exists    bool   // the document itself is there, not only shards
	numShards int    // numbered shards are 0 to numShards-1
}

// A Total is one field of a document.
type Total struct {
	Field string
	Left  value.Value // amount that is left to carry from the document's field

	held   bool      // the document has the field
	rollUp bool      // Tally writes the field already
	shards value.Sum // of the amounts in shards and partial sums
}

// Expected returns the true total. The shards hold it once nothing is left to do.
func (t *Total) Expected() value.Value { return sum(t.shards.Total(), t.Left) }

// Done reports whether nothing is left to do for the document.
func (d *Document) Done() bool {
	return d.Fold == 0 && !slices.ContainsFunc(d.Totals, func(t Total) bool { return t.Left.Float64() != 0 })
}

// An Uncounted is one kind of amount that the extension adds to a document and that no route
// counts. They stay where they are.
type Uncounted struct {
	What    string `json:"what"`    // the reason in words
	Shards  int    `json:"shards"`  // how many shards hold such an amount; 0: the document does
	Example string `json:"example"` // path of a shard or document that holds one

	Amounts map[string]value.Value `json:"-"` // by field; without NaN and infinite ones
}

// A scan is a Plan in the making.
type scan struct {
	Plan
	client    *firestore.Client
	progress  func(read int64)
	documents map[string]*Document
	uncounted map[string]*Uncounted
	carried   int // fields of which something was carried
}

// Scan finds the documents of the routes whose shards are in _counter_shards_. It also finds those
// without shards, because the extension deletes the shards that it has added up. It writes nothing.
// progress, unless nil, is called with the number of reads so far.
//
// A scan costs one read for each document of the collections that the routes name, one for each
// shard of the extension, wherever it is, and one for each field that a document holds.
func Scan(ctx context.Context, client *firestore.Client, routes route.Routes, progress func(read int64)) (*Plan, error) {
	s := &scan{client: client, progress: progress, documents: map[string]*Document{}, uncounted: map[string]*Uncounted{}}
	s.leftOut = map[string]bool{}

	s.Routes = slices.DeleteFunc(slices.Clone(routes), func(r *route.Route) bool { return !servesExtension(r) })
	if len(s.Routes) == 0 {
		return nil, errors.New("no route has its shards in " + shardsCollection + "; name one for each kind of document, such as pages/{page}/" +
			shardsCollection + "/{shard} -> page_totals/{page} : visits")
	}
	err := errors.Join(checkOneRouteEach(s.Routes), checkTopLevel(s.Routes))
	if err != nil {
		return nil, err
	}

	err = s.readState(ctx)
	if err != nil {
		return nil, fmt.Errorf("migration: read %s: %w", stateDocument, err)
	}

	for _, r := range s.Routes {
		err := s.findDocuments(ctx, r)
		if err != nil {
			return nil, fmt.Errorf("migration: find the documents of route %q: %w", r, err)
		}
	}

	err = s.findShards(ctx)
	if err != nil {
		return nil, fmt.Errorf("migration: find shards: %w", err)
	}

	s.listDocuments()
	err = s.readNotes(ctx)
	if err != nil {
		return nil, fmt.Errorf("migration: read what was carried: %w", err)
	}

	err = s.checkRollUps()
	if err != nil {
		return nil, err
	}

	for _, what := range slices.Sorted(maps.Keys(s.uncounted)) {
		s.Uncounted = append(s.Uncounted, *s.uncounted[what])
	}
	return &s.Plan, nil
}

// servesExtension reports whether a route's shards are the extension's.
func servesExtension(r *route.Route) bool {
	p := r.Pattern()
	return p.CollectionID() == shardsCollection && len(r.Fields()) > 0
}

// readState finds out how long the extension has been idle.
func (s *scan) readState(ctx context.Context) error {
	state, err := s.client.GetAll(ctx, []*firestore.DocumentRef{s.client.Doc(stateDocument)})
	if err != nil {
		return err
	}

	s.count(1)
	if state[0].Exists() {
		s.written = state[0].UpdateTime
		s.Idle = max(1, state[0].ReadTime.Sub(s.written))
	}
	return nil
}

// listDocuments lists the documents that have shards or hold one of their route's fields.
func (s *scan) listDocuments() {
	for _, path := range slices.Sorted(maps.Keys(s.documents)) {
		d := s.documents[path]
		holds := slices.ContainsFunc(d.Totals, func(t Total) bool { return t.held })
		if d.Shards > 0 || holds {
			s.Documents = append(s.Documents, d)
		}
	}
}

// checkRollUps returns an error if Tally's functions have overwritten totals that were not carried.
// It also notes the documents of which Tally will make no roll-up.
func (s *scan) checkRollUps() error {
	for _, d := range s.Documents {
		isOwnRollUp := d.route.Template.Existing && d.rollUp == d.Path
		if isOwnRollUp && !d.exists {
			all := amountsOf{}
			for _, t := range d.Totals {
				all.add(t.Field, t.Expected())
			}
			s.leave("the document does not exist, and its route says existing: Tally makes no roll-up of it", d.Path, "", all)
		}

		rolledUp := slices.ContainsFunc(d.Totals, func(t Total) bool { return t.rollUp })
		if rolledUp && s.carried == 0 {
			return fmt.Errorf("migration: Tally's functions have already written roll-ups to %s, and nothing was carried over: "+
				"the extension's totals there are lost; remove that route, restore the documents from a backup, and start again", d.Path)
		}
	}
	return nil
}

// count counts reads.
func (s *scan) count(reads int) {
	s.Reads += int64(reads)
	if s.progress != nil {
		s.progress(s.Reads)
	}
}

// pageSize is how many documents one query finds at most. It bounds the time of a query, and the
// memory.
const pageSize = 1000

// each calls f for each document that the query finds, in the order of their paths.
func (s *scan) each(ctx context.Context, query firestore.Query, f func(*firestore.DocumentSnapshot)) error {
	query = query.OrderBy(firestore.DocumentID, firestore.Asc).Limit(pageSize) // needs no index but the one of names

	page := query
	for {
		docs, err := page.Documents(ctx).GetAll()
		if err != nil {
			return err
		}

		s.count(max(1, len(docs))) // Firestore bills a query that finds nothing as one read
		for _, doc := range docs {
			f(doc)
		}

		if len(docs) < pageSize {
			return nil
		}
		page = query.StartAfter(docs[len(docs)-1].Ref)
	}
}

// checkOneRouteEach returns an error if two routes have the same documents. A migration takes a
// document's totals from one route.
func checkOneRouteEach(routes route.Routes) error {
	for i, r := range routes {
		for _, other := range routes[:i] {
			if r.Pattern().Same(other.Pattern()) {
				return fmt.Errorf("the routes %q and %q have the same shards: name all fields in one route", other, r)
			}
		}
	}
	return nil
}

// checkTopLevel returns an error if a route names a field in a map. What the extension has counted
// in it would be left where it is, and the route's total would begin at 0.
func checkTopLevel(routes route.Routes) error {
	for _, r := range routes {
		for _, f := range r.Fields() {
			if len(f.Names()) > 1 {
				return fmt.Errorf("the route %q names %s, which is in a map: the migration moves top-level fields only, so have the apps write one, and name that", r, f)
			}
		}
	}
	return nil
}

// findDocuments finds the documents of a route, with or without shards.
func (s *scan) findDocuments(ctx context.Context, r *route.Route) error {
	pattern := r.Pattern()
	pattern = pattern[:len(pattern)-2] // of the documents
	last := len(pattern) - 1
	firstCapture := slices.IndexFunc(pattern, func(segment route.Segment) bool { return segment.Capture })

	if firstCapture == -1 { // one document
		docs, err := s.client.GetAll(ctx, []*firestore.DocumentRef{s.client.Doc(pattern.String())})
		if err != nil {
			return err
		}
		s.count(1)
		s.foundDocument(r, docs[0])
		return nil
	}

	query := s.client.CollectionGroup(pattern[last-1].Name).Query
	if firstCapture == last { // one collection
		query = s.client.Collection(pattern[:last].String()).Query
	}

	fields := []firestore.FieldPath{{document.NumShardsField}, {document.NumShardsCamelField}, {document.TallyField}}
	for _, f := range r.Fields() {
		fields = append(fields, f.Names())
	}
	return s.each(ctx, query.SelectPaths(fields...), func(doc *firestore.DocumentSnapshot) { s.foundDocument(r, doc) })
}

// foundDocument notes a document of the scan, if it is one of the route's.
func (s *scan) foundDocument(route *route.Route, found *firestore.DocumentSnapshot) {
	path := firestorestore.Path(found.Ref)
	counter, ok := route.Counter(path + "/" + shardsCollection)
	if !ok {
		return
	}

	d := s.document(path, route, counter)
	d.exists = found.Exists()
	for _, field := range []string{document.NumShardsCamelField, document.NumShardsField} {
		n, isInteger := found.Data()[field].(int64)
		if isInteger && n > 0 {
			d.numShards = int(n)
		}
	}

	tally := document.DecodeTally(found.Data()[document.TallyField])
	for i := range d.Totals {
		t := &d.Totals[i]
		held := found.Data()[t.Field]
		number, ok := value.Number(held)
		switch {
		case held == nil: // the first increment makes it a number
		case !ok:
			s.leave(notNumber("the field "+t.Field+" of a document", held), path, "", nil)
		case tally.Covers(t.Field):
			t.held, t.rollUp = true, true
		case number.Finite():
			t.held, t.Left = true, number
		default:
			s.leave(fmt.Sprintf("the field %s of a document is NaN or infinite", t.Field), path, "", nil)
		}
	}
}

// document returns a document of the scan, which it makes when the path is new.
func (s *scan) document(path string, route *route.Route, counter route.Counter) *Document {
	known := s.documents[path]
	if known != nil {
		return known
	}

	d := &Document{Path: path, route: route, rollUp: counter.RollUp, numShards: shards.DefaultNumShards}
	for _, field := range route.Fields() {
		d.Totals = append(d.Totals, Total{Field: strings.Join(field.Names(), ".")})
	}
	s.documents[path] = d
	return d
}

// leave notes that no route counts some amounts of a document. They are in its shard of that id, or
// in the document itself if shard is "". what says why.
func (s *scan) leave(what, document, shard string, amounts amountsOf) {
	s.leftOut[document] = true
	example := document
	if shard != "" {
		example += "/" + shardsCollection + "/" + shard
	}

	u := s.uncounted[what]
	if u == nil {
		u = &Uncounted{What: what, Example: example, Amounts: map[string]value.Value{}}
		s.uncounted[what] = u
	}

	if shard != "" {
		u.Shards++
	}
	for field, amount := range amounts {
		u.Amounts[field] = sum(u.Amounts[field], amount.Total())
	}
}

// findShards finds all shards of the extension.
func (s *scan) findShards(ctx context.Context) error {
	return s.each(ctx, s.client.CollectionGroup(shardsCollection).Query, func(doc *firestore.DocumentSnapshot) {
		path := firestorestore.Path(doc.Ref)
		collection := strings.TrimSuffix(path, "/"+doc.Ref.ID)
		of := strings.TrimSuffix(collection, "/"+shardsCollection)

		for _, r := range s.Routes {
			counter, ok := r.Counter(collection)
			if ok {
				s.foundShard(s.document(of, r, counter), doc)
				return
			}
		}

		holds := contents(doc.Data())
		for _, nested := range holds.left {
			maps.Copy(holds.sums, nested)
		}
		s.leave("no route serves "+generic(collection), of, doc.Ref.ID, holds.sums)
	})
}

// foundShard adds up what a shard holds, or a partial sum.
func (s *scan) foundShard(d *Document, shard *firestore.DocumentSnapshot) {
	d.Shards++
	holds := contents(shard.Data())

	n, err := strconv.Atoi(shard.Ref.ID)
	numbered := err == nil && strconv.Itoa(n) == shard.Ref.ID && 0 <= n && n < d.numShards
	if holds.whole && !numbered {
		d.Fold++
		if holds.partial {
			d.Partials++
		}
	}

	for _, t := range d.Totals {
		held := shard.Data()[t.Field]
		_, isNumber := value.Number(held)
		_, isMap := held.(map[string]any)
		if held != nil && !isNumber && !isMap {
			s.leave(notNumber("the field "+t.Field, held), d.Path, shard.Ref.ID, nil)
		}
	}
	for what, amounts := range holds.left {
		s.leave(what, d.Path, shard.Ref.ID, amounts)
	}

	for name, added := range holds.sums {
		total := added.Total()
		i := slices.IndexFunc(d.Totals, func(t Total) bool { return t.Field == name })
		switch {
		case total.Float64() == 0:
		case i < 0:
			s.leave(fmt.Sprintf("the route of %s names no field %s", generic(d.Path+"/"+shardsCollection), name), d.Path, shard.Ref.ID, amountsOf{name: added})
		case holds.partial && !holds.whole:
			s.leave(fmt.Sprintf("some of %s is in partial sums that do not hold only numbers", name), d.Path, shard.Ref.ID, amountsOf{name: added})
		default:
			d.Totals[i].shards.Add(total)
		}
	}
}

// generic returns the path of a collection with a star for each document's id.
func generic(collection string) string {
	ids := strings.Split(collection, "/")
	for i := 1; i < len(ids); i += 2 {
		ids[i] = "*"
	}
	return strings.Join(ids, "/")
}

// readNotes reads what was carried of the fields that documents hold.
func (s *scan) readNotes(ctx context.Context) error {
	var held []*Total
	var notes []*firestore.DocumentRef
	for _, d := range s.Documents {
		for i := range d.Totals {
			t := &d.Totals[i]
			if t.held {
				held = append(held, t)
				notes = append(notes, d.shards(s.client, t.Field).CarriedNote(s.client.Doc(d.Path), t.Field))
			}
		}
	}

	for page := range slices.Chunk(notes, pageSize) {
		docs, err := s.client.GetAll(ctx, page)
		if err != nil {
			return err
		}

		s.count(len(docs))
		for i, note := range docs {
			s.foundNote(held[i], note)
		}
		held = held[len(docs):]
	}
	return nil
}

// foundNote subtracts what was carried, by its note, from what is left of a total. Without a note
// nothing was carried.
func (s *scan) foundNote(t *Total, note *firestore.DocumentSnapshot) {
	carried, ok := value.Number(note.Data()["amount"])
	if ok {
		s.carried++
	}

	if !t.rollUp {
		t.Left = sum(t.Left, value.Negative(carried))
	}
}

// shards returns the counter of one of the document's fields.
func (d *Document) shards(client *firestore.Client, field string) *shards.Counter {
	return shards.New(client, d.Path, shards.Collection(d.Path+"/"+shardsCollection), shards.Field(field), shards.NumShards(d.numShards))
}
