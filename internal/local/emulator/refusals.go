package emulator

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
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
	User     string // the uid; "": nobody is signed in
	Fields   string // that the request would have written, joined by ", "
	Lines    []int  // of the rules, where the statements begin that might have allowed it and did not
}

// Refusals calls f with each refusal, one after another, until ctx or the emulator ends; it returns
// ctx's error in the first case. It listens to the feed that the emulator has for its user
// interface. Without such a feed, in older versions, it returns nil at once. Rules do not bind
// servers, so these are not in the feed.
func (e *Emulator) Refusals(ctx context.Context, f func(Refusal)) error {
	if e.feed == "" {
		return nil
	}
	conn, _, err := websocket.Dial(ctx, e.feed+"/requests", nil)
	if err != nil {
		return fmt.Errorf("emulator: its feed of requests: %w", err)
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
			return fmt.Errorf("emulator: its feed of requests: %w", err)
		}
		j.hear(settling, message)
	}
}

// feedAddress finds the feed's address in what an emulator printed at its start.
var feedAddress = regexp.MustCompile(`ws://127\.0\.0\.1:\d+`)

// doubtFor is how long a doubt waits, twice, for the emulator's next try. That takes it a few
// milliseconds, and on a busy machine more than a second. So in between the emulator has to answer
// another question.
const doubtFor = time.Second / 2

// A judge tells which requests were refused. The emulator tries a write before it knows the
// document, as a create, as an update or as both, whichever its precondition allows. It tries it
// again if that is no refusal, or if the rules ask for the document. It tries any request again if
// the rules ask for another document: the first try is an error.
type judge struct {
	addr     string // of the emulator
	settling sync.WaitGroup

	mu     sync.Mutex
	tell   func(Refusal)
	doubts map[requestKey]*trial // creates that were refused, and errors; the next try tells
}

// A requestKey is what the trials of one request have in common.
type requestKey struct{ Path, Time string }

// A trial is one evaluation of the rules, as the feed has it.
type trial struct {
	Outcome  string // allow, deny or error
	Outcomes []struct {
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
	ListValue   struct{ Values []value }
	MapValue    struct{ Fields map[string]value }
}

// field returns a field of a map, an empty value if there is none.
func (v value) field(name string) value { return v.MapValue.Fields[name] }

// hear judges a message of the feed, a trial or several. Doubts are settled until ctx ends.
func (j *judge) hear(ctx context.Context, message []byte) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if bytes.HasSuffix(message, []byte(`"outcome":"allow"}`)) && len(j.doubts) == 0 {
		return
	}
	var trials []trial
	if !bytes.HasPrefix(message, []byte("[")) {
		message = slices.Concat([]byte("["), message, []byte("]"))
	}
	if json.Unmarshal(message, &trials) != nil {
		return // another version's feed
	}
	for _, t := range trials {
		known := t.Context.Resource.Undefined == nil
		d := j.doubts[t.Context.requestKey]
		if d != nil && d.Outcome == "error" {
			delete(j.doubts, d.Context.requestKey) // this is its next try
			d = nil
		}

		switch {
		case d != nil && t.Context.Method == "update":
			delete(j.doubts, d.Context.requestKey)
			if t.Outcome == "deny" { // else it is tried again once the document is known
				d.Context.Method = "create or update"
				d.Outcomes = append(d.Outcomes, t.Outcomes...)
				j.tell(d.refusal())
			}
		case t.Outcome == "allow", t.Outcome == "error" && !known:
		case t.Outcome == "error", t.Context.Method == "create" && !known:
			j.doubts[t.Context.requestKey] = &t
			j.settling.Go(func() { j.settle(ctx, &t) })
		default:
			j.tell(t.refusal())
		}
	}
}

// settle tells of a trial that was refused, unless the request is tried again meanwhile.
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

func (t *trial) refusal() Refusal {
	r := Refusal{Method: t.Context.Method, User: t.Context.Request.field("auth").field("uid").StringValue}
	if parts := strings.SplitN(t.Context.Path, "/", 5); len(parts) == 5 { // /databases/(default)/documents/…
		r.Database, r.Path = parts[2], parts[4]
	}
	var fields []string
	for _, v := range t.Context.Request.field("writeFields").ListValue.Values {
		fields = append(fields, v.StringValue)
	}
	r.Fields = strings.Join(fields, ", ")
	for _, o := range t.Outcomes {
		if !slices.Contains(r.Lines, o.Line) {
			r.Lines = append(r.Lines, o.Line)
		}
	}
	return r
}
