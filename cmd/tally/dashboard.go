package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"sync"

	"github.com/firestore-tally/tally/internal/dashboard"
	"github.com/firestore-tally/tally/internal/firestorestore"
	"github.com/spf13/cobra"
)

// dashboardPort is where the dashboard is unless a flag says otherwise.
const dashboardPort = 8091

func dashboardCommand() *cobra.Command {
	board := dashboard.New()
	t := target{endless: true, dial: board.DialOptions()}
	var port int
	c := &cobra.Command{
		Use:   "dashboard",
		Short: "Show all counters live on a page for a browser, until Ctrl-C",
		Long: `Show all counters live on a page for a browser on this machine, until Ctrl-C: totals, how old they are, increments a second, and the shards
of the counter that you look at. docs/dashboard.md says what each number means. It only reads.

It bills one read for each counter when it starts, then one for each roll-up that is written, also while no page is open: for a counter that changes all the
time 86,400 a day, $0.03. A counter that you look at bills one read for each of its shards, and one for each write to them. The page shows what it has cost.`,
		Example: `  tally dashboard --project my-project
  tally dashboard --routes 'posts/{post}/counters/{name}/shards/{shard} -> posts/{post}/rollups/{name} : likes, views'`,
	}
	c.Flags().IntVar(&port, "port", dashboardPort, "port of the page; 0: any that is free")
	return t.command(c, viewer, func(ctx context.Context, _ []string) error {
		l, err := listenDashboard("port", port, c.Flags().Changed("port"))
		if err != nil {
			return err
		}
		if err := t.print(map[string]string{"url": dashboardURL(l)}, "The dashboard is at %s\nStop it with Ctrl-C.", dashboardURL(l)); err != nil {
			_ = l.Close()
			return err
		}
		return board.Run(ctx, l, dashboard.Options{
			Databases: []dashboard.Database{{ID: t.database, Client: t.client}}, Emulator: os.Getenv(firestorestore.EmulatorHost),
			Routes: t.config.Routes, Cadence: t.config.Cadence,
			Report: func(err error) error {
				err = t.explain(t.told(err))
				fmt.Fprintf(t.logs, "tally: %v\n", err)
				return err
			},
		})
	})
}

// listenDashboard takes the port that the flag names. If that is not chosen and in use, any other port
// does.
func listenDashboard(flag string, port int, chosen bool) (net.Listener, error) {
	if port < 0 || port > highestPort {
		return nil, fmt.Errorf("--%s %d: want a port up to %d, or 0 for any that is free", flag, port, highestPort)
	}
	l, err := listen(port)
	if err != nil && !chosen {
		l, err = listen(0)
	}
	if err != nil {
		return nil, fmt.Errorf("dashboard: %w; choose another with --%s", err, flag)
	}
	return l, nil
}

func dashboardURL(l net.Listener) string { return "http://" + l.Addr().String() + "/" }

// A devDashboard is the dashboard of tally dev.
type devDashboard struct {
	on       bool
	port     int
	chosen   func() bool  // the port was
	listener net.Listener // from reserve on
}

func (d *devDashboard) flags(c *cobra.Command) {
	c.Flags().BoolVar(&d.on, "dashboard", true, "serve the live dashboard")
	c.Flags().IntVar(&d.port, "dashboard-port", dashboardPort, "port of the dashboard; 0: any that is free")
	d.chosen = func() bool { return c.Flags().Changed("dashboard-port") }
}

// reserve takes the port. The caller closes the dashboard, also after an error.
func (d *devDashboard) reserve() (err error) {
	d.listener, err = listenDashboard("dashboard-port", d.port, d.chosen())
	return err
}

// close gives the port back, if start has not given it away.
func (d *devDashboard) close() {
	if d.listener != nil {
		_ = d.listener.Close()
	}
}

// start serves the dashboard of the stack until ctx ends. It counts what it leaves running in work.
func (d *devDashboard) start(ctx context.Context, s *stack, work *sync.WaitGroup, report func(error)) error {
	board := dashboard.New()
	o := dashboard.Options{
		Emulator: s.addr, Routes: s.config.Routes, Cadence: s.config.Cadence,
		Report: func(err error) error { report(err); return err },
		Functions: func() (dashboard.Functions, error) {
			billed, err := s.billed()
			events := s.relay.Stats()
			return dashboard.Functions{Billed: billed, Events: events.Events, Waiting: events.Events - events.Acknowledged, Redelivered: events.Redelivered}, err
		},
	}
	for _, id := range s.config.Databases {
		client, err := firestorestore.Dial(ctx, s.addr, s.options.project, id, board.DialOptions()...)
		if err != nil {
			return err
		}
		s.onStop(func() { _ = client.Close() })
		o.Databases = append(o.Databases, dashboard.Database{ID: id, Client: client})
	}
	work.Go(func() {
		if err := board.Run(ctx, d.listener, o); err != nil {
			report(err)
		}
	})
	return nil
}
