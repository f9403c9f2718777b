package appfolder

import (
	"cmp"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"cloud.google.com/go/firestore"
)

// A Database is a database with its files, as firebase.json names them.
type Database struct {
	ID      string `json:"database"`
	Target  string `json:"target"`  // in place of an ID, a name by which .firebaserc has one or more
	Edition string `json:"edition"` // "": not said
	Rules   string `json:"rules"`   // path of the file; "": firebase.json names none
	Indexes string `json:"indexes"` // likewise

	Stated string `json:"-"` // the edition that tally.yaml says; "": none
}

// Unserved returns a sentence about why Tally does not serve the database; "": it does.
func (d Database) Unserved() string {
	switch {
	case d.isEnterprise() && d.Stated != enterprise:
		return fmt.Sprintf("firebase.json says that database %s is of the Enterprise edition, on which no one has tried Tally yet: tally deploy refuses it, unless tally.yaml says edition: enterprise (docs/deploy.md#before)", d.ID)
	case !d.isEnterprise() && d.Edition != "" && d.Stated == enterprise:
		return fmt.Sprintf("firebase.json says that database %s is of the %s edition, and tally.yaml says edition: enterprise: one of the two is wrong", d.ID, d.Edition)
	}
	return ""
}

func (d Database) isEnterprise() bool { return strings.EqualFold(d.Edition, enterprise) }

// enterprise is the edition that tally deploy serves only if tally.yaml names it.
const enterprise = "enterprise"

// Edition returns the edition of the app's databases: that of tally.yaml, else "enterprise" if
// firebase.json says that of the first; otherwise "".
func (f *Folder) Edition() (string, error) {
	if f.Settings.Edition != "" {
		return f.Settings.Edition, nil
	}
	ids, err := f.DatabaseIDs()
	if err != nil {
		return "", err
	}
	d, err := f.Database(append(ids, firestore.DefaultDatabaseID)[0])
	if err != nil || !d.isEnterprise() {
		return "", err
	}
	return enterprise, nil
}

// DatabaseIDs returns the databases of the app that Tally serves: those of tally.yaml, else the one
// that firebase.json names, if it names one alone. It returns nil if neither says any.
func (f *Folder) DatabaseIDs() ([]string, error) {
	if f.Settings.Databases != nil {
		return f.Settings.Databases, nil
	}
	all, err := f.Databases()
	if err != nil || len(all) != 1 || all[0].ID == firestore.DefaultDatabaseID {
		return nil, err
	}
	return []string{all[0].ID}, nil
}

// Database returns the database of an id with its files. It names no files if firebase.json names
// none, or is missing.
func (f *Folder) Database(id string) (Database, error) {
	all, err := f.Databases()
	if err != nil {
		return Database{}, err
	}
	i := slices.IndexFunc(all, func(d Database) bool { return d.ID == id })
	if i < 0 {
		return Database{ID: id}, nil
	}
	return all[i], nil
}

// Databases returns the databases that firebase.json names, with their files.
func (f *Folder) Databases() ([]Database, error) {
	if f.Firebase == "" {
		return nil, nil
	}
	all, err := f.databases()
	if err != nil {
		return nil, err
	}
	for i := range all {
		d := &all[i]
		d.Stated = f.Settings.Edition
		d.Rules, err = f.nearFirebase(d.Rules)
		if err == nil {
			d.Indexes, err = f.nearFirebase(d.Indexes)
		}
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// databases returns the databases as firebase.json has them. The file has a list of them, or just
// one without a list around it, which is the default database unless it says another. It is what
// getFirestoreConfig in the CLI's src/firestore/fsConfig.ts does.
func (f *Folder) databases() ([]Database, error) {
	config, err := f.readJSON(f.Firebase)
	if err != nil {
		return nil, err
	}
	if !config.has("/firestore") {
		return nil, nil
	}
	if !config.isList("/firestore") {
		var one Database
		err := config.decode("/firestore", &one)
		one.ID, one.Target = cmp.Or(one.ID, firestore.DefaultDatabaseID), ""
		return []Database{one}, err
	}

	var listed, all []Database
	err = config.decode("/firestore", &listed)
	if err != nil {
		return nil, err
	}
	for i, d := range listed {
		key := fmt.Sprintf("/firestore/%d", i)
		ids := []string{d.ID}
		switch {
		case d.Target != "":
			ids, err = f.targets(d.Target)
			if err != nil {
				return nil, config.wrong(key, err.Error())
			}
		case d.ID == "":
			return nil, config.wrong(key, `names no database, such as "database": "(default)"`)
		}
		for _, d.ID = range ids {
			all = append(all, d)
		}
	}
	return all, nil
}

// targets returns the databases that .firebaserc has by the name of a target, for the project. A
// project without any targets, such as a made-up one of tally dev, has those of the one that the
// Firebase CLI takes.
func (f *Folder) targets(name string) ([]string, error) {
	rc, err := f.readRC()
	if err != nil {
		return nil, err
	}
	project := f.ProjectID
	if rc.Targets[project].Firestore == nil {
		own, err := f.Project("")
		if err != nil {
			return nil, err
		}
		project = own.ID
	}
	ids := rc.Targets[project].Firestore[name]
	if len(ids) == 0 {
		return nil, fmt.Errorf("the target %s has no database in .firebaserc for project %s: firebase target:apply firestore %[1]s DATABASE names one", name, cmp.Or(project, f.ProjectID, "(none)"))
	}
	return ids, nil
}

// Bounds of the search for other files of the Firebase CLI's below a folder.
const (
	maxBelow = 4      // folders within each other
	maxSeen  = 20_000 // files and folders
)

// OtherConfigs returns the files below the folder that configure the Firebase CLI as firebase.json
// does: those of this name in folders below, and those next to it with another name, such as
// firebase.staging.json. Their paths are relative to the folder. Packages that were installed and
// hidden folders are left out.
func (f *Folder) OtherConfigs() (files []string, err error) {
	seen := 0
	err = filepath.WalkDir(f.dir, func(path string, entry fs.DirEntry, err error) error {
		relative, _ := filepath.Rel(f.dir, path) // both are absolute
		name, depth := entry.Name(), strings.Count(relative, string(filepath.Separator))
		seen++
		switch {
		case seen > maxSeen:
			return fs.SkipAll
		case path == f.dir:
			return err
		case entry.IsDir() && (err != nil || depth >= maxBelow || strings.HasPrefix(name, ".") || name == "node_modules"):
			return fs.SkipDir
		}

		below := depth > 0 && name == "firebase.json"
		near := depth == 0 && name != "firebase.json" && strings.HasPrefix(name, "firebase") && strings.HasSuffix(name, ".json")
		if entry.Type().IsRegular() && (below || near && f.configures(path)) {
			files = append(files, relative)
		}
		return nil
	})
	return files, err
}

// configures reports whether a file has a key of firebase.json.
func (f *Folder) configures(file string) bool {
	config, err := f.readJSON(file)
	return err == nil && slices.ContainsFunc([]string{"/firestore", "/hosting", "/functions", "/emulators"}, config.has)
}

// nearFirebase returns a path of firebase.json, which is relative to its folder; "" if it names
// none. The Firebase CLI takes a path out of that folder only if it is absolute.
func (f *Folder) nearFirebase(path string) (string, error) {
	if path == "" || filepath.IsAbs(path) {
		return path, nil
	}
	if !filepath.IsLocal(path) {
		return "", fmt.Errorf("%s: %s is outside of its folder: the Firebase CLI does not take it", f.Firebase, path)
	}
	return filepath.Join(filepath.Dir(f.Firebase), path), nil
}
