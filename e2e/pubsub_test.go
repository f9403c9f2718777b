//go:build linux

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	pubsub "cloud.google.com/go/pubsub/v2/apiv1"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/firestore-tally/tally/internal/tool/local/eventrelay"
	"github.com/firestore-tally/tally/internal/tool/local/freeport"
	"github.com/googleapis/google-cloudevents-go/cloud/firestoredata"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

var throughPubSub = flag.Bool("pubsub", false, "also push events through Google's Pub/Sub emulator, a component of the Google Cloud CLI")

// Google's Pub/Sub pushes events to the functions as Eventarc has it do. An event that they answer
// with 500 comes again, and so does one that they hold beyond the acknowledgement deadline. Each
// counter is exact all the same.
func TestPubSub(t *testing.T) {
	if !*throughPubSub {
		t.Skip("-pubsub runs it, as .ci/nightly does")
	}
	const (
		ackDeadline = 10 * time.Second // the shortest
		topic       = "projects/demo-p/topics/eventarc"
		failing     = "counters/c1/shards/0" // its event is answered with 500 once
		late        = "counters/c2/shards/0" // its event is held until it comes again
	)
	w := newWorld(t, options{dormant: true, counters: 3, proxies: []func(*proxy){func(*proxy) {}}})
	topics, subscriptions := startPubSub(t, w.ctx)

	// A push passes through here to the functions.
	var mu sync.Mutex
	pushes := make(map[string]int)
	again := make(chan struct{})
	between := httptest.NewServer(http.HandlerFunc(func(answer http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // Pub/Sub has gone away
		}
		var push struct {
			Message struct{ Attributes map[string]string }
		}
		if err := json.Unmarshal(body, &push); err != nil {
			t.Errorf("%s: %v", body, err)
		}
		document := push.Message.Attributes["ce-document"]
		mu.Lock()
		pushes[document]++
		n := pushes[document]
		mu.Unlock()

		switch {
		case document == failing && n == 1:
			answer.WriteHeader(http.StatusInternalServerError)
			return
		case document == late && n == 1:
			select {
			case <-again:
			case <-w.ctx.Done():
			}
		case document == late && n == 2:
			close(again)
		}

		forward, err := http.NewRequestWithContext(w.ctx, http.MethodPost, w.processes[0].url()+"?"+r.URL.RawQuery, bytes.NewReader(body))
		if err != nil {
			t.Error(err)
			return
		}
		forward.Header = r.Header
		response, err := http.DefaultClient.Do(forward)
		if err != nil {
			answer.WriteHeader(http.StatusBadGateway)
			return
		}
		defer response.Body.Close()
		answer.WriteHeader(response.StatusCode)
	}))
	defer between.Close()

	_, err := topics.CreateTopic(w.ctx, &pubsubpb.Topic{Name: topic})
	if err != nil {
		t.Fatal(err)
	}
	_, err = subscriptions.CreateSubscription(w.ctx, &pubsubpb.Subscription{
		Name: "projects/demo-p/subscriptions/eventarc", Topic: topic, AckDeadlineSeconds: int32(ackDeadline.Seconds()),
		PushConfig: &pubsubpb.PushConfig{PushEndpoint: between.URL + "/?__GCP_CloudEventsMode=CE_PUBSUB_BINDING"},
	})
	if err != nil {
		t.Fatal(err)
	}

	published := time.Now()
	for i, c := range w.counters {
		if err := c.increment(w.ctx, 1); err != nil {
			t.Fatal(err)
		}
		publish(t, w, topics, topic, fmt.Sprintf("counters/c%d/shards/0", i))
	}
	for _, c := range w.counters {
		total, last := w.sum(c)
		if err := c.await(w.ctx, last); err != nil {
			t.Fatal(err)
		}
		c.check(w, total)
	}

	mu.Lock()
	defer mu.Unlock()
	t.Logf("pushes after %v: %v", time.Since(published).Round(time.Second), pushes)
	if pushes["counters/c0/shards/0"] < 1 || pushes[failing] < 2 || pushes[late] < 2 || pushes[""] > 0 {
		t.Errorf("pushes %v, want those of an event that failed and of one that was held to come again", pushes)
	}
}

// publish publishes the event of a write, with the attributes that Eventarc gives to the message.
func publish(t *testing.T, w *world, topics *pubsub.TopicAdminClient, topic, path string) {
	t.Helper()
	document := &firestoredata.Document{Name: "projects/" + w.project + "/databases/(default)/documents/" + path}
	e, err := eventrelay.NewEvent(path, time.Now(), nil, document)
	if err != nil {
		t.Fatal(err)
	}
	message := &pubsubpb.PubsubMessage{Data: e.Body, Attributes: map[string]string{"ce-datacontenttype": e.Header.Get("Content-Type")}}
	for name := range e.Header {
		if strings.HasPrefix(name, "Ce-") {
			message.Attributes[strings.ToLower(name)] = e.Header.Get(name)
		}
	}
	_, err = topics.Publish(w.ctx, &pubsubpb.PublishRequest{Topic: topic, Messages: []*pubsubpb.PubsubMessage{message}})
	if err != nil {
		t.Fatal(err)
	}
}

// startPubSub starts the emulator, which ends with the test.
func startPubSub(t *testing.T, ctx context.Context) (*pubsub.TopicAdminClient, *pubsub.SubscriptionAdminClient) {
	t.Helper()
	root, err := exec.CommandContext(ctx, "gcloud", "info", "--format=value(installation.sdk_root)").Output()
	if err != nil {
		t.Fatal(err)
	}
	port, release, err := freeport.Hold(0)
	if err != nil {
		t.Fatal(err)
	}
	release()

	program := filepath.Join(strings.TrimSpace(string(root)), "platform/pubsub-emulator/bin/cloud-pubsub-emulator")
	emulator := exec.Command(program, "--host="+freeport.Loopback, fmt.Sprintf("--port=%d", port))
	emulator.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := emulator.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = emulator.Process.Kill()
		_ = emulator.Wait() // it was killed
	})
	<-listening(ctx, port)

	conn, err := grpc.NewClient(freeport.HostPort(port), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	topics, err := pubsub.NewTopicAdminClient(ctx, option.WithGRPCConn(conn))
	if err != nil {
		t.Fatal(err)
	}
	subscriptions, err := pubsub.NewSubscriptionAdminClient(ctx, option.WithGRPCConn(conn))
	if err != nil {
		t.Fatal(err)
	}
	return topics, subscriptions
}
