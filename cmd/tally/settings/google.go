package settings

import (
	"context"

	"github.com/firestore-tally/tally/internal/tool/deploy"
	"github.com/firestore-tally/tally/internal/tool/rules"
	"github.com/firestore-tally/tally/rollup/route"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
)

// Endpoints are where Google's APIs are, if not at their own addresses: options of their clients,
// and the address of Firestore, with options of its connections.
type Endpoints struct {
	APIs      []option.ClientOption
	Firestore string
	Dial      []grpc.DialOption
	Judge     Judge // of security rules; nil: an emulator that is started for it
}

// endpointsKey is the key of a command's endpoints in its context.
type endpointsKey struct{}

// WithEndpoints returns a context that has a command find Google's APIs there. Only tests call it.
func WithEndpoints(ctx context.Context, at Endpoints) context.Context {
	return context.WithValue(ctx, endpointsKey{}, at)
}

// EndpointsOf returns where Google's APIs are for a command.
func EndpointsOf(ctx context.Context) Endpoints {
	at, _ := ctx.Value(endpointsKey{}).(Endpoints)
	return at
}

// SignIn returns the options with which Google's clients sign in.
func (at Endpoints) SignIn(ctx context.Context) ([]option.ClientOption, error) {
	if at.APIs != nil {
		return at.APIs, nil
	}
	return deploy.SignIn(ctx)
}

// A Judge judges security rules, by rules.Judge.All.
type Judge func(context.Context, rules.Judge, route.Routes, map[string][]rules.Document) ([]rules.Answer, error)
