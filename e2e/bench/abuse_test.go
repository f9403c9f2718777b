package bench

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/firestore-tally/tally/internal/cloud/app"
	"github.com/firestore-tally/tally/internal/cloud/billing"
	"github.com/firestore-tally/tally/internal/test/emulatortest"
	"github.com/firestore-tally/tally/internal/tool/local/emulator"
	"github.com/firestore-tally/tally/internal/tool/local/eventrelay"
	"github.com/firestore-tally/tally/rollup/route"
	"github.com/googleapis/google-cloudevents-go/cloud/firestoredata"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// An abuse is a request that one anonymous account sends again and again under firestore.rules: the
// most that one request can do of its kind.
type abuse struct {
	name string
	send func(a *attacker, n int) error

	// What a request costs. Rules read each document once, by the price list; all else is counted.
	rules, reads, writes int64
	refused              bool
}

var abuses = []abuse{
	{name: "shards", writes: 10, rules: 1, send: func(a *attacker, _ int) error {
		return a.increment(1, "open")
	}},
	{name: "counters", writes: 200, rules: 20, send: func(a *attacker, n int) error {
		var counters []string
		for i := range 20 {
			counters = append(counters, fmt.Sprintf("junk-%d-%d", n, i))
		}
		return a.increment(1, counters...)
	}},
	{name: "likes", writes: 500, send: func(a *attacker, n int) error {
		var likes []*firestorepb.Write
		for i := range 500 {
			like := a.write(fmt.Sprintf("posts/none-%d-%d/likes/%s", n, i, attackerID), nil)
			like.UpdateTransforms = []*firestorepb.DocumentTransform_FieldTransform{{
				FieldPath: "at", TransformType: &firestorepb.DocumentTransform_FieldTransform_SetToServerValue{SetToServerValue: firestorepb.DocumentTransform_FieldTransform_REQUEST_TIME},
			}}
			likes = append(likes, like)
		}
		return a.commit(likes...)
	}},
	{name: "comments", writes: 500, send: func(a *attacker, n int) error {
		var comments []*firestorepb.Write
		for i := range 500 {
			fields := map[string]*firestorepb.Value{"by": text(attackerID), "text": text("x")}
			comments = append(comments, a.write(fmt.Sprintf("posts/p/comments/%d-%d", n, i), fields))
		}
		return a.commit(comments...)
	}},
	{name: "refused", rules: 20, refused: true, send: func(a *attacker, _ int) error {
		var counters []string
		for i := range 20 {
			counters = append(counters, fmt.Sprint("none-", i))
		}
		return a.increment(2, counters...)
	}},
	{name: "list", reads: 20, send: func(a *attacker, _ int) error {
		return a.query("", "counters", 20)
	}},
	{name: "list-of-shards", reads: 10, send: func(a *attacker, _ int) error {
		return a.query("/counters/open", "shards", 0)
	}},
	{name: "listener", reads: 20, send: func(a *attacker, _ int) error {
		return a.listen("counters", 20)
	}},
}

// BenchmarkAbuse is what one anonymous account can cost, for each request, and how many of them one
// program sends to the emulator in a minute. Tally's own reads and writes are those until all
// roll-ups are right. The operations of an audit after that come on top, and are not in the
// dollars.
func BenchmarkAbuse(b *testing.B) {
	rules := abusedRules(b)
	for _, abuse := range abuses {
		b.Run(abuse.name, func(b *testing.B) {
			a := newAttacker(b, rules)
			before := meters[tally].Counts()
			var sent atomic.Int64
			b.SetParallelism(4)
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					err := abuse.send(a, int(sent.Add(1)))
					if refused := status.Code(err) == codes.PermissionDenied; refused != abuse.refused || err != nil && !refused {
						b.Error(err)
					}
				}
			})
			perMinute := float64(b.N) / b.Elapsed().Minutes()
			b.StopTimer()
			if err := a.relay.Wait(b.Context()); err != nil {
				b.Fatal(err)
			}

			n := int64(b.N)
			counted := a.meter.Counts().Add(billing.Counts{Reads: a.listened.Load()})
			if want := (billing.Counts{Reads: n * abuse.reads, Writes: n * abuse.writes}); counted != want {
				b.Errorf("%+v for %d requests, want %+v", counted, n, want)
			}
			rolledUp := meters[tally].Counts()
			rolledUp.Reads -= before.Reads
			rolledUp.Writes -= before.Writes
			events := float64(a.relay.Stats().Events)
			cost := counted.Add(rolledUp).Add(billing.Counts{Reads: n * abuse.rules}).Cost() + events*eventPrice
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(abuse.reads+abuse.rules), "reads/request")
			b.ReportMetric(float64(abuse.writes), "writes/request")
			b.ReportMetric(events/float64(n), "events/request")
			b.ReportMetric(float64(rolledUp.Reads)/float64(n), "tally-reads/request")
			b.ReportMetric(float64(rolledUp.Writes)/float64(n), "tally-writes/request")
			b.ReportMetric(float64(a.audit())/float64(n), "audit-reads/request")
			b.ReportMetric(perMinute, "requests/min")
			b.ReportMetric(perMinute*cost/float64(n), "$/min")
		})
	}
}

// abusedRoutes are the default route and the route of the recipe for posts.
const abusedRoutes = route.Default + `
posts/{post}/likes/{user} -> posts/{post} : count() as likes : existing
posts/{post}/comments/{comment} -> posts/{post} : count() as comments : existing`

// abusedRules returns firestore.rules with the recipe's blocks for likes and comments.
func abusedRules(b *testing.B) string {
	b.Helper()
	rules, err := os.ReadFile("../../firestore.rules")
	if err != nil {
		b.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/recipes.md")
	if err != nil {
		b.Fatal(err)
	}

	blocks := ""
	for _, of := range []string{"match /posts/{post}/comments/{comment} {", "match /posts/{post}/likes/{user} {"} {
		_, block, found := strings.Cut(string(page), "```js\n"+of)
		block, _, ended := strings.Cut(block, "```")
		if !found || !ended {
			b.Fatalf("docs/recipes.md has no block that begins with %s", of)
		}
		blocks += of + block
	}
	const rollUps = "    match /rollups/{counter} {\n"
	return strings.Replace(string(rules), rollUps, blocks+rollUps, 1)
}

// eventPrice is what an event costs in US dollars: a request to Cloud Run, and twice 1,000 bytes of
// Pub/Sub at $40 a tebibyte. docs/performance.md has the prices.
const eventPrice = 0.40/1e6 + 2*1000*40.0/(1<<40)

// attackerID is the id of an anonymous account.
const attackerID = "mallory"

// An attacker is a program with an anonymous account, for a database with the rules of a real one:
// a counter of 10 shards, 100 more that were never used, and a post.
type attacker struct {
	b        *testing.B
	api      firestorepb.FirestoreClient
	project  string
	database string
	meter    *billing.Meter
	relay    *eventrelay.Relay
	listened atomic.Int64 // documents that listeners were sent
	events   atomic.Int64
}

func newAttacker(b *testing.B, rules string) *attacker {
	project := emulatortest.Project(b)
	routes.Store(project, abusedRoutes)
	a := &attacker{b: b, project: project, database: "projects/" + project + "/databases/" + firestore.DefaultDatabaseID, meter: billing.NewMeter(nil)}
	a.fill(emulatortest.ClientDatabase(b, project, firestore.DefaultDatabaseID))
	if err := emulator.SetRules(b.Context(), emulatortest.Addr(b), project, emulator.DefaultDatabase, rules); err != nil {
		b.Fatal(err)
	}
	options := append(a.meter.DialOptions(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	conn, err := grpc.NewClient("passthrough:///"+emulatortest.Addr(b), options...)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = conn.Close() })
	a.api = firestorepb.NewFirestoreClient(conn)
	a.relay = eventrelay.New(eventrelay.Options{Targets: []string{serve() + "/" + tally + "?project=" + project}})
	b.Cleanup(a.relay.Close)
	return a
}

func (a *attacker) fill(client *firestore.Client) {
	writer := client.BulkWriter(a.b.Context())
	set := func(path string, fields map[string]any) {
		if _, err := writer.Set(client.Doc(path), fields); err != nil {
			a.b.Fatal(err)
		}
	}
	set("counters/open", map[string]any{"num_shards": 10})
	for i := range 10 {
		set(fmt.Sprint("counters/open/shards/", i), map[string]any{"count": 0})
	}
	for i := range 100 {
		set(fmt.Sprint("counters/", i), map[string]any{"num_shards": 10})
	}
	set("posts/p", map[string]any{"title": "p"})
	writer.End()
}

// signedIn returns a context of the attacker's requests, with an unsigned token.
func (a *attacker) signedIn() context.Context {
	part := base64.RawURLEncoding.EncodeToString
	claims := fmt.Appendf(nil, `{"sub":%q,"firebase":{"sign_in_provider":"anonymous"}}`, attackerID)
	token := part([]byte(`{"alg":"none"}`)) + "." + part(claims) + "."
	return metadata.AppendToOutgoingContext(a.b.Context(), "authorization", "Bearer "+token, "google-cloud-resource-prefix", a.database)
}

func integer(n int64) *firestorepb.Value {
	return &firestorepb.Value{ValueType: &firestorepb.Value_IntegerValue{IntegerValue: n}}
}

func text(s string) *firestorepb.Value {
	return &firestorepb.Value{ValueType: &firestorepb.Value_StringValue{StringValue: s}}
}

func (a *attacker) write(path string, fields map[string]*firestorepb.Value) *firestorepb.Write {
	document := &firestorepb.Document{Name: a.database + "/documents/" + path, Fields: fields}
	return &firestorepb.Write{Operation: &firestorepb.Write_Update{Update: document}}
}

// increment adds to all 10 shards of the counters, in one commit.
func (a *attacker) increment(amount int64, counters ...string) error {
	var writes []*firestorepb.Write
	for _, counter := range counters {
		for shard := range 10 {
			w := a.write(fmt.Sprintf("counters/%s/shards/%d", counter, shard), nil)
			w.UpdateMask = &firestorepb.DocumentMask{}
			w.UpdateTransforms = []*firestorepb.DocumentTransform_FieldTransform{{
				FieldPath: "count", TransformType: &firestorepb.DocumentTransform_FieldTransform_Increment{Increment: integer(amount)},
			}}
			writes = append(writes, w)
		}
	}
	return a.commit(writes...)
}

// commit has the writes' events delivered, too.
func (a *attacker) commit(writes ...*firestorepb.Write) error {
	answer, err := a.api.Commit(a.signedIn(), &firestorepb.CommitRequest{Database: a.database, Writes: writes})
	if err != nil {
		return err
	}
	for _, w := range writes {
		document := &firestoredata.Document{Name: w.GetUpdate().Name}
		id := fmt.Sprint(a.database, a.events.Add(1))
		e, err := eventrelay.NewEvent(id, answer.CommitTime.AsTime(), document, document)
		if err == nil {
			err = a.relay.Deliver(e)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// audit has Tally audit once, and returns its reads. Without events there is nothing to audit.
func (a *attacker) audit() int64 {
	served, ok := apps.Load(a.project)
	if !ok {
		return 0
	}
	before := meters[tally].Counts().Reads
	answer := httptest.NewRecorder()
	served.(*app.App).OnSchedule(answer, httptest.NewRequestWithContext(a.b.Context(), http.MethodPost, "/", nil))
	if answer.Code != http.StatusOK {
		a.b.Errorf("audit: status %d: %s", answer.Code, answer.Body)
	}
	return meters[tally].Counts().Reads - before
}

func structured(collection string, limit int32) *firestorepb.StructuredQuery {
	q := &firestorepb.StructuredQuery{From: []*firestorepb.StructuredQuery_CollectionSelector{{CollectionId: collection}}}
	if limit > 0 {
		q.Limit = wrapperspb.Int32(limit)
	}
	return q
}

func (a *attacker) query(parent, collection string, limit int32) error {
	stream, err := a.api.RunQuery(a.signedIn(), &firestorepb.RunQueryRequest{
		Parent:    a.database + "/documents" + parent,
		QueryType: &firestorepb.RunQueryRequest_StructuredQuery{StructuredQuery: structured(collection, limit)},
	})
	for err == nil {
		_, err = stream.Recv()
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// listen opens a listener, and closes it once it has shown what is there.
func (a *attacker) listen(collection string, limit int32) error {
	ctx, cancel := context.WithTimeout(a.signedIn(), time.Minute)
	defer cancel()
	stream, err := a.api.Listen(ctx)
	if err != nil {
		return err
	}
	query := &firestorepb.Target_QueryTarget{
		Parent:    a.database + "/documents",
		QueryType: &firestorepb.Target_QueryTarget_StructuredQuery{StructuredQuery: structured(collection, limit)},
	}
	target := &firestorepb.Target{TargetId: 1, TargetType: &firestorepb.Target_Query{Query: query}}
	if err := stream.Send(&firestorepb.ListenRequest{Database: a.database, TargetChange: &firestorepb.ListenRequest_AddTarget{AddTarget: target}}); err != nil {
		return err
	}
	for {
		answer, err := stream.Recv()
		if err != nil {
			return err
		}
		change := answer.GetTargetChange()
		if cause := change.GetCause(); cause != nil {
			return status.FromProto(cause).Err()
		}
		if answer.GetDocumentChange() != nil {
			a.listened.Add(1)
		}
		if change.GetTargetChangeType() == firestorepb.TargetChange_CURRENT {
			return nil
		}
	}
}
