package local

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/firestore-tally/tally/internal/cloud/config"
	"github.com/firestore-tally/tally/internal/tool/load"
	"github.com/firestore-tally/tally/internal/tool/local/eventrelay"
	"github.com/firestore-tally/tally/rollup/route"
	"github.com/google/go-cmp/cmp"
	"github.com/googleapis/google-cloudevents-go/cloud/firestoredata"
)

func TestMostWithin(t *testing.T) {
	var rollUps []load.RollUp
	for _, ms := range []int64{0, 999, 1000, 1998} {
		rollUps = append(rollUps, load.RollUp{Written: time.UnixMilli(ms)})
	}
	if got := mostRollUpsWithin(time.Second, rollUps); got != 3 {
		t.Errorf("at most %d roll-ups within a second, want 3", got)
	}
}

// Of a collection group, only what a trigger's pattern matches becomes an event.
func TestDeliverShard(t *testing.T) {
	routes, err := route.Parse("counters/{c}/shards/{s} -> rollups/{c} : count")
	if err != nil {
		t.Fatal(err)
	}
	s := &Stack{Options: Options{Config: config.Config{Routes: routes}}, Relay: eventrelay.New(eventrelay.Options{})}
	defer s.Relay.Close()
	for i, path := range []string{"counters/c/shards/0", "posts/p/shards/0", "shards/0", "counters/c/shards/0/shards/0"} {
		e, err := eventrelay.NewEvent(fmt.Sprint(i), time.Now(), nil, &firestoredata.Document{Name: "projects/p/databases/(default)/documents/" + path})
		if err == nil {
			err = s.deliverShard(e)
		}
		if err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	if n := s.Relay.Stats().Events; n != 1 {
		t.Errorf("%d events, want that of the shard alone", n)
	}
}

// A line of a log may be written in pieces.
func TestLineWriter(t *testing.T) {
	var lines []string
	w := &lineWriter{line: func(line []byte) { lines = append(lines, string(line)) }}
	for _, piece := range []string{"a", "b\nc\n", "", "d", "\ne"} {
		if n, err := w.Write([]byte(piece)); n != len(piece) || err != nil {
			t.Fatal(n, err)
		}
	}
	if d := cmp.Diff([]string{"ab", "c", "d"}, lines); d != "" {
		t.Errorf("lines (-want +got):\n%s", d)
	}
}

// What was saved before stays until something else is in its place.
func TestReplace(t *testing.T) {
	dir := t.TempDir()
	place, file := filepath.Join(dir, "export"), filepath.Join(dir, "export", "documents")
	save := func(name, text string) string {
		folder := filepath.Join(dir, name)
		err := errors.Join(os.Mkdir(folder, 0o700), os.WriteFile(filepath.Join(folder, "documents"), []byte(text), 0o600))
		if err != nil {
			t.Fatal(err)
		}
		return folder
	}

	first, second, missing := save("first", "1"), save("second", "2"), filepath.Join(dir, "missing")
	for _, step := range []struct {
		folder, want string
		fails        bool
	}{{first, "1", false}, {missing, "1", true}, {second, "2", false}} {
		err := replace(place, step.folder)
		if (err != nil) != step.fails {
			t.Errorf("%s: %v", step.folder, err)
		}
		text, err := os.ReadFile(file)
		if string(text) != step.want {
			t.Errorf("after %s there is %q, want %q (%v)", step.folder, text, step.want, err)
		}
	}
}
