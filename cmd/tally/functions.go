package main

import (
	"io"
	"os"
	"os/signal"
	"syscall"

	_ "github.com/firestore-tally/tally" // registers the functions
	"github.com/firestore-tally/tally/internal/framework"
	"github.com/spf13/cobra"
)

// functionsCommand is what dev and demo run in processes of their own: the functions framework with
// Tally's functions. It ends when its standard input does, that is when its parent ends, however
// that happens.
func functionsCommand() *cobra.Command {
	var port int
	c := &cobra.Command{
		Use:    "functions",
		Short:  "Serve the functions, for tally dev and tally demo",
		Hidden: true,
		RunE: func(c *cobra.Command, _ []string) error {
			// A Ctrl-C may reach every process of the terminal's. The parent decides when this one ends.
			signal.Ignore(os.Interrupt, syscall.SIGHUP)
			go func() {
				_, _ = io.Copy(io.Discard, c.InOrStdin())
				os.Exit(0)
			}()
			return framework.Serve(port, framework.Tell)
		},
	}
	c.Flags().IntVar(&port, "port", 0, "port to serve at; 0: any that is free")
	return c
}
