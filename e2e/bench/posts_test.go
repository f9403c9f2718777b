package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/firestore-tally/tally/internal/cloud/alarm"
	"github.com/firestore-tally/tally/internal/cloud/app"
	"github.com/firestore-tally/tally/internal/cloud/billing"
	"github.com/firestore-tally/tally/internal/cloud/config"
	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/test/emulatortest"
	"github.com/firestore-tally/tally/internal/tool/local"
	"github.com/firestore-tally/tally/internal/tool/local/eventrelay"
	"github.com/firestore-tally/tally/internal/tool/local/taskqueue"
	"github.com/googleapis/google-cloudevents-go/cloud/firestoredata"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// Where the likes and comments of posts are counted.
const (
	inPosts = `posts/{post}/likes/{user} -> posts/{post} : count() as likes : existing
posts/{post}/comments/{comment} -> posts/{post} : count() as comments : existing`
	elsewhere = `posts/{post}/likes/{user} -> post_totals/{post} : count() as likes
posts/{post}/comments/{comment} -> post_totals/{post} : count() as comments`
)

// A feed is a database with posts, what is counted of them, and perhaps the function that counts.
type feed struct {
	b       *testing.B
	project string
	clients []*firestore.Client
	relay   *eventrelay.Relay // nil: no function
	before  billing.Counts

	mu      sync.Mutex
	counted map[string][]counted // by the post's id
	rollUps map[string][]rollUp  // accepted, by the id of the document
	refused int                  // roll-ups
}

// A counted is a like or a comment that was created.
type counted struct {
	source    string
	committed time.Time
}

// A rollUp is one that Firestore has accepted.
type rollUp struct{ asOf, answered time.Time }

// newFeed returns a feed of so many posts. Without routes nothing is counted.
func newFeed(b *testing.B, routes string, posts int) *feed { return newServedFeed(b, routes, posts, 1) }

// newServedFeed returns a feed whose events go to so many instances of the function, in turn.
func newServedFeed(b *testing.B, routes string, posts, instances int) *feed {
	return newQueuedFeed(b, routes, posts, instances, nil)
}

// newQueuedFeed returns a feed whose function makes alarms in a queue, unless that is nil.
func newQueuedFeed(b *testing.B, routes string, posts, instances int, queue *taskqueue.Queue) *feed {
	f := &feed{b: b, project: emulatortest.Project(b), counted: make(map[string][]counted), rollUps: make(map[string][]rollUp)}
	for range 8 {
		f.clients = append(f.clients, emulatortest.ClientDatabase(b, f.project, firestore.DefaultDatabaseID))
	}
	if routes != "" {
		environ := func() []string {
			return append(os.Environ(), "TALLY_LOG_LEVEL=ERROR", "GOOGLE_CLOUD_PROJECT="+f.project, "TALLY_ROUTES="+routes)
		}
		if queue != nil {
			environ = queuedBy(b, queue, environ)
		}
		var targets []string
		for n := range instances {
			instance := fmt.Sprint(f.project, "-instance-", n)
			apps.Store(instance, app.New(environ, os.Stderr, append(meters[tally].DialOptions(), grpc.WithChainUnaryInterceptor(f.note))...))
			targets = append(targets, serve()+"/"+tally+"?project="+instance)
		}
		f.relay = eventrelay.New(eventrelay.Options{Targets: targets})
		b.Cleanup(f.relay.Close)
		if queue != nil {
			queue.SetTargets(targets)
		}
	}
	f.fill(0, posts, func(tx *firestore.Transaction, n int) error {
		return tx.Create(f.post(0, n), map[string]any{"title": "x", "edits": 0, "likes": 0, "comments": 0})
	})
	f.before = meters[tally].Counts()
	return f
}

func (f *feed) post(client, n int) *firestore.DocumentRef {
	return f.clients[client%len(f.clients)].Doc(fmt.Sprint("posts/", n))
}

// fill writes documents from one number to another, many at once.
func (f *feed) fill(from, to int, write func(tx *firestore.Transaction, n int) error) {
	f.b.Helper()
	const atOnce = 500
	var all errgroup.Group
	all.SetLimit(2)
	for first := from; first < to; first += atOnce {
		all.Go(func() error {
			return f.clients[first/atOnce%len(f.clients)].RunTransaction(f.b.Context(), func(_ context.Context, tx *firestore.Transaction) error {
				for n := first; n < min(first+atOnce, to); n++ {
					if err := write(tx, n); err != nil {
						return err
					}
				}
				return nil
			})
		})
	}
	if err := all.Wait(); err != nil {
		f.b.Fatal(err)
	}
}

// note notes the roll-ups among the function's writes.
func (f *feed) note(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	err := invoke(ctx, method, req, reply, conn, opts...)
	commit, ok := req.(*firestorepb.CommitRequest)
	if !ok {
		return err
	}
	doc := commit.Writes[0].GetUpdate()
	if strings.Contains(doc.GetName(), "/"+document.ClaimsCollection+"/") {
		return err
	}
	asOf := doc.GetFields()[document.TallyField].GetMapValue().GetFields()["as_of"].GetTimestampValue()
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil {
		f.refused++
		return err
	}
	id := path.Base(doc.GetName())
	f.rollUps[id] = append(f.rollUps[id], rollUp{asOf.AsTime(), time.Now()})
	return nil
}

// add creates a like or a comment of a post, and has the event delivered.
func (f *feed) add(client, post int, source string) {
	ref := f.post(client, post).Collection(source).NewDoc()
	result, err := ref.Create(f.b.Context(), map[string]any{"at": firestore.ServerTimestamp})
	if err != nil {
		f.b.Error(err)
		return
	}
	f.mu.Lock()
	id := fmt.Sprint(post)
	f.counted[id] = append(f.counted[id], counted{source, result.UpdateTime})
	f.mu.Unlock()
	if f.relay == nil {
		return
	}
	e, err := eventrelay.NewEvent(ref.ID, result.UpdateTime, nil, &firestoredata.Document{Name: ref.Path, UpdateTime: timestamppb.New(result.UpdateTime)})
	if err == nil {
		err = f.relay.Deliver(e)
	}
	if err != nil {
		f.b.Error(err)
	}
}

// addAtRate creates likes, and a comment for each three of them, of random posts on schedule.
func (f *feed) addAtRate(posts, perSecond int, during time.Duration) {
	f.addAmong(0, posts, perSecond, during)
}

// addAmong is addAtRate for so many posts from the first one on.
func (f *feed) addAmong(first, posts, perSecond int, during time.Duration) {
	var all sync.WaitGroup
	began := time.Now()
	for n := range int(float64(perSecond) * during.Seconds()) {
		time.Sleep(time.Until(began.Add(time.Duration(n) * time.Second / time.Duration(perSecond))))
		source := "likes"
		if n%4 == 3 {
			source = "comments"
		}
		all.Go(func() { f.add(n, first+rand.IntN(posts), source) })
	}
	all.Wait()
}

// settle waits until every event is acknowledged, but at most 60 s.
func (f *feed) settle() {
	if f.relay == nil {
		return
	}
	ctx, cancel := context.WithTimeout(f.b.Context(), time.Minute)
	defer cancel()
	if err := f.relay.Wait(ctx); err != nil {
		f.b.Errorf("events are not acknowledged: %v", err)
	}
}

// check checks the totals of the posts in a collection. Some had likes before, by their id.
func (f *feed) check(collection string, before map[string]int64) {
	f.b.Helper()
	for id, all := range f.counted {
		want := map[string]int64{"likes": before[id]}
		for _, c := range all {
			want[c.source]++
		}
		doc, err := f.clients[0].Doc(collection + "/" + id).Get(f.b.Context())
		if err != nil {
			f.b.Error(err)
			return
		}
		for _, total := range []string{"likes", "comments"} {
			if got := doc.Data()[total]; got != want[total] {
				f.b.Errorf("%s/%s has %v %s, want %d", collection, id, got, total, want[total])
			}
		}
	}
}

// lags returns, sorted, how long after its commit each like and comment was in a total, of the
// posts with certain ids.
func (f *feed) lags(of func(id string) bool) []time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	var lags []time.Duration
	for id, all := range f.counted {
		if !of(id) {
			continue
		}
		for _, c := range all {
			for _, r := range f.rollUps[id] {
				if !r.asOf.Before(c.committed) {
					lags = append(lags, r.answered.Sub(c.committed))
					break
				}
			}
		}
	}
	slices.Sort(lags)
	return lags
}

func anyPost(string) bool { return true }

// report reports what the function was billed, and the lag.
func (f *feed) report() {
	billed := meters[tally].Counts()
	reads, writes := float64(billed.Reads-f.before.Reads), float64(billed.Writes-f.before.Writes)
	changes, rollUps, lags := 0, 0, f.lags(anyPost)
	for _, all := range f.counted {
		changes += len(all)
	}
	for _, all := range f.rollUps {
		rollUps += len(all)
	}
	f.b.ReportMetric(0, "ns/op")
	f.b.ReportMetric(reads/float64(changes), "reads/change")
	f.b.ReportMetric(writes/float64(changes), "writes/change")
	f.b.ReportMetric(reads/float64(rollUps), "reads/rollup")
	f.b.ReportMetric(writes/float64(rollUps), "writes/rollup")
	f.b.ReportMetric(percentile(lags, 50), "p50-ms")
	f.b.ReportMetric(percentile(lags, 99), "p99-ms")
}

// BenchmarkPosts counts likes and comments in 1,000 posts, at 100 changes a second in all, for a
// minute.
//
//	reads/change, writes/change  billed to the function
//	p50-ms, p99-ms               from a change's commit until Firestore has accepted a total that holds it
func BenchmarkPosts(b *testing.B) {
	const posts, perSecond = 1000, 100
	warmUp(b)
	for range b.N {
		f := newFeed(b, inPosts, posts)
		f.addAtRate(posts, perSecond, time.Minute)
		f.settle()
		f.check("posts", nil)
		f.report()
	}
}

// BenchmarkBigPost adds likes and comments to a post that has many likes, for half a minute.
//
//	reads/rollup, writes/rollup  billed to the function, with the claims of who sums
func BenchmarkBigPost(b *testing.B) {
	for _, test := range []struct{ likes, perSecond, instances int }{
		{1000, 10, 1}, {100_000, 10, 1}, {20_000, 2, 1}, {20_000, 2, 2}, {20_000, 2, 8},
	} {
		b.Run(fmt.Sprintf("likes=%d/rate=%d/instances=%d", test.likes, test.perSecond, test.instances), func(b *testing.B) {
			warmUp(b)
			for range b.N {
				f := newServedFeed(b, inPosts, 1, test.instances)
				f.fill(0, test.likes, func(tx *firestore.Transaction, n int) error {
					return tx.Create(f.post(0, 0).Collection("likes").Doc(fmt.Sprint(n)), map[string]any{"at": firestore.ServerTimestamp})
				})
				f.addAtRate(1, test.perSecond, 30*time.Second)
				f.settle()
				f.check("posts", map[string]int64{"0": int64(test.likes)})
				f.report()
			}
		})
	}
}

// queuedBy adds to an environment what a function needs to make alarms in the queue.
func queuedBy(b *testing.B, queue *taskqueue.Queue, environ func() []string) func() []string {
	api := httptest.NewServer(queue)
	b.Cleanup(api.Close)
	return func() []string {
		all := append(environ(), alarm.EmulatorHost+"="+api.Listener.Addr().String())
		for name, value := range local.QueueVariables("demo-bench") {
			all = append(all, name+"="+value)
		}
		return all
	}
}

// BenchmarkLargeAmongSmall adds ten likes and comments a second to a post that has 20,000 likes,
// and as many to 100 other posts, for half a minute. Four instances serve them, without a queue and
// with one. With 50,000 likes the emulator falls behind on two cores.
//
//	big-p50-ms, big-p99-ms      from a change's commit to a total that Firestore accepted with it
//	small-p50-ms, small-p99-ms  the same of the other posts
//	failed                      events of both that failed, and came again
func BenchmarkLargeAmongSmall(b *testing.B) {
	const likes, small, perSecond, during = 20_000, 100, 10, 30 * time.Second
	for _, queued := range []bool{false, true} {
		b.Run(fmt.Sprint("queue=", queued), func(b *testing.B) {
			warmUp(b)
			for range b.N {
				var queue *taskqueue.Queue
				if queued {
					queue = taskqueue.New(eventrelay.Options{Timeout: config.OnWriteTimeout})
					b.Cleanup(queue.Close)
				}
				f := newQueuedFeed(b, inPosts, 1+small, 4, queue)
				f.fill(0, likes, func(tx *firestore.Transaction, n int) error {
					return tx.Create(f.post(0, 0).Collection("likes").Doc(fmt.Sprint(n)), map[string]any{"at": firestore.ServerTimestamp})
				})

				var all sync.WaitGroup
				all.Go(func() { f.addAtRate(1, perSecond, during) })
				all.Go(func() { f.addAmong(1, small, perSecond, during) })
				all.Wait()
				f.settle()
				if queued {
					ctx, cancel := context.WithTimeout(b.Context(), 2*time.Minute)
					defer cancel()
					if err := queue.Wait(ctx); err != nil {
						b.Errorf("alarms are left: %v", err)
					}
				}

				f.check("posts", map[string]int64{"0": likes})
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(float64(f.relay.Stats().Redelivered), "failed")
				for name, is := range map[string]func(id string) bool{
					"big":   func(id string) bool { return id == "0" },
					"small": func(id string) bool { return id != "0" },
				} {
					lags := f.lags(is)
					b.ReportMetric(percentile(lags, 50), name+"-p50-ms")
					b.ReportMetric(percentile(lags, 99), name+"-p99-ms")
				}
			}
		})
	}
}

// BenchmarkCount counts the documents of a collection by an aggregation query. The emulator takes
// minutes to write the million.
func BenchmarkCount(b *testing.B) {
	f := newFeed(b, "", 1)
	likes := f.post(0, 0).Collection("likes")
	written := 0
	for _, documents := range []int{1000, 10_000, 100_000, 1_000_000} {
		b.Run(fmt.Sprint("documents=", documents), func(b *testing.B) {
			began := time.Now()
			f.b = b
			f.fill(written, documents, func(tx *firestore.Transaction, n int) error {
				return tx.Create(likes.Doc(fmt.Sprint(n)), map[string]any{"at": firestore.ServerTimestamp})
			})
			if documents > written {
				b.Logf("%d documents written in %v", documents-written, time.Since(began).Round(time.Second))
				written = documents
			}
			b.ResetTimer()
			for range b.N {
				answer, err := likes.NewAggregationQuery().WithCount("n").Get(b.Context())
				if err != nil {
					b.Fatal(err)
				}
				if got := answer["n"].(*firestorepb.Value).GetIntegerValue(); got != int64(documents) {
					b.Fatalf("COUNT is %d, want %d", got, documents)
				}
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N), "ms")
		})
	}
}

// BenchmarkShared is what it means to an app that its post holds the totals too. For 30 s there are
// 20 likes and comments a second, and transactions of the app's, one after another, that read the
// post and edit it: 20 a second of a server, which lock the post for 5 ms, or 4 a second of a phone
// that is 100 ms away, which lock nothing and begin again if the post has changed.
//
//	tx/s, attempts/tx, p50-ms, p99-ms  of the app's transactions, from their schedule
//	snapshots/edit                     to the app's listener, for each transaction
//	refused/rollup                     roll-ups that met a transaction
//	lag-p50-ms, lag-p99-ms             of the totals
func BenchmarkShared(b *testing.B) {
	for _, side := range []struct {
		name  string
		edit  func(context.Context, *firestore.Client, *firestore.DocumentRef) (attempts int, err error)
		edits int // a second
	}{{"server", lockingEdit, 20}, {"phone", optimisticEdit, 4}} {
		for _, where := range []struct{ name, routes, collection string }{
			{"none", "", ""}, {"elsewhere", elsewhere, "post_totals"}, {"shared", inPosts, "posts"},
		} {
			b.Run(side.name+"/"+where.name, func(b *testing.B) {
				const during, perSecond = 30 * time.Second, 20
				warmUp(b)
				for range b.N {
					f := newFeed(b, where.routes, 1)
					snapshots := f.listen()
					var editor errgroup.Group
					var attempts int
					var latencies []time.Duration
					began := time.Now()
					editor.Go(func() error {
						for n := range int(during.Seconds()) * side.edits {
							due := began.Add(time.Duration(n) * time.Second / time.Duration(side.edits))
							time.Sleep(time.Until(due))
							tries, err := side.edit(b.Context(), f.clients[0], f.post(0, 0))
							if err != nil {
								return err
							}
							attempts += tries
							latencies = append(latencies, time.Since(due))
						}
						return nil
					})
					f.addAtRate(1, perSecond, during)
					if err := editor.Wait(); err != nil {
						b.Fatal(err)
					}
					took := time.Since(began)
					f.settle()
					edits := float64(len(latencies))
					if where.routes != "" {
						f.check(where.collection, nil)
						b.ReportMetric(float64(f.refused)/float64(len(f.rollUps["0"])), "refused/rollup")
						lags := f.lags(anyPost)
						b.ReportMetric(percentile(lags, 50), "lag-p50-ms")
						b.ReportMetric(percentile(lags, 99), "lag-p99-ms")
					}
					slices.Sort(latencies)
					b.ReportMetric(0, "ns/op")
					b.ReportMetric(edits/took.Seconds(), "tx/s")
					b.ReportMetric(float64(attempts)/edits, "attempts/tx")
					b.ReportMetric(percentile(latencies, 50), "p50-ms")
					b.ReportMetric(percentile(latencies, 99), "p99-ms")
					b.ReportMetric(float64(snapshots())/edits, "snapshots/edit")
				}
			})
		}
	}
}

// lockingEdit edits a document in a transaction that locks it, as servers' SDKs do.
func lockingEdit(ctx context.Context, client *firestore.Client, doc *firestore.DocumentRef) (attempts int, err error) {
	err = client.RunTransaction(ctx, func(_ context.Context, tx *firestore.Transaction) error {
		attempts++
		d, err := tx.Get(doc)
		if err != nil {
			return err
		}
		time.Sleep(5 * time.Millisecond)
		edits, _ := d.Data()["edits"].(int64)
		return tx.Update(doc, []firestore.Update{{Path: "edits", Value: edits + 1}})
	}, firestore.MaxAttempts(100))
	return attempts, err
}

// optimisticEdit edits a document if it is still as it was read, as transactions of phones and
// browsers do. It tries again at once; their SDKs pause, and give up after five attempts.
func optimisticEdit(ctx context.Context, _ *firestore.Client, doc *firestore.DocumentRef) (attempts int, err error) {
	for {
		attempts++
		d, err := doc.Get(ctx)
		if err != nil {
			return attempts, err
		}
		time.Sleep(100 * time.Millisecond)
		edits, _ := d.Data()["edits"].(int64)
		_, err = doc.Update(ctx, []firestore.Update{{Path: "edits", Value: edits + 1}}, firestore.LastUpdateTime(d.UpdateTime))
		switch status.Code(err) {
		case codes.FailedPrecondition, codes.Aborted:
		default:
			return attempts, err
		}
	}
}

// listen listens to the post as the app does. It returns a function that ends that and returns how
// many snapshots came.
func (f *feed) listen() func() int {
	ctx, cancel := context.WithCancel(f.b.Context())
	var listener sync.WaitGroup
	listening := make(chan struct{})
	n := 0
	listener.Go(func() {
		snapshots := f.post(0, 0).Snapshots(ctx)
		defer snapshots.Stop()
		for ; ; n++ {
			_, err := snapshots.Next()
			if n == 0 {
				close(listening)
			}
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				f.b.Error(err)
				return
			}
		}
	})
	<-listening
	return func() int {
		cancel()
		listener.Wait()
		return n - 1 // the first is of no change
	}
}
