package deploy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/firestore-tally/tally/rollup"
)

// An App is what an app's firebase.json says of a database.
type App struct {
	File     string // firebase.json
	Rules    string // path of its rules
	Indexes  string // path of its indexes; "" if it has none
	Database string
}

// ReadApp reads an app's firebase.json and returns what it says of each of the databases.
func ReadApp(file string, databases []Database) ([]App, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	type entry struct{ Database, Rules, Indexes string }
	var config struct{ Firestore json.RawMessage }
	if err := json.Unmarshal(data, &config); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	var entries []entry
	if bytes.HasPrefix(bytes.TrimSpace(config.Firestore), []byte("[")) {
		err = json.Unmarshal(config.Firestore, &entries)
	} else if config.Firestore != nil {
		entries = make([]entry, 1)
		err = json.Unmarshal(config.Firestore, &entries[0])
	}
	if err != nil {
		return nil, fmt.Errorf("%s: firestore: %w", file, err)
	}
	var apps []App
	for _, d := range databases {
		i := slices.IndexFunc(entries, func(e entry) bool { return e.Database == d.ID || e.Database == "" && d.ID == "(default)" })
		if i < 0 || entries[i].Rules == "" {
			return nil, fmt.Errorf("%s names no firestore.rules for database %s; add them to it, or leave --firebase out", file, d.ID)
		}
		a := App{File: file, Database: d.ID, Rules: filepath.Join(filepath.Dir(file), entries[i].Rules)}
		if entries[i].Indexes != "" {
			a.Indexes = filepath.Join(filepath.Dir(file), entries[i].Indexes)
		}
		apps = append(apps, a)
	}
	return apps, nil
}

// CheckRules checks that the rules name the collections of shards and roll-ups of each route: that
// Tally's block was merged into them. Without it clients can do nothing with counters, or with rules
// that are open to all, anything.
func (a App) CheckRules(routes rollup.Routes) error {
	data, err := os.ReadFile(a.Rules)
	if err != nil {
		return fmt.Errorf("%s: %w", a.File, err)
	}
	var problems []error
	for _, r := range routes {
		for _, segments := range [][]rollup.Segment{r.Pattern(), r.Template.Segments()} {
			for _, s := range segments {
				if !s.Capture && !strings.Contains(string(data), "/"+s.Name+"/") {
					problems = append(problems, fmt.Errorf("%s has no match for /%s/, of the route %s: merge the block of Tally's firestore.rules into it first", a.Rules, s.Name, r))
				}
			}
		}
	}
	return errors.Join(problems...)
}

// MissingFields returns those of the fields that the app's indexes file does not have; none if there
// is no file. The app's next "firebase deploy --only firestore:indexes" offers to delete what its
// file does not have, or does so with --force.
func (a App) MissingFields(fields []FieldConfig) ([]FieldConfig, error) {
	if a.Indexes == "" {
		return nil, nil
	}
	data, err := os.ReadFile(a.Indexes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", a.File, err)
	}
	var indexes struct{ FieldOverrides []FieldOverride }
	if err := json.Unmarshal(data, &indexes); err != nil {
		return nil, fmt.Errorf("%s: %w", a.Indexes, err)
	}
	var missing []FieldConfig
	for _, f := range fields {
		if !slices.ContainsFunc(indexes.FieldOverrides, func(o FieldOverride) bool { return o.CollectionGroup == f.CollectionGroup && o.FieldPath == f.Path }) {
			missing = append(missing, f)
		}
	}
	return missing, nil
}

// A FieldOverride is a field as firestore.indexes.json has it.
type FieldOverride struct {
	CollectionGroup string `json:"collectionGroup"`
	FieldPath       string `json:"fieldPath"`
	TTL             bool   `json:"ttl,omitempty"`
	Indexes         []any  `json:"indexes"`
}

// Override returns the field as firestore.indexes.json has it.
func (f FieldConfig) Override() FieldOverride {
	return FieldOverride{CollectionGroup: f.CollectionGroup, FieldPath: f.Path, TTL: f.TTL, Indexes: []any{}}
}

// PlanRules adds the command that replaces the project's rules by those of the app's firebase.json,
// and says what its indexes file lacks.
func (p *Plan) PlanRules(d *Description, apps []App) error {
	for _, a := range apps {
		missing, err := a.MissingFields(Exempt(d.Routes))
		if err := errors.Join(err, a.CheckRules(d.Routes)); err != nil {
			return err
		}
		if len(missing) > 0 {
			var lines []string
			for _, f := range missing {
				line, err := json.Marshal(f.Override())
				if err != nil {
					return err
				}
				lines = append(lines, "  "+string(line))
			}
			p.note("add to fieldOverrides of %s, or the next firebase deploy of indexes wants to delete them:\n%s", a.Indexes, strings.Join(lines, ",\n"))
		}
	}
	p.add(nil, "replace the rules of "+d.Project+" by those that "+apps[0].File+" names", Command{Args: []string{"firebase", "deploy", "--only=firestore:rules",
		"--project=" + d.Project, "--config=" + apps[0].File, "--non-interactive"}})
	return nil
}
