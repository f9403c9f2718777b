//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/cloud/firestorestore"
	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/test/emulatortest"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
	"github.com/google/go-cmp/cmp"
)

// A console runs commands on a project of its own.
type console struct {
	t       testing.TB
	project string
	client  *firestore.Client
}

func newConsole(t testing.TB) *console {
	t.Helper()
	project := emulatortest.Project(t) // starts the emulator, and names it in the environment
	return &console{t, project, emulatortest.ClientDatabase(t, project, firestore.DefaultDatabaseID)}
}

func (c *console) run(args ...string) (status int, stdout, stderr string) {
	var out, errors bytes.Buffer
	status = run(c.t.Context(), append(args, "--project", c.project), &out, &errors)
	return status, out.String(), errors.String()
}

// set writes a document.
func (c *console) set(path string, fields map[string]any) {
	c.t.Helper()
	if _, err := c.client.Doc(path).Set(c.t.Context(), fields, firestore.MergeAll); err != nil {
		c.t.Fatal(err)
	}
}

// rollUp has the engine roll up the counter of a shard, by someRoutes.
func (c *console) rollUp(shard string) {
	c.t.Helper()
	c.rollUpBy(someRoutes, shard)
}

// rollUpBy has the engine roll up the counter of a shard.
func (c *console) rollUpBy(routes, shard string) {
	c.t.Helper()
	logger := slog.New(slog.DiscardHandler)
	store, err := firestorestore.Open(c.t.Context(), emulatortest.Addr(c.t), c.project, firestore.DefaultDatabaseID, logger)
	if err != nil {
		c.t.Fatal(err)
	}
	defer store.Close()
	coalescer := rollup.NewCoalescer(store, rollup.Options{Cadence: time.Millisecond, Timeout: time.Minute, Logger: logger})
	if _, err := coalescer.HandleEvent(c.t.Context(), rollup.Event{ID: "event"}, route.Concern{Counter: c.counter(routes, shard)}); err != nil {
		c.t.Fatal(err)
	}
}

// oldRollUp writes the roll-up of a shard's counter as it was rolled up hours ago.
func (c *console) oldRollUp(shard string, total, numShards int64) {
	c.t.Helper()
	at := time.Now().Add(-3 * time.Hour)
	counter := c.counter(someRoutes, shard)
	tally := document.Tally{AsOf: at, NumShards: numShards, PacedUntil: at, Routes: counter.Template.Hash(), Totals: []string{"count"}}
	c.set(counter.RollUp, map[string]any{"count": total, document.TallyField: tally.Encode()})
}

// someRoutes are routes of every kind, each template under a root of its own.
const someRoutes = `counters/{counter}/shards/{shard} -> rollups/{counter} : count
posts/{post}/counters/{name}/shards/{shard} -> posts/{post}/rollups/{name} : count
posts/{post}/likes/{user} -> posts/{post} : count() as likes : existing
posts/{post}/views/{shard} -> posts/{post} : n as views, unique : existing
shops/{shop}/ratings/{user} -> shop_totals/{shop} : count() as ratings, stars
pages/{page}/_counter_shards_/{shard} -> page_totals/{page} : visits
shards/{shard} -> site/totals : Cnt`

// counter returns the counter of a shard.
func (c *console) counter(routes, shard string) route.Counter {
	c.t.Helper()
	source, ok := c.routes(routes).Source(shard)
	if !ok {
		c.t.Fatalf("no route for %s", shard)
	}
	counter, _ := source.Routes()[0].Belongs(shard, nil)
	return counter
}

// routes parses routes.
func (c *console) routes(text string) route.Routes {
	c.t.Helper()
	routes, err := route.Parse(text)
	if err != nil {
		c.t.Fatal(err)
	}
	return routes
}

// times are what differs from run to run.
var times = regexp.MustCompile(`\d{4}-\d\d-\d\dT[0-9:.]+Z|[0-9.]+m?s old|"age_ms":[0-9.]+`)

// A step is a command and what it prints.
type step struct {
	args   string // after " | " a path in the JSON, all that is compared
	want   string // standard output, with T for times
	errors string // a part of standard error
	status int
	before func()
}

func (c *console) tell(steps []step) {
	c.t.Helper()
	for _, s := range steps {
		if s.before != nil {
			s.before()
		}
		args, path, part := strings.Cut(s.args, " | ")
		words := append(strings.Fields(args), "--project", c.project)
		var out, errors bytes.Buffer
		status := run(c.t.Context(), words, &out, &errors)
		got := times.ReplaceAllString(out.String(), "T")
		if part {
			got = at(c.t, out.Bytes(), path)
		}
		if diff := cmp.Diff(s.want, got); status != s.status || diff != "" || !strings.Contains(errors.String(), s.errors) {
			c.t.Errorf("tally %s: status %d, want %d; %s(-want +got):\n%s", s.args, status, s.status, &errors, diff)
		}
	}
}

// at returns what is at a path such as ".rollup.totals" of a JSON object, as JSON; "null" if
// nothing is.
func at(t testing.TB, printed []byte, path string) string {
	t.Helper()
	var v any
	if err := json.Unmarshal(printed, &v); err != nil {
		t.Fatal(err)
	}
	for _, key := range strings.Split(path, ".")[1:] {
		object, _ := v.(map[string]any)
		v = object[key]
	}
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
