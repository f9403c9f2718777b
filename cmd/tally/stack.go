package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/caarlos0/env/v11"
	root "github.com/firestore-tally/tally"
	"github.com/firestore-tally/tally/internal/app"
	"github.com/firestore-tally/tally/internal/appfolder"
	"github.com/firestore-tally/tally/internal/emulator"
	"github.com/firestore-tally/tally/internal/firestorestore"
	"github.com/firestore-tally/tally/internal/localstack"
	"github.com/spf13/cobra"
)

const loopback = "127.0.0.1"

// A stackFlags is what the flags of dev and demo say of the stack that they start.
type stackFlags struct {
	localstack.Options
	lines lines
	text  []byte // of the rules
	dir   string // of Tally's own rules, temporary; "": they are the app's
}

func (f *stackFlags) define(c *cobra.Command) {
	flags := c.Flags()
	flags.IntVar(&f.FirestorePort, "firestore-port", 8080, "port of the Firestore emulator; 0: any that is free; no effect with FIRESTORE_EMULATOR_HOST set")
	flags.IntVar(&f.FunctionsPort, "functions-port", 8081, "port of the first functions process; the others follow; 0: any that are free")
	flags.IntVar(&f.Processes, "instances", 2, "functions processes")
	flags.StringVar(&f.Rules, "rules", "", "file of security rules (default: that of firebase.json, else those of Tally); no effect with FIRESTORE_EMULATOR_HOST set")
}

// configure takes the functions' configuration from the app's folder, the environment and further
// variables, which win, and checks what can be checked before anything is started. The functions log
// from the severity on, unless TALLY_LOG_LEVEL says another. The command has further ports. The caller
// calls clean, also after an error.
func (f *stackFlags) configure(ctx context.Context, folder *appfolder.Folder, project, severity string, variables map[string]string, ports ...port) (err error) {
	f.lines.all = os.Getenv("TALLY_LOG_LEVEL") != ""
	f.Environment = env.ToMap(os.Environ())
	for name, value := range named(folder) {
		if name != "TALLY_TELEMETRY" { // the file's is of what is deployed
			f.Environment[name] = value
		}
	}
	if !f.lines.all {
		f.Environment["TALLY_LOG_LEVEL"] = severity
	}
	f.Environment["GOOGLE_CLOUD_PROJECT"] = project
	maps.Copy(f.Environment, variables)
	if f.Config, err = app.LoadConfig(f.Environment); err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	if f.Processes < 1 {
		return fmt.Errorf("--instances %d: want at least 1", f.Processes)
	}
	executable, err := os.Executable()
	if err != nil {
		return err
	}
	f.Command = func(port int) *exec.Cmd { return exec.Command(executable, "functions", "--port", strconv.Itoa(port)) }
	f.Log = f.lines.logged
	ports = append(ports, port{"functions-port", f.FunctionsPort, f.Processes})
	if host := f.Config.EmulatorHost; host != "" {
		if err := checkEmulator(ctx, host); err != nil {
			return fmt.Errorf("%s=%s: %w; without the variable, an emulator is started", firestorestore.EmulatorHost, host, err)
		}
		return check(ports...)
	}
	if err := check(append(ports, port{"firestore-port", f.FirestorePort, 1})...); err != nil {
		return err
	}
	return f.chooseRules(folder)
}

// chooseRules chooses the security rules: those of the flag, those of the app, or Tally's.
func (f *stackFlags) chooseRules(folder *appfolder.Folder) error {
	from := "--rules"
	if f.Rules == "" {
		d, err := folder.Database(f.Config.Databases[0])
		if err != nil {
			return err
		}
		f.Rules, from = d.Rules, folder.Firebase
	}
	var err error
	if f.Rules != "" {
		if f.text, err = os.ReadFile(f.Rules); err != nil {
			err = fmt.Errorf("%s: rules: %w", from, err)
		}
		return err
	}
	if f.dir, err = os.MkdirTemp("", "tally-"); err != nil {
		return err
	}
	f.Rules, f.text = filepath.Join(f.dir, "firestore.rules"), []byte(root.Rules)
	return os.WriteFile(f.Rules, f.text, 0o600)
}

// clean removes the file of Tally's own rules.
func (f *stackFlags) clean() {
	if f.dir != "" {
		_ = os.RemoveAll(f.dir)
	}
}

// rules says which security rules there are.
func (f *stackFlags) rules() string {
	switch {
	case f.Config.EmulatorHost != "":
		return "those of the emulator"
	case f.dir != "":
		return "Tally's own, built in; firebase.json or --rules name an app's"
	default:
		return f.Rules
	}
}

// A port is a flag that names the first of n ports.
type port struct {
	flag     string
	first, n int
}

const highestPort = 65535

// check returns an error unless each of the ports is one, is free, and is named once.
func check(ports ...port) error {
	taken := make(map[int]string)
	for _, p := range ports {
		last := p.first + p.n - 1
		if p.first < 0 || p.first > 0 && last > highestPort {
			return fmt.Errorf("--%s %d: want a port up to %d, or 0 for any that is free", p.flag, p.first, highestPort-p.n+1)
		}
		for n := p.first; 0 < n && n <= last; n++ {
			if taken[n] != "" {
				return fmt.Errorf("--%s %d: port %d is one of --%s too; choose another", p.flag, p.first, n, taken[n])
			}
			taken[n] = p.flag
			if l, err := listen(n); err != nil {
				return fmt.Errorf("%w; choose another with --%s", err, p.flag)
			} else if err := l.Close(); err != nil {
				return err
			}
		}
	}
	return nil
}

// listen listens at a port, or at any that is free if it is 0.
func listen(port int) (net.Listener, error) {
	l, err := net.Listen("tcp", net.JoinHostPort(loopback, strconv.Itoa(port)))
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("port %d is in use", port)
	}
	if err != nil {
		return nil, fmt.Errorf("port %d: %w", port, err)
	}
	return l, nil
}

// checkEmulator returns an error, which ends in a remedy, unless an emulator answers at addr, the value
// of FIRESTORE_EMULATOR_HOST. The remedy is never to unset that: the next command would go to a real
// project.
func checkEmulator(ctx context.Context, addr string) error {
	if host, port, err := net.SplitHostPort(addr); err != nil || host == "" || port == "" {
		return errors.New("is not of the form host:port; set it to one such as 127.0.0.1:8080")
	}
	switch err := emulator.Check(ctx, addr); err {
	case nil:
		return nil
	case emulator.ErrBusy:
		return fmt.Errorf("%w; try again when it has less to do", err)
	default:
		return fmt.Errorf("%w; start it, as tally dev does, or name the one that runs", err)
	}
}
