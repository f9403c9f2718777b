package migration

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path"
	"strings"
	"sync/atomic"
	"testing"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/cloud/firestorestore"
	"github.com/firestore-tally/tally/internal/test/emulatortest"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

type docs = map[string]map[string]any

// A foldTest is a collection of shards, and a folding of it whose requests a test sees.
type foldTest struct {
	folding
	t     *testing.T
	other *firestore.CollectionRef // by a client whose requests no test sees
	reads atomic.Int64             // by the folding's client
	fails func(method string, send func() error) error
}

func newFoldTest(t *testing.T, n int64, before docs) *foldTest {
	t.Helper()
	f := &foldTest{t: t, fails: func(_ string, send func() error) error { return send() }}
	unary := func(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		return f.fails(path.Base(method), func() error { return invoke(ctx, method, req, reply, conn, opts...) })
	}
	stream := func(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (s grpc.ClientStream, err error) {
		if path.Base(method) == "BatchGetDocuments" {
			f.reads.Add(1)
		}
		err = f.fails(path.Base(method), func() error { s, err = open(ctx, desc, conn, method, opts...); return err })
		return s, err
	}

	project := emulatortest.Project(t)
	client, err := firestorestore.Dial(t.Context(), emulatortest.Addr(t), project, firestore.DefaultDatabaseID,
		grpc.WithChainUnaryInterceptor(unary), grpc.WithChainStreamInterceptor(stream))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })

	const collection = "pages/p/_counter_shards_"
	f.folding = folding{client, client.Collection(collection), n}
	f.other = emulatortest.ClientDatabase(t, project, firestore.DefaultDatabaseID).Collection(collection)
	for id, fields := range before {
		f.set(id, fields)
	}
	return f
}

func (f *foldTest) set(id string, fields map[string]any) {
	f.t.Helper()
	if _, err := f.other.Doc(id).Set(f.t.Context(), fields); err != nil {
		f.t.Fatal(err)
	}
}

// wants checks all documents of the collection.
func (f *foldTest) wants(want docs) {
	f.t.Helper()
	all, err := f.other.Documents(f.t.Context()).GetAll()
	if err != nil {
		f.t.Fatal(err)
	}
	got := docs{}
	for _, doc := range all {
		got[doc.Ref.ID] = doc.Data()
	}
	if diff := cmp.Diff(want, got); diff != "" {
		f.t.Errorf("shards (-want +got):\n%s", diff)
	}
}

func TestFold(t *testing.T) {
	const far = 1 << 53 // doubles above hold no odd integers
	for _, tt := range []struct {
		name          string
		n             int64
		before, after docs
	}{
		{"random ids", 1, docs{"0": {"count": 1}, "9f1c-a": {"count": 2}, "07": {"count": 4}, "-1": {"count": 8}, "7": {"count": 16}, "３": {"count": 32}}, docs{"0": {"count": int64(63)}}},
		{"spread over all shards", 2, docs{"0": {"count": 1}, "1": {"count": 2}, "2": {"count": 4}, "3": {"count": 8}}, docs{"0": {"count": int64(5)}, "1": {"count": int64(10)}}},
		{"into shards that do not exist", 2, docs{"7": {"count": -5}}, docs{"0": {"count": int64(-5)}}},
		{"nothing", 2, docs{"0": {"count": 1}}, docs{"0": {"count": int64(1)}}},
		{"every field", 1, docs{"0": {"count": 1, "likes": 10}, "1": {"likes": 5, "a.b": 2}, "2": {}}, docs{"0": {"count": int64(1), "likes": int64(15), "a.b": int64(2)}}},
		{"an empty one leaves none behind", 1, docs{"1": {}}, docs{}},
		{"a partial sum", 1, docs{"a": {"count": 1}, "\t\t\t\tb": partial(map[string]any{"count": 5}, map[string]any{"count": 7})}, docs{"0": {"count": int64(13)}}},
		{"a negative one", 1, docs{"\t\tbcd": partial(map[string]any{"count": 5}, map[string]any{"count": -7})}, docs{"0": {"count": int64(-2)}}},
		{"empty ones", 1, docs{"\tbcde": {"_updates_": []any{}}, "\t\tc": partial(map[string]any{"count": 5}, map[string]any{"count": -5}), "x": {}}, docs{}},
		{"a nested field stays", 1, docs{"a": {"count": 1, "by": map[string]any{"x": int64(3)}}, "b": {"count": 2}},
			docs{"a": {"count": int64(1), "by": map[string]any{"x": int64(3)}}, "0": {"count": int64(2)}}},
		{"a partial sum and a count", 1, docs{"\tb": {"count": 7, "_updates_": []any{map[string]any{"_data_": map[string]any{"count": 5}}}}},
			docs{"\tb": {"count": int64(7), "_updates_": []any{map[string]any{"_data_": map[string]any{"count": int64(5)}}}}}},
		{"a nested partial sum", 1, docs{"\tb": {"_updates_": []any{map[string]any{"_data_": map[string]any{"by": map[string]any{"x": 3}}}}}},
			docs{"\tb": {"_updates_": []any{map[string]any{"_data_": map[string]any{"by": map[string]any{"x": int64(3)}}}}}}},
		{"null is not a number", 1, docs{"0": {"count": nil}, "1": {"count": 3}}, docs{"0": {"count": nil}, "1": {"count": int64(3)}}},
		{"beyond 2^53", 1, docs{"0": {"count": far + 1}, "1": {"count": far + 2}}, docs{"0": {"count": int64(2*far + 3)}}},
		{"doubles", 1, docs{"0": {"count": 1}, "1": {"count": 0.25}, "2": {"count": 0.0}}, docs{"0": {"count": 1.25}}},
		{"up to the bound", 1, docs{"0": {"count": mostHeld - 5}, "1": {"count": 2}, "2": {"count": 3}}, docs{"0": {"count": int64(mostHeld)}}},
		{"at the bound, into a shard that does not exist", 1, docs{"1": {"count": -mostHeld}}, docs{"0": {"count": int64(-mostHeld)}}},
		{"beyond the bound", 1, docs{"1": {"count": mostHeld + 1}}, docs{"1": {"count": int64(mostHeld + 1)}}},
		{"another shard has room", 2, docs{"0": {"count": math.MaxInt64}, "1": {"count": 1}, "2": {"count": 1}}, docs{"0": {"count": int64(math.MaxInt64)}, "1": {"count": int64(2)}}},
		{"another shard is well", 3, docs{"0": {"count": "7"}, "1": {"count": math.Inf(1)}, "3": {"count": 1}},
			docs{"0": {"count": "7"}, "1": {"count": math.Inf(1)}, "2": {"count": int64(1)}}},
		{"no room", 1, docs{"0": {"count": math.MaxInt64}, "1": {"count": 1}, "2": {"likes": 1}}, docs{"0": {"count": int64(math.MaxInt64), "likes": int64(1)}, "1": {"count": int64(1)}}},
		{"a field that is not a number is not lost", 1, docs{"1": {"count": 1, "note": "x"}, "2": {"count": 2}, "3": {"count": math.Inf(-1)}, "4": {"count": nil}},
			docs{"0": {"count": int64(2)}, "1": {"count": int64(1), "note": "x"}, "3": {"count": math.Inf(-1)}, "4": {"count": nil}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := newFoldTest(t, tt.n, tt.before)
			for range 2 { // again is harmless
				if err := f.fold(t.Context()); err != nil {
					t.Fatal(err)
				}
				f.wants(tt.after)
			}
		})
	}
}

// Each commit fails, or loses its answer, in turn. A second call finishes what the first has left.
func TestFoldFaults(t *testing.T) {
	t.Parallel()
	for _, code := range []codes.Code{codes.Unavailable, codes.Internal, codes.Aborted} {
		for nth := 1; nth <= 2; nth++ {
			for _, lost := range []bool{false, true} {
				t.Run(fmt.Sprintf("%v, commit %d, lost %v", code, nth, lost), func(t *testing.T) {
					t.Parallel()
					f := newFoldTest(t, 1, docs{"0": {"count": 1}, "2": {"count": 2}, "3": {"count": 4}})
					commits := 0
					f.fails = func(method string, send func() error) error {
						if method == "Commit" {
							commits++
						}
						if method != "Commit" || commits != nth {
							return send()
						}
						var err error
						if lost {
							err = send()
						}
						return errors.Join(err, status.Error(code, "injected"))
					}

					err := f.fold(t.Context())
					if err != nil {
						err = f.fold(t.Context())
					}
					if err != nil || commits < nth {
						t.Fatalf("%v after %d commits", err, commits)
					}
					f.wants(docs{"0": {"count": int64(7)}})
				})
			}
		}
	}
}

// What is refused again and again is an error that names the shard.
func TestFoldRefused(t *testing.T) {
	t.Parallel()
	f := newFoldTest(t, 1, docs{"0": {"count": 1}, "2": {"count": 2}})
	f.fails = func(method string, send func() error) error {
		if method == "Commit" {
			return status.Error(codes.PermissionDenied, "injected")
		}
		return send()
	}
	if err := f.fold(t.Context()); status.Code(err) != codes.PermissionDenied || !strings.Contains(err.Error(), "_counter_shards_/2: ") {
		t.Errorf("error %v, want PermissionDenied for shard 2", err)
	}
	f.wants(docs{"0": {"count": int64(1)}, "2": {"count": int64(2)}})
}

// A client writes between the read of a fold and its commit.
func TestFoldRaces(t *testing.T) {
	for _, tt := range []struct {
		name   string
		before []any // shards 0 and 1; nil: there is none
		write  func(*foldTest) error
		after  docs
	}{
		{"the surplus shard grows", []any{1, 2}, addTo("1", 10), docs{"0": {"count": int64(13), "other": int64(200)}}},
		{"the surplus shard goes", []any{1, 2}, remove("1"), docs{"0": {"count": int64(1), "other": int64(100)}}},
		{"the kept shard grows", []any{1, 2}, addTo("0", 10), docs{"0": {"count": int64(13), "other": int64(200)}}},
		{"the kept shard grows beyond the bound", []any{mostHeld - 5, 3}, addTo("0", 4), docs{"0": {"count": int64(mostHeld + 2), "other": int64(200)}}},
		{"the kept shard comes", []any{nil, 3}, addTo("0", 5), docs{"0": {"count": int64(8), "other": int64(100)}}},
		{"the kept shard goes", []any{1, 2}, remove("0"), docs{"0": {"count": int64(2), "other": int64(100)}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := newFoldTest(t, 1, nil)
			for i, count := range tt.before {
				if count != nil {
					f.set(fmt.Sprint(i), map[string]any{"count": count, "other": 100})
				}
			}
			raced := false
			f.fails = func(method string, send func() error) error {
				if method == "Commit" && !raced {
					raced = true
					if err := tt.write(f); err != nil {
						return err
					}
				}
				return send()
			}
			if err := f.fold(t.Context()); err != nil {
				t.Error(err)
			}
			f.wants(tt.after)
		})
	}
}

func addTo(id string, n int64) func(*foldTest) error {
	return func(f *foldTest) error {
		_, err := f.other.Doc(id).Set(context.Background(), map[string]any{"count": firestore.Increment(n)}, firestore.MergeAll)
		return err
	}
}

func remove(id string) func(*foldTest) error {
	return func(f *foldTest) error {
		_, err := f.other.Doc(id).Delete(context.Background())
		return err
	}
}

// A shard may go and come again as often as it likes. None of these counts as a failure. The
// emulator answers the commit with FAILED_PRECONDITION. Firestore's documentation names no code,
// and NOT_FOUND is its usual answer for a document that is gone.
func TestFoldOvertakenAgain(t *testing.T) {
	for name, answer := range map[string]error{"the emulator's answer": nil, "NOT_FOUND": status.Error(codes.NotFound, "injected")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFoldTest(t, 1, docs{"0": {"count": 1}, "1": {"count": 2}})
			left, gone := foldAttempts+1, false
			f.fails = func(method string, send func() error) error {
				switch {
				case method == "Commit" && left > 0:
					left, gone = left-1, true
					err := remove("1")(f)
					if err != nil || answer != nil {
						return errors.Join(err, answer)
					}
				case method == "BatchGetDocuments" && gone:
					gone = false
					f.set("1", map[string]any{"count": 2})
				}
				return send()
			}
			if err := f.fold(t.Context()); err != nil || left > 0 {
				t.Errorf("%v, %d races left", err, left)
			}
			f.wants(docs{"0": {"count": int64(3)}})
		})
	}
}

// A document that no shard can take is left after one look at each.
func TestFoldTriesEachShardOnce(t *testing.T) {
	t.Parallel()
	const n = 3
	before := docs{"7": {"count": 1}}
	for i := range n {
		before[fmt.Sprint(i)] = map[string]any{"count": "text"}
	}
	f := newFoldTest(t, n, before)
	if err := f.fold(t.Context()); err != nil {
		t.Error(err)
	}
	if reads := f.reads.Load(); reads != n {
		t.Errorf("%d reads, want %d", reads, n)
	}
}

// Clients write shards with random ids all the while, and no increment is lost.
func TestFoldUnderLoad(t *testing.T) {
	t.Parallel()
	const clients, each, n = 4, 40, 2
	f := newFoldTest(t, n, nil)
	var writers errgroup.Group
	for c := range clients {
		writers.Go(func() error {
			for i := range each {
				if err := addTo(random(c*100+i%5), 1)(f); err != nil {
					return err
				}
			}
			return nil
		})
	}
	done := make(chan error, 1)
	go func() { done <- writers.Wait() }()
	var err error
	for folding := true; folding; {
		select {
		case err = <-done:
			folding = false
		default:
		}
		if err := f.fold(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err != nil {
		t.Fatal(err)
	}

	all, err := f.other.Documents(t.Context()).GetAll()
	if err != nil {
		t.Fatal(err)
	}
	var total int64
	for _, doc := range all {
		count, _ := doc.Data()["count"].(int64)
		total += count
	}
	if total != clients*each || len(all) > n {
		t.Errorf("%d in %d shards, want %d in %d", total, len(all), clients*each, n)
	}
}
