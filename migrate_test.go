package tally

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/GoogleCloudPlatform/functions-framework-go/functions"
	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/emulator"
	"github.com/firestore-tally/tally/internal/emulator/emulatortest"
	"github.com/firestore-tally/tally/internal/eventrelay"
	"github.com/firestore-tally/tally/internal/firestorestore"
	"github.com/firestore-tally/tally/internal/migration"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/shards"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// docs/migrate.md, step by step, while clients go on writing.

const migrated, migratedInPlace, migratedToCount = "Migrated", "MigratedInPlace", "MigratedToCount"

// migratedRoutes are those of docs/migrate.md.
var migratedRoutes = []string{
	"pages/{page}/_counter_shards_/{shard} -> page_totals/{page} : visits, likes",
	"sites/{site}/pages/{page}/_counter_shards_/{shard} -> sites/{site}/page_totals/{page} : visits, likes",
	"posts/{post}/shards/{shard} -> post_totals/{post} : likes",
	"counters/{counter}/shards/{shard} -> rollups/{counter} : count",
}

// inPlaceRoute is the one of docs/migrate.md that makes the pages their own roll-ups.
const inPlaceRoute = "pages/{page}/_counter_shards_/{shard} -> pages/{page} : visits, likes : existing"

// toCountRoute is the one that counts what a trigger counted.
const toCountRoute = "posts/{post}/likes/{user} -> posts/{post} : count() as likes : existing"

func registerMigrated() {
	functions.HTTP(migratedToCount, newProcesses("TALLY_ROUTES="+toCountRoute, "TALLY_CADENCE=200ms").OnWrite)
	functions.HTTP(migratedInPlace, newProcesses("TALLY_ROUTES="+inPlaceRoute, "TALLY_CADENCE=200ms").OnWrite)
	functions.HTTP(migrated, newProcesses("TALLY_ROUTES="+strings.Join(migratedRoutes, ";"), "TALLY_CADENCE=200ms").OnWrite)
}

func newMigration(t *testing.T) *world {
	t.Helper()
	var patterns []string
	for _, route := range migratedRoutes {
		pattern, _, _ := strings.Cut(route, " ->")
		patterns = append(patterns, pattern)
	}
	return newWorld(t, emulatortest.Project(t), "(default)", migrated, eventrelay.Faults{}, patterns...)
}

func TestMigratePageRoutes(t *testing.T) {
	text := page(t, "docs/migrate.md")
	for _, route := range append(slices.Clone(migratedRoutes), inPlaceRoute, toCountRoute) {
		if !strings.Contains(text, route+"\n") && !strings.Contains(text, "`"+route+"`") && !strings.Contains(text, "'"+route+"'") {
			t.Errorf("docs/migrate.md does not name the tested route %s", route)
		}
	}
}

// migrateExtension is tally migrate firestore-counter, without its prompt: it returns what it found before
// and after.
func migrateExtension(ctx context.Context, client *firestore.Client, progress func(done int)) (before, after *migration.Plan, err error) {
	return migrateExtensionBy(ctx, client, strings.Join(migratedRoutes, ";"), progress)
}

func migrateExtensionBy(ctx context.Context, client *firestore.Client, text string, progress func(done int)) (before, after *migration.Plan, err error) {
	routes, err := rollup.ParseRoutes(text)
	if err != nil {
		return nil, nil, err
	}
	if before, err = migration.Scan(ctx, client, routes, nil); err != nil {
		return nil, nil, err
	}
	if err = before.Run(ctx, client, 4, progress); err != nil {
		return before, nil, err
	}
	after, err = migration.Scan(ctx, client, routes, nil)
	return before, after, err
}

// An extension is Firebase's firestore-counter extension at work on one document, pages/p: what its
// transactions read, write and delete, as its code has them
// (https://github.com/firebase/extensions/tree/next/firestore-counter/functions/src).
type extension struct {
	client *firestore.Client
	page   *firestore.DocumentRef
	shards *firestore.CollectionRef
}

func newExtension(client *firestore.Client) *extension {
	page := client.Doc("pages/p")
	return &extension{client, page, page.Collection("_counter_shards_")}
}

// amounts are numbers by field. Nested ones, which the extension adds up too, no route can name.
type amounts map[string]int64

func (a amounts) add(fields map[string]any) {
	for field, v := range fields {
		if n, ok := v.(int64); ok {
			a[field] += n
		}
	}
}

// addPartial adds what a partial sum, a document with a list of updates, stands for.
func (a amounts) addPartial(fields map[string]any) {
	updates, _ := fields["_updates_"].([]any)
	for _, u := range updates {
		a.add(u.(map[string]any)["_data_"].(map[string]any))
	}
}

func (a amounts) negative() amounts {
	n := amounts{}
	for field, v := range a {
		n[field] = -v
	}
	return n
}

// update is one entry of a partial sum; the extension gives it a random id.
func (a amounts) update() map[string]any {
	return map[string]any{"_id_": fmt.Sprint(time.Now().UnixNano()), "_data_": map[string]int64(a)}
}

func isPartial(doc *firestore.DocumentSnapshot) bool { return strings.HasPrefix(doc.Ref.ID, "\t") }

// partial is where a worker adds up the shards whose ids begin with any of the digits.
func (e *extension) partial() *firestore.DocumentRef { return e.shards.Doc("\t\t\t\t0") }

// aggregate is a run of the controller: everything into the document, shards and partial sums gone.
func (e *extension) aggregate(ctx context.Context) error {
	return e.client.RunTransaction(ctx, func(_ context.Context, tx *firestore.Transaction) error {
		sum, docs, err := amounts{}, []*firestore.DocumentSnapshot(nil), error(nil)
		if docs, err = tx.Documents(e.shards.Query).GetAll(); err != nil {
			return err
		}
		for _, doc := range docs {
			if isPartial(doc) {
				sum.addPartial(doc.Data())
			} else {
				sum.add(doc.Data())
			}
		}
		if err := e.addTo(tx, sum); err != nil {
			return err
		}
		for _, doc := range docs {
			if err := tx.Delete(doc.Ref); err != nil {
				return err
			}
		}
		return nil
	})
}

// addTo adds to the document's fields by reading and setting them.
func (e *extension) addTo(tx *firestore.Transaction, sum amounts) error {
	docs, err := tx.GetAll([]*firestore.DocumentRef{e.page})
	if err != nil {
		return err
	}
	fields := map[string]any{}
	for field, n := range sum {
		held, _ := docs[0].Data()[field].(int64)
		fields[field] = held + n
	}
	return tx.Set(e.page, fields, firestore.MergeAll)
}

// toPartial is a round of a worker under load: shards into a partial sum.
func (e *extension) toPartial(ctx context.Context) error {
	return e.client.RunTransaction(ctx, func(_ context.Context, tx *firestore.Transaction) error {
		docs, err := tx.Documents(e.shards.Query).GetAll()
		if err != nil {
			return err
		}
		sum := amounts{}
		for _, doc := range docs {
			if !isPartial(doc) {
				sum.add(doc.Data())
				if err := tx.Delete(doc.Ref); err != nil {
					return err
				}
			}
		}
		return tx.Set(e.partial(), map[string]any{"_updates_": firestore.ArrayUnion(sum.update())}, firestore.MergeAll)
	})
}

// fromPartial is another: a partial sum into the document, and the same amount off it.
func (e *extension) fromPartial(ctx context.Context) error {
	return e.client.RunTransaction(ctx, func(_ context.Context, tx *firestore.Transaction) error {
		docs, err := tx.GetAll([]*firestore.DocumentRef{e.partial()})
		if err != nil {
			return err
		}
		sum := amounts{}
		sum.addPartial(docs[0].Data())
		if err := e.addTo(tx, sum); err != nil {
			return err
		}
		return tx.Set(e.partial(), map[string]any{"_updates_": firestore.ArrayUnion(sum.negative().update())}, firestore.MergeAll)
	})
}

// run has the extension work until done.
func (e *extension) run(t *testing.T, done <-chan struct{}) {
	rounds := []func(context.Context) error{e.aggregate, e.toPartial, e.fromPartial, e.toPartial}
	for i := 0; ; i++ {
		select {
		case <-done:
			return
		default:
		}
		if err := rounds[i%len(rounds)](t.Context()); err != nil && status.Code(err) != codes.Aborted { // it skips a round that fails
			t.Error(err)
			return
		}
	}
}

// clients increment visits by 1 and likes by 2, until they are told so by an answer.
type clients struct {
	t             *testing.T
	sent, counted atomic.Int64
}

func (c *clients) increment(shard *firestore.DocumentRef) {
	c.sent.Add(1)
	fields := map[string]any{"visits": firestore.Increment(1), "likes": firestore.Increment(2)}
	for {
		_, err := shard.Set(c.t.Context(), fields, firestore.MergeAll)
		if status.Code(err) == codes.Aborted { // not applied: a transaction had the shard for too long
			continue
		}
		if err != nil {
			c.t.Error(err)
			return
		}
		c.counted.Add(1)
		return
	}
}

// during calls step while several clients make some increments each: those of the extension in
// shards of their own, with random ids, the others in numbered ones.
func (c *clients) during(collection *firestore.CollectionRef, old, updated int, step func(done <-chan struct{})) {
	c.t.Helper()
	const each = 12
	var all sync.WaitGroup
	for n := range old {
		all.Go(func() {
			for range each {
				c.increment(collection.Doc(randomShard(n)))
			}
		})
	}
	for n := range updated {
		all.Go(func() {
			for i := range each {
				c.increment(collection.Doc(fmt.Sprint((n + i) % 4)))
			}
		})
	}
	done := make(chan struct{})
	go func() {
		all.Wait()
		close(done)
	}()
	step(done)
	<-done
}

// seed is what the extension had counted when the test begins.
const seed = 1000

// observe looks at everything in one snapshot again and again until done: nothing may be lost or
// counted twice at any time, and what readers are shown must neither fall nor be more than the
// truth.
func (c *clients) observe(e *extension, done <-chan struct{}) {
	var shown int64
	for looks := 0; ; looks++ {
		select {
		case <-done:
			if looks == 0 {
				c.t.Error("never looked")
			}
			return
		default:
		}
		least := c.counted.Load()
		var field, rollUp, sum int64
		err := e.client.RunTransaction(c.t.Context(), func(_ context.Context, tx *firestore.Transaction) error {
			docs, err := tx.GetAll([]*firestore.DocumentRef{e.page, e.client.Doc("page_totals/p")})
			if err != nil {
				return err
			}
			field, _ = docs[0].Data()["visits"].(int64)
			rollUp, _ = docs[1].Data()["visits"].(int64)
			shards, err := tx.Documents(e.shards.Query).GetAll()
			if err != nil {
				return err
			}
			notes, err := tx.Documents(e.page.Collection("increment_tokens").Query).GetAll()
			total := amounts{"visits": field}
			for _, doc := range shards {
				total.add(doc.Data())
				total.addPartial(doc.Data())
			}
			for _, note := range notes {
				if n := note.Data(); n["field"] == "visits" && n["document"] != nil {
					total["visits"] -= n["amount"].(int64)
				}
			}
			sum = total["visits"]
			return err
		}, firestore.ReadOnly)
		if err != nil {
			c.t.Error(err)
			return
		}
		if most := c.sent.Load(); sum < seed+least || sum > seed+most {
			c.t.Errorf("the database holds %d increments; %d were counted before it was read, %d sent", sum-seed, least, most)
		}
		now := max(field, rollUp)
		if now < shown || now > sum {
			c.t.Errorf("readers are shown %d after %d, of %d (the document says %d, the roll-up %d)", now, shown, sum, field, rollUp)
		}
		shown = now
	}
}

func TestMigrateExtension(t *testing.T) {
	t.Parallel()
	w := newMigration(t)
	e := newExtension(w.client)
	c := &clients{t: t}
	w.set("pages/p", map[string]any{"visits": seed, "likes": 2 * seed, "title": "a page", "num_shards": 4})
	visits := shards.New(w.client, "pages/p", shards.Collection("pages/p/_counter_shards_"), shards.Field("visits"), shards.RollUpAt("page_totals/p"))

	stop, looking := make(chan struct{}), make(chan struct{})
	go func() {
		c.observe(e, stop)
		close(looking)
	}()

	// Tally beside the extension, which ends with shards in a partial sum.
	c.during(e.shards, 5, 0, func(done <-chan struct{}) { e.run(t, done) })
	c.during(e.shards, 3, 0, func(<-chan struct{}) {
		if err := e.toPartial(t.Context()); err != nil {
			t.Error(err)
		}
	})
	// The extension is gone.
	migrate := func(<-chan struct{}) {
		before, after, err := migrateExtension(t.Context(), w.client, nil)
		if err != nil {
			t.Error(err)
			return
		}
		if c := before.Compare(after); len(c.Differing) > 0 {
			t.Errorf("compared %+v", c)
		}
	}
	for range 2 { // once is enough
		c.during(e.shards, 5, 0, migrate)
	}
	// Apps are updated, one after the other, and then the random shards go for good.
	c.during(e.shards, 3, 3, migrate)
	c.during(e.shards, 0, 5, migrate)
	close(stop)
	<-looking

	commit, err := visits.Increment(t.Context(), 1) // its time is after all others
	if err != nil {
		t.Fatal(err)
	}
	w.last = commit
	total := seed + c.counted.Load()
	w.wantRollUp("page_totals/p", map[string]any{"visits": total + 1, "likes": 2 * total, "num_shards": int64(4)})
	left, err := e.shards.DocumentRefs(t.Context()).GetAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, shard := range left {
		if len(shard.ID) != 1 {
			t.Errorf("shard %q is left", shard.ID)
		}
	}

	// And back: the extension takes over what the shards hold.
	if _, err := e.page.Update(t.Context(), []firestore.Update{{Path: "visits", Value: firestore.Delete}, {Path: "likes", Value: firestore.Delete}}); err != nil {
		t.Fatal(err)
	}
	if err := e.aggregate(t.Context()); err != nil {
		t.Fatal(err)
	}
	doc, err := e.page.Get(t.Context())
	want := map[string]any{"visits": total + 1, "likes": 2 * total, "title": "a page", "num_shards": int64(4)}
	if diff := cmp.Diff(want, doc.Data()); err != nil || diff != "" {
		t.Errorf("the page (%v, -want +got):\n%s", err, diff)
	}
}

// The page stays where readers read. It stands still from the end of the extension until Tally is
// deployed, and counts on from the right total then.
func TestMigrateExtensionInPlace(t *testing.T) {
	t.Parallel()
	project := emulatortest.Project(t)
	w := newWorld(t, project, "(default)", migratedInPlace, eventrelay.Faults{})
	e := newExtension(w.client)
	c := &clients{t: t}
	w.set("pages/p", map[string]any{"visits": seed, "likes": 2 * seed, "title": "a page"})
	migrate := func(<-chan struct{}) {
		before, after, err := migrateExtensionBy(t.Context(), w.client, inPlaceRoute, nil)
		if err != nil {
			t.Error(err)
			return
		}
		if c := before.Compare(after); len(c.Differing) > 0 {
			t.Errorf("compared %+v", c)
		}
	}
	c.during(e.shards, 5, 0, func(done <-chan struct{}) { e.run(t, done) })
	c.during(e.shards, 3, 0, func(<-chan struct{}) {
		if err := e.toPartial(t.Context()); err != nil {
			t.Error(err)
		}
	})
	c.during(e.shards, 5, 0, migrate)

	// Tally is deployed.
	c.during(e.shards, 3, 3, func(<-chan struct{}) {
		trigger := emulator.Trigger{Project: project, Database: "(default)", Name: "t", Pattern: "pages/{page}/_counter_shards_/{shard}"}
		if err := emulator.RegisterTrigger(t.Context(), emulatortest.Addr(), trigger); err != nil {
			t.Error(err)
		}
	})
	visits := shards.New(w.client, "pages/p", shards.Collection("pages/p/_counter_shards_"), shards.Field("visits"), shards.RollUpAt("pages/p"))
	wantPage := func(more int64) {
		t.Helper()
		commit, err := visits.Increment(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		if r, err := waitRollUp(t, visits, commit); err != nil || r.Total.String() != fmt.Sprint(seed+c.counted.Load()+more) {
			t.Errorf("the page says %v (%v), want %d", r.Total, err, seed+c.counted.Load()+more)
		}
	}
	wantPage(1)
	c.during(e.shards, 3, 3, migrate) // folds what old apps have written since
	wantPage(2)
	doc, err := e.page.Get(t.Context())
	if got := doc.Data(); err != nil || got["likes"] != 2*(seed+c.counted.Load()) || got["title"] != "a page" {
		t.Errorf("the page is %v (%v)", got, err)
	}
}

// A run of the extension that ends only after the total was carried over takes everything back into
// the document. Migrating once more mends it.
func TestMigrateExtensionTooEarly(t *testing.T) {
	t.Parallel()
	w := newMigration(t)
	e := newExtension(w.client)
	c := &clients{t: t}
	w.set("pages/p", map[string]any{"visits": seed, "likes": 2 * seed})
	visits := shards.New(w.client, "pages/p", shards.Collection("pages/p/_counter_shards_"), shards.Field("visits"), shards.RollUpAt("page_totals/p"))
	migrate := func(<-chan struct{}) {
		if _, _, err := migrateExtension(t.Context(), w.client, nil); err != nil {
			t.Error(err)
		}
	}
	c.during(e.shards, 3, 0, migrate)
	c.during(e.shards, 3, 0, func(done <-chan struct{}) { e.run(t, done) })
	if err := e.aggregate(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.during(e.shards, 3, 0, migrate)
	if total, err := visits.Get(t.Context()); err != nil || total.String() != fmt.Sprint(seed+c.counted.Load()) {
		t.Errorf("total %v (%v), want %d", total, err, seed+c.counted.Load())
	}
	// The page says too much now. Without its field, what is shown is the roll-up.
	if _, err := e.page.Update(t.Context(), []firestore.Update{{Path: "visits", Value: firestore.Delete}}); err != nil {
		t.Fatal(err)
	}
	commit, err := visits.Increment(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	if r, err := waitRollUp(t, visits, commit); err != nil || r.Total.String() != fmt.Sprint(seed+c.counted.Load()+1) {
		t.Errorf("roll-up %v (%v), want %d", r.Total, err, seed+c.counted.Load()+1)
	}
}

// Many documents of two kinds, in all states that the extension leaves, while clients go on writing.
// The command is stopped in the middle, with commits on their way, and run again.
func TestMigrateManyDocuments(t *testing.T) {
	t.Parallel()
	w := newMigration(t)
	const n = 200
	pages := make([]*migratedPage, n)
	bulk := w.client.BulkWriter(t.Context())
	set := func(doc *firestore.DocumentRef, fields map[string]any) {
		if _, err := bulk.Set(doc, fields); err != nil {
			t.Fatal(err)
		}
	}
	for i := range pages {
		p := &migratedPage{doc: w.client.Doc(fmt.Sprint("pages/", i)), rollUp: fmt.Sprint("page_totals/", i)}
		if i%4 == 3 {
			p.doc, p.rollUp = w.client.Doc(fmt.Sprintf("sites/%d/pages/%d", i%8, i)), fmt.Sprintf("sites/%d/page_totals/%d", i%8, i)
		}
		pages[i] = p
		in := p.doc.Collection("_counter_shards_")
		switch i % 5 {
		case 0: // all is added up
		case 1: // there are shards, and no page yet
			set(in.Doc(randomShard(i)), map[string]any{"visits": 2})
			p.visits.Add(2)
			continue
		case 2: // there is a partial sum
			set(in.Doc("\t\t\t\t0"), map[string]any{"_updates_": []any{amounts{"visits": 30}.update(), amounts{"visits": -10, "likes": 1}.update()}})
			p.visits.Add(20)
			p.likes.Add(1)
		default: // there are shards
			for j := range i % 3 {
				set(in.Doc(randomShard(j)), map[string]any{"visits": j, "likes": 1})
				p.visits.Add(int64(j))
				p.likes.Add(1)
			}
		}
		set(p.doc, map[string]any{"visits": 1000 + i, "title": "a page"})
		p.visits.Add(int64(1000 + i))
	}
	bulk.End()

	dump := func() map[string]time.Time {
		all := map[string]time.Time{}
		for _, group := range []string{"pages", "_counter_shards_", document.TokensCollection} {
			docs, err := w.client.CollectionGroup(group).Documents(t.Context()).GetAll()
			if err != nil {
				t.Fatal(err)
			}
			for _, doc := range docs {
				all[doc.Ref.Path] = doc.UpdateTime
			}
		}
		return all
	}
	routes, err := rollup.ParseRoutes(strings.Join(migratedRoutes, ";"))
	if err != nil {
		t.Fatal(err)
	}
	before := dump()
	if plan, err := migration.Scan(t.Context(), w.client, routes, nil); err != nil || len(plan.ToDo()) != n {
		t.Fatalf("scanned: %v, %v", plan, err)
	}
	if diff := cmp.Diff(before, dump()); diff != "" {
		t.Errorf("a scan changed something (-before +after):\n%s", diff)
	}

	// Clients of the extension and updated ones.
	stop := make(chan struct{})
	var writing sync.WaitGroup
	for worker := range 4 {
		writing.Go(func() {
			for i := worker * 53; ; i += 7 {
				select {
				case <-stop:
					return
				default:
				}
				shard := fmt.Sprint(i % 10)
				if worker%2 == 0 {
					shard = randomShard(worker)
				}
				pages[i%n].increment(t, shard)
			}
		})
	}

	stopped, cancel := context.WithCancel(t.Context())
	if _, _, err := migrateExtension(stopped, w.client, func(done int) {
		if done == n/3 {
			cancel()
		}
	}); !errors.Is(err, context.Canceled) {
		t.Errorf("stopped: %v", err)
	}
	first, after, err := migrateExtension(t.Context(), w.client, nil)
	if err != nil {
		t.Fatal(err)
	}
	if left := len(first.Left()); left == 0 {
		t.Error("nothing was left to do after the stop")
	}
	if c := first.Compare(after); len(c.Differing) > 0 || c.Exact != n || c.Moved == 0 {
		t.Errorf("compared %+v", c)
	}
	close(stop)
	writing.Wait()

	for _, p := range pages {
		path := firestorestore.Path(p.doc)
		counter := shards.New(w.client, path, shards.Collection(path+"/_counter_shards_"), shards.Field("visits"), shards.RollUpAt(p.rollUp))
		commit, err := counter.Increment(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		p.visits.Add(1)
		if r, err := waitRollUp(t, counter, commit); err != nil || r.Total.String() != fmt.Sprint(p.visits.Load()) {
			t.Errorf("%s: visits %v (%v), want %d", p.rollUp, r.Total, err, p.visits.Load())
		}
		doc, err := w.client.Doc(p.rollUp).Get(t.Context())
		if likes, _ := doc.Data()["likes"].(int64); err != nil || likes != p.likes.Load() {
			t.Errorf("%s: likes %v (%v), want %d", p.rollUp, likes, err, p.likes.Load())
		}
	}
}

// A migratedPage is a document of the extension, and what it has counted.
type migratedPage struct {
	doc           *firestore.DocumentRef
	rollUp        string
	visits, likes atomic.Int64
}

// increment increments visits by 1 and likes by 2, until told so by an answer.
func (p *migratedPage) increment(t *testing.T, shard string) {
	c := &clients{t: t}
	c.increment(p.doc.Collection("_counter_shards_").Doc(shard))
	p.visits.Add(c.counted.Load())
	p.likes.Add(2 * c.counted.Load())
}

// randomShard is the id of the shard of a client of the extension.
func randomShard(n int) string { return fmt.Sprintf("%08x-7f3a-4d4e-9c1b-2f6e0a9d5c11", n*0x1234567) }

// A trigger adds 1 to posts/p for each document posts/p/likes/{user}, and then, in its next version,
// to a shard. Some events reach the old version late, and some events come twice.
func TestMigrateTriggerThatIncrements(t *testing.T) {
	t.Parallel()
	w := newMigration(t)
	post := w.client.Doc("posts/p")
	w.set("posts/p", map[string]any{"likes": 0})
	likes := shards.New(w.client, "posts/p", shards.Field("likes"), shards.RollUpAt("post_totals/p"))
	documents := shards.CountOf(post.Collection("likes").Query)

	oldVersion := func(string) error {
		_, err := post.Update(t.Context(), []firestore.Update{{Path: "likes", Value: firestore.Increment(1)}})
		return err
	}
	newVersion := func(event string) error {
		_, _, err := likes.IncrementOnce(t.Context(), event, 1)
		return err
	}
	n := 0
	like := func(many int, version func(event string) error) {
		var all sync.WaitGroup
		for range many {
			n++
			all.Go(func() {
				user := fmt.Sprint("user", n)
				_, err := post.Collection("likes").Doc(user).Create(t.Context(), map[string]any{})
				if err == nil {
					err = version("event-of-" + user)
				}
				if err != nil {
					t.Error(err)
				}
			})
			all.Wait()
		}
	}
	carry := func() {
		if _, err := likes.Carry(t.Context(), post, "likes"); err != nil {
			t.Fatal(err)
		}
	}
	like(20, oldVersion)
	like(10, newVersion)
	carry()
	like(3, oldVersion) // late
	like(10, newVersion)
	carry()
	carry()
	if err := newVersion("event-of-user40"); err != nil { // again
		t.Fatal(err)
	}
	v, err := likes.Verify(t.Context(), documents)
	if err != nil || !v.Equal() || v.Counter.String() != "43" {
		t.Errorf("verified %+v (%v), want 43 likes", v, err)
	}
	commit, err := likes.Increment(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	if r, err := waitRollUp(t, likes, commit); err != nil || r.Total.String() != "44" {
		t.Errorf("roll-up %v (%v), want 44", r.Total, err)
	}
}

// A trigger has counted documents, some twice. Counting them puts the total right.
func TestMigrateTriggerToCount(t *testing.T) {
	t.Parallel()
	w := newWorld(t, emulatortest.Project(t), "(default)", migratedToCount, eventrelay.Faults{}, "posts/{post}/likes/{user}")
	w.set("posts/p", map[string]any{"likes": 9, "title": "a post"})
	for user := range 7 {
		w.set(fmt.Sprint("posts/p/likes/user", user), map[string]any{})
	}
	w.wantRollUp("posts/p", map[string]any{"likes": int64(7), "title": "a post", "num_shards": int64(7)})
}

// waitRollUp returns the first roll-up as of the time or later.
func waitRollUp(t *testing.T, c *shards.Counter, at time.Time) (shards.RollUp, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), eventually)
	defer cancel()
	again := time.NewTicker(askAgain)
	defer again.Stop()
	for ; ; <-again.C {
		r, err := c.RollUp(ctx)
		if err == nil && !r.AsOf.Before(at) || ctx.Err() != nil {
			return r, err
		}
	}
}

// A trigger that sums the shards anew, into a document of its own, works beside Tally: both read the
// same shards, and either can be switched off.
func TestMigrateTriggerThatSums(t *testing.T) {
	t.Parallel()
	w := newMigration(t)
	likes := shards.New(w.client, "counters/likes")
	trigger := func() {
		total, err := likes.Get(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		n, _ := total.Int64()
		w.set("totals/likes", map[string]any{"count": n})
	}
	w.set("counters/likes/shards/0", map[string]any{"count": 41}) // before Tally's first event
	w.set("counters/likes/shards/1", map[string]any{"count": 1})
	trigger()
	w.wantRollUp("rollups/likes", count(int64(42), 2))
	v, err := likes.Verify(t.Context(), shards.FieldOf(w.client.Doc("totals/likes"), "count"))
	if err != nil || !v.Equal() {
		t.Errorf("verified %+v (%v), want equal", v, err)
	}
	w.set("counters/likes/shards/1", map[string]any{"count": 2}) // the trigger missed it
	w.wantRollUp("rollups/likes", count(int64(43), 2))
	v, err = likes.Verify(t.Context(), shards.FieldOf(w.client.Doc("totals/likes"), "count"))
	if err != nil || v.Equal() {
		t.Errorf("verified %+v (%v), want different", v, err)
	}
}

// migrationRules gives a project the rules of docs/migrate.md, as the page has them.
func migrationRules(t *testing.T, project string) {
	t.Helper()
	blocks := regexp.MustCompile("(?ms)^```rules\n(.*?)^```").FindAllStringSubmatch(page(t, "docs/migrate.md"), -1)
	if len(blocks) != 1 {
		t.Fatalf("docs/migrate.md has %d blocks of rules, want 1", len(blocks))
	}
	setRules(t, project, "rules_version = '2';\nservice cloud.firestore {\n  match /databases/{database}/documents {\n"+blocks[0][1]+"  }\n}\n")
}

// incrementBody is what an SDK sends to increment fields of a document, each by a REST value.
func incrementBody(document string, fields ...[2]string) string {
	var transforms []string
	for _, f := range fields {
		transforms = append(transforms, fmt.Sprintf(`{"fieldPath": %q, "increment": {%s}}`, f[0], f[1]))
	}
	return fmt.Sprintf(`{"update": {"name": "%s"}, "updateMask": {}, "updateTransforms": [%s]}`, document, strings.Join(transforms, ","))
}

// The client libraries of the extension write through the rules of docs/migrate.md, before shards
// are folded and after, and so do updated apps.
func TestMigrateClientsOfTheExtension(t *testing.T) {
	t.Parallel()
	client := emulatortest.Client(t)
	project := strings.Split(client.Doc("a/b").Path, "/")[1]
	migrationRules(t, project)
	const collection = "pages/p/_counter_shards_"
	database := "projects/" + project + "/databases/(default)"
	clients := []struct{ library, shard, one string }{
		{"web", "0b9f1c52-7f3a-4d4e-9c1b-2f6e0a9d5c11", `"integerValue": 1`},
		{"Android", "5d4e1c52-7f3a-4d4e-9c1b-2f6e0a9d5c22", `"doubleValue": 1`},
		{"iOS", "E621E1F8-C36C-495A-93FC-0C247A3E6E5F", `"doubleValue": 1`},
	}
	var want int64
	increment := func(who, shard, one string) {
		t.Helper()
		for _, field := range []string{"visits", "likes", "visits"} {
			body := `{"writes": [` + incrementBody(database+"/documents/"+collection+"/"+shard, [2]string{field, one}) + `]}`
			if code, answer := requestAs(t, project, "alice", http.MethodPost, database+"/documents:commit", body); code != http.StatusOK {
				t.Errorf("%s: increment %s of shard %s: status %d\n%s", who, field, shard, code, answer)
			}
		}
		want++
	}
	visits := shards.New(client, "pages/p", shards.Collection(collection), shards.Field("visits"))
	for range 2 {
		for _, c := range clients {
			increment(c.library, c.shard, c.one)
		}
		if err := visits.Renumber(t.Context(), 2); err != nil {
			t.Fatal(err)
		}
		doubles := 0
		for _, shard := range []string{"0", "1"} {
			doc, err := client.Doc(collection + "/" + shard).Get(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, ok := doc.Data()["visits"].(float64); ok {
				doubles++
			}
			increment("updated app", shard, `"integerValue": 1`)
		}
		if doubles == 0 {
			t.Error("no numbered shard became a double, so nothing was shown")
		}
	}
	likes := shards.New(client, "pages/p", shards.Collection(collection), shards.Field("likes"))
	for field, c := range map[string]struct {
		counter *shards.Counter
		want    int64
	}{"visits": {visits, 2 * want}, "likes": {likes, want}} {
		if total, err := c.counter.Get(t.Context()); err != nil || total.Float64() != float64(c.want) {
			t.Errorf("%s: %v (%v), want %d", field, total, err, c.want)
		}
	}
}

// The rules of docs/migrate.md in the emulator's rules engine.
func TestMigratePageRules(t *testing.T) {
	t.Parallel()
	w := &world{t: t, client: emulatortest.Client(t)}
	project := strings.Split(w.client.Doc("a/b").Path, "/")[1]
	migrationRules(t, project)

	const shards = "pages/p/_counter_shards_/"
	const mine, theirs = shards + "0b9f1c52-7f3a-4d4e-9c1b-2f6e0a9d5c11", shards + "5d4e1c52-7f3a-4d4e-9c1b-2f6e0a9d5c22"
	w.set(mine, map[string]any{"visits": 1})
	w.set(shards+"3", map[string]any{"visits": 1})
	w.set(theirs, map[string]any{"visits": 1, "likes": 1})
	w.set(shards+"5", map[string]any{"visits": 1.0, "likes": 1})
	w.set(shards+"6", map[string]any{"visits": 1.0, "likes": float64(1 << 53)})
	w.set(shards+"7", map[string]any{"visits": "1"})
	w.set("pages/p", map[string]any{"visits": 1})
	w.set("page_totals/p", map[string]any{"visits": 1})
	increment := func(path, field, by string) string {
		return incrementBody("%[1]s/"+path, [2]string{field, by})
	}
	set := func(path, fields string) string {
		return fmt.Sprintf(`{"update": {"name": "%%[1]s/%s", "fields": {%s}}}`, path, fields)
	}
	both := func(path, visits, likes string) string {
		return incrementBody("%[1]s/"+path, [2]string{"visits", visits}, [2]string{"likes", likes})
	}
	const one, double = `"integerValue": 1`, `"doubleValue": 1`
	for _, test := range []struct {
		name, write string
		allow       bool
	}{
		{"own shard", increment(mine, "visits", one), true},
		{"a new one", increment(shards+"11111111-7f3a-4d4e-9c1b-2f6e0a9d5c11", "visits", one), true},
		{"a numbered one", increment(shards+"3", "visits", one), true},
		{"a new numbered one", increment(shards+"9", "visits", one), true},
		{"one that holds more", increment(theirs, "visits", one), true},
		{"a number too high", increment(shards+"10", "visits", one), false},
		{"a number written otherwise", increment(shards+"03", "visits", one), false},
		{"a partial sum", increment(shards+`\t\t\t\t0`, "visits", one), false},
		{"any other id", increment(shards+"x", "visits", one), false},
		{"an id too long", increment(mine+"1", "visits", one), false},
		{"by 2", increment(mine, "visits", `"integerValue": 2`), false},
		{"by -1", increment(mine, "visits", `"integerValue": -1`), false},
		{"by a half", increment(mine, "visits", `"doubleValue": 0.5`), false},
		{"by a double", increment(theirs, "visits", double), true},
		{"a new one by a double", increment(shards+"E621E1F8-C36C-495A-93FC-0C247A3E6E5F", "likes", double), true},
		{"a random one by a double of 2", increment(theirs, "visits", `"doubleValue": 2`), false},
		{"a numbered one by a double", increment(shards+"3", "visits", double), false},
		{"a new numbered one by a double", increment(shards+"8", "visits", double), false},
		{"a numbered one that holds a double", increment(shards+"5", "visits", one), true},
		{"a number beside a double", increment(shards+"5", "likes", one), true},
		{"a number to a double", set(shards+"5", `"visits": {"doubleValue": 3}, "likes": {"doubleValue": 2}`), false},
		{"a double that would not change", increment(shards+"6", "likes", one), false},
		{"text", increment(shards+"7", "visits", one), false},
		{"the other field", increment(mine, "likes", one), true},
		{"both", both(mine, one, one), true},
		{"both, one by 2", both(mine, one, `"integerValue": 2`), false},
		{"both, one by 0", both(mine, one, `"integerValue": 0`), true}, // no other than an increment of one
		{"nothing", increment(mine, "visits", `"integerValue": 0`), false},
		{"another field", increment(mine, "title", one), false},
		{"another field too", incrementBody("%[1]s/"+mine, [2]string{"visits", one}, [2]string{"title", one}), false},
		{"without a field", set(theirs, `"visits": {"doubleValue": 4}`), false},
		{"set to 5", set(mine, `"visits": {"integerValue": 5}, "likes": {"integerValue": 2}`), true}, // no other than an increment by 1
		{"set to 100", set(mine, `"visits": {"integerValue": 100}`), false},
		{"create with 2", set(shards+"4", `"visits": {"integerValue": 2}`), false},
		{"create with text", set(shards+"4", `"visits": {"stringValue": "1"}`), false},
		{"create with more", set(shards+"4", `"visits": {"integerValue": 1}, "_updates_": {"arrayValue": {}}`), false},
		{"delete", `{"delete": "%[1]s/` + mine + `"}`, false},
		{"the page", increment("pages/p", "visits", one), false},
		{"the roll-up", increment("page_totals/p", "visits", one), false},
		{"the note of what was carried", set("pages/p/increment_tokens/carried-1", `"amount": {"integerValue": 0}`), false},
	} {
		database := "projects/" + project + "/databases/(default)"
		body := `{"writes": [` + fmt.Sprintf(test.write, database+"/documents") + `]}`
		code, answer := requestAs(t, project, "alice", http.MethodPost, database+"/documents:commit", body)
		if allowed := code == http.StatusOK; allowed != test.allow || !allowed && code != http.StatusForbidden {
			t.Errorf("%s: status %d, want allowed: %v\n%s", test.name, code, test.allow, answer)
		}
		if code, _ := requestAs(t, project, "", http.MethodPost, database+"/documents:commit", body); code != http.StatusForbidden {
			t.Errorf("%s, by nobody: status %d, want forbidden", test.name, code)
		}
	}
	reads := map[string]bool{"page_totals/p": true, mine: true, strings.TrimSuffix(shards, "/"): true, "pages/p": true, "pages/p/increment_tokens/carried-1": false}
	for _, path := range slices.Sorted(maps.Keys(reads)) {
		code, answer := requestAs(t, project, "", http.MethodGet, "projects/"+project+"/databases/(default)/documents/"+path, "")
		if allowed := code == http.StatusOK; allowed != reads[path] {
			t.Errorf("read %s: status %d, want allowed: %v\n%s", path, code, reads[path], answer)
		}
	}
}

// setRules puts rules in force for a project.
func setRules(t *testing.T, project, rules string) {
	t.Helper()
	type file struct {
		Name    string `json:"name"`
		Content string `json:"content"`
	}
	body, err := json.Marshal(map[string]any{"rules": map[string]any{"files": []file{{"firestore.rules", rules}}}})
	if err != nil {
		t.Fatal(err)
	}
	if code, answer := send(t, http.MethodPut, "/emulator/v1/projects/"+project+":securityRules", "", body); code != http.StatusOK {
		t.Fatalf("rules: status %d\n%s", code, answer)
	}
}

// requestAs makes a REST request as the user, or as nobody.
func requestAs(t *testing.T, project, user, method, path, body string) (status int, answer string) {
	t.Helper()
	authorization := ""
	if user != "" {
		claims := fmt.Sprintf(`{"sub": %q, "user_id": %[1]q, "aud": %q, "iss": "https://securetoken.google.com/%[2]s"}`, user, project)
		encode := base64.RawURLEncoding.EncodeToString
		authorization = "Bearer " + encode([]byte(`{"alg": "none"}`)) + "." + encode([]byte(claims)) + "."
	}
	return send(t, method, "/v1/"+path, authorization, []byte(body))
}

func send(t *testing.T, method, path, authorization string, body []byte) (status int, answer string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://"+emulatortest.Addr()+path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if authorization != "" {
		req.Header.Set("Authorization", authorization)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(b)
}
