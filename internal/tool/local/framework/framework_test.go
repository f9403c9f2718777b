package framework

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/GoogleCloudPlatform/functions-framework-go/functions"
)

// asFunctions makes the test binary a process that serves at the port that the variable names.
const asFunctions = "FRAMEWORK_TEST_PORT"

func TestMain(m *testing.M) {
	if text := os.Getenv(asFunctions); text != "" {
		var port int
		_, err := fmt.Sscan(text, &port)
		if err == nil {
			functions.HTTP("Hello", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") })
			err = Serve(port, Tell)
		}
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// child returns a process that serves, and is killed when the test ends.
func child(t *testing.T, port int) (c *exec.Cmd, ports <-chan int) {
	t.Helper()
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c = exec.CommandContext(t.Context(), executable)
	c.Env = append(os.Environ(), fmt.Sprint(asFunctions, "=", port))
	l := NewListener()
	c.Stdout = l
	return c, l.Port()
}

// Each of several processes tells the port at which it itself serves.
func TestServe(t *testing.T) {
	given := make(map[int]bool)
	for range 3 {
		c, ports := child(t, 0)
		c.Stderr = os.Stderr
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Wait() }) // it was killed
		port := <-ports
		if given[port] {
			t.Errorf("two processes at port %d", port)
		}
		given[port] = true
		res, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/Hello", port))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		if string(body) != "hello" || err != nil {
			t.Errorf("port %d answers %q, %v", port, body, err)
		}
	}
}

// Another program at the port is not taken for the functions, whatever it answers.
func TestServeAtAnothersPort(t *testing.T) {
	for name, handler := range map[string]http.HandlerFunc{
		"it answers":       func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.URL.Path) },
		"it never answers": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		another := &http.Server{Handler: handler}
		go func() { _ = another.Serve(l) }() // until Close
		c, ports := child(t, l.Addr().(*net.TCPAddr).Port)
		var errs bytes.Buffer
		c.Stderr = &errs
		if err := c.Run(); err == nil || !strings.Contains(errs.String(), "listen tcp "+l.Addr().String()) {
			t.Errorf("%s: ended with %v, %s", name, err, &errs)
		}
		select {
		case port := <-ports:
			t.Errorf("%s: it told port %d", name, port)
		default:
		}
		if err := another.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	}
}

// Nor is it while it is not known yet that the port is taken.
func TestAnotherAnswersFirst(t *testing.T) {
	asked := make(chan bool)
	another := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case asked <- true:
		case <-r.Context().Done():
		}
		fmt.Fprint(w, "another")
	}))
	defer another.Close()
	taken, ended := errors.New("taken"), make(chan error, 1)
	ready := make(chan bool)
	go func() {
		<-asked
		select {
		case <-asked: // so the first answer was not enough
		case <-ready:
			t.Error("ready when another answered")
		}
		ended <- taken
	}()
	err := ask(another.URL, nil, ended, func() { close(ready) })
	if !errors.Is(err, taken) {
		t.Errorf("got %v, want what serve returned", err)
	}
}

func TestServeOneFunction(t *testing.T) {
	t.Setenv("FUNCTION_TARGET", "Hello")
	if err := Serve(0, func(int) { t.Error("it serves") }); err == nil || !strings.Contains(err.Error(), "FUNCTION_TARGET") {
		t.Errorf("got %v, want what to unset", err)
	}
}

func TestListener(t *testing.T) {
	l := NewListener()
	const output = "Serving function: \"A\"\ntally: functions served at port 8081\ntally: functions served at port 9\n"
	for i := range len(output) {
		if n, err := l.Write([]byte(output[i : i+1])); n != 1 || err != nil {
			t.Fatal(n, err)
		}
	}
	if got := <-l.Port(); got != 8081 {
		t.Errorf("got port %d", got)
	}
}
