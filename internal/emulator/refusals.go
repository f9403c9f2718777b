package emulator

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
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
	messages, ended := make(chan []byte), make(chan error, 1)
	go func() {
		for {
			_, message, err := conn.Read(ctx)
			if err != nil {
				ended <- err
				return
			}
			select {
			case messages <- message:
			case <-ctx.Done():
			}
		}
	}()
	var j judge
	for {
		var quiet <-chan time.Time
		if len(j.doubts) > 0 {
			quiet = time.After(time.Until(j.doubts[0].until))
		}
		select {
		case message := <-messages:
			for _, r := range j.hear(message) {
				f(r)
			}
		case <-quiet:
			d := j.doubts[0]
			j.doubts = j.doubts[1:]
			if d.asked {
				f(d.refusal())
				continue
			}
			_ = Check(ctx, e.addr) // takes as long as a busy emulator needs; ended tells if it is gone
			d.asked, d.until = true, time.Now().Add(doubtFor)
			j.doubts = append(j.doubts, d)
		case err := <-ended:
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return fmt.Errorf("emulator: its feed of requests: %w", err)
		}
	}
}

// feedAddress finds the feed's address in what an emulator printed at its start.
var feedAddress = regexp.MustCompile(`ws://127\.0\.0\.1:\d+`)

// doubtFor is how long a refused create waits, twice, for the update that the emulator may try next.
// That takes it a few milliseconds, and on a busy machine more than a second. So in between the
// emulator has to answer another question.
const doubtFor = time.Second / 2

// A judge tells which requests were refused. The emulator tries a write before it knows the
// document, as a create, as an update or as both, whichever its precondition allows. It tries it
// again if that is no refusal, or if the rules ask for the document.
type judge struct {
	doubts []*trial // creates that were refused, the oldest first; an update may be tried next
}

// A trial is one evaluation of the rules, as the feed has it.
type trial struct {
	until    time.Time // how long a doubt waits
	asked    bool      // and that the emulator answered another question since
	Outcome  string    // allow, deny or error
	Outcomes []struct {
		Line    int
		Outcome bool
	} `json:"granularAllowOutcomes"`
	Context struct {
		Method, Path, Time string // the time is the request's: a trial again has the same
		Resource, Request  value
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

// hear returns the requests that a message of the feed, a trial or several, says were refused.
func (j *judge) hear(message []byte) (refused []Refusal) {
	if bytes.HasSuffix(message, []byte(`"outcome":"allow"}`)) && len(j.doubts) == 0 {
		return nil
	}
	var trials []trial
	if !bytes.HasPrefix(message, []byte("[")) {
		message = slices.Concat([]byte("["), message, []byte("]"))
	}
	if json.Unmarshal(message, &trials) != nil {
		return nil // another version's feed
	}
	for _, t := range trials {
		known := t.Context.Resource.Undefined == nil
		doubt := slices.IndexFunc(j.doubts, func(d *trial) bool {
			return t.Context.Method == "update" && t.Context.Path == d.Context.Path && t.Context.Time == d.Context.Time
		})
		switch {
		case doubt >= 0:
			d := j.doubts[doubt]
			j.doubts = slices.Delete(j.doubts, doubt, doubt+1)
			if t.Outcome == "deny" { // else it is tried again once the document is known
				d.Context.Method = "create or update"
				d.Outcomes = append(d.Outcomes, t.Outcomes...)
				refused = append(refused, d.refusal())
			}
		case t.Outcome == "allow", t.Outcome == "error" && !known:
		case t.Context.Method == "create" && !known:
			t.until = time.Now().Add(doubtFor)
			j.doubts = append(j.doubts, &t)
		default:
			refused = append(refused, t.refusal())
		}
	}
	return refused
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
