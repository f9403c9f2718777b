// Package settings finds the app's folder with its tally.yaml, its project, and Google's APIs.
package settings

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/caarlos0/env/v11"
	"github.com/firestore-tally/tally/internal/cloud/config"
	"github.com/firestore-tally/tally/internal/tool/appfolder"
	"github.com/spf13/pflag"
)

// A File is the flag that names a tally.yaml; "": the nearest is taken.
type File string

func (s *File) Define(f *pflag.FlagSet) {
	f.StringVar((*string)(s), "config", "", "the tally.yaml to take (default: the nearest, in this folder or above)")
}

// Here reads the files of the app in whose folder the command runs. If tally.yaml is not in that
// folder, it says on logs which is taken.
func (s File) Here(logs io.Writer) (*appfolder.Folder, error) {
	dir, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	f, err := appfolder.Find(dir, string(s))
	if err != nil {
		return nil, err
	}
	if misnamed := f.Misnamed(); misnamed != "" {
		fmt.Fprintf(logs, "tally: %s is not read: rename it to %s\n", misnamed, appfolder.FileName)
	}
	if f.Elsewhere {
		fmt.Fprintf(logs, "tally: settings of %s\n", f.File)
	}

	return f, checkVariables(f)
}

// checkVariables returns an error that names the variables of tally.yaml that begin with TALLY_ and
// that the functions do not have.
func checkVariables(f *appfolder.Folder) error {
	known, err := env.GetFieldParams(new(config.Config))
	if err != nil {
		return err
	}

	var unknown []error
	for _, name := range slices.Sorted(maps.Keys(f.Settings.Env)) {
		isName := func(p env.FieldParams) bool { return p.Key == name }
		if strings.HasPrefix(name, "TALLY_") && !slices.ContainsFunc(known, isName) {
			unknown = append(unknown, fmt.Errorf("%s: the functions have no such variable; docs/config.md lists them", f.Place("env."+name)))
		}
	}
	return appfolder.FirstOf(unknown)
}

// Variables returns the variables of the functions that tally.yaml and this process's environment
// set. The environment wins.
func Variables(folder *appfolder.Folder) map[string]string {
	variables := folder.Variables()
	for name, value := range env.ToMap(os.Environ()) {
		if value != "" && strings.HasPrefix(name, "TALLY_") && name != "TALLY_USAGE_FILE" { // that is for one process alone
			variables[name] = value
		}
	}
	return variables
}
