package rules

import (
	"context"
	"fmt"
	"os"
	"testing"

	"cloud.google.com/go/firestore"
	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/firestore-tally/tally/shards"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

// TestDeleteOfLiveVotes: users vote before and after each commit of a deletion. Once the counter
// document is gone, no vote is left that everybody may list.
func TestDeleteOfLiveVotes(t *testing.T) {
	t.Parallel()
	d := newDatabase(t, map[string]fields{
		"counters/votes":                {"once_per_user": true},
		"counters/votes/shards/ann":     {"count": 1},
		"counters/votes/shards/bob":     {"count": 0},
		"counters/votes/shards/removed": {"count": 1},
	})

	voters := 0
	votes := func() {
		voter := user(fmt.Sprint("voter", voters))
		voters++
		err := d.commit(voter, vote("counters/votes/shards/"+string(voter), 1))
		if err != nil && status.Code(err) != codes.PermissionDenied {
			t.Error(err)
		}
	}
	around := func(ctx context.Context, method string, request, answer any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		if _, commits := request.(*firestorepb.CommitRequest); commits {
			votes()
			defer votes()
		}
		return invoke(server.context(ctx), method, request, answer, conn, opts...)
	}
	asServer := func(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		return open(server.context(ctx), desc, conn, method, opts...)
	}
	conn, err := grpc.NewClient("passthrough:///"+os.Getenv("FIRESTORE_EMULATOR_HOST"), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithUnaryInterceptor(around), grpc.WithStreamInterceptor(asServer))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	client, err := firestore.NewClient(t.Context(), d.project, option.WithGRPCConn(conn))
	if err != nil {
		t.Fatal(err)
	}

	deleted, _, err := shards.New(client, "counters/votes").Delete(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	listed, err := d.list(signedOut, "counters/votes", "shards")
	if err != nil {
		t.Fatalf("the counter is still there: %v", err)
	}
	if len(listed) > 0 {
		t.Errorf("%d votes deleted, and everybody may list %v", deleted, listed)
	}
	if voters < 4 {
		t.Errorf("%d votes were tried, want one before and after each commit", voters)
	}
}
