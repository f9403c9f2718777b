//go:build unix

package shared

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/rpc"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/firestore-tally/tally/internal/tool/local/emulator"
	"github.com/firestore-tally/tally/internal/tool/local/freeport"
)

// Variables that make a test binary the host.
const (
	hostVariable   = "TALLY_TESTS_HOST"        // path of the socket
	lingerVariable = "TALLY_TESTS_HOST_LINGER" // how long it waits for another member
)

// ready is what the host says when it listens.
const ready = "ready"

// The emulator keeps what tests wrote. A run of all tests leaves some 500 megabytes there, and may
// go on when another run begins.
const (
	heap = 1024     // the megabytes that the emulator may use
	full = heap / 2 // a host whose emulator uses more takes no more members
)

// init makes a test binary the host before its tests, or anything that its TestMain does, begins.
func init() {
	socket := os.Getenv(hostVariable)
	if socket == "" {
		return
	}

	err := serveEmulator(socket)
	if err != nil {
		log.Fatal(err)
	}
	os.Exit(0)
}

// A host runs the emulator for all test binaries.
type host struct {
	socket   string
	linger   time.Duration
	emulator *emulator.Emulator
	listener os.FileInfo // of the socket
	posts    posts

	mu      sync.Mutex
	members int
	gone    *time.Timer // runs while there is no member
	ended   chan struct{}
	locked  *os.File // held from the end on, so that it is not unlocked before the process ends
}

// serveEmulator starts an emulator, and stops it when no one needs it.
func serveEmulator(socket string) error {
	said := os.NewFile(3, "said")
	syscall.CloseOnExec(int(said.Fd()))
	h := &host{socket: socket, ended: make(chan struct{})}

	listener, err := h.start()
	if err != nil {
		fmt.Fprint(said, err)
		said.Close()
		return err
	}
	log.Printf("runs %s, at %s", h.emulator.Program(), h.emulator.Addr())
	go h.accept(listener)
	fmt.Fprint(said, ready)
	said.Close()

	select {
	case <-h.emulator.Done():
		return fmt.Errorf("the emulator ended by itself: %w", h.emulator.Stop())
	case <-h.ended:
		log.Print("ends, because no one needs it")
		err = h.emulator.Stop()
		_ = os.Remove(collections(h.socket, os.Getpid()))
		return err
	}
}

// start starts the emulator and listens at the socket, in place of a host that was killed.
func (h *host) start() (listener net.Listener, err error) {
	h.linger, err = time.ParseDuration(os.Getenv(lingerVariable))
	if err != nil {
		return nil, err
	}
	for name, value := range map[string]string{
		hostVariable:       "", // for the host alone
		lingerVariable:     "",
		"JDK_JAVA_OPTIONS": fmt.Sprintf("-Xmx%dm -Xlog:gc:file=%s::filecount=0", heap, filepath.Base(collections(h.socket, os.Getpid()))),
	} {
		err = os.Setenv(name, value)
		if err != nil {
			return nil, err
		}
	}

	events, err := net.Listen("tcp", freeport.HostPort(0))
	if err != nil {
		return nil, err
	}
	go func() { log.Fatal(http.Serve(events, &h.posts)) }()
	h.emulator, err = emulator.Start(context.Background(), emulator.Options{Functions: events.Addr().String()})
	if err != nil {
		return nil, err
	}

	_ = os.Remove(h.socket) // mostly it is not there
	listener, err = net.Listen("unix", h.socket)
	if err != nil {
		return nil, err
	}
	listener.(*net.UnixListener).SetUnlinkOnClose(false) // see remove
	err = os.Chmod(h.socket, 0o600)
	if err != nil {
		return nil, err
	}
	h.listener, err = os.Stat(h.socket)
	h.gone = time.AfterFunc(h.linger, h.end)
	return listener, err
}

// accept takes members.
func (h *host) accept(listener net.Listener) {
	for {
		member, err := listener.Accept()
		if err != nil {
			log.Fatal(err)
		}
		go h.serve(member)
	}
}

// serve serves a member until it goes.
func (h *host) serve(member net.Conn) {
	s := &session{host: h}
	server := rpc.NewServer()
	err := server.RegisterName("Host", s)
	if err != nil {
		log.Fatal(err)
	}

	h.count(1)
	defer h.count(-1)
	defer s.end()
	server.ServeConn(member)
}

// count counts a member that came, or went.
func (h *host) count(change int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.members += change
	h.gone.Stop()
	if h.members == 0 {
		h.gone.Reset(h.linger)
	}
}

// end ends the host, unless somebody joins now.
func (h *host) end() {
	locked, err := lock(h.socket, syscall.LOCK_EX|syscall.LOCK_NB)
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.members > 0:
		if err == nil {
			locked.Close()
		}
	case err != nil:
		h.gone.Reset(time.Second)
	default:
		h.locked = locked
		h.remove()
		close(h.ended)
	}
}

// remove removes the socket, so that no one joins any more, unless another host listens there.
func (h *host) remove() {
	there, err := os.Stat(h.socket)
	if err == nil && os.SameFile(there, h.listener) {
		_ = os.Remove(h.socket)
	}
}

// collections returns the path of the log of garbage collections of a host's emulator. It is in
// the host's working directory. A host that is full may live on when the next one runs.
func collections(socket string, host int) string { return fmt.Sprintf("%s.%d.gc", socket, host) }

// used matches the megabytes that were in use after a collection.
var used = regexp.MustCompile(`->(\d+)M\(`)

// full reports whether the emulator uses so much memory that it should get no more tests.
func (h *host) full() bool {
	text, err := os.ReadFile(collections(h.socket, os.Getpid()))
	found := used.FindAllSubmatch(text, -1)
	if err != nil || len(found) == 0 {
		return false // Java has collected nothing yet
	}

	megabytes, err := strconv.Atoi(string(found[len(found)-1][1]))
	return err == nil && megabytes > full
}

// A session is what a member can ask of its host.
type session struct {
	host *host

	mu     sync.Mutex
	wanted []string // projects
}

// Hello is what a member is told when it joins.
type Hello struct {
	Addr string // of the emulator
	Host int    // process id
}

// Hello tells what a member needs. If joins says that it is new, it may be refused.
func (s *session) Hello(joins bool, answer *Hello) error {
	if joins && s.host.full() {
		s.host.remove()
		return errors.New("full")
	}
	*answer = Hello{s.host.emulator.Addr(), os.Getpid()}
	return nil
}

// Wanted says which events a member wants.
type Wanted struct {
	Project string
	URL     string // of the member
}

// Want has events delivered to the member.
func (s *session) Want(events Wanted, _ *struct{}) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wanted = append(s.wanted, events.Project)
	s.host.posts.want(events.Project, events.URL)
	return nil
}

// end drops the events that the member wanted.
func (s *session) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, project := range s.wanted {
		s.host.posts.forget(project)
	}
}
