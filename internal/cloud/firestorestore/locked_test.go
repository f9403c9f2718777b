package firestorestore_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/firestore-tally/tally/internal/cloud/firestorestore"
	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/value"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// lockable returns a counter whose document exists, and a roll-up of it.
func lockable(t testing.TB, client *firestore.Client, options string) (route.Counter, rollup.RollUp) {
	t.Helper()
	if _, err := client.Doc("posts/x").Set(t.Context(), map[string]any{"title": "x"}); err != nil {
		t.Fatal(err)
	}
	routes, err := route.Parse("posts/{p}/likes/{u} -> posts/{p} : count() as likes : existing" + options)
	if err != nil {
		t.Fatal(err)
	}
	c, _ := routes[0].Template.Counter("posts/x")
	tally := document.Tally{AsOf: time.Unix(1, 0), Routes: c.Template.Hash(), Totals: []string{"likes"}}
	return c, rollup.RollUp{Values: map[string]value.Value{"likes": value.Int(1)}, Tally: tally}
}

// A locked write is one attempt: the read of the tally and the write are of one transaction that
// may write, and nothing else is locked. A transaction that writes nothing is given up.
func TestLockedCalls(t *testing.T) {
	client := dial(t)
	c, r := lockable(t, client, "")
	var calls recorder
	rolledBack := make(chan any, 1)
	note := grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		err := invoke(ctx, method, req, reply, conn, opts...)
		if method == firestorepb.Firestore_Rollback_FullMethodName {
			rolledBack <- req
		}
		return err
	})
	store := open(t, client, append(calls.dialOptions(), note)...)
	for _, test := range []struct {
		name string
		seen document.Tally
		want map[string]int
		err  error
	}{
		{"written", document.Tally{}, map[string]int{"BeginTransaction": 1, "BatchGetDocuments": 1, "Commit": 1}, nil},
		{"refused", document.Tally{NumShards: 7}, map[string]int{"BeginTransaction": 1, "BatchGetDocuments": 1, "Rollback": 1}, rollup.ErrConflict},
	} {
		err := store.WriteLocked(t.Context(), c, r, test.seen)
		if !errors.Is(err, test.err) {
			t.Errorf("%s: got %v, want %v", test.name, err, test.err)
		}
		var transactions []string
		if err != nil {
			transactions = append(transactions, string((<-rolledBack).(*firestorepb.RollbackRequest).Transaction))
		}
		for _, req := range calls.requests {
			switch req := req.(type) {
			case *firestorepb.BeginTransactionRequest:
				if req.Options.GetReadWrite() == nil {
					t.Errorf("%s: the transaction is %v", test.name, req.Options)
				}
			case *firestorepb.BatchGetDocumentsRequest:
				transactions = append(transactions, string(req.GetTransaction()))
				if d := cmp.Diff([]string{"likes", "tally"}, req.Mask.FieldPaths); d != "" {
					t.Errorf("%s: fields read (-want +got):\n%s", test.name, d)
				}
			case *firestorepb.CommitRequest:
				transactions = append(transactions, string(req.Transaction))
			}
		}
		if slices.Sort(transactions); len(slices.Compact(transactions)) != 1 || transactions[0] == "" {
			t.Errorf("%s: the calls are of the transactions %q, want one", test.name, transactions)
		}
		if d := cmp.Diff(test.want, calls.take()); d != "" {
			t.Errorf("%s: calls (-want +got):\n%s", test.name, d)
		}
	}
}

// An answer without the document says nothing of its tally. It does not count as a document
// without one, which a first roll-up expects.
func TestLockedHalfAnAnswer(t *testing.T) {
	client := dial(t)
	c, r := lockable(t, client, "")
	lose := recorder{answered: func(answer any) {
		if a, ok := answer.(*firestorepb.BatchGetDocumentsResponse); ok {
			a.Result = nil
		}
	}}
	err := open(t, client, lose.dialOptions()...).WriteLocked(t.Context(), c, r, document.Tally{})
	if err == nil || errors.Is(err, rollup.ErrConflict) || !strings.Contains(err.Error(), "answered without the document") {
		t.Errorf("got %v", err)
	}
	if lose.take()["Commit"] > 0 {
		t.Error("it was written all the same")
	}
}

// A field that is written and is said to be gone is in the mask once.
func TestLockedMask(t *testing.T) {
	client := dial(t)
	c, r := lockable(t, client, "")
	r.Gone = []string{"likes", "hearts"}
	var sent recorder
	err := open(t, client, sent.dialOptions()...).WriteLocked(t.Context(), c, r, document.Tally{})
	if err != nil {
		t.Fatal(err)
	}
	for _, req := range sent.requests {
		commit, ok := req.(*firestorepb.CommitRequest)
		if !ok {
			continue
		}
		mask := slices.Sorted(slices.Values(commit.Writes[0].UpdateMask.FieldPaths))
		if d := cmp.Diff([]string{"hearts", "likes", "tally"}, mask); d != "" {
			t.Errorf("mask (-want +got):\n%s", d)
		}
	}
}

// Firestore's answers to each call of a locked write, by what the engine makes of them.
func TestLockedErrors(t *testing.T) {
	client := dial(t)
	c, r := lockable(t, client, "")
	for _, method := range []string{firestorepb.Firestore_BeginTransaction_FullMethodName, firestorepb.Firestore_BatchGetDocuments_FullMethodName, firestorepb.Firestore_Commit_FullMethodName} {
		for _, test := range []struct {
			code             codes.Code
			text             string
			conflict, unkept bool
		}{
			{codes.Aborted, "Too much contention on these documents. Please try again.", true, false},
			{codes.FailedPrecondition, "injected", true, false},
			{codes.Unknown, "injected", false, false},
			{codes.PermissionDenied, "injected", false, false},
			{codes.InvalidArgument, "The referenced transaction has expired or is no longer valid.", false, false},
			{codes.InvalidArgument, "Invalid transaction.", false, false},
			{codes.InvalidArgument, "Document posts/my-transactions has expired or is no longer valid.", false, method == firestorepb.Firestore_Commit_FullMethodName},
		} {
			fail := status.Error(test.code, test.text)
			unary := grpc.WithUnaryInterceptor(func(ctx context.Context, m string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
				if m == method {
					return fail
				}
				return invoke(ctx, m, req, reply, conn, opts...)
			})
			stream := grpc.WithStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, m string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
				if m == method {
					return nil, fail
				}
				return open(ctx, desc, conn, m, opts...)
			})
			err := open(t, client, unary, stream).WriteLocked(t.Context(), c, r, document.Tally{})
			if status.Code(err) != test.code || errors.Is(err, rollup.ErrConflict) != test.conflict || errors.Is(err, rollup.ErrUnkept) != test.unkept {
				t.Errorf("%s, %v %q: got %v, want a conflict: %v, unkept: %v", method, test.code, test.text, err, test.conflict, test.unkept)
			}
		}
	}
}

// Whether the document is contended or not, a roll-up of the engine's own gets through, and the
// title that the app wrote stays.
func TestContendedDocument(t *testing.T) {
	client := dial(t)
	c, _ := lockable(t, client, "")
	if _, err := client.Doc("posts/x/likes/ann").Set(t.Context(), map[string]any{}); err != nil {
		t.Fatal(err)
	}
	titles := 0
	app := client
	contend := grpc.WithUnaryInterceptor(func(ctx context.Context, m string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		commit, ok := req.(*firestorepb.CommitRequest)
		if ok && len(commit.Transaction) == 0 { // the app is faster
			titles++
			if _, err := app.Doc("posts/x").Update(t.Context(), []firestore.Update{{Path: "title", Value: titles}}); err != nil {
				t.Error(err)
			}
		}
		return invoke(ctx, m, req, reply, conn, opts...)
	})
	store := open(t, client, contend)
	coalescer := rollup.NewCoalescer(store, rollup.Options{Cadence: time.Second, Timeout: time.Minute, Logger: slog.New(slog.DiscardHandler)})
	if _, err := coalescer.HandleEvent(t.Context(), rollup.Event{ID: "e"}, route.Concern{Counter: c}); err != nil {
		t.Fatal(err)
	}
	doc, err := client.Doc("posts/x").Get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if doc.Data()["likes"] != int64(1) || doc.Data()["title"] != int64(titles) || titles != 3 {
		t.Errorf("after %d titles of the app's: %v", titles, doc.Data())
	}
}

// BenchmarkWriteLocked has one client write a document as fast as it can, while roll-ups are
// written to it: in a lock, or on the precondition that nothing has changed. It reports how many of
// 100 get through, how long a locked write takes, and how long the client's writes take.
func BenchmarkWriteLocked(b *testing.B) {
	for _, locked := range []bool{false, true} {
		b.Run(fmt.Sprint("locked=", locked), func(b *testing.B) {
			client := dial(b)
			c, r := lockable(b, client, "")
			store := open(b, client)
			ctx, cancel := context.WithCancel(b.Context())
			var waits []time.Duration
			var written atomic.Int64
			done := make(chan struct{})
			go func() {
				defer close(done)
				for n := 0; ctx.Err() == nil; n++ {
					began := time.Now()
					_, err := client.Doc("posts/x").Update(context.WithoutCancel(ctx), []firestore.Update{{Path: "title", Value: n}})
					if err != nil {
						b.Log(err)
						continue
					}
					waits = append(waits, time.Since(began))
					written.Add(1)
				}
			}()

			through := 0
			var took time.Duration
			began := time.Now()
			for b.Loop() {
				through += tryWrite(b, store, c, &r, locked, &took)
			}
			took /= time.Duration(b.N)
			perSecond := float64(written.Load()) / time.Since(began).Seconds()
			cancel()
			<-done

			slices.Sort(waits)
			b.ReportMetric(100*float64(through)/float64(b.N), "%through")
			b.ReportMetric(float64(took.Milliseconds()), "ms/roll-up")
			b.ReportMetric(perSecond, "app-writes/s")
			b.ReportMetric(float64(waits[len(waits)/2].Microseconds())/1000, "p50-ms/app-write")
			b.ReportMetric(float64(waits[len(waits)*99/100].Microseconds())/1000, "p99-ms/app-write")
			b.ReportMetric(float64(waits[len(waits)-1].Microseconds())/1000, "max-ms/app-write")
		})
	}
}

// tryWrite looks, waits as long as a sum may take, and writes a roll-up once. It returns 1 if that
// went well.
func tryWrite(b *testing.B, store *firestorestore.Store, c route.Counter, r *rollup.RollUp, locked bool, took *time.Duration) int {
	s, err := store.View(b.Context(), c)
	if err != nil {
		b.Fatal(err)
	}
	time.Sleep(30 * time.Millisecond)
	r.UpdateTime, r.Tally.AsOf = s.RollUp().UpdateTime, s.ReadTime()

	began := time.Now()
	if locked {
		err = store.WriteLocked(b.Context(), c, *r, s.RollUp().Tally)
	} else {
		err = store.Write(b.Context(), c, *r)
	}
	*took += time.Since(began)
	time.Sleep(time.Second - 30*time.Millisecond) // a cadence
	switch {
	case err == nil:
		return 1
	case errors.Is(err, rollup.ErrConflict):
		return 0
	default:
		b.Fatal(err)
		return 0
	}
}
