package telemetry

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/firestore-tally/tally/internal/cloud/config"
	"go.opentelemetry.io/contrib/detectors/gcp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/sdk/resource"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/oauth"
)

// Endpoint is Google Cloud's Telemetry API, which takes OpenTelemetry's own protocol. Google
// recommends it instead of the exporters that it offered before
// (https://docs.cloud.google.com/stackdriver/docs/otlp/overview).
const Endpoint = "telemetry.googleapis.com:443"

// startLimit is how long Start may take. It asks Google's metadata server for credentials and for
// the resource, which takes milliseconds. If the server does not answer, the functions run without
// telemetry. Otherwise the first events would wait for it until they fail.
const startLimit = 2 * time.Second

// Start returns a Telemetry that exports to the destination. It returns nil if the destination is
// Off. With GCP, Google Cloud keeps the exported data in the project. Start sends nothing to the
// destination yet. It returns an error if it takes longer than two seconds.
func Start(d config.Destination, project string, every time.Duration, billed func() (reads, writes, deletes int64), logger *slog.Logger) (*Telemetry, error) {
	if d == config.Off {
		return nil, nil
	}

	type result struct {
		telemetry *Telemetry
		err       error
	}
	started := make(chan result, 1)
	go func() { // it may outlast this call, because some of its calls do not end with a context
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

// start is Start without the time limit. It fills in the exporters and the resource of the options.
func start(ctx context.Context, d config.Destination, project string, o Options) (*Telemetry, error) {
	var metrics []otlpmetricgrpc.Option
	var spans []otlptracegrpc.Option
	var detectors []resource.Detector
	if d == config.GCP {
		conn, err := dialGoogle(ctx)
		if err != nil {
			return nil, fmt.Errorf("telemetry: %w", err)
		}
		metrics = append(metrics, otlpmetricgrpc.WithGRPCConn(conn))
		spans = append(spans, otlptracegrpc.WithGRPCConn(conn))
		detectors = append(detectors, gcp.NewDetector())
	}

	var err error
	o.Resource, err = newResource(ctx, project, detectors...)
	if err != nil {
		return nil, fmt.Errorf("telemetry: %w", err)
	}

	o.Metrics, err = otlpmetricgrpc.New(ctx, metrics...)
	if err != nil {
		return nil, fmt.Errorf("telemetry: %w", err)
	}

	o.Spans, err = otlptracegrpc.New(ctx, spans...)
	if err != nil {
		return nil, fmt.Errorf("telemetry: %w", err)
	}
	return New(o)
}

// dialGoogle returns a connection to Google's Telemetry API, with application default credentials.
func dialGoogle(ctx context.Context) (*grpc.ClientConn, error) {
	credential, err := oauth.NewApplicationDefault(ctx, "https://www.googleapis.com/auth/cloud-platform")
	if err != nil {
		return nil, err
	}
	return dial(Endpoint, credentials.NewTLS(nil), credential)
}

// dial returns a connection for both exporters.
func dial(endpoint string, transport credentials.TransportCredentials, perCall credentials.PerRPCCredentials) (*grpc.ClientConn, error) {
	return grpc.NewClient(endpoint, grpc.WithTransportCredentials(transport), grpc.WithPerRPCCredentials(perCall))
}

// newResource returns the attributes that name this process in all that it exports. The variables
// OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES override them.
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
