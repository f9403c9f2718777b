//go:build unix

package e2e

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/firestore-tally/tally/internal/cloud/billing"
	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/tool/local/freeport"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
)

// A proxy stands between one functions process and the emulator. It passes on the calls that a
// roll-up makes, and has them fail, be late or be held. What has reached it reaches the emulator,
// even if the caller gives up or dies meanwhile, as on a network.
type proxy struct {
	firestorepb.UnimplementedFirestoreServer // any other call fails loudly

	addr     string
	emulator firestorepb.FirestoreClient
	meter    *billing.Meter // counts what the emulator did
	delay    time.Duration  // of each message, either way
	faults   *faults        // nil: none
	outage   atomic.Pointer[outage]

	mu    sync.Mutex
	holds map[string]*held // by method; taken by the next call
	sent  []sent
}

// sent is a roll-up that was sent to the emulator, and what became of it.
type sent struct {
	rollUp
	document  string // the roll-up document's name
	locked    bool   // in a transaction
	committed time.Time
	err       error // the emulator's answer
}

// newProxy returns a proxy to the emulator at addr that serves until the test ends.
func newProxy(t testing.TB, addr string) *proxy {
	t.Helper()
	meter := billing.NewMeter(nil)
	conn, err := grpc.NewClient("passthrough:///"+addr, append(meter.DialOptions(), grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", freeport.HostPort(0))
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{addr: l.Addr().String(), meter: meter, emulator: firestorepb.NewFirestoreClient(conn), holds: make(map[string]*held)}
	server := grpc.NewServer(grpc.WaitForHandlers(true))
	firestorepb.RegisterFirestoreServer(server, p)
	go func() { _ = server.Serve(l) }() // until Stop
	t.Cleanup(func() {
		server.Stop()
		_ = conn.Close()
	})
	return p
}

// The three calls of each roll-up.
const (
	get       = "BatchGetDocuments"
	aggregate = "RunAggregationQuery"
	commit    = "Commit"
)

// query is the call that finds maxima and the like, and groups that an event does not tell.
const query = "RunQuery"

var methods = []string{get, aggregate, commit}

func (p *proxy) Commit(ctx context.Context, r *firestorepb.CommitRequest) (*firestorepb.CommitResponse, error) {
	var answer *firestorepb.CommitResponse
	err := p.pass(ctx, commit, r, func(ctx context.Context) (err error) {
		answer, err = p.commit(ctx, r)
		return err
	})
	if err != nil {
		return nil, err
	}
	return answer, nil
}

// commit passes on a roll-up and notes it.
func (p *proxy) commit(ctx context.Context, r *firestorepb.CommitRequest) (*firestorepb.CommitResponse, error) {
	s := sent{rollUp: rollUpIn(r), document: r.Writes[0].GetUpdate().GetName(), locked: len(r.Transaction) > 0}
	answer, err := p.emulator.Commit(ctx, r)
	s.committed, s.err = answer.GetCommitTime().AsTime(), err
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sent = append(p.sent, s)
	return answer, err
}

// rollUpIn returns the roll-up that a commit would write.
func rollUpIn(r *firestorepb.CommitRequest) rollUp {
	fields := r.GetWrites()[0].GetUpdate().GetFields()
	tally := fields[document.TallyField].GetMapValue().GetFields()
	return rollUp{
		asOf:      tally["as_of"].GetTimestampValue().AsTime(),
		count:     fields["count"].GetIntegerValue(),
		numShards: tally["num_shards"].GetIntegerValue(),
	}
}

func (p *proxy) BatchGetDocuments(r *firestorepb.BatchGetDocumentsRequest, s firestorepb.Firestore_BatchGetDocumentsServer) error {
	return stream(s.Context(), p, get, func(ctx context.Context) (receiver[firestorepb.BatchGetDocumentsResponse], error) {
		return p.emulator.BatchGetDocuments(ctx, r)
	}, s.Send)
}

func (p *proxy) RunAggregationQuery(r *firestorepb.RunAggregationQueryRequest, s firestorepb.Firestore_RunAggregationQueryServer) error {
	return stream(s.Context(), p, aggregate, func(ctx context.Context) (receiver[firestorepb.RunAggregationQueryResponse], error) {
		return p.emulator.RunAggregationQuery(ctx, r)
	}, s.Send)
}

func (p *proxy) RunQuery(r *firestorepb.RunQueryRequest, s firestorepb.Firestore_RunQueryServer) error {
	return stream(s.Context(), p, query, func(ctx context.Context) (receiver[firestorepb.RunQueryResponse], error) {
		return p.emulator.RunQuery(ctx, r)
	}, s.Send)
}

// BeginTransaction and Rollback are calls of a roll-up that locks its document.
func (p *proxy) BeginTransaction(ctx context.Context, r *firestorepb.BeginTransactionRequest) (answer *firestorepb.BeginTransactionResponse, err error) {
	err = p.pass(ctx, "BeginTransaction", r, func(ctx context.Context) (err error) {
		answer, err = p.emulator.BeginTransaction(ctx, r)
		return err
	})
	return answer, err
}

func (p *proxy) Rollback(ctx context.Context, r *firestorepb.RollbackRequest) (answer *emptypb.Empty, err error) {
	err = p.pass(ctx, "Rollback", r, func(ctx context.Context) (err error) {
		answer, err = p.emulator.Rollback(ctx, r)
		return err
	})
	return answer, err
}

// A receiver is the answers to a call.
type receiver[A any] interface{ Recv() (*A, error) }

// stream passes on a call with several answers, all of them together.
func stream[A any](ctx context.Context, p *proxy, method string, call func(context.Context) (receiver[A], error), send func(*A) error) error {
	var answers []*A
	err := p.pass(ctx, method, nil, func(ctx context.Context) error {
		from, err := call(ctx)
		if err != nil {
			return err
		}
		for {
			answer, err := from.Recv()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			answers = append(answers, answer)
		}
	})
	for _, answer := range answers {
		if err == nil {
			err = send(answer)
		}
	}
	return err
}

// emulatorTimeout bounds each call to the emulator, which may be paused.
const emulatorTimeout = time.Minute

// pass makes a call, and what is to go wrong with it.
func (p *proxy) pass(ctx context.Context, method string, request any, call func(context.Context) error) error {
	if o := p.outage.Load(); o != nil {
		return o.refuse(ctx)
	}

	headers, _ := metadata.FromIncomingContext(ctx)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), emulatorTimeout)
	defer cancel()
	ctx = metadata.NewOutgoingContext(ctx, headers)

	p.mu.Lock()
	hold := p.holds[method]
	delete(p.holds, method)
	p.mu.Unlock()
	fault := p.faults.next(method)

	time.Sleep(p.delay)
	if fault.err != nil && !fault.after {
		return fault.err
	}
	if hold != nil && !hold.answer {
		hold.wait(ctx, request)
	}
	err := call(ctx)
	if hold != nil {
		close(hold.done)
		if hold.answer {
			hold.wait(ctx, request)
		}
	}
	if fault.err != nil {
		err = fault.err
	}
	time.Sleep(p.delay)
	return err
}

// An outage is a time in which no call reaches Firestore.
type outage struct {
	err     error // the answer to each call
	hangs   bool  // it comes only when the caller has given up
	refused atomic.Int64
}

func (o *outage) refuse(ctx context.Context) error {
	o.refused.Add(1)
	if o.hangs {
		<-ctx.Done()
	}
	return o.err
}

// A held call is one that the proxy holds on its way.
type held struct {
	answer  bool     // on its way back, with the emulator's answer
	arrived chan any // receives the request
	release chan struct{}
	done    chan struct{} // closed when the emulator has answered
}

// hold has the next call of a method held, or its answer.
func (p *proxy) hold(method string, answer bool) *held {
	h := &held{answer: answer, arrived: make(chan any, 1), release: make(chan struct{}), done: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holds[method] = h
	return h
}

func (h *held) wait(ctx context.Context, request any) {
	h.arrived <- request
	select {
	case <-h.release:
	case <-ctx.Done():
	}
}

// rollUps returns what was sent so far.
func (p *proxy) rollUps() []sent {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]sent(nil), p.sent...)
}

// A fault is what goes wrong with one call: it is answered with err, after the emulator has served
// it or without.
type fault struct {
	err   error
	after bool
}

func (f fault) String() string {
	when := "before"
	if f.after {
		when = "after"
	}
	return status.Code(f.err).String() + " " + when
}

// kinds are all faults.
var kinds = func() (kinds []fault) {
	for _, code := range []codes.Code{codes.Unavailable, codes.Aborted, codes.DeadlineExceeded} {
		err := status.Error(code, "injected")
		kinds = append(kinds, fault{err, false}, fault{err, true})
	}
	return kinds
}()

// faults has calls fail. Which of the calls of a method fail, and how, is a matter of the seed;
// each kind of fault comes equally often.
type faults struct {
	seed uint64

	mu       sync.Mutex
	calls    map[string]int
	injected map[string]int // by method
}

func newFaults(seed uint64) *faults {
	return &faults{seed: seed, calls: make(map[string]int), injected: make(map[string]int)}
}

// next decides about the next call of a method.
func (f *faults) next(method string) fault {
	if f == nil {
		return fault{}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.calls[method]
	f.calls[method]++
	h := fnv.New64a()
	fmt.Fprintf(h, "%s\x00%d", method, n)
	chance := 0.2
	if method == commit {
		chance = 0.5 // there are fewer of them
	}
	if rand.New(rand.NewPCG(f.seed, h.Sum64())).Float64() >= chance {
		return fault{}
	}
	k := f.injected[method]
	f.injected[method]++
	h.Reset()
	fmt.Fprintf(h, "%s\x00kinds\x00%d", method, k/len(kinds))
	order := rand.New(rand.NewPCG(f.seed, h.Sum64())).Perm(len(kinds))
	return kinds[order[k%len(kinds)]]
}

// all reports whether every kind of fault has come at least times times in every method.
func (f *faults) all(times int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, method := range methods {
		if f.injected[method] < times*len(kinds) {
			return false
		}
	}
	return true
}

// String tells how many faults were injected.
func (f *faults) String() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return fmt.Sprint(f.injected)
}
