package emulator

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
)

// A Refusal is a client's request that the security rules refused.
type Refusal struct {
	Method   string // as rules name it: get, list, create, update or delete; or "create or update"
	Database string
	Path     string // of the document below the database's root; of a list, the collection's and "/*"
	User     string // the uid; "": no user is signed in
	Lines    []int  // of the rules: where each statement begins that was tried and did not allow it

	Unlimited bool     // a list, by a query without a limit
	Document  []string // names of the fields that the document has
}

// Refusals calls f with each refusal of another project than RulesProject, one after another,
// until ctx or the emulator ends. It returns ctx's error if ctx has ended. It listens to the feed
// that the emulator has for its user interface. Older versions have no feed; then it returns nil
// at once. Rules do not bind servers, so the feed does not have servers' requests.
func (e *Emulator) Refusals(ctx context.Context, f func(Refusal)) error {
	if e.feed == "" {
		return nil
	}
	conn, _, err := websocket.Dial(ctx, e.feed+"/requests", nil)
	if err != nil {
		return fmt.Errorf("emulator: could not follow its requests: %w", err)
	}
	defer func() { _ = conn.CloseNow() }()
	conn.SetReadLimit(-1) // each request comes with all the rules

	settling, cancel := context.WithCancel(ctx)
	j := &judge{addr: e.addr, tell: f, doubts: make(map[requestKey]*trial)}
	defer j.settling.Wait()
	defer cancel()

	for {
		_, message, err := conn.Read(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return fmt.Errorf("emulator: could not follow its requests: %w", err)
		}
		j.judgeMessage(settling, message)
	}
}

// feedAddress finds the feed's address in what an emulator printed at its start.
var feedAddress = regexp.MustCompile(`ws://127\.0\.0\.1:\d+`)

// doubtFor is how long settle waits for the emulator's next trial of a request, twice. The emulator
// needs a few milliseconds for a trial, and on a busy machine more than a second. So after each
// wait settle asks the emulator something, and the answer takes as long as the emulator is busy.
const doubtFor = time.Second / 2

// A judge tells which requests were refused. The feed has each trial of a request, and not what
// became of the request. The emulator may try one request several times, and only the last trial
// counts:
//
//   - The emulator tries a write before it has read the document: as a create, as an update, or as
//     both one after the other, as the write's precondition allows. It tries the write again, with
//     the document, if a trial did not refuse it or the rules ask for the document.
//   - It tries any request again if the rules ask for another document. The first trial is then an
//     error.
//
// So a write that was refused without the document, and an error, are doubts: the next trial
// decides, or its absence. For example, a set of a new document that only "allow create" allows is
// allowed as a create, refused as an update, and then allowed with the document, which is not
// there.
type judge struct {
	addr     string // of the emulator
	settling sync.WaitGroup

	mu     sync.Mutex
	tell   func(Refusal)
	doubts map[requestKey]*trial
}

// A requestKey identifies a request: all its trials have the same.
type requestKey struct{ Path, Time string }

// A trial is one evaluation of the rules, as the feed has it.
type trial struct {
	Release  string     `json:"rulesReleaseKey"` // which begins with the project
	Outcome  string     // allow, deny or error
	Outcomes []struct { // of each statement that was tried, in this trial and those before it
		Line    int
		Outcome bool
	} `json:"granularAllowOutcomes"`
	Context struct {
		requestKey
		Method            string
		Resource, Request value
	} `json:"rulesContext"`
}

// A value is one of the rules language, as the feed has it. A document that is not known yet is
// undefined.
type value struct {
	Undefined   *struct{}
	StringValue string
	IntValue    string
	MapValue    struct{ Fields map[string]value }
}

// field returns a field of a map, an empty value if there is none.
func (v value) field(name string) value { return v.MapValue.Fields[name] }

// judgeMessage judges a message of the feed, a trial or several. Doubts are settled until ctx ends.
func (j *judge) judgeMessage(ctx context.Context, message []byte) {
	j.mu.Lock()
	defer j.mu.Unlock()

	// Most messages need no decoding: a trial that allows, while nothing is in doubt.
	if bytes.HasSuffix(message, []byte(`"outcome":"allow"}`)) && len(j.doubts) == 0 {
		return
	}
	if !bytes.HasPrefix(message, []byte("[")) {
		message = slices.Concat([]byte("["), message, []byte("]"))
	}
	var trials []trial
	err := json.Unmarshal(message, &trials)
	if err != nil {
		return // another version's feed
	}

	for _, t := range trials {
		if strings.HasPrefix(t.Release, "projects/"+RulesProject+"/") {
			continue
		}
		j.judge(ctx, &t)
	}
}

// judge judges a trial. The caller holds the mutex.
func (j *judge) judge(ctx context.Context, t *trial) {
	known := t.Context.Resource.Undefined == nil
	doubt := j.doubts[t.Context.requestKey]
	if doubt != nil {
		decides := known || doubt.Outcome == "error"
		if !decides && doubt.Context.Method == "create" && t.Context.Method == "update" {
			j.judgeBoth(doubt, t)
			return
		}
		delete(j.doubts, t.Context.requestKey)
	}

	write := t.Context.Method == "create" || t.Context.Method == "update"
	switch {
	case t.Outcome == "allow":
	case t.Outcome == "error" && !known: // the write is tried again, with the document
	case t.Outcome == "error", write && !known:
		j.doubts[t.Context.requestKey] = t
		j.settling.Go(func() { j.settle(ctx, t) })
	default:
		j.tell(t.refusal())
	}
}

// judgeBoth judges a write that was refused as a create and is now tried as an update. If the
// update is refused too, the write is. Else it is tried again, with the document. The caller holds
// the mutex.
func (j *judge) judgeBoth(create, update *trial) {
	delete(j.doubts, create.Context.requestKey)
	if update.Outcome != "deny" {
		return
	}

	create.Context.Method = "create or update"
	create.Outcomes = append(create.Outcomes, update.Outcomes...)
	j.tell(create.refusal())
}

// settle reports a doubt that no other trial of its request has decided for a while.
func (j *judge) settle(ctx context.Context, doubt *trial) {
	for range 2 {
		select {
		case <-time.After(doubtFor):
		case <-ctx.Done():
			return
		}
		_ = Check(ctx, j.addr) // takes as long as a busy emulator needs
	}

	j.mu.Lock()
	defer j.mu.Unlock()
	if j.doubts[doubt.Context.requestKey] == doubt {
		delete(j.doubts, doubt.Context.requestKey)
		j.tell(doubt.refusal())
	}
}

// refusal returns the refusal of the trial's request.
func (t *trial) refusal() Refusal {
	r := Refusal{Method: t.Context.Method, User: t.Context.Request.field("auth").field("uid").StringValue}
	query := t.Context.Request.field("query")
	r.Unlimited = r.Method == "list" && query.MapValue.Fields != nil && query.field("limit").IntValue == ""
	r.Document = slices.Sorted(maps.Keys(t.Context.Resource.field("data").MapValue.Fields))
	parts := strings.SplitN(t.Context.Path, "/", 5) // /databases/(default)/documents/…
	if len(parts) == 5 {
		r.Database, r.Path = parts[2], parts[4]
	}

	for _, o := range t.Outcomes {
		if !o.Outcome && !slices.Contains(r.Lines, o.Line) {
			r.Lines = append(r.Lines, o.Line)
		}
	}
	return r
}
