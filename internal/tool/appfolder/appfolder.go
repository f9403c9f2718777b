// Package appfolder reads the settings that an app's folder holds. Each file may be missing:
//
//	tally.yaml      what Tally keeps for the app: routes, databases, and how it is deployed
//	firebase.json   the Firebase CLI's: for each database its files of rules and indexes; emulators
//	.firebaserc     the Firebase CLI's: the app's projects
//
// [Find] looks for them in a folder and above it, as the Firebase CLI does. [Folder.Settings] is
// what tally.yaml says. Errors about it name the place, as file:line:column, and [Folder.Explain]
// adds the place to errors that only the functions' own code can find, such as those of a route.
//
// From the bottom up: file.go reads files, and refuses what is no plain file or leads elsewhere;
// json.go says what is wrong in the Firebase CLI's; project.go chooses the project as the Firebase
// CLI does, and database.go the databases with their files; yaml.go reads YAML and notes where each
// key is; settings.go checks the values; schema.go describes them to editors.
package appfolder

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// FileName is the name of the file that says what Tally keeps.
const FileName = "tally.yaml"

// A Folder holds the settings that Find found in a folder or above it.
type Folder struct {
	File      string // path of tally.yaml; "": there is none
	Elsewhere bool   // tally.yaml is not in the folder itself
	Settings  Settings
	Firebase  string // path of firebase.json; "": there is none
	ProjectID string // the project whose targets of .firebaserc count; "": the one that the Firebase CLI takes

	places places // in tally.yaml
	dir    string // where the search began
	user   int    // who runs this
}

// Find reads a tally.yaml: the one that file names, or if file is empty, the nearest in dir or in a
// folder above it. It refuses a tally.yaml that it finds above dir if that belongs to another user
// or everybody may write it. Find also looks for firebase.json, in dir or above. The methods that
// read it, or the .firebaserc next to it, refuse them for the same reasons. No file may be a link
// out of its folder. Errors name the file.
func Find(dir, file string) (*Folder, error) { return find(dir, file, os.Getuid()) }

// find does the work of Find. user is the id of the user who runs it.
func find(dir, file string, user int) (*Folder, error) {
	f := &Folder{File: file, Firebase: above(dir, "firebase.json"), dir: dir, user: user}
	switch {
	case file == "":
		f.File = above(dir, FileName)
	case !filepath.IsAbs(file):
		f.File = filepath.Join(dir, file)
	}
	if f.File == "" {
		return f, nil
	}

	f.Elsewhere = filepath.Dir(f.File) != dir
	check := f.ownerCheck(f.File, "go to its folder, or name it: --config "+f.File)
	if file != "" {
		check = nil // the user means it
	}
	text, err := read(openInFolder, f.File, maxSettings, check)
	if err != nil {
		return nil, err
	}

	f.Settings, f.places, err = parse(f.File, text)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// ownerCheck returns a check that refuses a file above the folder unless it may be trusted. It
// returns nil for a file in the folder itself. The error ends with the remedy.
func (f *Folder) ownerCheck(file, remedy string) func(os.FileInfo) error {
	if filepath.Dir(file) == f.dir {
		return nil
	}
	return func(info os.FileInfo) error {
		err := trusted(info, f.user)
		if err != nil {
			return fmt.Errorf("%w. Tally ignores it because it is in a parent folder. Check it, then %s", err, remedy)
		}
		return nil
	}
}

// Misnamed returns the name of a file in the folder that is called almost like tally.yaml, which is
// missing; "" if there is none.
func (f *Folder) Misnamed() string {
	for _, name := range []string{"tally.yml", "Tally.yaml", "tally.yaml.txt"} {
		info, err := os.Stat(filepath.Join(f.dir, name))
		if f.File == "" && err == nil && info.Mode().IsRegular() {
			return name
		}
	}
	return ""
}

// Place returns the beginning of a message about a key of tally.yaml, such as "env.TALLY_BURST":
// where the file has it, and the key.
func (f *Folder) Place(key string) string { return f.places.keys[key].in(f.File) + key }

// readJSON reads a file of the Firebase CLI's, unless somebody else may have put it there.
func (f *Folder) readJSON(file string) (*jsonFile, error) {
	check := f.ownerCheck(file, "go to its folder, or write a firebase.json of your own here, such as {}")
	text, err := read(openInFolder, file, maxJSON, check)
	if err != nil {
		return nil, err
	}
	return parseJSON(file, text)
}

// Variables returns the variables of the functions that the folder sets: those of tally.yaml, and
// the databases by DatabaseIDs.
func (f *Folder) Variables() map[string]string {
	variables := f.ofSettings()
	const name = "TALLY_DATABASES"
	ids, err := f.DatabaseIDs()
	if err == nil && ids != nil && variables[name] == "" { // a command that needs firebase.json says what is wrong in it
		variables[name] = strings.Join(ids, ",")
	}
	return variables
}

// ofSettings returns the variables of the functions that tally.yaml sets.
func (f *Folder) ofSettings() map[string]string {
	variables := make(map[string]string)
	maps.Copy(variables, f.Settings.Env)

	ofKeys := map[string]string{
		"routes":    string(f.Settings.Routes),
		"cadence":   f.Settings.Cadence,
		"audit":     f.Settings.Audit,
		"databases": strings.Join(f.Settings.Databases, ","),
		"edition":   f.Settings.Edition,
	}
	if f.Settings.ReadsPerSecond != nil {
		ofKeys["reads_per_second"] = strconv.Itoa(*f.Settings.ReadsPerSecond)
	}
	for key, value := range ofKeys {
		if value != "" {
			variables[variableNames[key]] = value
		}
	}
	return variables
}

// An Address is where one of Firebase's emulators listens.
type Address struct {
	Host string `json:"host"` // an address of this machine, or a name
	Port int    `json:"port"` // 0: firebase.json names none
}

// Loopback reports whether the address is one that no other machine has.
func (a Address) Loopback() bool {
	addr, err := netip.ParseAddr(a.Host)
	return err == nil && addr.IsLoopback()
}

// emulatorHost is where the Firebase CLI has an emulator listen if firebase.json does not say it.
const emulatorHost = "127.0.0.1"

// hostName matches an address or a name, also none.
var hostName = regexp.MustCompile(`^[a-zA-Z0-9.:_%-]*$`)

// Emulator returns where one of Firebase's emulators listens, such as "firestore", as firebase.json
// says it. The host of an emulator that listens on all addresses of the machine is 127.0.0.1.
func (f *Folder) Emulator(name string) (Address, error) {
	at := Address{Host: emulatorHost}
	if f.Firebase == "" {
		return at, nil
	}

	config, err := f.readJSON(f.Firebase)
	if err != nil {
		return at, err
	}
	var emulators struct{} // so emulators that are no keys and values are named
	key := "/emulators/" + name
	err = errors.Join(config.decode("/emulators", &emulators), config.decode(key, &at))
	switch {
	case err != nil:
		return Address{}, err
	case at.Port < 0 || at.Port > highestPort:
		return Address{}, config.wrong(key+"/port", fmt.Sprintf("%d: want a port up to 65535", at.Port))
	case !hostName.MatchString(at.Host):
		return Address{}, config.wrong(key+"/host", fmt.Sprintf("%q is no host", at.Host))
	}
	if slices.Contains([]string{"", "localhost", "0.0.0.0", "::"}, at.Host) {
		at.Host = emulatorHost
	}
	return at, nil
}

// Shown returns a path as short as it can be from the current folder.
func Shown(path string) string {
	dir, err := os.Getwd()
	if err != nil {
		return path
	}
	relative, err := filepath.Rel(dir, path)
	if err != nil {
		return path
	}
	return relative
}
