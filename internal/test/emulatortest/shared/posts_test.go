package shared

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
)

// A project whose test does not answer holds up neither the emulator nor another project, and the
// events of each come in their order.
func TestPosts(t *testing.T) {
	var p posts
	emulator := httptest.NewServer(&p)
	defer emulator.Close()
	send := func(project, body string) {
		t.Helper()
		answer, err := http.Post(emulator.URL+"/functions/projects/"+project+"/triggers/t", "application/protobuf", strings.NewReader(body))
		if err != nil || answer.StatusCode != http.StatusAccepted {
			t.Fatalf("%v %v", answer, err)
		}
		answer.Body.Close()
	}

	got, arrived, answer := make(chan string, 100), make(chan bool, 100), make(chan bool)
	binary := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		if ProjectOf(r.URL.Path) == "slow" {
			arrived <- true
			<-answer
		}
		got <- r.URL.Path + " " + r.Header.Get("Content-Type") + " " + string(body)
	}))
	defer binary.Close()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	p.want("slow", binary.URL)
	p.want("quick", binary.URL)
	p.want("gone", gone.URL)

	for i := range 10 {
		send("slow", strconv.Itoa(i))
		send("unknown", "")
		send("gone", "")
		send("quick", strconv.Itoa(i))
	}
	for i := range 10 {
		if got, want := <-got, "/functions/projects/quick/triggers/t application/protobuf "+strconv.Itoa(i); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	for i := range 3 {
		<-arrived
		answer <- true
		if got, want := <-got, "/functions/projects/slow/triggers/t application/protobuf "+strconv.Itoa(i); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}

	// The rest is dropped, except for the one on its way.
	<-arrived
	p.forget("slow")
	close(answer)
	<-got
	p.want("slow", binary.URL)
	send("slow", "last")
	if got, want := <-got, "/functions/projects/slow/triggers/t application/protobuf last"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestProjectOf(t *testing.T) {
	for path, want := range map[string]string{
		"/functions/projects/demo-a/triggers/t": "demo-a",
		"/functions/projects/demo-a":            "",
		"/demo-a/triggers/t":                    "",
	} {
		if got := ProjectOf(path); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}
