// Command tally is Tally's command line. It runs Tally on one machine (dev, demo), brings it to a
// project and checks it there (deploy, doctor, undeploy), and manages counters of an emulator or of
// a project. tally --help lists the commands; docs/cli.md is made from what they say of themselves.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	context.AfterFunc(ctx, stop) // so that a second Ctrl-C ends the command at once
	if executable, err := os.Executable(); err == nil && fromGoRun(executable) {
		var cancel context.CancelCauseFunc
		ctx, cancel = context.WithCancelCause(ctx)
		go watchParent(cancel)
	}
	status := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

// fromGoRun reports whether "go run" built the executable, or "go test", which is no other: each
// builds into a folder named go-build.
func fromGoRun(executable string) bool { return strings.Contains(executable, "go-build") }

// watchParent calls cancel when the parent process has ended. "go run" is a parent that tells the
// command nothing when it is killed.
func watchParent(cancel context.CancelCauseFunc) {
	parent := os.Getppid()
	for range time.Tick(200 * time.Millisecond) {
		if os.Getppid() != parent {
			cancel(errors.New("the process that started tally has ended"))
			return
		}
	}
}

// interrupted is the exit status of a command that was stopped before it was done, as shells have
// it for Ctrl-C.
const interrupted = 130

// run runs the command line and returns its exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return runAt(ctx, endpoints{}, args, stdout, stderr)
}

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "tally",
		Short: "Exact, live, cheap counters for Cloud Firestore",
		Long: `Exact, live, cheap counters for Cloud Firestore.

Folder. Every command finds tally.yaml, firebase.json and .firebaserc in the current folder or above, as git
does. The folder need not be a clone of Tally.

Database. Commands work on the emulator that FIRESTORE_EMULATOR_HOST names. Without that variable they work on
a real project, with application default credentials. Reading needs the role roles/datastore.viewer, writing
roles/datastore.user. The project is that of --project, else of GOOGLE_CLOUD_PROJECT, else the default of
.firebaserc; on an emulator, else demo-tally.

Routes. The routes are those of the functions that run: of tally dev on its emulator, of the deployed
functions on a project. If --routes, TALLY_ROUTES or tally.yaml names others, a command that writes stops and
shows the difference. Where no functions run, the first of these three wins. Without any of them the default
route is assumed. The first line says so, and nothing is repaired or deleted on that assumption.

COUNTER is a path: the counter's document (counters/likes), its shards' collection or a shard
(counters/likes/shards), or its roll-up (rollups/likes). Where all routes make one kind of roll-up, the bare id
is enough (likes). Documents that a route counts by count() are the app's: get, watch and ls show how many
there are, and no command changes them.

All commands are safe while clients increment and roll-ups run. What destroys a total, or makes more than
1,000 shards, asks first. What takes longer than a second shows how far it is. Ctrl-C says what is done, and
the same command does the rest.`,
		Example: `  tally dev   # in one terminal; the others in a second one
  export FIRESTORE_EMULATOR_HOST=127.0.0.1:8080 GOOGLE_CLOUD_PROJECT=demo-tally
  tally create counters/likes --num-shards 20
  tally increment counters/likes --by 5 --once order-1   # however often it is repeated, once
  tally get counters/likes                               # the sum now, and what the roll-up says
  tally watch counters/likes                             # a line for each new roll-up
  tally ls
  tally audit                                            # compares all roll-ups with their shards
  tally resize counters/likes 50                         # the total stays
  tally set counters/likes 1200
  tally freeze counters/likes                            # clients write it no more
  tally import counters/likes --documents posts/7/likes  # how many documents there are
  tally delete counters/likes`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       version(),
	}
	root.SetVersionTemplate("tally {{.Version}}\n")
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetFlagErrorFunc(flagError)
	add := func(group string, commands ...*cobra.Command) {
		root.AddGroup(&cobra.Group{ID: group, Title: group + ":"})
		for _, c := range commands {
			c.GroupID = group
		}
		root.AddCommand(commands...)
	}
	add("On this machine", initCommand(), devCommand(), demoCommand(), functionsCommand(), versionCommand())
	add("Counters", counterCommands()...)
	add("Projects", deployCommand(), undeployCommand(), doctorCommand(), migrateCommand())
	takeArguments(root)
	return root
}

func runAt(ctx context.Context, at endpoints, args []string, stdout, stderr io.Writer) int {
	root := rootCommand()
	root.SetArgs(negatives(root, args))
	stdout, stderr = &screen{raw: stdout, terminal: isTerminal(stdout)}, &screen{raw: stderr, terminal: isTerminal(stderr)}
	root.SetOut(stdout)
	root.SetErr(stderr)
	if err := root.ExecuteContext(context.WithValue(ctx, endpointsKey{}, at)); err != nil {
		fmt.Fprintf(stderr, "tally: %v\n", err)
		if ctx.Err() != nil {
			return interrupted
		}
		if own, ok := errors.AsType[withStatus](err); ok {
			return own.status
		}
		return 1
	}
	return 0
}
