// Package framework serves the registered functions with Google's functions framework on this
// machine.
//
// A program registers its functions with Google's framework, which then serves each at a path of
// its name. The framework wants to be told a port. It takes no listener, and does not say when it
// listens. So another program at the port could be taken for the functions. [Serve] therefore
// requests a path with a random name until the request arrives in this very process.
//
// A parent starts a functions process with a [Listener] as its standard output, and the process
// calls [Tell] once it serves.
//
// The package is small because tests start functions without the rest of package local: a stack
// with its emulator, events and load.
package framework

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"sync"
	"time"

	"github.com/GoogleCloudPlatform/functions-framework-go/funcframework"
	"github.com/GoogleCloudPlatform/functions-framework-go/functions"
	"github.com/firestore-tally/tally/internal/tool/local/freeport"
)

// pollEvery is how often Serve asks whether the framework serves.
const pollEvery = 5 * time.Millisecond

// Serve serves the registered functions at a port of the loopback address, or at any that is free
// if port is 0. It calls ready with the port when this process serves there. It returns an error
// when it cannot serve, or no longer can. A process calls it once.
func Serve(port int, ready func(port int)) error {
	if os.Getenv("FUNCTION_TARGET") != "" {
		return errors.New("framework: FUNCTION_TARGET is set, so one function would be served at every path; unset it")
	}

	if port == 0 {
		held, _, err := freeport.Hold(0) // until the process ends
		if err != nil {
			return err
		}
		port = held
	}

	question, asked := rand.Text(), make(chan struct{})
	hear := sync.OnceFunc(func() { close(asked) })
	functions.HTTP(question, func(http.ResponseWriter, *http.Request) { hear() })

	ended := make(chan error, 1)
	go func() { ended <- funcframework.StartHostPort(freeport.Loopback, strconv.Itoa(port)) }()

	url := "http://" + freeport.HostPort(port) + "/" + question
	return ask(url, asked, ended, func() { ready(port) })
}

// client does not wait long for another program, which may never answer.
var client = &http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

// ask sends requests to url until asked says that this process got one. Then it calls ready. It
// returns the error that ended brings.
func ask(url string, asked <-chan struct{}, ended <-chan error, ready func()) error {
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()

	for {
		res, err := client.Get(url)
		if err == nil {
			res.Body.Close()
		}

		select {
		case <-asked:
			ready()
			return <-ended
		case err := <-ended:
			return err
		case <-poll.C:
		}
	}
}

// portLine matches the line by which a process tells its port.
var portLine = regexp.MustCompile(`(?m)^tally: functions served at port (\d+)\n`)

// Tell tells the port on standard output, to the parent's [Listener].
func Tell(port int) { fmt.Printf("tally: functions served at port %d\n", port) }

// A Listener is the standard output of a process that calls [Tell]. It finds the port in the
// output, and drops the rest.
type Listener struct {
	port     chan int
	text     []byte // written so far; nil once the port was told
	reported bool
}

// NewListener returns a Listener.
func NewListener() *Listener { return &Listener{port: make(chan int, 1)} }

// Port returns a channel that receives the port, once.
func (l *Listener) Port() <-chan int { return l.port }

func (l *Listener) Write(p []byte) (int, error) {
	if l.reported {
		return len(p), nil
	}

	l.text = append(l.text, p...)
	line := portLine.FindSubmatch(l.text)
	if line == nil {
		return len(p), nil
	}

	port, _ := strconv.Atoi(string(line[1])) // our own digits
	l.port <- port
	l.text, l.reported = nil, true
	return len(p), nil
}
