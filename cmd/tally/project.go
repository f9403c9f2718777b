package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"

	"github.com/firestore-tally/tally/internal/cloud/firestorestore"
	"github.com/firestore-tally/tally/internal/tool/appfolder"
)

// projectID matches the id of a project. Some ids begin with a domain
// (https://cloud.google.com/resource-manager/docs/creating-managing-projects).
var projectID = regexp.MustCompile(`^([a-z0-9.-]+:)?[a-z][a-z0-9-]{4,28}[a-z0-9]$`)

// emulatorID matches an id of a project that an emulator takes.
var emulatorID = regexp.MustCompile(`^[a-z0-9.:-]+$`)

// projectOf returns the id of the project, and where the id is from: the flag, the environment or
// .firebaserc, whichever is the first to name one. The id is "" if none does.
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
		err = fmt.Errorf("%s: %q is not a project id: want 6 to 30 lowercase letters, digits and hyphens, a letter first and no hyphen last", from, id)
	}
	return id, from, err
}

var errNoProject = errors.New("name the project by --project or GOOGLE_CLOUD_PROJECT; gcloud projects list lists yours")

// realProject returns the app's folder and the id of its project, for a command that works on what
// is deployed. It is an error if no project is named. flag is the value of --project.
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
