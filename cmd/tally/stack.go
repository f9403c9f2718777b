package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"strconv"

	"github.com/caarlos0/env/v11"
	root "github.com/firestore-tally/tally"
	"github.com/firestore-tally/tally/cmd/tally/session"
	"github.com/firestore-tally/tally/cmd/tally/settings"
	"github.com/firestore-tally/tally/internal/cloud/config"
	"github.com/firestore-tally/tally/internal/cloud/firestorestore"
	"github.com/firestore-tally/tally/internal/tool/appfolder"
	"github.com/firestore-tally/tally/internal/tool/local"
	"github.com/firestore-tally/tally/internal/tool/local/emulator"
	"github.com/firestore-tally/tally/internal/tool/local/freeport"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// stackFlags are the flags of dev and demo about the stack that they start.
type stackFlags struct {
	logs io.Writer // for what the user reads before the stack runs

	local.Options
	settings settings.File
	lines    lines
	rulesAt  string   // value of the flag --rules
	rules    appRules // the security rules, in force on the emulator that the stack runs
	flags    *pflag.FlagSet

	severity  string            // the least that the functions log
	variables map[string]string // of the functions; the command sets them

	chosen func(context.Context) error // unless nil, called once the emulator is chosen, before the ports are

	joins  bool   // the command uses an emulator that serves the port already
	joined string // how an emulator was found that somebody else runs; "": the stack runs its own
}

func (f *stackFlags) define(c *cobra.Command) {
	flags := c.Flags()
	f.flags = flags
	f.settings.Define(flags)
	flags.IntVar(&f.FirestorePort, "firestore-port", 8080, "port of the Firestore emulator; 0: any that is free; no effect with FIRESTORE_EMULATOR_HOST set")
	flags.IntVar(&f.FunctionsPort, "functions-port", 8081, "port of the first functions process; the others follow; 0: any that are free")
	flags.IntVar(&f.Processes, "instances", 2, "functions processes")
	flags.StringVar(&f.rulesAt, "rules", "", "file of security rules (default: that of firebase.json, else those of Tally); no effect with FIRESTORE_EMULATOR_HOST set")
}

// configure reads the functions' configuration, and checks what can be checked before anything is
// started. The command's variables win over the environment, which wins over the app's folder. The
// functions log lines of the severity and above, unless TALLY_LOG_LEVEL says another.
func (f *stackFlags) configure(
	ctx context.Context, folder *appfolder.Folder, project, severity string, variables map[string]string,
) (err error) {
	f.lines.verbose = os.Getenv("TALLY_LOG_LEVEL") != ""
	f.severity, f.variables = severity, maps.Clone(variables)
	f.Environment, f.Config, err = f.functions(folder, project)
	if err != nil {
		return err
	}
	f.lines.setRoutes(f.Config.Routes)

	if f.Processes < 1 {
		return fmt.Errorf("--instances %d: want at least 1", f.Processes)
	}
	executable, err := os.Executable()
	if err != nil {
		return err
	}
	f.Command = func(port int) *exec.Cmd { return exec.Command(executable, "functions", "--port", strconv.Itoa(port)) }
	f.Log = f.lines.printLogged

	if err := f.chooseEmulator(ctx, folder); err != nil {
		return err
	}
	if f.chosen != nil {
		err := f.chosen(ctx)
		if err != nil {
			return err
		}
	}
	if f.Config.EmulatorHost != "" {
		f.rules, _ = f.findRules(folder, f.Config.Databases[0]) // only to check them: the emulator has its own
		return f.choosePorts()
	}
	if err := f.choosePorts(port{"firestore-port", f.FirestorePort, 1}); err != nil {
		return err
	}
	f.rules, err = f.findRules(folder, f.Config.Databases[0])
	f.Rules, f.RulesText = f.rules.file, f.rules.text
	return err
}

// functions returns the environment of the functions, and the configuration that it says.
func (f *stackFlags) functions(folder *appfolder.Folder, project string) (map[string]string, config.Config, error) {
	environment := env.ToMap(os.Environ())
	maps.Copy(environment, settings.Variables(folder))
	if !f.lines.verbose {
		environment["TALLY_LOG_LEVEL"] = f.severity
	}
	environment["GOOGLE_CLOUD_PROJECT"] = project
	maps.Copy(environment, local.QueueVariables(project))
	maps.Copy(environment, f.variables)
	if environment["TALLY_EDITION"] == "" {
		edition, err := folder.Edition()
		if err != nil {
			return nil, config.Config{}, err
		}
		environment["TALLY_EDITION"] = edition
	}

	loaded, err := config.Load(environment)
	if err != nil {
		return nil, config.Config{}, fmt.Errorf("configuration: %w", folder.Explain(err, environment))
	}
	return environment, loaded, nil
}

// chooseEmulator finds the emulator that somebody else runs: the one that the environment names, or
// the one that serves the port, if the command joins it. If there is none, it chooses the port of
// the stack's own.
func (f *stackFlags) chooseEmulator(ctx context.Context, folder *appfolder.Folder) error {
	host := f.Config.EmulatorHost
	if host != "" {
		err := session.CheckEmulator(ctx, host, f.logs)
		port := portHere(host)
		switch {
		case err == nil:
			f.joined = firestorestore.EmulatorHost + " names it"
			return nil
		case f.joins && errors.Is(err, emulator.ErrAbsent) && port > 0:
			f.Config.EmulatorHost, f.FirestorePort = "", port // the shell's export is from another tally dev
			return nil
		default:
			return fmt.Errorf("%s=%s: %w; without the variable, an emulator is started", firestorestore.EmulatorHost, host, err)
		}
	}
	if !f.joins {
		return nil
	}

	at, err := folder.Emulator("firestore")
	if err != nil {
		return err
	}
	from := "it was there already"
	switch {
	case f.flags.Changed("firestore-port"):
		at = appfolder.Address{Host: freeport.Loopback, Port: f.FirestorePort}
	case !at.Loopback():
		return anotherMachine(folder.Firebase, at, f.FirestorePort)
	case at.Port == 0:
		at.Port = f.FirestorePort // the Firebase CLI's default, too
	default:
		from += ", where firebase.json says"
		f.FirestorePort = at.Port
	}
	if at.Port == 0 { // any that is free
		return nil
	}

	addr := net.JoinHostPort(at.Host, strconv.Itoa(at.Port))
	err = session.AwaitAnswer(ctx, addr, f.logs)
	switch {
	case err == nil:
		f.Config.EmulatorHost, f.joined = addr, from
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, emulator.ErrBusy):
		return fmt.Errorf("%s: %w; try again when it has less to do, or start another emulator with --firestore-port", addr, err)
	default: // none serves there, so the stack starts its own
		return nil
	}
}

// portHere returns the port of an address at which the stack's own emulator can listen; 0 of any
// other.
func portHere(addr string) int {
	host, text, err := net.SplitHostPort(addr)
	if err != nil || host != freeport.Loopback && host != "localhost" {
		return 0
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		return 0
	}
	return port
}

// anotherMachine is the error that a file names an emulator that may be on another machine. Only
// the user's own word takes the functions there.
func anotherMachine(file string, at appfolder.Address, port int) error {
	addr := net.JoinHostPort(at.Host, strconv.Itoa(cmp.Or(at.Port, port)))
	return fmt.Errorf("%s: emulators.firestore.host: %s may be another machine, which would see all documents: if you mean it, set %s=%s; --firestore-port starts an emulator here",
		file, at.Host, firestorestore.EmulatorHost, addr)
}

// choosePorts checks that the functions' ports and the others are free. If that fails and the user
// did not choose the functions' ports, it has the functions take any that are free.
func (f *stackFlags) choosePorts(others ...port) error {
	functions := port{"functions-port", f.FunctionsPort, f.Processes}
	err := check(append([]port{functions}, others...)...)
	if err == nil || f.flags.Changed("functions-port") {
		return err
	}
	f.FunctionsPort = 0
	return check(others...)
}

// findRules returns the security rules of the flag --rules, those of the app's database, or
// Tally's.
func (f *stackFlags) findRules(folder *appfolder.Folder, database string) (appRules, error) {
	file, from := f.rulesAt, "--rules"
	if file == "" {
		d, err := folder.Database(database)
		if err != nil {
			return appRules{}, err
		}
		file, from = d.Rules, folder.Firebase
	}
	if file == "" {
		return appRules{text: root.Rules}, nil
	}

	text, err := appfolder.ReadRules(file)
	if err != nil {
		return appRules{file: file}, fmt.Errorf("%s: rules: %w", from, err)
	}
	return appRules{file, text}, nil
}

// startText says what takes some seconds now.
func (f *stackFlags) startText() string {
	what := "the Firestore emulator and "
	if f.Config.EmulatorHost != "" {
		what = ""
	}
	return "tally: starting " + what + "the functions, which takes some seconds"
}
