package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/firestore-tally/tally/clients/web"
	"github.com/firestore-tally/tally/internal/tool/local"
	"github.com/firestore-tally/tally/rollup/route"
	"github.com/firestore-tally/tally/shards"
)

// The counters of the example page. The first is anybody's to increment; of the second each user
// has one vote.
const (
	exampleLikes = "counters/example-likes"
	exampleVote  = "counters/example-vote"
)

// examplePage creates the counters of the example page in the stack's first database, where those
// that exist stay as they are, and returns the page.
func examplePage(ctx context.Context, s *local.Stack) (http.Handler, error) {
	if err := checkExample(s.Config.Routes); err != nil {
		return nil, err
	}
	err := shards.New(s.Clients[0], exampleLikes).Create(ctx, shards.DefaultNumShards)
	if err != nil && !errors.Is(err, shards.ErrNumShards) { // one that was resized is left alone
		return nil, err
	}
	err = shards.New(s.Clients[0], exampleVote).CreateOncePerUser(ctx)
	if err != nil {
		return nil, err
	}

	config, err := pageConfig(s.Addr, s.Config.Project, s.Config.Databases[0])
	if err != nil {
		return nil, err
	}

	mux := http.NewServeMux()
	mux.HandleFunc("GET /config.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(config) // to a browser that may be gone
	})
	mux.Handle("GET /", web.Example())
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store") // the next run may serve something else at this address
		mux.ServeHTTP(w, r)
	}), nil
}

// checkExample returns an error unless the routes roll up the counters of the example page.
func checkExample(routes route.Routes) error {
	for _, counter := range []string{exampleLikes, exampleVote} {
		if err := checkRoute(routes, counter); err != nil {
			return err
		}
	}
	return nil
}

// checkRoute returns an error unless the routes roll the counter up to where the web client reads
// it.
func checkRoute(routes route.Routes, counter string) error {
	c, r, ok := routes.Match(counter + "/shards/0")
	_, id, _ := strings.Cut(counter, "/")
	if !ok || c.RollUp != "rollups/"+id || !slices.ContainsFunc(r.Totals, isCount) {
		return fmt.Errorf("TALLY_ROUTES: no route rolls up the example page's %s; leave the variable unset, or add the route %s", counter, route.Default)
	}
	return nil
}

// isCount reports whether the total is the sum of the field count, as in DefaultRoute.
func isCount(t route.Total) bool { return t.String() == "count" }

// pageConfig returns the page's configuration in JSON: where Firestore is, and the paths of the
// page's counters.
func pageConfig(addr, project, database string) ([]byte, error) {
	colon := strings.LastIndex(addr, ":") // there is one: an emulator answers at the address
	return json.Marshal(map[string]any{
		"projectId": project, "databaseId": database, "host": addr[:colon], "port": json.Number(addr[colon+1:]), "likes": exampleLikes, "vote": exampleVote,
	})
}
