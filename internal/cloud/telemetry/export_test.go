package telemetry

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http/httptest"
	"sync"
	"testing"

	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"
	colmetricpb "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	"golang.org/x/oauth2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/oauth"
	"google.golang.org/grpc/metadata"
)

// A guarded service is Google Cloud's of metrics, as far as it wants a token over TLS.
type guarded struct {
	colmetricpb.UnimplementedMetricsServiceServer
	tokens []string
}

func (g *guarded) Export(ctx context.Context, _ *colmetricpb.ExportMetricsServiceRequest) (*colmetricpb.ExportMetricsServiceResponse, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	g.tokens = append(g.tokens, md.Get("authorization")...)
	return &colmetricpb.ExportMetricsServiceResponse{}, nil
}

func TestGoogleCloudGetsAToken(t *testing.T) {
	web := httptest.NewTLSServer(nil) // for its certificate
	defer web.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	service := new(guarded)
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(&tls.Config{Certificates: web.TLS.Certificates})))
	colmetricpb.RegisterMetricsServiceServer(server, service)
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(l) })
	defer serving.Wait()
	defer server.Stop()

	roots := x509.NewCertPool()
	roots.AddCert(web.Certificate())
	conn, err := dial(l.Addr().String(), credentials.NewTLS(&tls.Config{RootCAs: roots}), oauth.TokenSource{TokenSource: oauth2.StaticTokenSource(&oauth2.Token{AccessToken: "secret"})})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	exporter, err := otlpmetricgrpc.New(t.Context(), otlpmetricgrpc.WithGRPCConn(conn))
	if err != nil {
		t.Fatal(err)
	}
	if err := exporter.Export(t.Context(), &metricdata.ResourceMetrics{Resource: resource.Empty()}); err != nil {
		t.Fatal(err)
	}
	server.GracefulStop()
	if len(service.tokens) != 1 || service.tokens[0] != "Bearer secret" {
		t.Errorf("got the tokens %v", service.tokens)
	}
}

func TestResource(t *testing.T) {
	t.Setenv("K_SERVICE", "tally-on-schedule")
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
	r, err := newResource(t.Context(), "p")
	if err != nil {
		t.Fatal(err)
	}
	other, err := newResource(t.Context(), "p")
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{"service.name": "tally-on-schedule", "gcp.project_id": "p", "deployment.environment.name": "test"} {
		for _, a := range r.Attributes() {
			if string(a.Key) == key && a.Value.AsString() == want {
				want = ""
			}
		}
		if want != "" {
			t.Errorf("%v lacks %s=%s", r, key, want)
		}
	}
	if r.Equal(other) {
		t.Errorf("two processes would write the same time series: %v", r)
	}
}
