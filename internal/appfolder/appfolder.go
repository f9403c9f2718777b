// Package appfolder reads what the folder of an app says of it: tally.yaml, and the Firebase CLI's
// firebase.json and .firebaserc. Each may be missing.
package appfolder

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/mail"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"cloud.google.com/go/firestore"
	"github.com/goccy/go-yaml"
	"github.com/tailscale/hujson"
)

// FileName is the name of the file that says what Tally keeps.
const FileName = "tally.yaml"

// A Folder is what was found in a folder or above it.
type Folder struct {
	File     string // path of tally.yaml; "": there is none
	Settings Settings
	Firebase string // path of firebase.json; "": there is none
}

// Settings are what tally.yaml says. docs/config.md describes them.
type Settings struct {
	Routes     string            `yaml:"routes"` // as rollup.ParseRoutes reads them
	Cadence    string            `yaml:"cadence"`
	Databases  []string          `yaml:"databases"`
	Region     string            `yaml:"region"`
	Billing    string            `yaml:"billing"`
	AlertEmail string            `yaml:"alert_email"`
	Env        map[string]string `yaml:"env"`
}

// Find reads the tally.yaml that is nearest to dir: in it, or in a folder above it. It does
// likewise with firebase.json. The error names the file.
func Find(dir string) (*Folder, error) {
	f := &Folder{File: above(dir, FileName), Firebase: above(dir, "firebase.json")}
	if f.File != "" {
		data, err := os.ReadFile(f.File)
		if err != nil {
			return nil, err
		}
		if err := yaml.UnmarshalWithOptions(data, &f.Settings, yaml.Strict()); err != nil {
			err = fmt.Errorf("%s: %w", f.File, err)
			if strings.Contains(string(data), "->") && f.Settings.Routes == "" {
				err = fmt.Errorf("%w\nwrite \"routes: |\" on a line, and each route on a line of its own below, indented", err)
			}
			return nil, err
		}
		if a := f.Settings.AlertEmail; a != "" {
			if _, err := mail.ParseAddress(a); err != nil {
				return nil, fmt.Errorf("%s: alert_email: %q is no address: %w", f.File, a, err)
			}
		}
	}
	return f, nil
}

// Project returns the default project of the .firebaserc beside firebase.json, "" if there is none.
func (f *Folder) Project() (string, error) {
	if f.Firebase == "" {
		return "", nil
	}
	var config struct{ Projects struct{ Default string } }
	err := readJSON(filepath.Join(filepath.Dir(f.Firebase), ".firebaserc"), &config)
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	return config.Projects.Default, err
}

// above returns the path of the nearest file of the name, "" if there is none.
func above(dir, name string) string {
	for {
		file := filepath.Join(dir, name)
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() {
			return file
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return ""
		}
		dir = parent
	}
}

// readJSON reads a file of the Firebase CLI's, in which there may be comments.
func readJSON(file string, into any) error {
	data, err := os.ReadFile(file)
	if err == nil {
		data, err = hujson.Standardize(data)
	}
	if err == nil {
		err = json.Unmarshal(data, into)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

// Variables returns the variables of the functions that tally.yaml sets.
func (f *Folder) Variables() map[string]string {
	variables := make(map[string]string)
	maps.Copy(variables, f.Settings.Env)
	for name, value := range map[string]string{
		"TALLY_ROUTES":    f.Settings.Routes,
		"TALLY_CADENCE":   f.Settings.Cadence,
		"TALLY_DATABASES": strings.Join(f.Settings.Databases, ","),
	} {
		if value != "" {
			variables[name] = value
		}
	}
	return variables
}

// A Database is what firebase.json names for a database.
type Database struct {
	ID      string `json:"database"` // "": the default one
	Rules   string // path of the file; "": none
	Indexes string // likewise
}

// Database returns what firebase.json names for the database of the id: nothing if there is no
// firebase.json.
func (f *Folder) Database(id string) (Database, error) {
	if f.Firebase == "" {
		return Database{}, nil
	}
	var config struct{ Firestore json.RawMessage }
	if err := readJSON(f.Firebase, &config); err != nil {
		return Database{}, err
	}
	all := make([]Database, 1) // one, for the default database, or a list
	if config.Firestore != nil && json.Unmarshal(config.Firestore, &all) != nil {
		if err := json.Unmarshal(config.Firestore, &all[0]); err != nil {
			return Database{}, fmt.Errorf("%s: firestore: %w", f.Firebase, err)
		}
	}
	i := slices.IndexFunc(all, func(d Database) bool { return cmp.Or(d.ID, firestore.DefaultDatabaseID) == id })
	if i < 0 {
		return Database{}, nil
	}
	d := all[i]
	for _, path := range []*string{&d.Rules, &d.Indexes} {
		if *path != "" {
			*path = filepath.Join(filepath.Dir(f.Firebase), *path)
		}
	}
	return d, nil
}
