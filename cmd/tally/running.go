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
	"regexp"
	"slices"
	"strings"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/caarlos0/env/v11"
	"github.com/firestore-tally/tally/internal/appfolder"
	"github.com/firestore-tally/tally/internal/config"
	"github.com/firestore-tally/tally/internal/deploy"
	"github.com/firestore-tally/tally/internal/firestorestore"
	"github.com/firestore-tally/tally/rollup"
	"github.com/spf13/pflag"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A settingsFile is the flag that names a tally.yaml; "": the nearest is taken.
type settingsFile string

func (s *settingsFile) define(f *pflag.FlagSet) {
	f.StringVar((*string)(s), "config", "", "the tally.yaml to take (default: the nearest, in this folder or above)")
}

// here reads the files of the app in whose folder the command runs. If tally.yaml is not in that
// folder, it says on logs which is taken.
func (s settingsFile) here(logs io.Writer) (*appfolder.Folder, error) {
	dir, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	f, err := appfolder.Find(dir, string(s))
	if err != nil {
		return nil, err
	}
	if f.Elsewhere {
		fmt.Fprintf(logs, "tally: settings of %s\n", f.File)
	}

	known, err := env.GetFieldParams(new(config.Config))
	for _, name := range slices.Sorted(maps.Keys(f.Settings.Env)) {
		of := func(p env.FieldParams) bool { return p.Key == name }
		if strings.HasPrefix(name, "TALLY_") && !slices.ContainsFunc(known, of) {
			err = errors.Join(err, fmt.Errorf("%s: the functions have no such variable; docs/config.md lists them", f.Place("env."+name)))
		}
	}
	return f, err
}

// projectID is what a project's id looks like; some begin with a domain
// (https://cloud.google.com/resource-manager/docs/creating-managing-projects).
var projectID = regexp.MustCompile(`^([a-z0-9.-]+:)?[a-z][a-z0-9-]{4,28}[a-z0-9]$`)

// emulatorID is what an emulator takes.
var emulatorID = regexp.MustCompile(`^[a-z0-9.:-]+$`)

// projectOf returns the id of the project that a flag names, or else the environment or
// .firebaserc, and where it is from; "" if none does.
func projectOf(flag string, folder *appfolder.Folder) (id, from string, err error) {
	id, from = flag, "--project"
	if id == "" {
		id, from = os.Getenv("GOOGLE_CLOUD_PROJECT"), "GOOGLE_CLOUD_PROJECT"
	}
	if id == "" {
		id, err = folder.Project()
		from = ".firebaserc"
	}
	form := projectID
	if os.Getenv(firestorestore.EmulatorHost) != "" {
		form = emulatorID
	}
	if err == nil && id != "" && !form.MatchString(id) {
		err = fmt.Errorf("%s: %q is no project id: want 6 to 30 lower-case letters, digits and hyphens, a letter first and no hyphen last", from, id)
	}
	return id, from, err
}

var errNoProject = errors.New("name the project by --project or GOOGLE_CLOUD_PROJECT; gcloud projects list lists yours")

// realProject returns the app's folder, and the id of the project that a flag of a command names
// which works on what is deployed.
func realProject(s settingsFile, flag string, logs io.Writer) (folder *appfolder.Folder, id string, err error) {
	folder, err = s.here(logs)
	if err != nil {
		return nil, "", err
	}
	id, _, err = projectOf(flag, folder)
	if err == nil && id == "" {
		err = errNoProject
	}
	return folder, id, err
}

// named returns the variables of the functions that tally.yaml and this process's environment set.
// The environment wins.
func named(folder *appfolder.Folder) map[string]string {
	variables := folder.Variables()
	for name, value := range env.ToMap(os.Environ()) {
		if value != "" && strings.HasPrefix(name, "TALLY_") && name != "TALLY_USAGE_FILE" { // which is one process's own
			variables[name] = value
		}
	}
	return variables
}

// devProject is a project of tally dev's own on its emulator. There it keeps the variables of its
// functions, by the id of the project that they serve, so that a command finds them by the
// emulator's address alone.
const devProject = "demo-tally-dev"

// aliveAt is beside the variables: an address at which something answers for as long as tally dev
// runs.
const aliveAt = "alive_at"

// devNote returns the document that keeps the variables.
func devNote(ctx context.Context, addr, project string) (*firestore.Client, *firestore.DocumentRef, error) {
	client, err := firestorestore.Dial(ctx, addr, devProject, firestore.DefaultDatabaseID)
	if err != nil {
		return nil, nil, err
	}
	return client, client.Doc("dev/" + project), nil
}

// noteDev keeps the variables of the functions on the emulator. They stay there when tally dev has
// ended: devVariables asks whether it runs.
func noteDev(ctx context.Context, addr, project string, variables map[string]string) error {
	client, note, err := devNote(ctx, addr, project)
	if err != nil {
		return err
	}
	defer client.Close()
	_, err = note.Set(ctx, variables)
	return err
}

// devVariables returns the variables of the functions that tally dev runs on the emulator, nil if
// it runs none for the project.
func devVariables(ctx context.Context, addr, project string) (variables map[string]string, err error) {
	client, note, err := devNote(ctx, addr, project)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	doc, err := note.Get(ctx)
	if status.Code(err) == codes.NotFound {
		return nil, nil
	}
	if err == nil {
		err = doc.DataTo(&variables)
	}
	if err != nil {
		return nil, err
	}
	alive, err := net.DialTimeout("tcp", variables[aliveAt], time.Second)
	if err != nil {
		return nil, nil // it has ended
	}
	return variables, alive.Close()
}

// assumed is where routes are from that nobody named, and that no functions have.
const assumed = "assumed"

// configure finds out how the functions are configured, and whether the command may change anything
// by their routes. The functions that run know: those of tally dev on an emulator, and those that
// are deployed. Where none run, the flag, the environment or tally.yaml say it.
func (t *target) configure(ctx context.Context) error {
	variables, explicit := named(t.folder), true
	switch {
	case t.routes != "":
		variables["TALLY_ROUTES"], t.from = t.routes, "by --routes"
	case os.Getenv("TALLY_ROUTES") != "":
		t.from = "by TALLY_ROUTES"
	case t.folder.File != "":
		t.from, explicit = "by "+t.folder.File, false
	default:
		t.from, explicit = assumed, false
	}
	err := t.load(variables)
	if err != nil {
		return err
	}
	running, of, unread := t.running(ctx)
	none := "no functions run for project " + t.project
	var differs error
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case unread != nil:
		first, _, _ := strings.Cut(unread.Error(), "\n")
		unread = fmt.Errorf("nobody could ask %s for their routes: %s", of, first)
		none = unread.Error()
	case running != nil:
		if differs, err = t.take(running, of, explicit); err != nil {
			return err
		}
	}
	t.database = cmp.Or(t.database, t.config.Databases[0])
	if running != nil && !slices.Contains(t.config.Databases, t.database) {
		differs = errors.Join(differs, fmt.Errorf("%s serve the database %s, not %s", of, strings.Join(t.config.Databases, ", "), t.database))
	}
	switch {
	case t.from == assumed:
		fmt.Fprintf(t.logs, "routes, assumed, for there is no %s here or above, and %s: %s\n", appfolder.FileName, none, rollup.DefaultRoute)
	case unread != nil:
		fmt.Fprintln(t.logs, "tally: "+none)
	}
	switch {
	case differs != nil:
		t.forbidden = errors.Join(differs, fmt.Errorf("nothing was changed; tally deploy brings those of %s to a project, and a new tally dev takes them", appfolder.FileName))
	case t.adds: // by wrong routes, no other document is taken for a counter's
	case t.from == assumed:
		t.forbidden = fmt.Errorf("nothing was changed, because the routes are assumed; tally init writes them into %s, and --routes names them", appfolder.FileName)
	case unread != nil && !explicit:
		t.forbidden = fmt.Errorf("%w; nothing was changed; --routes names them for sure", unread)
	}
	return nil
}

// take takes the configuration of the functions that run, unless the command was told others. It
// returns how these differ.
func (t *target) take(running map[string]string, of string, explicit bool) (differs, err error) {
	wanted, from := t.config, t.from
	if err := t.load(running); err != nil {
		return nil, fmt.Errorf("%s: %w", of, err)
	}
	t.from = "of " + of
	if only := differing(wanted.Routes, t.config.Routes); from != assumed && only != nil {
		title := fmt.Sprintf("the routes %s differ from those of %s:", from, of)
		differs = errors.Join(errors.New(title), only)
		if explicit {
			t.config, t.from = wanted, from
		}
	}
	return differs, nil
}

func (t *target) load(variables map[string]string) (err error) {
	variables = maps.Clone(variables)
	variables["GOOGLE_CLOUD_PROJECT"] = t.project
	if t.config, err = config.Load(variables); err != nil {
		return fmt.Errorf("configuration: %w", t.folder.Explain(err, variables))
	}
	return nil
}

// running returns the variables of the functions that run, nil if none do, and what these are
// called.
func (t *target) running(ctx context.Context) (variables map[string]string, of string, err error) {
	if host := os.Getenv(firestorestore.EmulatorHost); host != "" {
		variables, err = devVariables(ctx, host, t.project)
		return variables, "tally dev", err
	}
	variables, err = deploy.Deployed(ctx, t.project, t.at.apis...)
	return variables, "the deployed functions", err
}

// differing returns an error that names the routes that only one of the two has, nil if there are
// none.
func differing(named, running rollup.Routes) (only error) {
	here, there := strings.Split(named.String(), "\n"), strings.Split(running.String(), "\n")
	for _, r := range here {
		if !slices.Contains(there, r) {
			only = errors.Join(only, errors.New("  only named:  "+r))
		}
	}
	for _, r := range there {
		if !slices.Contains(here, r) {
			only = errors.Join(only, errors.New("  only there:  "+r))
		}
	}
	return only
}
