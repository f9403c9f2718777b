package main

import (
	"context"
	"fmt"
	"os"

	"github.com/firestore-tally/tally/cmd/tally/command"
	"github.com/firestore-tally/tally/cmd/tally/counters"
	"github.com/firestore-tally/tally/cmd/tally/session"
	"github.com/firestore-tally/tally/internal/cloud/firestorestore"
	"github.com/firestore-tally/tally/internal/tool/dashboard"
	"github.com/firestore-tally/tally/internal/tool/local"
	"github.com/firestore-tally/tally/rollup/route"
	"github.com/spf13/cobra"
)

// dashboardPort is the port of the dashboard unless a flag names another.
const dashboardPort = 8091

func dashboardCommand() *cobra.Command {
	board := dashboard.New()
	p := page{on: true}
	c := command.New("dashboard")
	p.define(c, "port", dashboardPort, "the page")
	return session.Command{Endless: true, Dial: board.DialOptions(), Run: func(ctx context.Context, s *session.Session, _ []string) error {
		return serveDashboard(ctx, s, board, &p)
	}}.Define(c)
}

// serveDashboard serves the dashboard of the session's database until ctx ends.
func serveDashboard(ctx context.Context, s *session.Session, board *dashboard.Board, p *page) error {
	if err := p.open(); err != nil {
		return err
	}
	defer p.listener.Close()
	err := s.Print(map[string]string{"url": p.url() + "/"}, "The dashboard is at %s/\nStop it with Ctrl-C.", p.url())
	if err != nil {
		return err
	}

	return board.Run(ctx, p.listener, dashboard.Options{
		Project:   s.Project,
		Edition:   s.Config.Edition,
		Databases: []dashboard.Database{{ID: s.Database, Client: s.Client}},
		Emulator:  os.Getenv(firestorestore.EmulatorHost),
		Routes:    s.Config.Routes,
		Name:      func(c route.Counter) string { return counters.NameOf(s.Config.Routes, c) },
		Cadence:   s.Config.Cadence,
		Due:       counters.Pacing(s.Config).Due,
		Report: func(err error) error {
			err = s.WithRemedy(err)
			fmt.Fprintf(s.Logs, "tally: %v\n", err)
			return err
		},
	})
}

// showDashboard serves the dashboard of a stack until ctx ends.
func showDashboard(ctx context.Context, p *page, s *local.Stack) error {
	board := dashboard.New()
	o := dashboard.Options{
		Project: s.Config.Project, Edition: s.Config.Edition, Emulator: s.Addr, Routes: s.Config.Routes, Cadence: s.Config.Cadence,
		Name:   func(c route.Counter) string { return counters.NameOf(s.Config.Routes, c) },
		Due:    counters.Pacing(s.Config).Due,
		Report: func(err error) error { s.Say("%v", err); return err },
		Functions: func() (dashboard.Functions, error) {
			used, err := s.Used()
			events := s.Relay.Stats()
			return dashboard.Functions{Used: used, Events: events.Events, Waiting: events.Events - events.Acknowledged, Redelivered: events.Redelivered}, err
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
