package shared

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// ProjectOf returns the project of the path to which the emulator posts an event; "" if it is no
// such path.
func ProjectOf(path string) string {
	rest, ok := strings.CutPrefix(path, "/functions/projects/")
	project, _, more := strings.Cut(rest, "/")
	if !ok || !more {
		return ""
	}
	return project
}

// deliveryTimeout bounds one delivery, so that a test binary that is stopped does not hold memory
// forever.
const deliveryTimeout = time.Minute

// posts takes the emulator's events, and delivers those of each project in their order to the test
// binary that wants them. Events that no test binary wants are dropped, and so are those that
// cannot be delivered: their test has ended. The zero value is ready.
type posts struct {
	mu     sync.Mutex
	queues map[string]*queue // by project
}

// A queue has the events of one project.
type queue struct {
	to      string // URL of the test binary, without a path
	waiting []post
	running bool // whether a goroutine delivers them
}

// A post is an event as the emulator sent it.
type post struct {
	path   string
	header http.Header
	body   []byte
}

// want has the events of a project delivered to a test binary from now on.
func (p *posts) want(project, to string) {
	p.mu.Lock()
	defer p.mu.Unlock()

	if p.queues == nil {
		p.queues = make(map[string]*queue)
	}
	if p.queues[project] == nil {
		p.queues[project] = new(queue)
	}
	p.queues[project].to = to
}

// forget drops the events of a project that wait, and those to come.
func (p *posts) forget(project string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.queues, project)
}

// ServeHTTP takes an event, and answers before it is delivered.
func (p *posts) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return // the emulator has ended
	}
	w.WriteHeader(http.StatusAccepted)

	p.mu.Lock()
	defer p.mu.Unlock()
	project := ProjectOf(req.URL.Path)
	q := p.queues[project]
	if q == nil {
		return
	}
	q.waiting = append(q.waiting, post{req.URL.Path, req.Header.Clone(), body})
	if !q.running {
		q.running = true
		go p.deliver(project, q)
	}
}

// deliver delivers the events of a queue until none waits, or no one wants them.
func (p *posts) deliver(project string, q *queue) {
	client := &http.Client{Transport: new(http.Transport), Timeout: deliveryTimeout}
	defer client.CloseIdleConnections()

	for {
		next, to, ok := p.next(project, q)
		if !ok {
			return
		}

		request, err := http.NewRequest(http.MethodPost, to+next.path, bytes.NewReader(next.body))
		if err != nil {
			continue
		}
		request.Header = next.header
		response, err := client.Do(request)
		if err != nil {
			continue
		}
		_, _ = io.Copy(io.Discard, response.Body) // so that the connection is used again
		response.Body.Close()
	}
}

// next takes the first event of a queue.
func (p *posts) next(project string, q *queue) (first post, to string, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.queues[project] != q || len(q.waiting) == 0 {
		q.running = false
		return post{}, "", false
	}

	first, q.waiting = q.waiting[0], q.waiting[1:]
	return first, q.to, true
}
