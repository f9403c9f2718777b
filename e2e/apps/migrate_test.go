package apps

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/GoogleCloudPlatform/functions-framework-go/functions"
	"github.com/firestore-tally/tally/internal/cloud/firestorestore"
	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/test/emulatortest"
	"github.com/firestore-tally/tally/internal/tool/local/emulator"
	"github.com/firestore-tally/tally/internal/tool/local/eventrelay"
	"github.com/firestore-tally/tally/internal/tool/migration"
	"github.com/firestore-tally/tally/rollup/route"
	"github.com/firestore-tally/tally/shards"
	"github.com/google/go-cmp/cmp"
)

// docs/migrate.md, step by step, while clients go on writing.

const migrated, migratedInPlace, migratedToCount = "Migrated", "MigratedInPlace", "MigratedToCount"

// migratedRoutes are the routes of docs/migrate.md.
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

func newMigration(t *testing.T) *database {
	t.Helper()
	var patterns []string
	for _, route := range migratedRoutes {
		pattern, _, _ := strings.Cut(route, " ->")
		patterns = append(patterns, pattern)
	}
	return newDatabase(t, emulatortest.Project(t), "(default)", migrated, eventrelay.Faults{}, patterns...)
}

func TestMigratePageRoutes(t *testing.T) {
	text := page(t, "docs/migrate.md")
	for _, route := range append(slices.Clone(migratedRoutes), inPlaceRoute, toCountRoute) {
		if !strings.Contains(text, route+"\n") && !strings.Contains(text, "`"+route+"`") && !strings.Contains(text, "'"+route+"'") {
			t.Errorf("docs/migrate.md does not name the tested route %s", route)
		}
	}
}

// migrateExtension is tally migrate --from-extension, without its prompt: it returns what it found
// before and after.
func migrateExtension(ctx context.Context, client *firestore.Client, progress func(done int)) (before, after *migration.Plan, err error) {
	return migrateExtensionBy(ctx, client, strings.Join(migratedRoutes, ";"), progress)
}

func migrateExtensionBy(ctx context.Context, client *firestore.Client, text string, progress func(done int)) (before, after *migration.Plan, err error) {
	routes, err := route.Parse(text)
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

func TestMigrateExtension(t *testing.T) {
	t.Parallel()
	w := newMigration(t)
	e := newExtension(w.client)
	c := &writers{t: t}
	w.set("pages/p", map[string]any{"visits": begin, "likes": 2 * begin, "title": "a page", "num_shards": 4})
	visits := shards.New(w.client, "pages/p", shards.Collection("pages/p/_counter_shards_"), shards.Field("visits"), shards.RollUpAt("page_totals/p"))

	stop, looking := make(chan struct{}), make(chan struct{})
	go func() {
		c.observe(e, stop)
		close(looking)
	}()

	// Tally next to the extension, which ends with shards in a partial sum.
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
	total := begin + c.counted.Load()
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
	w := newDatabase(t, project, "(default)", migratedInPlace, eventrelay.Faults{})
	e := newExtension(w.client)
	c := &writers{t: t}
	w.set("pages/p", map[string]any{"visits": begin, "likes": 2 * begin, "title": "a page"})
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
		if err := emulator.RegisterTrigger(t.Context(), emulatortest.Addr(t), trigger); err != nil {
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
		if r, err := waitRollUp(t, visits, commit); err != nil || r.Total.String() != fmt.Sprint(begin+c.counted.Load()+more) {
			t.Errorf("the page says %v (%v), want %d", r.Total, err, begin+c.counted.Load()+more)
		}
	}
	wantPage(1)
	c.during(e.shards, 3, 3, migrate) // folds what old apps have written since
	wantPage(2)
	doc, err := e.page.Get(t.Context())
	if got := doc.Data(); err != nil || got["likes"] != 2*(begin+c.counted.Load()) || got["title"] != "a page" {
		t.Errorf("the page is %v (%v)", got, err)
	}
}

// A run of the extension that ends only after the total was carried over takes everything back into
// the document. Migrating once more fixes it.
func TestMigrateExtensionTooEarly(t *testing.T) {
	t.Parallel()
	w := newMigration(t)
	e := newExtension(w.client)
	c := &writers{t: t}
	w.set("pages/p", map[string]any{"visits": begin, "likes": 2 * begin})
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
	if total, err := visits.Get(t.Context()); err != nil || total.String() != fmt.Sprint(begin+c.counted.Load()) {
		t.Errorf("total %v (%v), want %d", total, err, begin+c.counted.Load())
	}
	// The page says too much now. Without its field, what is shown is the roll-up.
	if _, err := e.page.Update(t.Context(), []firestore.Update{{Path: "visits", Value: firestore.Delete}}); err != nil {
		t.Fatal(err)
	}
	commit, err := visits.Increment(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	if r, err := waitRollUp(t, visits, commit); err != nil || r.Total.String() != fmt.Sprint(begin+c.counted.Load()+1) {
		t.Errorf("roll-up %v (%v), want %d", r.Total, err, begin+c.counted.Load()+1)
	}
}

// Many documents of two kinds, in all states that the extension leaves, while clients go on
// writing. The command is stopped in the middle, with commits on their way, and run again.
func TestMigrateManyDocuments(t *testing.T) {
	t.Parallel()
	w := newMigration(t)
	const n = 80
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
	routes, err := route.Parse(strings.Join(migratedRoutes, ";"))
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
