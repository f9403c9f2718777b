// Package appfolder reads what the folder of an app says of it: tally.yaml, and the Firebase CLI's
// firebase.json and .firebaserc. Each may be missing.
package appfolder

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"cloud.google.com/go/firestore"
	"github.com/tailscale/hujson"
)

// FileName is the name of the file that says what Tally keeps.
const FileName = "tally.yaml"

// A Folder is what was found in a folder or above it.
type Folder struct {
	File      string // path of tally.yaml; "": there is none
	Elsewhere bool   // it is not in the folder itself
	Settings  Settings
	Firebase  string // path of firebase.json; "": there is none

	places places // in tally.yaml
}

// Find reads the tally.yaml that is nearest to dir, in it or in a folder above it, or the one that
// file names unless that is empty. A tally.yaml above dir is refused if it belongs to another user or
// everybody may write it. Find also looks for firebase.json, in dir or above. The error names the
// file.
func Find(dir, file string) (*Folder, error) { return find(dir, file, os.Getuid()) }

func find(dir, file string, user int) (*Folder, error) {
	f := &Folder{File: file, Firebase: above(dir, "firebase.json")}
	switch {
	case file == "":
		f.File = above(dir, FileName)
	case !filepath.IsAbs(file):
		f.File = filepath.Join(dir, file)
	}
	if f.File == "" {
		return f, nil
	}

	var check func(os.FileInfo) error
	f.Elsewhere = filepath.Dir(f.File) != dir
	if file == "" && f.Elsewhere {
		check = func(info os.FileInfo) error { return foreign(info, user, f.File) }
	}
	text, err := read(f.File, maxSettings, check)
	if err != nil {
		return nil, err
	}

	f.Settings, f.places, err = parse(f.File, text)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// foreign adds the remedy to trusted.
func foreign(info os.FileInfo, user int, file string) error {
	if err := trusted(info, user); err != nil {
		return fmt.Errorf("%w, and it is above this folder, so it is not taken: if you know what it says, go to its folder, or name it: --config %s", err, file)
	}
	return nil
}

// Place returns where tally.yaml has the key, such as "env.TALLY_BURST", and the key: the beginning
// of a message about it.
func (f *Folder) Place(key string) string { return f.places.keys[key].in(f.File) + key }

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

// readJSON reads a file of the Firebase CLI's, in which there may be comments.
func readJSON(file string, into any) error {
	data, err := ReadJSON(file)
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
	for key, value := range map[string]string{
		"routes":    f.Settings.Routes,
		"cadence":   f.Settings.Cadence,
		"databases": strings.Join(f.Settings.Databases, ","),
	} {
		if value != "" {
			variables[variableNames[key]] = value
		}
	}
	return variables
}

// An Address is where firebase.json has an emulator.
type Address struct {
	Host string // an address of this machine, or a name
	Port int    // 0: firebase.json names none
}

// Emulator returns where firebase.json has one of its emulators, such as "firestore": 127.0.0.1 for
// one that listens on all addresses of the machine.
func (f *Folder) Emulator(name string) (Address, error) {
	at := Address{Host: loopback}
	if f.Firebase == "" {
		return at, nil
	}
	var config struct{ Emulators map[string]json.RawMessage } // others hold no address, such as singleProjectMode
	if err := readJSON(f.Firebase, &config); err != nil {
		return at, err
	}
	text, has := config.Emulators[name]
	if !has {
		return at, nil
	}

	if err := json.Unmarshal(text, &at); err != nil {
		return at, fmt.Errorf("%s: emulators.%s: %w", f.Firebase, name, err)
	}
	if at.Port < 0 || at.Port > 65535 {
		return at, fmt.Errorf("%s: emulators.%s.port: %d: want a port up to 65535", f.Firebase, name, at.Port)
	}
	if slices.Contains([]string{"", "localhost", "0.0.0.0", "::"}, at.Host) {
		at.Host = loopback
	}
	return at, nil
}

const loopback = "127.0.0.1"

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
