package appfolder

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// A Project is a project, and what names it.
type Project struct {
	ID   string // "": nothing names one
	From string // such as "the default project in .firebaserc"
}

// Project returns the project that the Firebase CLI takes in the folder. In this order it is:
//
//   - the one that the text names, which is the value of --project: an alias of .firebaserc, or
//     an id;
//   - the active project, which "firebase use" has noted for the folder of firebase.json or a
//     folder above it;
//   - the one that firebase.json names by its old key "firebase";
//   - the only alias of .firebaserc;
//   - its alias "default".
//
// It is what applyRC in the CLI's src/command.ts does.
func (f *Folder) Project(named string) (Project, error) {
	rc, err := f.readRC()
	if err != nil {
		return Project{}, err
	}
	aliases := rc.Projects
	if named != "" {
		return resolve(aliases, named, "--project"), nil
	}

	const active = "the Firebase CLI's active project here"
	id, err := f.activeProject()
	if err != nil || id != "" {
		return resolve(aliases, id, active), err
	}
	id, err = f.oldDefault()
	if err != nil || id != "" {
		return resolve(aliases, id, "firebase.json"), err
	}

	if len(aliases) == 1 {
		for _, id := range aliases {
			return Project{id, "the only project in .firebaserc"}, nil
		}
	}
	id = aliases["default"]
	if id == "" {
		return Project{}, nil
	}
	return Project{id, "the default project in .firebaserc"}, nil
}

// resolve returns the project of a name, which is an alias or an id.
func resolve(aliases map[string]string, name, from string) Project {
	id := aliases[name]
	if id == "" {
		return Project{name, from}
	}
	return Project{id, fmt.Sprintf("%s: the alias %s in .firebaserc", from, name)}
}

// root returns the folder that the Firebase CLI works in: that of firebase.json, or without one the
// current folder.
func (f *Folder) root() string {
	if f.Firebase == "" {
		return f.dir
	}
	return filepath.Dir(f.Firebase)
}

// An rcFile is what .firebaserc says.
type rcFile struct {
	Projects map[string]string `json:"projects"` // by their aliases
	Targets  map[string]struct {
		Firestore map[string][]string `json:"firestore"` // databases by the names of targets
	} `json:"targets"` // by projects
}

// readRC reads .firebaserc. Without the file it returns an empty one.
func (f *Folder) readRC() (rc rcFile, err error) {
	config, err := f.readJSON(filepath.Join(f.root(), ".firebaserc"))
	if errors.Is(err, os.ErrNotExist) {
		return rc, nil
	}
	if err != nil {
		return rc, err
	}
	err = config.decode("", &rc)
	return rc, err
}

// oldDefault returns the project that firebase.json names by its key "firebase".
func (f *Folder) oldDefault() (id string, err error) {
	if f.Firebase == "" {
		return "", nil
	}
	config, err := f.readJSON(f.Firebase)
	if err != nil {
		return "", err
	}
	err = config.decode("/firebase", &id)
	return id, err
}

// activeProject returns the project that "firebase use" has noted for the CLI's folder, or for the
// nearest above it. The CLI notes folders without links in their paths.
func (f *Folder) activeProject() (string, error) {
	active, err := activeProjects()
	if err != nil || len(active) == 0 {
		return "", err
	}

	dir, err := filepath.Abs(f.root())
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return "", err
	}
	for active[dir] == "" && dir != filepath.Dir(dir) {
		dir = filepath.Dir(dir)
	}
	return active[dir], nil
}

// maxStore bounds the CLI's own file, which also has its tokens.
const maxStore = 16 << 20

// activeProjects returns the active projects by folder. The CLI keeps them in a file of the npm
// package configstore, on every system. The CLI takes a file that is no JSON for an empty one.
func activeProjects() (map[string]string, error) {
	home, err := os.UserHomeDir()
	config := cmp.Or(os.Getenv("XDG_CONFIG_HOME"), filepath.Join(home, ".config"))
	if err != nil && os.Getenv("XDG_CONFIG_HOME") == "" {
		return nil, nil // the CLI keeps nothing without a home
	}

	text, err := read(os.Open, filepath.Join(config, "configstore", "firebase-tools.json"), maxStore, nil)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("could not read the Firebase CLI's active projects: %w", err)
	}
	var store struct {
		ActiveProjects map[string]string `json:"activeProjects"`
	}
	err = json.Unmarshal(text, &store)
	if err != nil {
		return nil, nil
	}
	return store.ActiveProjects, nil
}
