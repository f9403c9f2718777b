// Package memstore is a rollup.AuditStore in memory, for the engine's tests. It passes the same
// suite as the store on Firestore, internal/test/storetest.
//
// It behaves as Firestore does where the engine depends on that. Commits have times of one clock,
// and each is later than the commits and snapshots before it. A snapshot never changes. A write may
// have the precondition that a document is still as it was read. A query may need an index that is
// missing.
package memstore

import (
	"context"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/firestore-tally/tally/internal/cloud/growth"
	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/value"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
)

// A Store is a database in memory. Its zero value is an empty one. It may be used by many
// goroutines at once.
//
// Its commit times come from Now. Where needed they are moved forward, so that each commit is later
// than the commits and snapshots before it, as in Firestore.
type Store struct {
	// Skew is by how much the database's clock is ahead of time.Now. It must not change.
	Skew time.Duration

	// Indexed reports whether an index exists that Firestore does not make by itself. Nil means that
	// all exist. It must not change, and many goroutines may call it at once.
	Indexed func(route.Index) bool

	suspended atomic.Int64 // a time.Duration; see Suspended

	mu          sync.Mutex
	last        time.Time                    // of the latest commit or snapshot
	collections map[string]map[string]stored // by path of the collection and document id
	documents   []string                     // paths of all documents, sorted
	counters    map[*route.Route][]string    // for Missing: paths of the roll-ups, sorted; some counters may be gone
	cursors     map[rollup.Work]rollup.Cursor
	notes       map[string]rollup.Note
}

// A stored is a stored document.
type stored struct {
	fields     map[string]any // a write replaces the map and never changes it, so a snapshot may keep it
	createTime time.Time
	updateTime time.Time
}

// clone returns a copy of the fields. It is never nil.
func (d stored) clone() map[string]any {
	fields := make(map[string]any)
	maps.Copy(fields, d.fields)
	return fields
}

// View implements rollup.Store.
func (s *Store) View(ctx context.Context, c route.Counter) (rollup.Snapshot, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	s.look()
	v := s.sources(c)
	v.rollUp, v.ownerless, v.claim = s.rollUp(c), s.ownerless(c), s.claim(c)
	return v, nil
}

// Sources implements rollup.AuditStore. The snapshot shows the database at the time of the call.
func (s *Store) Sources(_ context.Context, c route.Counter) rollup.Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.look()
	return s.sources(c)
}

// look notes that a snapshot is made now. All later commits get later times.
func (s *Store) look() {
	now := s.Now().Truncate(time.Microsecond)
	if now.After(s.last) {
		s.last = now
	}
}

// sources returns a snapshot without the roll-up document.
func (s *Store) sources(c route.Counter) *snapshot {
	v := &snapshot{counter: c, readTime: s.last, indexed: s.Indexed}
	for _, r := range c.Template.Routes {
		var shards []route.Shard
		for path, d := range s.documentsOf(r, c) {
			shards = append(shards, route.Shard{Path: path, Fields: d.fields})
		}

		slices.SortFunc(shards, func(a, b route.Shard) int { return strings.Compare(a.Path, b.Path) })
		v.shards = append(v.shards, shards)
	}
	return v
}

// documentsOf returns the counter's documents of a route, by their paths, in no order.
func (s *Store) documentsOf(r *route.Route, c route.Counter) iter.Seq2[string, stored] {
	keys, ok := r.Where(c)
	return func(yield func(string, stored) bool) {
		for _, collection := range s.collectionsOf(r, c) {
			for id, d := range s.collections[collection] {
				if ok && route.HoldAll(keys, d.fields) && !yield(collection+"/"+id, d) {
					return
				}
			}
		}
	}
}

// collectionsOf returns the paths of the collections in which a counter's documents of a route are.
func (s *Store) collectionsOf(r *route.Route, c route.Counter) []string {
	below, id, across := r.Group(c)
	if !across {
		return []string{r.Shards(c)}
	}

	var all []string
	for collection := range s.collections {
		if strings.HasPrefix(collection, below+"/") && strings.HasSuffix(collection, "/"+id) {
			all = append(all, collection)
		}
	}
	return all
}

// rollUp reads c's roll-up document.
func (s *Store) rollUp(c route.Counter) rollup.RollUp {
	d := s.get(c.RollUp)
	return rollup.RollUpOf(c.Template, d.fields, d.updateTime)
}

// ownerless reports whether c has an owner that is missing.
func (s *Store) ownerless(c route.Counter) bool {
	owner := c.Owner()
	return owner != "" && s.get(owner).updateTime.IsZero()
}

// claim reads c's claim.
func (s *Store) claim(c route.Counter) rollup.Claim {
	d := s.get(document.ClaimPath(c.RollUp))
	return rollup.Claim{Claim: document.DecodeClaim(d.fields), UpdateTime: d.updateTime}
}

// A snapshot implements rollup.Snapshot.
type snapshot struct {
	counter   route.Counter
	indexed   func(route.Index) bool
	readTime  time.Time
	now       time.Time // of windows, in the last sum
	rollUp    rollup.RollUp
	ownerless bool
	claim     rollup.Claim
	shards    [][]route.Shard // by route
}

func (v *snapshot) ReadTime() time.Time   { return v.readTime }
func (v *snapshot) RollUp() rollup.RollUp { return v.rollUp }
func (v *snapshot) Ownerless() bool       { return v.ownerless }

func (v *snapshot) Sum(ctx context.Context) (route.Totals, error) { return v.SumAsOf(ctx, v.readTime) }

func (v *snapshot) SumAsOf(ctx context.Context, instant time.Time) (route.Totals, error) {
	v.now = instant
	for n, r := range v.counter.Template.Routes {
		lacking := v.lacking(r)
		if len(lacking) > 0 && r.By != nil && v.isLacking(r.KeyIndexes()) {
			return route.Totals{}, rollup.UnindexedKeys(r, v.counter)
		}
		if len(lacking) > 0 && len(v.shards[n]) > rollup.MaxUnindexed {
			return route.Totals{}, rollup.TooManyUnindexed(r, v.counter, lacking)
		}
	}
	totals, _ := v.sum()
	return totals, ctx.Err()
}

// lacking returns the indexes that are missing, and without which Firestore would refuse
// a query of the route.
func (v *snapshot) lacking(r *route.Route) []route.Index {
	if v.indexed == nil || r.Documents {
		return nil
	}

	var lacking []route.Index
	for _, q := range r.Queries() {
		for _, x := range r.IndexesOf(q) {
			if !x.IsAutomatic() && !v.indexed(x) {
				lacking = append(lacking, x)
			}
		}
	}
	return lacking
}

// isLacking reports whether one of the indexes is missing that Firestore does not make by itself.
func (v *snapshot) isLacking(indexes []route.Index) bool {
	return slices.ContainsFunc(indexes, func(x route.Index) bool { return !x.IsAutomatic() && !v.indexed(x) })
}

func (v *snapshot) Magnitude(ctx context.Context, name string) (float64, error) {
	for n, route := range v.counter.Template.Routes {
		exact := route.Documents || len(v.lacking(route)) > 0 // documents were read one by one
		for _, query := range route.Queries() {
			for _, total := range query.Totals {
				if total.Name == name && !exact {
					return query.At(v.now).Magnitude(total, v.shards[n]), ctx.Err()
				}
			}
		}
	}
	return 0, ctx.Err()
}

func (v *snapshot) Malformed(ctx context.Context, most int) ([]string, error) {
	_, malformed := v.sum()
	slices.Sort(malformed)
	return malformed[:min(len(malformed), most)], ctx.Err()
}

func (v *snapshot) Claim(ctx context.Context) (rollup.Claim, error) { return v.claim, ctx.Err() }

// sum returns the totals, and what MalformedShard says of each malformed value.
func (v *snapshot) sum() (route.Totals, []string) {
	var parts []route.Totals
	var malformed []string
	for i, r := range v.counter.Template.Routes {
		part := r.Total(v.shards[i], v.now)
		parts = append(parts, part.Totals)
		malformed = append(malformed, part.Malformed...)
	}
	return route.JoinTotals(parts), malformed
}

// Write implements rollup.Store.
func (s *Store) Write(ctx context.Context, c route.Counter, r rollup.RollUp) error {
	if err := ctx.Err(); err != nil {
		return err
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.get(c.RollUp)
	if !d.updateTime.Equal(r.UpdateTime) {
		return rollup.ErrConflict
	}
	s.write(c, d, r)
	return nil
}

// WriteLocked implements rollup.Store.
func (s *Store) WriteLocked(ctx context.Context, c route.Counter, r rollup.RollUp, seen document.Tally) error {
	if err := ctx.Err(); err != nil {
		return err
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.get(c.RollUp)
	held := s.rollUp(c)
	r, ok := r.WrittenOver(held)
	if !held.Exists() || !held.Tally.Equal(seen) || !ok {
		return rollup.ErrConflict
	}
	s.write(c, d, r)
	return nil
}

// write writes a roll-up over what its document holds.
func (s *Store) write(c route.Counter, d stored, r rollup.RollUp) {
	fields := d.clone()
	for _, name := range r.Gone {
		delete(fields, name)
	}
	for name, v := range r.Values {
		fields[name] = v.Firestore()
	}
	for name, id := range r.Labels {
		fields[name] = id
	}
	fields[document.TallyField] = r.Tally.Encode()
	s.put(c.RollUp, fields)
}

// Claim implements rollup.Store.
func (s *Store) Claim(ctx context.Context, c route.Counter, claim rollup.Claim) error {
	if err := ctx.Err(); err != nil {
		return err
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	path := document.ClaimPath(c.RollUp)
	if !s.get(path).updateTime.Equal(claim.UpdateTime) {
		return rollup.ErrConflict
	}
	s.put(path, claim.Encode(c.RollUp))
	return nil
}

// RollUps implements rollup.AuditStore. A place is the path of the last document that was looked
// at. As on Firestore, that may be one of another collection of the same name.
func (s *Store) RollUps(ctx context.Context, template *route.Template, from string, limit int) (rollup.Page, error) {
	all := func(string) time.Time { return time.Time{} }
	return s.Recent(ctx, template, all, from, limit)
}

// Recent implements rollup.AuditStore. The first document of a collection of days that is left out
// is read, and no further one.
func (s *Store) Recent(ctx context.Context, template *route.Template, since func(string) time.Time, from string, limit int) (rollup.Page, error) {
	s.mu.Lock()
	defer s.mu.Unlock()

	segments := template.Segments()
	name := segments.CollectionID()
	var p rollup.Page
	owners := make(map[string]bool)
	passed := "" // the collection of which a document was left out last
	for _, path := range s.documents[after(s.documents, from):] {
		collection, _ := split(path)
		if collection[strings.LastIndexByte(collection, '/')+1:] != name {
			continue
		}
		if p.Reads == int64(limit) { // at least one more follows
			break
		}

		c, ok := template.Counter(path)
		days, id, isTimed := template.CutTime(path)
		var first time.Time
		if ok && isTimed {
			first = since(days)
		}
		isEarlier := !first.IsZero() && id < template.TimeID(first)
		if isEarlier && !s.ownerless(c) {
			if days != passed {
				p.Reads++
			}
			passed, p.Next = days, path
			continue
		}

		p.Reads++
		p.Next = path
		if ok {
			p.Found = append(p.Found, rollup.FoundCounter{Counter: c, RollUp: s.rollUp(c), Ownerless: s.ownerless(c), Next: path})
			owners[c.Owner()] = true
		}
	}
	delete(owners, "")
	if p.Reads < int64(limit) {
		p.Next = ""
	}
	if template.FoundByHomes() {
		p.Found = slices.DeleteFunc(p.Found, func(f rollup.FoundCounter) bool { return s.bare(f, &p) })
	}

	s.look()
	p.ReadTime, p.Reads = s.last, max(1, p.Reads+int64(len(owners)))
	return p, ctx.Err()
}

// bare reports whether a document of a page has neither a tally nor shards, nor totals that no
// roll-up wrote. It counts the reads for that, and the documents that hold a foreign kind.
func (s *Store) bare(f rollup.FoundCounter, p *rollup.Page) bool {
	if !f.RollUp.Tally.AsOf.IsZero() || len(f.RollUp.Unwritten()) > 0 {
		return false
	}
	has := slices.ContainsFunc(f.Template.Routes, func(r *route.Route) bool {
		p.Reads++
		return s.has(r, f.Counter)
	})
	if !has {
		p.LeaveOut(f)
	}
	return !has
}

// Missing implements rollup.AuditStore. A place is the path of the roll-up of the last counter that
// was looked at.
func (s *Store) Missing(ctx context.Context, r *route.Route, since time.Time, from string, limit int) (rollup.Page, error) {
	s.mu.Lock()
	defer s.mu.Unlock()

	routes := r.Template.Routes
	earlier := routes[:slices.Index(routes, r)]
	counters := s.countersOf(r)
	counters = counters[after(counters, from):]

	p := rollup.Page{Reads: 1}
	for _, path := range counters[:min(limit, len(counters))] {
		c, _ := r.Template.Counter(path)
		if !s.has(r, c) || !since.IsZero() && r.Time() != "" && s.endedBefore(r, c, since) {
			continue
		}

		p.Reads += 2
		r := s.rollUp(c)
		others := slices.ContainsFunc(earlier, func(r *route.Route) bool { return s.has(r, c) })
		if r.Tally.AsOf.IsZero() && !others {
			p.Found = append(p.Found, rollup.FoundCounter{Counter: c, RollUp: r, Next: path})
		}
	}
	if len(counters) > limit {
		p.Next = counters[limit-1]
	}

	s.look()
	p.ReadTime = s.last
	return p, ctx.Err()
}

// after returns the index of the first of the sorted paths that comes after a path.
func after(paths []string, path string) int {
	i, found := slices.BinarySearch(paths, path)
	if found {
		i++
	}
	return i
}

// countersOf returns the paths of the roll-ups of a route's counters, sorted. The first call for a
// route looks at all documents. After that, put notes the new ones.
func (s *Store) countersOf(r *route.Route) []string {
	counters, known := s.counters[r]
	if known {
		return counters
	}

	if s.counters == nil {
		s.counters = make(map[*route.Route][]string)
	}
	s.counters[r] = nil
	for _, path := range s.documents {
		s.note(r, path)
	}
	return s.counters[r]
}

// endedBefore reports whether the day, week or month of a counter had ended at an instant.
func (s *Store) endedBefore(r *route.Route, c route.Counter, instant time.Time) bool {
	for _, d := range s.documentsOf(r, c) {
		at, _ := r.Time().In(d.fields)
		_, end, _ := r.Period(at.(time.Time))
		return !end.After(instant)
	}
	return false
}

// has reports whether the counter has documents by the route.
func (s *Store) has(r *route.Route, c route.Counter) bool {
	for range s.documentsOf(r, c) {
		return true
	}
	return false
}

// note adds the counter of the document at path to the counters that Missing knows.
func (s *Store) note(route *route.Route, path string) {
	fields := s.get(path).fields
	c, ok := route.Belongs(path, func(f document.Field) any { held, _ := f.In(fields); return held })
	if ok {
		s.counters[route] = insert(s.counters[route], c.RollUp)
	}
}

// insert returns the sorted paths with one more, unless they have it.
func insert(paths []string, path string) []string {
	i, is := slices.BinarySearch(paths, path)
	if is {
		return paths
	}
	return slices.Insert(paths, i, path)
}

// Remove implements rollup.AuditStore.
func (s *Store) Remove(ctx context.Context, c route.Counter, r rollup.RollUp) error {
	if err := ctx.Err(); err != nil {
		return err
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.get(c.RollUp)
	if d.updateTime.IsZero() || !d.updateTime.Equal(r.UpdateTime) {
		return rollup.ErrConflict
	}

	fields := d.clone()
	for _, field := range slices.Concat(c.Template.Totals(), r.Tally.Former, []string{document.TallyField}) {
		delete(fields, field)
	}
	for name, id := range c.Labels() {
		if fields[name] == id {
			delete(fields, name)
		}
	}
	for name, v := range r.Tally.Before {
		fields[name] = v.Firestore()
	}
	if len(fields) > 0 || c.Template.Existing {
		s.put(c.RollUp, fields)
	} else {
		s.remove(c.RollUp)
	}
	return nil
}

// Fields returns all fields of the document at path, even fields that were not asked for, and when
// the document was created. It returns nil if there is no document.
func (s *Store) Fields(ctx context.Context, path string, _ []document.Field) (map[string]any, time.Time, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.get(path)
	return maps.Clone(d.fields), d.createTime, ctx.Err()
}

// Look implements growth.Store.
func (s *Store) Look(ctx context.Context, counter string, shards []string) (growth.Look, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.look()

	own := s.get(counter)
	look := growth.Look{UpdateTime: own.updateTime}
	if !own.updateTime.IsZero() {
		look.Counter = own.clone()
	}
	for _, path := range shards {
		age := growth.Never
		written := s.get(path).updateTime
		if !written.IsZero() {
			age = s.last.Sub(written)
		}
		look.Ages = append(look.Ages, age)
	}
	return look, ctx.Err()
}

// Raise implements growth.Store.
func (s *Store) Raise(ctx context.Context, r growth.Raise) error {
	if err := ctx.Err(); err != nil {
		return err
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	own := s.get(r.Counter)
	if own.updateTime.IsZero() || !own.updateTime.Equal(r.UpdateTime) {
		return rollup.ErrConflict
	}

	fields := own.clone()
	maps.Copy(fields, r.Fields)
	s.put(r.Counter, fields)
	for _, shard := range r.Shards {
		fields := s.get(shard.Path).clone()
		for _, field := range shard.Fields {
			_, isNumber := value.Number(fields[field])
			if !isNumber {
				fields[field] = int64(0)
			}
		}
		s.put(shard.Path, fields)
	}
	return nil
}

// LoadCursor implements rollup.AuditStore.
func (s *Store) LoadCursor(ctx context.Context, of rollup.Work) (rollup.Cursor, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.look()
	c := s.cursors[of]
	c.Places, c.Changed, c.Quiet = slices.Clone(c.Places), slices.Clone(c.Changed), slices.Clone(c.Quiet)
	c.ReadTime = s.last
	return c, ctx.Err()
}

// SaveCursor implements rollup.AuditStore.
func (s *Store) SaveCursor(ctx context.Context, of rollup.Work, c rollup.Cursor) (time.Time, error) {
	if err := ctx.Err(); err != nil {
		return time.Time{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.cursors[of].UpdateTime.Equal(c.UpdateTime) {
		return time.Time{}, rollup.ErrConflict
	}

	if s.cursors == nil {
		s.cursors = make(map[rollup.Work]rollup.Cursor)
	}
	c.UpdateTime = s.commit()
	s.cursors[of] = c
	return c.UpdateTime, nil
}

// LoadNote implements rollup.Store.
func (s *Store) LoadNote(ctx context.Context, id string) (rollup.Note, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.notes[id]
	n.ID, n.Counters = id, maps.Clone(n.Counters)
	return n, ctx.Err()
}

// SaveNote implements rollup.Store.
func (s *Store) SaveNote(ctx context.Context, n rollup.Note) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.notes[n.ID].UpdateTime.Equal(n.UpdateTime) {
		return rollup.ErrConflict
	}

	if s.notes == nil {
		s.notes = make(map[string]rollup.Note)
	}
	n.Counters, n.UpdateTime = maps.Clone(n.Counters), s.commit()
	s.notes[n.ID] = n
	return nil
}

// DeleteNote implements rollup.Store.
func (s *Store) DeleteNote(ctx context.Context, n rollup.Note) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if n.UpdateTime.IsZero() || !s.notes[n.ID].UpdateTime.Equal(n.UpdateTime) {
		return rollup.ErrConflict
	}
	delete(s.notes, n.ID)
	return nil
}

// Notes implements rollup.AuditStore.
func (s *Store) Notes(ctx context.Context, after string, limit int) ([]rollup.Note, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var notes []rollup.Note
	for _, id := range slices.Sorted(maps.Keys(s.notes)) {
		if id > after && len(notes) < limit {
			n := s.notes[id]
			n.Counters = maps.Clone(n.Counters)
			notes = append(notes, n)
		}
	}
	return notes, ctx.Err()
}

// Now returns the time by the database's clock.
func (s *Store) Now() time.Time { return time.Now().Add(s.Skew + time.Duration(s.suspended.Load())) }

// Suspended has the database's clock go on while all that of time.Now stood still, as that of a
// machine that was suspended.
func (s *Store) Suspended(d time.Duration) { s.suspended.Add(int64(d)) }

// Put sets the document at path to the fields and returns its commit time.
func (s *Store) Put(path string, fields map[string]any) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.put(path, maps.Clone(fields))
}

// Increment adds n to a field of the document at path, and returns the commit time. If the document
// or the field is missing, it creates it.
func (s *Store) Increment(path, field string, n int64) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	fields := s.get(path).clone()
	old, _ := fields[field].(int64)
	fields[field] = old + n
	return s.put(path, fields)
}

// Delete deletes the document at path, if there is one, and returns the commit time.
func (s *Store) Delete(path string) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.remove(path)
}

// Get returns the fields of the document at path. It returns nil if there is no document.
func (s *Store) Get(path string) map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.get(path).fields)
}

// get returns the document at path; the zero value if there is none.
func (s *Store) get(path string) stored {
	collection, id := split(path)
	return s.collections[collection][id]
}

// put sets the document at path, and returns its commit time.
func (s *Store) put(path string, fields map[string]any) time.Time {
	collection, id := split(path)
	if s.collections == nil {
		s.collections = make(map[string]map[string]stored)
	}
	if s.collections[collection] == nil {
		s.collections[collection] = make(map[string]stored)
	}

	t := s.commit()
	created := s.collections[collection][id].createTime
	if created.IsZero() {
		created = t
	}
	s.collections[collection][id] = stored{fields, created, t}
	s.documents = insert(s.documents, path)
	for route := range s.counters {
		s.note(route, path)
	}
	return t
}

// remove deletes the document at path, if there is one, and returns the commit time.
func (s *Store) remove(path string) time.Time {
	collection, id := split(path)
	delete(s.collections[collection], id)
	if len(s.collections[collection]) == 0 {
		delete(s.collections, collection)
	}

	i, found := slices.BinarySearch(s.documents, path)
	if found {
		s.documents = slices.Delete(s.documents, i, i+1)
	}
	return s.commit()
}

// commit returns the next commit time.
func (s *Store) commit() time.Time {
	t := s.Now().Truncate(time.Microsecond)
	if !t.After(s.last) {
		t = s.last.Add(time.Microsecond)
	}
	s.last = t
	return t
}

// split returns the path of a document's collection, and its id.
func split(path string) (collection, id string) {
	i := strings.LastIndexByte(path, '/')
	return path[:i], path[i+1:]
}
