// Package framework serves the registered functions with Google's functions framework on this
// machine, at a port that is certainly theirs.
//
// The framework wants to be told a port, says nothing when it listens there, and takes no listener.
// [Serve] asks a question until this process itself hears it, so that another program at the port
// is not taken for the functions. A parent starts a process of functions with a [Listener] as its
// standard output, and the process calls [Tell].
package framework

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"sync"
	"time"

	"github.com/GoogleCloudPlatform/functions-framework-go/funcframework"
	"github.com/GoogleCloudPlatform/functions-framework-go/functions"
	"github.com/firestore-tally/tally/internal/local/freeport"
)

const loopback = "127.0.0.1"

// pollEvery is how often Serve asks whether the framework serves.
const pollEvery = 5 * time.Millisecond

// Serve serves the registered functions at a port of the loopback address, or at any that is free
// if port is 0, and calls ready with the port when this process serves there. It returns an error
// when it cannot serve, or no longer can. A process calls it once.
func Serve(port int, ready func(port int)) error {
	if os.Getenv("FUNCTION_TARGET") != "" {
		return errors.New("framework: FUNCTION_TARGET is set, so one function would be served at every path; unset it")
	}
	if port == 0 {
		var err error
		if port, _, err = freeport.Hold(0); err != nil { // until the process ends
			return err
		}
	}
	question, asked := rand.Text(), make(chan struct{})
	hear := sync.OnceFunc(func() { close(asked) })
	functions.HTTP(question, func(http.ResponseWriter, *http.Request) { hear() })
	number, ended := strconv.Itoa(port), make(chan error, 1)
	go func() { ended <- funcframework.StartHostPort(loopback, number) }()
	url := "http://" + net.JoinHostPort(loopback, number) + "/" + question
	return ask(url, asked, ended, func() { ready(port) })
}

// client does not wait long for another program, which may never answer.
var client = &http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

// ask asks at url until this process is asked, then calls ready, and returns the error that ended
// brings.
func ask(url string, asked <-chan struct{}, ended <-chan error, ready func()) error {
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	for {
		if res, err := client.Get(url); err == nil {
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

// told matches the line by which a process tells its port.
var told = regexp.MustCompile(`(?m)^tally: functions served at port (\d+)\n`)

// Tell tells the port on standard output, to the parent's [Listener].
func Tell(port int) { fmt.Printf("tally: functions served at port %d\n", port) }

// A Listener is the standard output of a process that calls [Tell].
type Listener struct {
	port chan int
	text []byte // until the port was told
	told bool
}

// NewListener returns a Listener.
func NewListener() *Listener { return &Listener{port: make(chan int, 1)} }

// Port returns a channel that receives the port, once.
func (l *Listener) Port() <-chan int { return l.port }

func (l *Listener) Write(p []byte) (int, error) {
	if l.told {
		return len(p), nil
	}
	l.text = append(l.text, p...)
	if m := told.FindSubmatch(l.text); m != nil {
		port, _ := strconv.Atoi(string(m[1])) // our own digits
		l.port <- port
		l.text, l.told = nil, true
	}
	return len(p), nil
}
