package telemetry

import (
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/firestore-tally/tally/internal/cloud/config"
)

// A metadata server that does not answer, as one may not while an instance starts, keeps no event
// waiting for long.
func TestStartDoesNotWait(t *testing.T) {
	asked, release := make(chan struct{}, 100), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		asked <- struct{}{}
		<-release
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(release) })
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", "")
	t.Setenv("HOME", t.TempDir())
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("GCE_METADATA_HOST", "127.0.0.1:"+port)
	started, err := Start(config.GCP, "", time.Minute, nil, slog.New(slog.DiscardHandler))
	if started != nil || err == nil || !strings.Contains(err.Error(), "not ready") {
		t.Errorf("got %v, %v; want an error: not ready", started, err)
	}
	if len(asked) == 0 {
		t.Error("the metadata server was not asked")
	}
}
