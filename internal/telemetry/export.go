package telemetry

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/firestore-tally/tally/internal/config"
	"go.opentelemetry.io/contrib/detectors/gcp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/sdk/resource"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/oauth"
)

// Endpoint is Google Cloud's Telemetry API, which speaks OpenTelemetry's own protocol and is what
// Google recommends: its exporter of traces is deprecated for it
// (https://docs.cloud.google.com/stackdriver/docs/otlp/overview).
const Endpoint = "telemetry.googleapis.com:443"

// startLimit is how long Start may take. Credentials and the resource are asked of Google's
// metadata server, without which telemetry cannot be, and for which no event is to wait until it is
// delivered again. The server answers in milliseconds when it does.
const startLimit = 2 * time.Second

// Start returns a Telemetry that exports to the destination; nil when that is Off. Google Cloud
// keeps it in the project. Nothing is sent yet. It fails when that is not ready within two seconds.
func Start(d config.Destination, project string, every time.Duration, billed func() (reads, writes, deletes int64), logger *slog.Logger) (*Telemetry, error) {
	if d == config.Off {
		return nil, nil
	}
	type result struct {
		telemetry *Telemetry
		err       error
	}
	started := make(chan result, 1)
	go func() { // which may outlast this call: not all that it asks heeds a context
		t, err := start(context.Background(), d, project, Options{Every: every, Billed: billed, Logger: logger})
		started <- result{t, err}
	}()
	select {
	case r := <-started:
		return r.telemetry, r.err
	case <-time.After(startLimit):
		return nil, fmt.Errorf("telemetry: not ready within %v", startLimit)
	}
}

func start(ctx context.Context, d config.Destination, project string, o Options) (*Telemetry, error) {
	var metrics []otlpmetricgrpc.Option
	var spans []otlptracegrpc.Option
	var detectors []resource.Detector
	if d == config.GCP {
		credential, err := oauth.NewApplicationDefault(ctx, "https://www.googleapis.com/auth/cloud-platform")
		if err != nil {
			return nil, fmt.Errorf("telemetry: %w", err)
		}
		conn, err := dial(Endpoint, credentials.NewTLS(nil), credential)
		if err != nil {
			return nil, fmt.Errorf("telemetry: %w", err)
		}
		metrics = append(metrics, otlpmetricgrpc.WithGRPCConn(conn))
		spans = append(spans, otlptracegrpc.WithGRPCConn(conn))
		detectors = append(detectors, gcp.NewDetector())
	}
	var err error
	if o.Resource, err = newResource(ctx, project, detectors...); err != nil {
		return nil, fmt.Errorf("telemetry: %w", err)
	}
	if o.Metrics, err = otlpmetricgrpc.New(ctx, metrics...); err != nil {
		return nil, fmt.Errorf("telemetry: %w", err)
	}
	if o.Spans, err = otlptracegrpc.New(ctx, spans...); err != nil {
		return nil, fmt.Errorf("telemetry: %w", err)
	}
	return New(o)
}

// dial returns a connection for both exporters.
func dial(endpoint string, transport credentials.TransportCredentials, perCall credentials.PerRPCCredentials) (*grpc.ClientConn, error) {
	return grpc.NewClient(endpoint, grpc.WithTransportCredentials(transport), grpc.WithPerRPCCredentials(perCall))
}

// newResource says what process the telemetry is of. OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES
// have the last word.
func newResource(ctx context.Context, project string, detectors ...resource.Detector) (*resource.Resource, error) {
	return resource.New(ctx,
		resource.WithTelemetrySDK(),
		resource.WithDetectors(detectors...),
		resource.WithAttributes(
			attribute.String("service.name", cmp.Or(os.Getenv("K_SERVICE"), "tally")),
			attribute.String("service.instance.id", rand.Text()), // two processes must not write one time series
			attribute.String("gcp.project_id", project),          // the Telemetry API wants it
		),
		resource.WithFromEnv())
}
