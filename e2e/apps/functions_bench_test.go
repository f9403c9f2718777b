package apps

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/GoogleCloudPlatform/functions-framework-go/functions"
	"github.com/firestore-tally/tally/internal/cloud/app"
	"github.com/firestore-tally/tally/internal/test/emulatortest"
)

// Functions that only BenchmarkRollUpOnWrite calls: Tally's with the default cadence, and one that
// does nothing.
const (
	hot   = "Hot"
	empty = "Empty"
)

// hotProject is the project that the function hot serves.
var hotProject = "demo-" + strings.ToLower(rand.Text()[:20])

func init() {
	functions.HTTP(hot, app.New(environment("GOOGLE_CLOUD_PROJECT="+hotProject), &logs).OnWrite)
	functions.HTTP(empty, func(http.ResponseWriter, *http.Request) {})
}

// BenchmarkRollUpOnWrite posts events of one counter to RollUpOnWrite and to a function that does
// nothing, in turn, over so many connections, each of which waits for an answer before it posts
// again. One iteration is a slice of both.
//
// Both get the same requests and are registered in the same way. The empty function does not even
// read the body; the server does, to keep the connection. The client shares the machine with the
// server, so it is as slim as can be: what it costs makes the two look alike.
func BenchmarkRollUpOnWrite(b *testing.B) {
	const slice = 500 * time.Millisecond
	emulatortest.Addr(b)
	for _, connections := range []int{16, 64} {
		b.Run(fmt.Sprintf("connections=%d", connections), func(b *testing.B) {
			clients := make([]*eventClient, connections)
			for i := range clients {
				clients[i] = newEventClient(b)
			}
			var latencies [2][]time.Duration // of hot, of empty
			var took [2]time.Duration
			run := func(which int, function string) {
				began := time.Now()
				var all sync.WaitGroup
				of := make([][]time.Duration, connections)
				for i, c := range clients {
					all.Go(func() { of[i] = c.postUntil(b, function, began.Add(slice)) })
				}
				all.Wait()
				// Events that are held beyond the slice are waited for, and not counted.
				took[which] += slice
				latencies[which] = append(latencies[which], slices.Concat(of...)...)
			}
			run(0, hot) // opens the database
			latencies[0], took[0] = nil, 0
			b.ResetTimer()
			for i := range b.N {
				// Whichever goes first may find the processor cooler.
				if i%2 == 0 {
					run(0, hot)
					run(1, empty)
				} else {
					run(1, empty)
					run(0, hot)
				}
			}
			b.StopTimer()
			var rate, p99 [2]float64
			for which := range latencies {
				slices.Sort(latencies[which])
				rate[which] = float64(len(latencies[which])) / took[which].Seconds()
				p99[which] = float64(latencies[which][len(latencies[which])*99/100].Microseconds())
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(rate[0], "events/s")
			b.ReportMetric(rate[1], "empty-events/s")
			b.ReportMetric(rate[0]/rate[1], "throughput-ratio")
			b.ReportMetric(p99[0], "p99-µs")
			b.ReportMetric(p99[1], "empty-p99-µs")
			b.ReportMetric(p99[0]/p99[1], "p99-ratio")
		})
	}
}

// An eventClient posts events over one connection.
type eventClient struct {
	conn    net.Conn
	answers *bufio.Reader
	request map[string][]byte // by function
	posted  int
}

func newEventClient(b *testing.B) *eventClient {
	conn, err := net.Dial("tcp", strings.TrimPrefix(server, "http://"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { conn.Close() })
	c := &eventClient{conn: conn, answers: bufio.NewReader(conn), request: make(map[string][]byte)}
	e := newEvent(b, idOf(conn, 0), hotProject, "counters/hot/shards/0")
	for _, function := range []string{hot, empty} {
		r, err := http.NewRequest(http.MethodPost, server+"/"+function, bytes.NewReader(e.Body))
		if err != nil {
			b.Fatal(err)
		}
		r.Header = e.Header
		var written bytes.Buffer
		if err := r.Write(&written); err != nil {
			b.Fatal(err)
		}
		c.request[function] = written.Bytes()
	}
	return c
}

// idOf returns an event id that no other event of the benchmark has, of the same length as all.
func idOf(conn net.Conn, n int) string {
	return fmt.Sprintf("event-%021s-%09d", conn.LocalAddr(), n)
}

// postUntil posts one event after another until deadline, and returns how long each was answered
// after.
func (c *eventClient) postUntil(b *testing.B, function string, deadline time.Time) []time.Duration {
	request := c.request[function]
	const header = "Ce-Id: "
	at := bytes.Index(request, []byte(header)) + len(header)
	var latencies []time.Duration
	for began := time.Now(); began.Before(deadline); {
		c.posted++
		copy(request[at:], idOf(c.conn, c.posted))
		if _, err := c.conn.Write(request); err != nil {
			b.Error(err)
			return nil
		}
		res, err := http.ReadResponse(c.answers, nil)
		if err != nil {
			b.Error(err)
			return nil
		}
		if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != http.StatusOK {
			b.Errorf("status %s, %v", res.Status, err)
			return nil
		}
		now := time.Now()
		if now.Before(deadline) {
			latencies = append(latencies, now.Sub(began))
		}
		began = now
	}
	return latencies
}
