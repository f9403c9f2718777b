package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/firestore-tally/tally/internal/tool/appfolder"
	"github.com/firestore-tally/tally/internal/tool/local"
	"github.com/firestore-tally/tally/internal/tool/local/emulator"
	"github.com/firestore-tally/tally/rollup/route"
	"github.com/googleapis/gax-go/v2"
)

// lookAtFiles is how often the files of the app's folder are looked at. They are short, and read in
// a millisecond.
const lookAtFiles = time.Second / 2

// A complaint is about files that cannot be taken. It is told once, until there is another.
type complaint struct {
	say       func(format string, args ...any)
	meanwhile string // what is in force
	reported  string
}

// report tells the error, unless it was told the last time. nil: all is well.
func (c *complaint) report(err error) {
	problem := fmt.Sprint(err)
	if err != nil && problem != c.reported {
		c.say("%s\n%s", problem, c.meanwhile)
	}
	c.reported = problem
}

// awaitChange waits until tally.yaml has other settings than those that run. It notes them, and
// returns nil. If ctx ends before, it returns the cause. Security rules that change meanwhile are
// put in force. If a file cannot be taken, it says why once.
func (d *dev) awaitChange(ctx context.Context, s *local.Stack) error {
	ofSettings := complaint{say: s.Say, meanwhile: "The functions keep the settings that they have."}
	ofRules := complaint{say: s.Say, meanwhile: "The former rules stay in force."}
	for {
		stopped := gax.Sleep(ctx, lookAtFiles)
		if stopped != nil {
			return context.Cause(ctx)
		}

		folder, err := d.reread()
		if err == nil && folder == nil {
			continue // a file went away
		}
		changed := false
		if err == nil {
			ofRules.report(d.applyRules(ctx, s, folder))
			d.reportDatabases(s, folder)
			changed, err = d.compareSettings(folder, s)
		}
		if changed {
			return nil
		}
		ofSettings.report(err)
	}
}

// reread reads the app's folder again. It returns nil if tally.yaml went away: an editor may be
// writing it.
func (d *dev) reread() (*appfolder.Folder, error) {
	folder, err := d.stack.settings.Here(io.Discard)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}

	wentAway := d.file != "" && folder.File != d.file
	if wentAway {
		return nil, nil
	}
	folder.ProjectID = d.project
	return folder, nil
}

// applyRules puts the folder's security rules in force if they are other than those that are. Those
// of an emulator that somebody else runs are only checked.
func (d *dev) applyRules(ctx context.Context, s *local.Stack, folder *appfolder.Folder) error {
	former := d.stack.rules
	rules, err := d.stack.findRules(folder, s.Config.Databases[0])
	if !d.rulesChanged(rules, err) {
		d.wrongRules, d.mistake = appRules{}, nil
		return nil
	}
	if s.Emulator == nil {
		if err == nil {
			d.stack.rules = rules
			d.hints.setRules(rules)
			d.hints.checkRules()
		}
		return nil
	}
	if err != nil || rules == d.wrongRules {
		return cmp.Or(err, d.mistake)
	}

	err = s.SetRules(ctx, rules.text)
	wrong, isMistake := errors.AsType[*emulator.RulesError](err)
	if isMistake {
		d.wrongRules, d.mistake = rules, wrong.In(rules.file)
		return d.mistake
	}
	if err != nil {
		return err
	}

	d.stack.rules, d.wrongRules, d.mistake = rules, appRules{}, nil
	d.hints.setRules(rules)
	defer d.hints.checkRules()
	what := "firebase.json names " + rules.name()
	if rules.file == former.file {
		what = rules.name() + " changed"
	}
	s.Say("%s: its rules are in force now", what)
	return nil
}

// rulesChanged reports whether security rules that were found, or the error of finding them, are
// other than those in force. An editor may be writing a file, which is then missing, or says
// something else at the next look. Until that is over, the former rules stay in force.
func (d *dev) rulesChanged(rules appRules, err error) bool {
	former, last := d.stack.rules, d.lastRules
	d.lastRules = rules

	switch {
	case rules.file == "" && former.file != "", rules.file == former.file && errors.Is(err, fs.ErrNotExist):
		return false
	case err != nil:
		return true
	default:
		return rules == last && rules != former
	}
}

// reportDatabases tells which databases tally deploy would refuse, and which rules that
// firebase.json names are not in force, because they are those of another database. tally dev puts
// those of one file in force for all databases. The emulator would take others for each, but the
// Firebase CLI, up to version 15.34, gives it none if firebase.json names several databases
// (https://github.com/firebase/firebase-tools/blob/master/src/emulator/controller.ts).
func (d *dev) reportDatabases(s *local.Stack, folder *appfolder.Folder) {
	databases, err := folder.Databases()
	if err != nil {
		return // applyRules says why
	}
	if s.Emulator != nil && s.Config.Edition == route.Enterprise && d.hints.firstTime("edition") {
		d.stack.lines.printEscaped("tally dev asks the emulator to be of the Enterprise edition. Before version 1.22 the emulator ignores that, and answers as Standard does")
	}

	for _, database := range databases {
		isServed := slices.Contains(s.Config.Databases, database.ID)
		if why := database.Unserved(); isServed && why != "" && d.hints.firstTime("unserved", why) {
			d.stack.lines.printEscaped("%s", why)
		}

		hasOther := database.Rules != "" && database.Rules != d.stack.rules.file && database.ID != s.Config.Databases[0]
		if s.Emulator != nil && hasOther && d.hints.firstTime("rules of", database.ID, database.Rules, d.stack.rules.name()) {
			d.stack.lines.printEscaped("%s, which firebase.json names for database %s, is not in force: tally dev has one file's rules for all databases, those of %s, and firebase emulators:start has none if there are several databases",
				filepath.Base(database.Rules), database.ID, d.stack.rules.name())
		}
	}
}

// compareSettings compares the settings of the app's folder with those that run. If they differ, it
// notes them.
func (d *dev) compareSettings(folder *appfolder.Folder, s *local.Stack) (changed bool, err error) {
	environment, config, err := d.stack.functions(folder, d.project)
	if err != nil {
		return false, err
	}
	beingWritten := !maps.Equal(environment, d.lastEnvironment)
	d.lastEnvironment = environment
	if maps.Equal(environment, s.Environment) {
		return false, d.checkPorts(folder)
	}
	if beingWritten {
		return false, nil
	}
	if config.AckDeadline() != s.Config.AckDeadline() {
		return false, errors.New("TALLY_HOLD_LIMIT changed: restart tally dev to apply it")
	}

	d.file, d.environment, d.config = folder.File, environment, config
	return true, nil
}

// checkPorts returns an error if tally.yaml names other ports than it did.
func (d *dev) checkPorts(folder *appfolder.Folder) error {
	if maps.Equal(folder.Settings.Dev, d.ports) {
		return nil
	}
	return errors.New("the ports of dev: changed: restart tally dev to apply them")
}
