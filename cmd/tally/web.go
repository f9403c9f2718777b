package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/firestore-tally/tally/clients/web"
	"github.com/firestore-tally/tally/internal/firestorestore"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/shards"
	"github.com/spf13/cobra"
)

// The counters of the example page. The first is anybody's to increment; of the second each user
// has one vote.
const (
	exampleLikes = "counters/example-likes"
	exampleVote  = "counters/example-vote"
)

// exampleShards is how many shards each of them has.
const exampleShards = 10

// An examplePage is the example page of the web client, as tally dev --web serves it.
type examplePage struct {
	on   bool
	port int

	listener net.Listener // from reserve until close
	server   *http.Server // from start until close
}

func (p *examplePage) flags(c *cobra.Command) {
	c.Flags().BoolVar(&p.on, "web", false, "serve the example page of the web client")
	c.Flags().IntVar(&p.port, "web-port", 8090, "port of the example page; 0: any that is free; no effect without --web")
}

// reserve takes the page's port, and checks what can be checked before anything is started.
func (p *examplePage) reserve(o stackOptions) error {
	if p.port < 0 || p.port > highestPort {
		return fmt.Errorf("--web-port %d: want a port up to %d, or 0 for any that is free", p.port, highestPort)
	}
	if err := o.checkInstances(p.port); err != nil {
		return fmt.Errorf("--web-port %w; choose another", err)
	}
	if p.port != 0 && p.port == o.firestorePort && os.Getenv(firestorestore.EmulatorHost) == "" {
		return fmt.Errorf("--web-port %d is the --firestore-port too; choose another", p.port)
	}
	var err error
	if p.listener, err = listen(p.port); err != nil {
		return fmt.Errorf("web: %w; choose another with --web-port", err)
	}
	return nil
}

// close gives back whatever was taken.
func (p *examplePage) close() {
	if p.server != nil {
		_ = p.server.Close() // the listener is closed below
	}
	if p.listener != nil {
		_ = p.listener.Close()
	}
}

// url is where the page is.
func (p *examplePage) url() string { return "http://" + p.listener.Addr().String() }

// start creates the page's counters in the stack's first database, where those that exist stay as
// they are, and serves the page until close.
func (p *examplePage) start(ctx context.Context, s *stack) error {
	for _, counter := range []string{exampleLikes, exampleVote} {
		if err := checkRoute(s.config.Routes, counter); err != nil {
			return err
		}
	}
	err := shards.New(s.clients[0], exampleLikes).Create(ctx, exampleShards)
	if err == nil || errors.Is(err, shards.ErrNumShards) { // it was resized, and is left alone
		err = shards.New(s.clients[0], exampleVote).CreateOncePerUser(ctx)
	}
	if err != nil {
		return fmt.Errorf("--web: %w", err)
	}
	config, err := pageConfig(s.addr, s.options.project, s.config.Databases[0])
	if err != nil {
		return err
	}
	p.server = &http.Server{Handler: pageHandler(config), ReadHeaderTimeout: time.Minute, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	go func() { _ = p.server.Serve(p.listener) }() // until close
	return nil
}

// checkRoute returns an error unless the routes roll the counter up to where the web client reads it.
func checkRoute(routes rollup.Routes, counter string) error {
	c, route, ok := routes.Match(counter + "/shards/0")
	_, id, _ := strings.Cut(counter, "/")
	if !ok || c.RollUp != "rollups/"+id || !slices.Contains(route.Totals, rollup.Total{Field: "count", Name: "count"}) {
		return fmt.Errorf("TALLY_ROUTES: no route rolls up the example page's %s; leave the variable unset, or add the route %s", counter, rollup.DefaultRoute)
	}
	return nil
}

// pageConfig is what the page asks for, in JSON: where Firestore is, and what its counters are called.
func pageConfig(addr, project, database string) ([]byte, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	if strings.Contains(host, ":") {
		host = "[" + host + "]" // connectFirestoreEmulator joins host and port as they are
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		return nil, err
	}
	return json.Marshal(map[string]any{"projectId": project, "databaseId": database, "host": host, "port": number, "likes": exampleLikes, "vote": exampleVote})
}

// pageHandler serves the example page, and config as config.json. Nothing is to be cached: the next
// run may have another of each at the same address.
func pageHandler(config []byte) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /config.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(config) // to a browser that may be gone
	})
	mux.Handle("GET /", web.Example())
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		mux.ServeHTTP(w, r)
	})
}
