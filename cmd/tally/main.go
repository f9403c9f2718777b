// Command tally is Tally's command line. It runs Tally on one machine (dev, demo), brings it to a
// project and checks it there (deploy, doctor, undeploy), and manages counters of an emulator or of
// a project. tally --help lists the commands; docs/cli.md is made from what they say of themselves.
//
// A command's name, text and examples are a page in the folder command/help. Its code parses the
// arguments, calls the packages that do the work, and prints. Commands share these packages, from
// the bottom up:
//
//   - command makes a command from its page of help.
//   - settings finds the app's folder and its project.
//   - draft makes routes of example documents. counter finds the counter that an argument names.
//   - court has an emulator on which security rules are judged.
//   - session runs a command on a database. It decides by which routes, and whether it may change
//     anything: a command that changes totals works by the routes of the functions that run.
//   - counters has the commands about counters.
//
// stack.go, lines.go and port.go are what dev and demo have in common.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/firestore-tally/tally/cmd/tally/command"
	"github.com/firestore-tally/tally/cmd/tally/counters"
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
	root := command.New("tally")
	root.Args = nil // so that cobra suggests commands for a name that it does not know
	root.SilenceErrors, root.SilenceUsage = true, true
	root.Version = programVersion()
	root.SetVersionTemplate("tally {{.Version}}\n")
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetFlagErrorFunc(command.FlagError)
	root.SetHelpFunc(command.HelpIn(root.HelpFunc()))
	root.PersistentPreRun = command.WrapLines
	add := func(group string, commands ...*cobra.Command) {
		root.AddGroup(&cobra.Group{ID: group, Title: group + ":"})
		for _, c := range commands {
			c.GroupID = group
		}
		root.AddCommand(commands...)
	}
	add("On this machine", initCommand(), devCommand(), demoCommand(), functionsCommand(), indexesCommand(), versionCommand())
	add("Counters", append(counters.Commands(), dashboardCommand())...)
	add("Projects", deployCommand(), undeployCommand(), doctorCommand())
	return root
}

// run runs the command line and returns its exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := rootCommand()
	root.SetArgs(command.NegativesLast(root, args))
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
