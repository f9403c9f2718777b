package main

import (
	"context"
	"fmt"
	"os"

	"github.com/firestore-tally/tally/internal/dashboard"
	"github.com/firestore-tally/tally/internal/firestorestore"
	"github.com/firestore-tally/tally/internal/local"
	"github.com/spf13/cobra"
)

// dashboardPort is where the dashboard is unless a flag says otherwise.
const dashboardPort = 8091

func dashboardCommand() *cobra.Command {
	board := dashboard.New()
	t := target{endless: true, dial: board.DialOptions()}
	var p page
	c := newCommand("dashboard")
	p.define(c, "port", dashboardPort, "the page")
	return t.command(c, viewer, func(ctx context.Context, _ []string) error {
		if err := p.open(); err != nil {
			return err
		}
		defer p.listener.Close()
		if err := t.print(map[string]string{"url": p.url() + "/"}, "The dashboard is at %s/\nStop it with Ctrl-C.", p.url()); err != nil {
			return err
		}
		return board.Run(ctx, p.listener, dashboard.Options{
			Project: t.project, Databases: []dashboard.Database{{ID: t.database, Client: t.client}}, Emulator: os.Getenv(firestorestore.EmulatorHost),
			Routes: t.config.Routes, Cadence: t.config.Cadence,
			Report: func(err error) error {
				err = t.told(t.explain(err))
				fmt.Fprintf(t.logs, "tally: %v\n", err)
				return err
			},
		})
	})
}

// showDashboard serves the dashboard of a stack until ctx ends.
func showDashboard(ctx context.Context, p *page, s *local.Stack) error {
	board := dashboard.New()
	o := dashboard.Options{
		Project: s.Config.Project, Emulator: s.Addr, Routes: s.Config.Routes, Cadence: s.Config.Cadence,
		Report: func(err error) error { s.Say("%v", err); return err },
		Functions: func() (dashboard.Functions, error) {
			billed, err := s.Billed()
			events := s.Relay.Stats()
			return dashboard.Functions{Billed: billed, Events: events.Events, Waiting: events.Events - events.Acknowledged, Redelivered: events.Redelivered}, err
		},
	}
	for _, id := range s.Config.Databases {
		client, err := firestorestore.Dial(ctx, s.Addr, s.Config.Project, id, board.DialOptions()...)
		if err != nil {
			return err
		}
		defer client.Close()
		o.Databases = append(o.Databases, dashboard.Database{ID: id, Client: client})
	}
	return board.Run(ctx, p.listener, o)
}
