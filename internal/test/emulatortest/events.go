package emulatortest

import (
	"net"
	"net/http"
	"sync"
	"testing"

	"github.com/firestore-tally/tally/internal/test/emulatortest/shared"
	"github.com/firestore-tally/tally/internal/tool/local/freeport"
)

// handlers are those of the projects' events, by project.
var handlers sync.Map

// Handle has a handler get the events of a project until the test ends: a POST from the emulator
// for each write that matches a trigger (emulator.RegisterTrigger). It is called before the trigger
// is registered. It serves the shared emulator and those of [Own].
func Handle(t testing.TB, project string, handler http.Handler) {
	t.Helper()
	Addr(t)
	handlers.Store(project, handler)
	t.Cleanup(func() { handlers.Delete(project) })

	used.mu.Lock()
	defer used.mu.Unlock()
	if used.member == nil {
		return
	}
	err := used.member.Want(project, "http://"+events())
	if err != nil {
		t.Fatal(err)
	}
}

// events returns the host:port at which this test binary takes events.
var events = sync.OnceValue(func() string {
	listener, err := net.Listen("tcp", freeport.HostPort(0))
	if err != nil {
		exit(err)
	}
	go func() { exit(http.Serve(listener, http.HandlerFunc(handle))) }()
	return listener.Addr().String()
})

// handle hands an event to the handler of its project.
func handle(w http.ResponseWriter, req *http.Request) {
	handler, ok := handlers.Load(shared.ProjectOf(req.URL.Path))
	if !ok {
		http.NotFound(w, req)
		return
	}
	handler.(http.Handler).ServeHTTP(w, req)
}
