package dashboard

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/firestore-tally/tally/internal/billing"
)

//go:embed page
var pageFiles embed.FS

// policy lets the page load its own files and nothing else from anywhere.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// maxStreams is how many streams are served at once.
const maxStreams = 16

// every is the time between two messages of a stream when something has changed; heartbeat when nothing
// has, which also tells the page the time.
const (
	every     = 250 * time.Millisecond
	heartbeat = time.Second
)

// writeWithin is how long a page may take to receive a message before its stream is ended.
const writeWithin = 30 * time.Second

// handler serves the page and the streams. What is being served is counted in served.
func (b *Board) handler(served *sync.WaitGroup) http.Handler {
	files, err := fs.Sub(pageFiles, "page")
	if err != nil {
		panic(err) // not reached: the folder is in the binary
	}
	mux := http.NewServeMux()
	mux.Handle("GET /", http.FileServerFS(files))
	stream := func(serve func(s *stream, r *http.Request) error) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { b.serveStream(w, r, serve) })
	}
	mux.Handle("GET /counters", stream(b.streamCounters))
	mux.Handle("GET /counters/{id}", stream(b.streamCounter))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		served.Add(1)
		defer served.Done()
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store") // the next run may be of another version
		if !local(r.Host) {
			http.Error(w, "tally: this page answers only at localhost and 127.0.0.1", http.StatusForbidden)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// local reports whether a Host header names this machine. Another site whose name was made to lead
// here (DNS rebinding) has its own name in it.
func local(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = strings.Trim(host, "[]")
	}
	ip := net.ParseIP(name)
	return strings.EqualFold(name, "localhost") || ip != nil && ip.IsLoopback()
}

// A stream is a response of server-sent events.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
}

// send sends one event. It returns when it was handed to the network, so that a page that reads slowly is
// sent less, not later.
func (s *stream) send(message any) error {
	data, err := json.Marshal(message)
	if err != nil {
		return err
	}
	if err := s.control.SetWriteDeadline(time.Now().Add(writeWithin)); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(s.w, "data: %s\n\n", data); err != nil {
		return err
	}
	return s.control.Flush()
}

// serveStream has serve send events until it fails, which it does when the page or the board is
// gone.
func (b *Board) serveStream(w http.ResponseWriter, r *http.Request, serve func(*stream, *http.Request) error) {
	// Other sites cannot read a stream, but opening one can cost reads.
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" && site != "none" {
		http.Error(w, "tally: only for the dashboard's own page", http.StatusForbidden)
		return
	}
	b.mu.Lock()
	full := b.streams >= maxStreams
	if !full {
		b.streams++
	}
	b.mu.Unlock()
	if full {
		w.Header().Set("Retry-After", "5")
		http.Error(w, fmt.Sprintf("tally: %d pages are open already; close one", maxStreams), http.StatusServiceUnavailable)
		return
	}
	defer func() {
		b.mu.Lock()
		b.streams--
		b.mu.Unlock()
	}()
	err := serve(&stream{w, http.NewResponseController(w)}, r)
	if errors.Is(err, errNoCounter) {
		http.Error(w, err.Error(), http.StatusNotFound)
	}
	// Any other error says that there is nobody to tell.
}

// begin begins the events.
func (s *stream) begin() error {
	s.w.Header().Set("Content-Type", "text/event-stream")
	_, err := fmt.Fprint(s.w, "retry: 1000\n\n") // milliseconds until the browser connects again
	return err
}

// A message is what the page is sent of all counters.
type message struct {
	About    *about     `json:"about,omitempty"`   // in the first message only; then rows are all there are
	Now      int64      `json:"now"`               // Firestore's time, in microseconds since 1970
	Ready    bool       `json:"ready"`             // all counters are known
	Rows     []rowState `json:"rows,omitempty"`    // new and changed
	Removed  []int64    `json:"removed,omitempty"` // ids of rows
	Rate     float64    `json:"rate"`              // change of all totals a second
	RollUps  float64    `json:"rollups"`           // a second
	Watching bill       `json:"watching"`          // what this board costs
	Local    *functions `json:"functions,omitempty"`
	Problems []string   `json:"problems,omitempty"`
}

// about is what does not change.
type about struct {
	Project   string   `json:"project"`
	Emulator  string   `json:"emulator,omitempty"`
	Databases []string `json:"databases"`
	Routes    []string `json:"routes"`
	Window    float64  `json:"window"` // of rates, in seconds
	Functions bool     `json:"functions"`
}

type rowState struct {
	ID       int64   `json:"id"`
	Database string  `json:"database"`
	Name     string  `json:"name"`
	Field    string  `json:"field"`
	RollUp   string  `json:"rollup"`
	Route    int     `json:"route"`
	Total    string  `json:"total"`
	Rate     float64 `json:"rate"`
	AsOf     int64   `json:"as_of"`
	Shards   int64   `json:"shards"`
}

type bill struct {
	billing.Counts
	Dollars float64 `json:"dollars"`
}

type functions struct {
	Billed      bill `json:"billed"`
	Events      int  `json:"events"`
	Waiting     int  `json:"waiting"`
	Redelivered int  `json:"redelivered"`
}

// next returns what to send to a page that has been sent rows of these versions, and notes that it was
// sent. Nil: it was sent nothing.
func (b *Board) next(sent map[*row]int, local time.Time) (*message, map[*row]int) {
	own := billing.Counts{Reads: b.reads.Load()}
	b.mu.Lock()
	defer b.mu.Unlock()
	m := &message{Now: b.line.serverTime(local).UnixMicro(), Ready: true, Rate: b.model.rate, RollUps: b.rollUpsPerSecond(local), Watching: bill{own, own.Cost()}}
	if f := b.functions; f != nil {
		m.Local = &functions{bill{f.Billed, f.Billed.Cost()}, f.Events, f.Waiting, f.Redelivered}
	}
	for _, q := range b.queries {
		m.Ready = m.Ready && q.ready
		if q.err != nil {
			m.Problems = append(m.Problems, q.err.Error())
		}
	}
	if b.broken != nil {
		m.Problems = append(m.Problems, b.broken.Error())
	}
	if b.trouble != nil {
		m.Problems = append(m.Problems, "operations of the functions: "+b.trouble.Error())
	}
	if sent == nil {
		m.About, sent = b.about(), make(map[*row]int)
	}
	for _, r := range b.model.rows {
		if sent[r] != r.version {
			l := r.latest()
			m.Rows = append(m.Rows, rowState{r.id, r.key.database, r.name(), r.key.total, r.key.rollUp, r.from.route, l.total.String(), r.rate, l.asOf, r.shards})
			sent[r] = r.version
		}
	}
	for r := range sent {
		if b.model.rows[r.key] != r {
			m.Removed = append(m.Removed, r.id)
			delete(sent, r)
		}
	}
	return m, sent
}

func (b *Board) rollUpsPerSecond(local time.Time) float64 {
	if b.model.began == 0 {
		return 0
	}
	now := b.line.serverTime(local)
	return b.model.rollUps.perSecond(now, now.Sub(time.UnixMicro(b.model.began)))
}

func (b *Board) about() *about {
	a := &about{Emulator: b.options.Emulator, Window: b.model.window.Seconds(), Functions: b.options.Functions != nil}
	for _, database := range b.options.Databases {
		a.Project = strings.Split(database.Client.Doc("a/b").Path, "/")[1] // projects/{project}/databases/...
		a.Databases = append(a.Databases, database.ID)
	}
	for _, route := range b.options.Routes {
		a.Routes = append(a.Routes, route.String())
	}
	return a
}

// news reports whether a message says more than the time.
func (m *message) news() bool { return m.About != nil || len(m.Rows)+len(m.Removed) > 0 }

// streamCounters sends all counters, and then what changes.
func (b *Board) streamCounters(s *stream, r *http.Request) error {
	if err := s.begin(); err != nil {
		return err
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	var rows map[*row]int
	var sent time.Time
	for {
		now := time.Now()
		var m *message
		if m, rows = b.next(rows, now); m.news() || now.Sub(sent) >= heartbeat {
			if err := s.send(m); err != nil {
				return err
			}
			sent = now
		}
		select {
		case <-r.Context().Done():
			return r.Context().Err()
		case <-tick.C:
		}
	}
}

var errNoCounter = errors.New("tally: no such counter")

// A detail is what the page is sent of the counter that is looked at.
type detail struct {
	History [][2]any     `json:"history"` // as_of in microseconds, total; the oldest first
	Shards  []shardState `json:"shards"`  // null: not known yet
	Sum     string       `json:"sum"`     // of the shards; "": not known
	Limit   int          `json:"limit"`   // of the shards that are listened to
	Problem string       `json:"problem,omitempty"`
}

// streamCounter sends what is known of one row, again and again, and listens to its shards as long.
func (b *Board) streamCounter(s *stream, r *http.Request) error {
	id, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
	if err != nil {
		return errNoCounter
	}
	row := b.row(id)
	if row == nil {
		return errNoCounter
	}
	look, leave := b.looks.at(r.Context(), row)
	defer leave()
	if err := s.begin(); err != nil {
		return err
	}
	tick := time.NewTicker(2 * every)
	defer tick.Stop()
	reported := false
	for {
		d := &detail{History: b.history(row), Limit: maxShards}
		if d.History == nil {
			return nil // the roll-up is gone; the page knows from the other stream
		}
		d.Shards, d.Sum, err = look.state(row.from.field, time.Now())
		if err != nil {
			if !reported {
				err = b.report(fmt.Errorf("shards in %q: %w", row.from.shards, err))
				reported = true
			}
			d.Problem = err.Error()
		}
		if err := s.send(d); err != nil {
			return err
		}
		select {
		case <-r.Context().Done():
			return r.Context().Err()
		case <-tick.C:
		}
	}
}

// row returns the row of an id, or nil.
func (b *Board) row(id int64) *row {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range b.model.rows {
		if r.id == id {
			return r
		}
	}
	return nil
}

// history returns the last totals of a row, or nil if it was removed.
func (b *Board) history(r *row) [][2]any {
	b.mu.Lock()
	defer b.mu.Unlock()
	var history [][2]any
	for _, s := range r.samples {
		history = append(history, [2]any{s.asOf, s.total.String()})
	}
	return history
}
