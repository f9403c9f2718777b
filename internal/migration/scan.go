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
	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/firestorestore"
	"github.com/firestore-tally/tally/internal/value"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/shards"
)

// Names that the extension uses
// (https://github.com/firebase/extensions/tree/next/firestore-counter/functions/src).
const (
	shardsCollection = "_counter_shards_"

	// stateDocument is written by each of the extension's runs, one a minute by default. It stays
	// when the extension is uninstalled.
	stateDocument = "_firebase_ext_/sharded_counter"

	// A partial sum has this field alone, a list of maps with an id and the amounts by field.
	fieldUpdates = "_updates_"
	fieldData    = "_data_"
)

// Wait is how long after its last sign of life the extension is taken for gone: one of its runs
// takes 2 minutes at most, and it begins one each minute.
const Wait = 3 * time.Minute

// A Plan lists the documents that a scan found.
type Plan struct {
	Routes    rollup.Routes // those whose shards are in _counter_shards_
	Documents []*Document   // in the order of their paths
	Uncounted []Uncounted
	Reads     int64 // what the scan billed

	leftOut map[string]bool // paths of the documents to which what is uncounted belongs

	// Idle is how long ago the extension wrote its state document, by Firestore's clock. Zero:
	// there is none at the extension's default path.
	Idle time.Duration
}

// A Document is one whose fields are totals of the extension.
type Document struct {
	Path     string  // such as "pages/hello"
	Totals   []Total // one for each of its route's fields
	Shards   int     // documents in _counter_shards_
	Fold     int     // of these, those that are folded into numbered shards
	Partials int     // of those that are folded, the partial sums

	route     *rollup.Route
	rollUp    string // its path
	exists    bool   // the document itself, not only shards
	numShards int    // the numbered shards are those below
}

// A Total is one field of a document.
type Total struct {
	Field string
	Left  value.Value // what the document's field holds less what was carried from it

	held   bool      // the document has the field
	rollUp bool      // Tally writes the field by now
	shards value.Sum // of what shards and partial sums hold
}

// Expected is the true total, which the shards hold when nothing is left to do.
func (t *Total) Expected() value.Value { return sum(t.shards.Total(), t.Left) }

// Done reports whether nothing is left to do for the document.
func (d *Document) Done() bool {
	return d.Fold == 0 && !slices.ContainsFunc(d.Totals, func(t Total) bool { return t.Left.Float64() != 0 })
}

// An Uncounted is a kind of amounts that the extension adds to a document and that no route counts.
// They stay where they are.
type Uncounted struct {
	What    string `json:"what"`
	Shards  int    `json:"shards"`  // how many hold such an amount; 0: the document does
	Example string `json:"example"` // path of one

	Amounts map[string]value.Value `json:"-"` // by field; NaN and infinite ones are none
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

// Scan finds the documents of the routes whose shards are in _counter_shards_, those without shards
// too: the extension deletes the shards that it has added up. It writes nothing. progress, unless
// nil, is called with the number of reads so far.
//
// A scan bills one read for each document of the collections that the routes name, one for each
// shard of the extension, wherever it is, and one for each field that a document holds.
func Scan(ctx context.Context, client *firestore.Client, routes rollup.Routes, progress func(read int64)) (*Plan, error) {
	s := &scan{client: client, progress: progress, documents: map[string]*Document{}, uncounted: map[string]*Uncounted{}}
	s.leftOut = map[string]bool{}
	for _, r := range routes {
		if p := r.Pattern(); p[len(p)-2].Name == shardsCollection && len(r.Fields()) > 0 {
			s.Routes = append(s.Routes, r)
		}
	}
	if len(s.Routes) == 0 {
		return nil, errors.New("no route has its shards in " + shardsCollection + "; name one for each kind of document, such as pages/{page}/" +
			shardsCollection + "/{shard} -> page_totals/{page} : visits")
	}
	state, err := client.GetAll(ctx, []*firestore.DocumentRef{client.Doc(stateDocument)})
	if err != nil {
		return nil, fmt.Errorf("migration: read %s: %w", stateDocument, err)
	}
	s.count(1)
	if state[0].Exists() {
		s.Idle = max(1, state[0].ReadTime.Sub(state[0].UpdateTime))
	}
	for _, r := range s.Routes {
		if err := s.findDocuments(ctx, r); err != nil {
			return nil, fmt.Errorf("migration: find the documents of route %q: %w", r, err)
		}
	}
	if err := s.findShards(ctx); err != nil {
		return nil, fmt.Errorf("migration: find shards: %w", err)
	}
	for _, path := range slices.Sorted(maps.Keys(s.documents)) {
		d := s.documents[path]
		if d.Shards > 0 || slices.ContainsFunc(d.Totals, func(t Total) bool { return t.held }) {
			s.Documents = append(s.Documents, d)
		}
	}
	if err := s.readNotes(ctx); err != nil {
		return nil, fmt.Errorf("migration: read what was carried: %w", err)
	}
	for _, d := range s.Documents {
		if !d.exists && d.route.Template.Existing && d.rollUp == d.Path {
			all := amountsOf{}
			for _, t := range d.Totals {
				all.add(t.Field, t.Expected())
			}
			s.leave("the document does not exist, and its route says existing: Tally makes no roll-up of it", d.Path, "", all)
		}
		if s.carried == 0 && slices.ContainsFunc(d.Totals, func(t Total) bool { return t.rollUp }) {
			return nil, fmt.Errorf("migration: Tally's functions make roll-ups of %s itself already, and nothing was carried over yet: "+
				"what the extension had counted there is lost; take that route away, restore the documents from a backup, and begin again", d.Path)
		}
	}
	for _, what := range slices.Sorted(maps.Keys(s.uncounted)) {
		s.Uncounted = append(s.Uncounted, *s.uncounted[what])
	}
	return &s.Plan, nil
}

// count counts reads.
func (s *scan) count(reads int) {
	s.Reads += int64(reads)
	if s.progress != nil {
		s.progress(s.Reads)
	}
}

// pageSize is how many documents one query finds. It bounds how long a query takes, and the memory.
const pageSize = 1000

// each calls f for each document that the query finds, in the order of their paths.
func (s *scan) each(ctx context.Context, query firestore.Query, f func(*firestore.DocumentSnapshot)) error {
	query = query.OrderBy(firestore.DocumentID, firestore.Asc).Limit(pageSize) // needs no index but the one of names
	for page := query; ; {
		docs, err := page.Documents(ctx).GetAll()
		if err != nil {
			return err
		}
		s.count(max(1, len(docs)))
		for _, doc := range docs {
			f(doc)
		}
		if len(docs) < pageSize {
			return nil
		}
		page = query.StartAfter(docs[len(docs)-1].Ref)
	}
}

// findDocuments finds the documents of a route, with or without shards.
func (s *scan) findDocuments(ctx context.Context, route *rollup.Route) error {
	pattern := route.Pattern()
	pattern = pattern[:len(pattern)-2] // of the documents
	last := len(pattern) - 1
	firstCapture := slices.IndexFunc(pattern, func(segment rollup.Segment) bool { return segment.Capture })
	query := s.client.CollectionGroup(pattern[last-1].Name).Query
	switch firstCapture {
	case -1:
		docs, err := s.client.GetAll(ctx, []*firestore.DocumentRef{s.client.Doc(pattern.String())})
		if err == nil {
			s.count(1)
			s.foundDocument(route, docs[0])
		}
		return err
	case last:
		query = s.client.Collection(pattern[:last].String()).Query
	}
	fields := []firestore.FieldPath{{document.NumShardsField}, {document.NumShardsCamelField}, {document.TallyField}}
	for _, f := range route.Fields() {
		fields = append(fields, f.Names())
	}
	return s.each(ctx, query.SelectPaths(fields...), func(doc *firestore.DocumentSnapshot) { s.foundDocument(route, doc) })
}

// foundDocument takes a document up, if it is the route's.
func (s *scan) foundDocument(route *rollup.Route, found *firestore.DocumentSnapshot) {
	path := firestorestore.Path(found.Ref)
	counter, ok := route.Counter(path + "/" + shardsCollection)
	if !ok {
		return
	}
	d := s.document(path, route, counter)
	d.exists = found.Exists()
	tally := document.DecodeTally(found.Data()[document.TallyField])
	for _, field := range []string{document.NumShardsCamelField, document.NumShardsField} {
		if n, ok := found.Data()[field].(int64); ok && n > 0 {
			d.numShards = int(n)
		}
	}
	for i := range d.Totals {
		t := &d.Totals[i]
		number, ok := value.Number(found.Data()[t.Field])
		switch {
		case !ok: // the extension counts nothing in it either
		case tally.Covers(t.Field):
			t.held, t.rollUp = true, true
		case number.Finite():
			t.held, t.Left = true, number
		default:
			s.leave(fmt.Sprintf("the field %s of a document is NaN or infinite", t.Field), path, "", nil)
		}
	}
}

func (s *scan) document(path string, route *rollup.Route, counter rollup.Counter) *Document {
	d := s.documents[path]
	if d == nil {
		d = &Document{Path: path, route: route, rollUp: counter.RollUp, numShards: shards.DefaultNumShards}
		for _, field := range route.Fields() {
			d.Totals = append(d.Totals, Total{Field: strings.Join(field.Names(), ".")})
		}
		s.documents[path] = d
	}
	return d
}

// leave notes that amounts are not counted that belong to the document: those of its shard of that
// id, or of the document itself if that is "".
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
			if counter, ok := r.Counter(collection); ok {
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
	for what, amounts := range holds.left {
		s.leave(what, d.Path, shard.Ref.ID, amounts)
	}
	for name, added := range holds.sums {
		total, i := added.Total(), slices.IndexFunc(d.Totals, func(t Total) bool { return t.Field == name })
		switch {
		case total.Float64() == 0:
		case i < 0:
			s.leave(fmt.Sprintf("the route of %s names no field %s", generic(d.Path+"/"+shardsCollection), name), d.Path, shard.Ref.ID, amountsOf{name: added})
		case holds.partial && !holds.whole:
			s.leave(fmt.Sprintf("partial sums that hold more than numbers hold some of %s", name), d.Path, shard.Ref.ID, amountsOf{name: added})
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
			if t := &d.Totals[i]; t.held {
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
			carried, ok := value.Number(note.Data()["amount"])
			if ok {
				s.carried++
			}
			if !held[i].rollUp {
				held[i].Left = sum(held[i].Left, value.Negative(carried))
			}
		}
		held = held[len(docs):]
	}
	return nil
}

// shards returns the counter of one of the document's fields.
func (d *Document) shards(client *firestore.Client, field string) *shards.Counter {
	return shards.New(client, d.Path, shards.Collection(d.Path+"/"+shardsCollection), shards.Field(field), shards.NumShards(d.numShards))
}
