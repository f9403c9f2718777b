package eventrelay_test

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/test/emulatortest"
	"github.com/firestore-tally/tally/internal/tool/local/emulator"
	"github.com/firestore-tally/tally/internal/tool/local/eventrelay"
	gocmp "github.com/google/go-cmp/cmp"
	"github.com/googleapis/google-cloudevents-go/cloud/firestoredata"
	"google.golang.org/protobuf/proto"
)

func TestMain(m *testing.M) { emulatortest.Main(m) }

// kind says what an event tells: what happened, to which document.
func kind(t *testing.T, document string, body []byte) string {
	t.Helper()
	var data firestoredata.DocumentEventData
	if err := proto.Unmarshal(body, &data); err != nil {
		t.Error(err)
	}
	what, name := "update", data.GetValue().GetName()
	switch {
	case data.OldValue == nil:
		what = "create"
	case data.Value == nil:
		what, name = "delete", data.GetOldValue().GetName()
	default:
		now, before := data.Value.UpdateTime.AsTime(), data.OldValue.UpdateTime.AsTime()
		if before.Unix() <= 0 || !before.Before(now) {
			t.Errorf("the update of %s is from %v, and the write before it from %v", document, now, before)
		}
	}
	if !strings.HasSuffix(name, "/documents/"+document) {
		t.Errorf("the header says %q, the body %q", document, name)
	}
	return what + " " + document
}

func set(t *testing.T, shard *firestore.DocumentRef, count int) {
	t.Helper()
	if _, err := shard.Set(t.Context(), map[string]any{"count": count}); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, shard *firestore.DocumentRef) {
	t.Helper()
	if _, err := shard.Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// Each write to a shard reaches the function as the event that Eventarc would send,
// although the function fails once on each.
func TestEmulator(t *testing.T) {
	project := emulatortest.Project(t)
	client := emulatortest.ClientDatabase(t, project, emulator.DefaultDatabase)

	received := make(chan string, 3)
	var failed sync.Map // of the events, by id
	function := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if _, again := failed.LoadOrStore(req.Header.Get("ce-id"), true); !again {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		if _, there := req.Header["Ce-Datacontenttype"]; there {
			t.Error("the function got a ce-datacontenttype header")
		}
		if got, want := req.Header.Get("ce-source"), "//firestore.googleapis.com/projects/"+project+"/databases/(default)"; got != want {
			t.Errorf("ce-source %q, want %q", got, want)
		}
		body, err := io.ReadAll(req.Body)
		if err != nil {
			t.Error(err)
		}
		received <- kind(t, req.Header.Get("ce-document"), body)
	}))
	defer function.Close()
	relay := eventrelay.New(eventrelay.Options{
		Targets: []string{function.URL},
		Initial: time.Millisecond,
	})
	defer relay.Close()
	emulatortest.Handle(t, project, relay)
	err := emulator.RegisterTrigger(t.Context(), emulatortest.Addr(t), emulator.Trigger{
		Project: project,
		Name:    "RollUpOnWrite",
		Pattern: "counters/{counter}/shards/{shard}",
	})
	if err != nil {
		t.Fatal(err)
	}

	shard := client.Doc("counters/日本 %/shards/3")
	set(t, shard, 1)
	set(t, shard, 2)
	set(t, client.Doc("counters/日本 %"), 0) // matches no trigger
	remove(t, shard)
	got := []string{<-received, <-received, <-received}
	if err := relay.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	slices.Sort(got) // events are not ordered
	want := []string{"create counters/日本 %/shards/3", "delete counters/日本 %/shards/3", "update counters/日本 %/shards/3"}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	wantStats := eventrelay.Stats{Events: 3, Deliveries: 6, Redelivered: 3, Acknowledged: 3}
	if diff := gocmp.Diff(wantStats, relay.Stats()); diff != "" {
		t.Errorf("Stats (-want +got):\n%s", diff)
	}
}

// noGroups are those of documents that belong to counters by their paths alone.
func noGroups(string) []document.Field { return nil }

// The events of documents that belong to counters by a field say what it was and is. The rest of
// the documents is left out.
func TestListenGroups(t *testing.T) {
	client := emulatortest.Client(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	received, listening, ended := make(chan eventrelay.Event, 100), make(chan struct{}), make(chan error, 1)
	groups := func(path string) []document.Field {
		if !strings.HasPrefix(path, "orders/") {
			t.Errorf("asked for the groups of %s", path)
		}
		return []document.Field{"shop", "customer.id", "customer.`the city`"}
	}
	go func() {
		ended <- eventrelay.Listen(ctx, client, "orders", groups, func() { close(listening) }, func(e eventrelay.Event) error {
			received <- e
			return nil
		})
	}()
	select {
	case <-listening:
	case err := <-ended:
		t.Fatal(err)
	}

	order := client.Doc("orders/1")
	ann := func(city any) map[string]any { return map[string]any{"id": "ann", "the city": city, "name": "Ann"} }
	for _, step := range []struct {
		write map[string]any // nil: deleted
		want  []string
	}{
		{map[string]any{"shop": "a", "amount": 5, "customer": ann("x")}, []string{"create a ann x"}},
		{map[string]any{"shop": "a", "amount": 6, "customer": ann("x")}, []string{"create a ann x"}},
		{map[string]any{"shop": "b", "amount": 6, "customer": ann("x")}, []string{"delete a ann x", "create b ann x"}},
		{map[string]any{"shop": "b", "amount": 6, "customer": ann(7)}, []string{"delete b ann x", "create b ann "}},
		{map[string]any{"shop": true, "customer": "x"}, []string{"delete b ann ", "create   "}},
		{map[string]any{"shop": nil}, []string{"delete   ", "create   "}},
		{map[string]any{"shop": "c"}, []string{"delete   ", "create c  "}},
		{map[string]any{"shop": 7}, []string{"delete c  ", "create   "}},
		{map[string]any{"shop": 7.5}, []string{"delete   ", "create   "}},
		{map[string]any{"shop": order}, []string{"delete   ", "create   "}},
		{map[string]any{"shop": time.Unix(7, 0)}, []string{"delete   ", "create   "}},
		{map[string]any{"shop": "c"}, []string{"delete   ", "create c  "}},
		{nil, []string{"delete c  "}},
	} {
		if step.write == nil {
			remove(t, order)
		} else if _, err := order.Set(t.Context(), step.write); err != nil {
			t.Fatal(err)
		}
		for _, want := range step.want {
			select {
			case e := <-received:
				if got := told(t, e); got != want {
					t.Errorf("%v: %s, want %s", step.write, got, want)
				}
			case err := <-ended:
				t.Fatal(err)
			}
		}
	}
	if len(received) > 0 {
		t.Errorf("%d more events", len(received))
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("Listen ended with %v, want the context's error", err)
	}
}

// told returns an event's data on an order: the operation, the shop, and the customer's id and
// city. It checks that the event has no other data.
func told(t *testing.T, e eventrelay.Event) string {
	t.Helper()
	var data firestoredata.DocumentEventData
	if err := proto.Unmarshal(e.Body, &data); err != nil {
		t.Fatal(err)
	}
	fields := cmp.Or(data.GetValue(), data.GetOldValue()).GetFields()
	customer := fields["customer"].GetMapValue().GetFields()
	what, _, _ := strings.Cut(kind(t, e.Header.Get("Ce-Document"), e.Body), " ")
	return what + " " + fields["shop"].GetStringValue() + " " + customer["id"].GetStringValue() + " " + customer["the city"].GetStringValue()
}

func TestListen(t *testing.T) {
	client := emulatortest.Client(t)
	shards := client.Collection("counters/likes/shards")
	set(t, shards.Doc("0"), 1)

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	received, listening, ended := make(chan eventrelay.Event), make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- eventrelay.Listen(ctx, client, "shards", noGroups, func() { close(listening) }, func(e eventrelay.Event) error {
			received <- e
			return nil
		})
	}()
	ids := make(map[string]bool)
	expect := func(want string) {
		t.Helper()
		select {
		case e := <-received:
			if got := kind(t, e.Header.Get("Ce-Document"), e.Body); got != want {
				t.Fatalf("%s, want %s", got, want)
			}
			if ids[e.ID()] {
				t.Fatalf("a second event with the id %s", e.ID())
			}
			ids[e.ID()] = true
		case err := <-ended:
			t.Fatalf("Listen ended before %s: %v", want, err)
		}
	}

	expect("create counters/likes/shards/0") // was there before
	<-listening
	set(t, shards.Doc("1"), 1)
	expect("create counters/likes/shards/1")
	set(t, shards.Doc("0"), 2)
	expect("create counters/likes/shards/0") // as an update it would say that no field changed
	set(t, client.Doc("counters/likes"), 1)  // in no such collection
	remove(t, shards.Doc("0"))
	expect("delete counters/likes/shards/0")
	set(t, client.Doc("posts/p/counters/likes/shards/0"), 1) // another collection of the group
	expect("create posts/p/counters/likes/shards/0")

	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("Listen ended with %v, want the context's error", err)
	}
}

func TestListenEnds(t *testing.T) {
	client := emulatortest.Client(t)
	set(t, client.Doc("counters/likes/shards/0"), 1)
	refused := errors.New("refused")
	err := eventrelay.Listen(t.Context(), client, "shards", noGroups, func() {}, func(eventrelay.Event) error { return refused })
	if !errors.Is(err, refused) {
		t.Errorf("deliver fails: %v, want its error", err)
	}

	err = eventrelay.Listen(t.Context(), client, "not/an/id", noGroups, func() { t.Error("listening") }, func(eventrelay.Event) error { return nil })
	if err == nil || !strings.Contains(err.Error(), `collection group "not/an/id"`) {
		t.Errorf("Firestore refuses: %v, want an error that names the collection group", err)
	}
}
