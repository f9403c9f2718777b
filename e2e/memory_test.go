//go:build linux

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/firestore-tally/tally/internal/tool/local/eventrelay"
	"github.com/googleapis/google-cloudevents-go/cloud/firestoredata"
)

// A thousand events of half a megabyte each, at once, fit into an instance: most of them wait until
// others are decoded. Decoded, many small fields take far more memory than in the event.
func TestManyLargeEvents(t *testing.T) {
	const (
		events  = 1000
		fields  = 20_000
		size    = 500 << 10 // bytes
		most    = 250 << 20 // bytes; a function has 512 MiB
		perHost = 1000      // Cloud Run sends that many requests at once
	)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	p, project := newProxied(ctx, t, "TALLY_HOLD_LIMIT=10m", "GOMEMLIMIT=300MiB")

	doc := &firestoredata.Document{
		Name:   "projects/" + project + "/databases/(default)/documents/counters/likes/shards/0",
		Fields: make(map[string]*firestoredata.Value),
	}
	for n := range fields {
		doc.Fields[fmt.Sprintf("field-%020d", n)] = &firestoredata.Value{ValueType: &firestoredata.Value_IntegerValue{IntegerValue: 1}}
	}
	e, err := eventrelay.NewEvent("event", time.Now(), nil, doc)
	if err != nil {
		t.Fatal(err)
	}
	if len(e.Body) < size {
		t.Fatalf("the event has %d bytes, want at least %d", len(e.Body), size)
	}

	client := &http.Client{Transport: &http.Transport{MaxConnsPerHost: perHost}}
	defer client.CloseIdleConnections()
	var all sync.WaitGroup
	for n := range events {
		all.Go(func() {
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url(), bytes.NewReader(e.Body))
			if err != nil {
				t.Error(err)
				return
			}
			r.Header = e.Header.Clone()
			r.Header.Set("Ce-Id", fmt.Sprint("event-", n))

			res, err := client.Do(r)
			if err != nil {
				t.Error(err)
				return
			}
			defer res.Body.Close()
			if res.StatusCode != http.StatusOK {
				t.Errorf("event %d: %s", n, res.Status)
			}
		})
	}
	all.Wait()

	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	peak := regexp.MustCompile(`VmHWM:\s*(\d+) kB`).FindSubmatch(status)
	if peak == nil {
		t.Fatalf("no VmHWM:\n%s", status)
	}
	kilobytes, err := strconv.ParseInt(string(peak[1]), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("at most %d MiB", kilobytes>>10)
	if kilobytes<<10 > most {
		t.Errorf("the process took %d MiB, want at most %d", kilobytes>>10, most>>20)
	}
}
