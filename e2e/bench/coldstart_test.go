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
	"sync"
	"testing"
	"time"

	"github.com/firestore-tally/tally/internal/test/emulatortest"
	"github.com/firestore-tally/tally/internal/tool/local/eventrelay"
	"github.com/firestore-tally/tally/internal/tool/local/freeport"
	"github.com/googleapis/google-cloudevents-go/cloud/firestoredata"
)

// BenchmarkColdStart is from the start of the process that is deployed until its first event is
// answered, which for Tally is one roll-up on the emulator; and the same of a function that does
// nothing. It is built as for deployment, without symbols for a debugger.
func BenchmarkColdStart(b *testing.B) {
	project := emulatortest.Project(b)
	for _, program := range []string{"deployed", "empty"} {
		b.Run(program, func(b *testing.B) {
			binary := build(b, program)
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
	began := time.Now()
	address, _, stop := start(ctx, b, binary, "FUNCTION_TARGET=RollUpOnWrite", "GOOGLE_CLOUD_PROJECT="+project)
	defer stop()
	serving = time.Since(began)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(e.Body))
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

// build builds a program as for deployment and returns its path.
func build(b *testing.B, program string) string {
	binary := filepath.Join(b.TempDir(), program)
	if output, err := exec.Command("go", "build", "-ldflags=-s -w", "-o", binary, "./testdata/"+program).CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, output)
	}
	return binary
}

// start starts a program and returns its address when it accepts connections. stop kills it, once.
func start(ctx context.Context, b *testing.B, binary string, env ...string) (address string, c *exec.Cmd, stop func()) {
	held, release, err := freeport.Hold(0)
	if err != nil {
		b.Fatal(err)
	}
	port := strconv.Itoa(held)
	c = exec.CommandContext(ctx, binary)
	c.Env = append(append(os.Environ(), "PORT="+port), env...)
	if err := c.Start(); err != nil {
		release()
		b.Fatal(err)
	}
	stop = sync.OnceFunc(func() {
		_ = c.Process.Kill()
		_ = c.Wait() // it was killed
		release()
	})
	for {
		conn, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil {
			conn.Close()
			return "http://127.0.0.1:" + port, c, stop
		}
		if ctx.Err() != nil {
			stop()
			b.Fatal("the program does not serve")
		}
	}
}
