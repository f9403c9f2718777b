// Command tally is Tally's command line. It runs Tally on one machine (dev, demo), brings it to a
// project and checks it there (deploy, doctor, undeploy), and manages counters of an emulator or of
// a project. tally --help lists the commands; docs/cli.md is made from what they say of themselves.
//
// A command's name, text and examples are a page in the folder help. Its code parses the arguments,
// calls the packages that do the work, and prints. What commands share, from the bottom up:
//
//   - dialog.go shows results, progress and questions by the package terminal.
//   - settings.go and project.go find the app's folder and its project.
//   - routes.go decides by which routes a command works, and whether it may change anything: a
//     command that changes totals works by the routes of the functions that run.
//   - counter.go finds the counter that an argument names.
//   - session.go puts these together for each command that works on a database.
//   - stack.go, lines.go and port.go are what dev and demo have in common.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/firestore-tally/tally/internal/tool/terminal"
	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(underLauncher(context.Background()), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	context.AfterFunc(ctx, stop) // so that a second Ctrl-C ends the command at once
	status := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

// Exit statuses other than 0 and 1.
const (
	unchecked   = 2   // tally doctor or tally demo --project found nothing wrong, and could not check everything
	interrupted = 130 // the command was stopped before it was done; shells use it for Ctrl-C
)

func rootCommand() *cobra.Command {
	root := newCommand("tally")
	root.Args = nil // so that cobra suggests commands for a name that it does not know
	root.SilenceErrors, root.SilenceUsage = true, true
	root.Version = programVersion()
	root.SetVersionTemplate("tally {{.Version}}\n")
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetFlagErrorFunc(flagError)
	root.SetHelpFunc(helpIn(root.HelpFunc()))
	root.PersistentPreRun = wrapLines
	add := func(group string, commands ...*cobra.Command) {
		root.AddGroup(&cobra.Group{ID: group, Title: group + ":"})
		for _, c := range commands {
			c.GroupID = group
		}
		root.AddCommand(commands...)
	}
	add("On this machine", initCommand(), devCommand(), demoCommand(), functionsCommand(), indexesCommand(), versionCommand())
	add("Counters", counterCommands()...)
	add("Projects", deployCommand(), undeployCommand(), doctorCommand())
	return root
}

// run runs the command line and returns its exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := rootCommand()
	root.SetArgs(negativesLast(root, args))
	stdout, stderr = terminal.NewScreen(stdout), terminal.NewScreen(stderr)
	root.SetOut(stdout)
	root.SetErr(stderr)
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintf(stderr, "tally: %v\n", err)
		if ctx.Err() != nil {
			return interrupted
		}
		if errors.Is(err, errUnchecked) {
			return unchecked
		}
		return 1
	}
	return 0
}
