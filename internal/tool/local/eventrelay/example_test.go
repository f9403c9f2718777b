package eventrelay_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/firestore-tally/tally/internal/tool/local/eventrelay"
	"github.com/googleapis/google-cloudevents-go/cloud/firestoredata"
)

// An acknowledgement that is lost brings the event to the function once more.
func Example() {
	function := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		fmt.Println(req.Header.Get("ce-id"), req.Header.Get("ce-document"))
	}))
	defer function.Close()

	relay := eventrelay.New(eventrelay.Options{
		Targets: []string{function.URL},
		Faults:  eventrelay.Faults{Seed: 2, LostAcks: 0.5},
	})
	defer relay.Close()

	event, err := eventrelay.NewEvent("event-1", time.Now(), nil, &firestoredata.Document{
		Name: "projects/demo-tally/databases/(default)/documents/counters/likes/shards/3",
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := relay.Deliver(event); err != nil {
		fmt.Println(err)
		return
	}
	if err := relay.Wait(context.Background()); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%+v\n", relay.Stats())
	// Output:
	// event-1 counters/likes/shards/3
	// event-1 counters/likes/shards/3
	// {Events:1 Duplicated:0 Deliveries:2 Redelivered:1 LostAcks:1 Acknowledged:1 GivenUp:0}
}
