package bench

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/firestore-tally/tally/internal/emulator/emulatortest"
	"github.com/firestore-tally/tally/internal/eventrelay"
	"github.com/firestore-tally/tally/internal/freeport"
	"github.com/googleapis/google-cloudevents-go/cloud/firestoredata"
)

// BenchmarkColdStart is from the start of the process that is deployed until its first event is
// answered, which for Tally is one roll-up on the emulator; and the same of a function that does
// nothing. It is built as for deployment, without symbols for a debugger.
func BenchmarkColdStart(b *testing.B) {
	project := emulatortest.Project(b)
	for _, program := range []string{"deployed", "empty"} {
		b.Run(program, func(b *testing.B) {
			binary := filepath.Join(b.TempDir(), program)
			build := exec.Command("go", "build", "-ldflags=-s -w", "-o", binary, "./"+program)
			if output, err := build.CombinedOutput(); err != nil {
				b.Fatalf("%v: %s", err, output)
			}
			file, err := os.Stat(binary)
			if err != nil {
				b.Fatal(err)
			}
			var serving, answered time.Duration
			n := 0
			for b.Loop() {
				n++
				// A counter of its own: a roll-up soon after another would wait for the cadence.
				document := &firestoredata.Document{Name: fmt.Sprintf("projects/%s/databases/(default)/documents/counters/%s-%d/shards/0", project, program, n)}
				e, err := eventrelay.NewEvent(fmt.Sprintf("cold-%s-%d", program, n), time.Now(), nil, document)
				if err != nil {
					b.Fatal(err)
				}
				s, a := coldStart(b, binary, project, e)
				serving, answered = serving+s, answered+a
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(serving.Milliseconds())/float64(n), "serving-ms")
			b.ReportMetric(float64(answered.Milliseconds())/float64(n), "answered-ms")
			b.ReportMetric(float64(file.Size())/1e6, "MB")
		})
	}
}

// coldStart starts the program and returns when it accepted connections and when it had answered
// the event, from its start.
func coldStart(b *testing.B, binary, project string, e eventrelay.Event) (serving, answered time.Duration) {
	ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
	defer cancel()
	held, release, err := freeport.Hold(1)
	if err != nil {
		b.Fatal(err)
	}
	defer release()
	port := strconv.Itoa(held)
	c := exec.CommandContext(ctx, binary)
	c.Env = append(os.Environ(), "PORT="+port, "FUNCTION_TARGET=RollUpOnWrite", "GOOGLE_CLOUD_PROJECT="+project)
	began := time.Now()
	if err := c.Start(); err != nil {
		b.Fatal(err)
	}
	defer func() {
		_ = c.Process.Kill()
		_ = c.Wait() // it was killed
	}()
	for {
		conn, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil {
			conn.Close()
			break
		}
		if ctx.Err() != nil {
			b.Fatal("the program does not serve")
		}
	}
	serving = time.Since(began)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://127.0.0.1:"+port, bytes.NewReader(e.Body))
	if err != nil {
		b.Fatal(err)
	}
	r.Header = e.Header
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		b.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusOK {
		b.Fatalf("status %s", res.Status)
	}
	return serving, time.Since(began)
}
