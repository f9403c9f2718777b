// Package framework serves the registered functions with Google's functions framework on this
// machine, at a port that is certainly theirs.
//
// The framework wants to be told a port, says nothing when it listens there, and takes no listener.
// [Serve] asks a question that only this process can answer, so that another program at the port is
// not taken for the functions. A parent starts a process of functions with a [Listener] as its
// standard output, and the process calls [Tell].
package framework

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"time"

	"github.com/GoogleCloudPlatform/functions-framework-go/funcframework"
	"github.com/GoogleCloudPlatform/functions-framework-go/functions"
	"github.com/firestore-tally/tally/internal/freeport"
)

const loopback = "127.0.0.1"

const (
	// attempts is how many ports Serve tries where freeport cannot hold them.
	attempts = 5

	// pollEvery is how often Serve asks whether the framework serves.
	pollEvery = 5 * time.Millisecond
)

// Serve serves the registered functions at a port of the loopback address, or at any that is free
// if port is 0, and calls ready with the port when this process serves there. It returns an error
// when it cannot serve, or no longer can. A process calls it once.
func Serve(port int, ready func(port int)) error {
	if os.Getenv("FUNCTION_TARGET") != "" {
		return errors.New("framework: FUNCTION_TARGET is set, so one function would be served at every path; unset it")
	}
	question, answer := rand.Text(), rand.Text()
	functions.HTTP(question, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, answer) // to this process
	})
	serveAt := func(port int, ready func()) error {
		number := strconv.Itoa(port)
		serve := func() error { return funcframework.StartHostPort(loopback, number) }
		return serveUntil(serve, "http://"+net.JoinHostPort(loopback, number)+"/"+question, answer, ready)
	}
	if port != 0 {
		return serveAt(port, func() { ready(port) })
	}
	for attempt := 1; ; attempt++ {
		port, release, err := freeport.Hold(0)
		if err != nil {
			return err
		}
		served := false
		err = serveAt(port, func() {
			served = true
			release()
			ready(port)
		})
		if served {
			return err
		}
		release()
		if attempt == attempts {
			return err
		}
	}
}

// serveUntil serves, calls ready once url has the answer, and returns when serve does.
func serveUntil(serve func() error, url, answer string, ready func()) error {
	ctx, cancel := context.WithCancel(context.Background())
	var err error // written before ctx ends
	go func() {
		defer cancel()
		err = serve()
	}()
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	for get(ctx, url) != answer {
		select {
		case <-poll.C:
		case <-ctx.Done():
			return err
		}
	}
	ready()
	<-ctx.Done()
	return err
}

// client asks the question directly, whatever proxy the environment names.
var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// get returns the beginning of the answer at url, "" if there is none.
func get(ctx context.Context, url string) string {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return ""
	}
	res, err := client.Do(req)
	if err != nil {
		return ""
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(res.Body, 1<<10)) // an answer that is cut off is not ours
	return string(text)
}

// told matches the line by which a process tells its port.
var told = regexp.MustCompile(`(?m)^tally: functions served at port (\d+)\n`)

// Tell tells the port on standard output, to the parent's [Listener].
func Tell(port int) { fmt.Printf("tally: functions served at port %d\n", port) }

// A Listener is the standard output of a process that calls [Tell].
type Listener struct {
	next io.Writer
	port chan int
	text []byte // until the port was told
	told bool
}

// NewListener returns a listener that passes on what it hears to next, unless that is nil.
func NewListener(next io.Writer) *Listener {
	if next == nil {
		next = io.Discard
	}
	return &Listener{next: next, port: make(chan int, 1)}
}

// Port returns a channel that receives the port, once.
func (l *Listener) Port() <-chan int { return l.port }

func (l *Listener) Write(p []byte) (int, error) {
	if !l.told {
		l.text = append(l.text, p...)
		if m := told.FindSubmatch(l.text); m != nil {
			port, _ := strconv.Atoi(string(m[1])) // our own digits
			l.port <- port
			l.text, l.told = nil, true
		}
	}
	return l.next.Write(p)
}
