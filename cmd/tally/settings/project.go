package settings

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"

	"github.com/firestore-tally/tally/internal/cloud/firestorestore"
	"github.com/firestore-tally/tally/internal/tool/appfolder"
	"github.com/firestore-tally/tally/internal/tool/terminal"
)

// projectID matches the id of a project. Some ids begin with a domain
// (https://cloud.google.com/resource-manager/docs/creating-managing-projects).
var projectID = regexp.MustCompile(`^([a-z0-9.-]+:)?[a-z][a-z0-9-]{4,28}[a-z0-9]$`)

// emulatorID matches an id of a project that an emulator takes.
var emulatorID = regexp.MustCompile(`^[a-z0-9.:-]+$`)

// A Project is the one that a command works on.
type Project struct {
	appfolder.Project
	cli        appfolder.Project // another one, which the Firebase CLI takes here
	unreadable error             // why it is not known which one the Firebase CLI takes
}

// ChooseProject chooses the project: by the flag, an id or an alias of .firebaserc; else by the
// environment; else as the Firebase CLI does. Nothing may name one. The folder, which may be nil,
// takes the targets of that project from then on.
func ChooseProject(flag string, folder *appfolder.Folder) (c Project, err error) {
	onEmulator := os.Getenv(firestorestore.EmulatorHost) != ""
	inEnvironment := os.Getenv("GOOGLE_CLOUD_PROJECT")
	c.Project = appfolder.Project{ID: flag, From: "--project"}
	if folder != nil && (flag != "" || inEnvironment == "" || !onEmulator) {
		c.Project, err = folder.Project(flag)
	}
	if flag == "" && inEnvironment != "" {
		c = Project{appfolder.Project{ID: inEnvironment, From: "GOOGLE_CLOUD_PROJECT"}, c.Project, err}
		err = nil
	}
	if err != nil {
		return c, err
	}

	if folder != nil {
		folder.ProjectID = c.ID
	}

	form := projectID
	if onEmulator {
		form = emulatorID
	}
	if c.ID != "" && !form.MatchString(c.ID) {
		err = fmt.Errorf("%s: %q is not a project id: want 6 to 30 lowercase letters, digits and hyphens, a letter first and no hyphen last", c.From, c.ID)
	}
	return c, err
}

// mayChange returns an error unless the user means this project. It asks where GOOGLE_CLOUD_PROJECT
// and the Firebase CLI name two, because "firebase deploy && tally deploy" would serve both. ask
// asks a question, unless it is nil: then no one can answer.
func (c Project) mayChange(ask func(question string) error) error {
	if c.unreadable != nil {
		return fmt.Errorf("could not compare GOOGLE_CLOUD_PROJECT=%s with the Firebase CLI's project: --project names the one that you mean: %w", c.ID, c.unreadable)
	}
	if c.cli.ID == "" || c.cli.ID == c.ID {
		return nil
	}

	differ := fmt.Sprintf("GOOGLE_CLOUD_PROJECT names %s, and the Firebase CLI takes %s (%s)", c.ID, c.cli.ID, c.cli.From)
	if ask == nil {
		return errors.New(differ + ": name the one that you mean by --project")
	}
	return ask(differ + ". Change " + c.ID + "?")
}

// Confirm is mayChange for a command with the flag --yes, which answers no question about the
// project.
func (c Project) Confirm(ctx context.Context, in io.Reader, logs io.Writer, yes bool) error {
	if yes || !terminal.IsTerminal(in) {
		return c.mayChange(nil)
	}
	return c.mayChange(func(question string) error { return terminal.Confirm(ctx, in, logs, false, question) })
}

// Say prints which project was taken, and from where.
func (c Project) Say(logs io.Writer) {
	fmt.Fprintf(logs, "tally: project %s (%s)\n", c.ID, c.From)
}

// ProjectUsage is the usage of the flag --project of a command that works on what is deployed.
const ProjectUsage = "project id, or alias of .firebaserc (default $GOOGLE_CLOUD_PROJECT, else the Firebase CLI's: its active project here, or .firebaserc's)"

var ErrNoProject = errors.New("name the project by --project or GOOGLE_CLOUD_PROJECT, or in the app's folder by firebase use; gcloud projects list lists yours")

// RealProject returns the app's folder and its project, and says which that is. It is for a command
// that works on what is deployed. It is an error if no project is named. flag is the value of
// --project.
func RealProject(s File, flag string, logs io.Writer) (*appfolder.Folder, Project, error) {
	folder, err := s.Here(logs)
	if err != nil {
		return nil, Project{}, err
	}
	c, err := ChooseProject(flag, folder)
	if err == nil && c.ID == "" {
		err = ErrNoProject
	}
	if err == nil {
		c.Say(logs)
	}
	return folder, c, err
}
