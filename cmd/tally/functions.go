package main

import (
	_ "github.com/firestore-tally/tally" // registers the functions
	"github.com/firestore-tally/tally/cmd/tally/command"
	"github.com/firestore-tally/tally/internal/tool/local"
	"github.com/spf13/cobra"
)

// functionsCommand returns the hidden command that dev and demo run in processes of their own. It
// serves Tally's functions by the functions framework.
func functionsCommand() *cobra.Command {
	var port int
	c := command.New("functions")
	c.Hidden = true
	c.RunE = func(*cobra.Command, []string) error { return local.Serve(port) }
	c.Flags().IntVar(&port, "port", 0, "port to serve at; 0: any that is free")
	return c
}
