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

// Variables that make a test binary the keeper.
const (
	keepsVariable  = "TALLY_TESTS_KEEPER"        // path of the socket
	lingerVariable = "TALLY_TESTS_KEEPER_LINGER" // how long it waits for another member
)

// ready is what the keeper says when it listens.
const ready = "ready"

// The emulator keeps what tests wrote. A run of all tests leaves some 500 megabytes there, and may
// go on when another run begins.
const (
	heap = 1024     // the megabytes that the emulator may use
	full = heap / 2 // a keeper whose emulator uses more takes no more members
)

// init makes a test binary the keeper before its tests, or anything that its TestMain does, begins.
func init() {
	socket := os.Getenv(keepsVariable)
	if socket == "" {
		return
	}

	err := keep(socket)
	if err != nil {
		log.Fatal(err)
	}
	os.Exit(0)
}

// A keeper keeps the emulator.
type keeper struct {
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

// keep starts an emulator, and keeps it until no one needs it.
func keep(socket string) error {
	said := os.NewFile(3, "said")
	syscall.CloseOnExec(int(said.Fd()))
	k := &keeper{socket: socket, ended: make(chan struct{})}

	listener, err := k.start()
	if err != nil {
		fmt.Fprint(said, err)
		said.Close()
		return err
	}
	log.Printf("keeps %s, at %s", k.emulator.Program(), k.emulator.Addr())
	go k.accept(listener)
	fmt.Fprint(said, ready)
	said.Close()

	select {
	case <-k.emulator.Done():
		return fmt.Errorf("the emulator ended by itself: %w", k.emulator.Stop())
	case <-k.ended:
		log.Print("ends, because no one needs it")
		err = k.emulator.Stop()
		_ = os.Remove(collections(k.socket, os.Getpid()))
		return err
	}
}

// start starts the emulator and listens at the socket, in place of a keeper that was killed.
func (k *keeper) start() (listener net.Listener, err error) {
	k.linger, err = time.ParseDuration(os.Getenv(lingerVariable))
	if err != nil {
		return nil, err
	}
	for name, value := range map[string]string{
		keepsVariable:      "", // for the keeper alone
		lingerVariable:     "",
		"JDK_JAVA_OPTIONS": fmt.Sprintf("-Xmx%dm -Xlog:gc:file=%s::filecount=0", heap, filepath.Base(collections(k.socket, os.Getpid()))),
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
	go func() { log.Fatal(http.Serve(events, &k.posts)) }()
	k.emulator, err = emulator.Start(context.Background(), emulator.Options{Functions: events.Addr().String()})
	if err != nil {
		return nil, err
	}

	_ = os.Remove(k.socket) // mostly it is not there
	listener, err = net.Listen("unix", k.socket)
	if err != nil {
		return nil, err
	}
	listener.(*net.UnixListener).SetUnlinkOnClose(false) // see remove
	err = os.Chmod(k.socket, 0o600)
	if err != nil {
		return nil, err
	}
	k.listener, err = os.Stat(k.socket)
	k.gone = time.AfterFunc(k.linger, k.end)
	return listener, err
}

// accept takes members.
func (k *keeper) accept(listener net.Listener) {
	for {
		member, err := listener.Accept()
		if err != nil {
			log.Fatal(err)
		}
		go k.serve(member)
	}
}

// serve serves a member until it goes.
func (k *keeper) serve(member net.Conn) {
	s := &session{keeper: k}
	server := rpc.NewServer()
	err := server.RegisterName("Keeper", s)
	if err != nil {
		log.Fatal(err)
	}

	k.count(1)
	defer k.count(-1)
	defer s.end()
	server.ServeConn(member)
}

// count counts a member that came, or went.
func (k *keeper) count(change int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.members += change
	k.gone.Stop()
	if k.members == 0 {
		k.gone.Reset(k.linger)
	}
}

// end ends the keeper, unless somebody joins now.
func (k *keeper) end() {
	locked, err := lock(k.socket, syscall.LOCK_EX|syscall.LOCK_NB)
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.members > 0:
		if err == nil {
			locked.Close()
		}
	case err != nil:
		k.gone.Reset(time.Second)
	default:
		k.locked = locked
		k.remove()
		close(k.ended)
	}
}

// remove removes the socket, so that no one joins any more, unless another keeper listens there.
func (k *keeper) remove() {
	there, err := os.Stat(k.socket)
	if err == nil && os.SameFile(there, k.listener) {
		_ = os.Remove(k.socket)
	}
}

// collections returns the path of the log of garbage collections of a keeper's emulator. It is in
// the keeper's working directory. A keeper that is full may live on when the next one runs.
func collections(socket string, keeper int) string { return fmt.Sprintf("%s.%d.gc", socket, keeper) }

// used matches the megabytes that were in use after a collection.
var used = regexp.MustCompile(`->(\d+)M\(`)

// full reports whether the emulator uses so much memory that it should get no more tests.
func (k *keeper) full() bool {
	text, err := os.ReadFile(collections(k.socket, os.Getpid()))
	found := used.FindAllSubmatch(text, -1)
	if err != nil || len(found) == 0 {
		return false // Java has collected nothing yet
	}

	megabytes, err := strconv.Atoi(string(found[len(found)-1][1]))
	return err == nil && megabytes > full
}

// A session is what a member can ask of its keeper.
type session struct {
	keeper *keeper

	mu     sync.Mutex
	wanted []string // projects
}

// Hello is what a member is told when it joins.
type Hello struct {
	Addr   string // of the emulator
	Keeper int    // process id
}

// Hello tells what a member needs. If joins says that it is new, it may be refused.
func (s *session) Hello(joins bool, answer *Hello) error {
	if joins && s.keeper.full() {
		s.keeper.remove()
		return errors.New("full")
	}
	*answer = Hello{s.keeper.emulator.Addr(), os.Getpid()}
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
	s.keeper.posts.want(events.Project, events.URL)
	return nil
}

// end drops the events that the member wanted.
func (s *session) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, project := range s.wanted {
		s.keeper.posts.forget(project)
	}
}
