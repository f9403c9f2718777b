package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/firestore-tally/tally/internal/cloud/config"
	"github.com/firestore-tally/tally/internal/tool/appfolder"
	"github.com/firestore-tally/tally/internal/tool/deploy"
	"github.com/firestore-tally/tally/internal/tool/rules"
	"github.com/firestore-tally/tally/rollup/route"
)

// project says why the project was not read.
func (e *examination) project(context.Context) {
	if e.unread != nil {
		e.unknown(e.unread)
	}
}

// tallyYAML checks the settings of tally.yaml as tally deploy does. It needs no project: a made-up
// one will do.
func (e *examination) tallyYAML(context.Context) {
	if e.unfit != nil {
		e.wrong("", "%v", e.unfit)
		return
	}
	e.editions()
	if e.folder.File == "" {
		e.noSettings()
		return
	}

	config, err := e.local()
	for _, problem := range problems(err) {
		e.wrong("", "%s", problem)
	}
	if err != nil {
		return
	}

	_, err = deploy.Want(deploy.NewProject(someID, config.Databases, "nam5"), e.folder, config, nil)
	if err != nil {
		e.wrong("", "%s: %v", e.folder.File, err)
	}
}

// noSettings says that there is no tally.yaml, and whether a file has almost its name.
func (e *examination) noSettings() {
	misnamed := e.folder.Misnamed()
	if misnamed != "" {
		e.wrong(deploy.Command("mv", misnamed, appfolder.FileName), "no command reads %s: rename it to %s", misnamed, appfolder.FileName)
		return
	}
	e.idle("there is no " + appfolder.FileName + " here or above: the settings are those that are deployed, or the defaults")
}

// editions finds databases that firebase.json says Tally cannot serve.
func (e *examination) editions() {
	config, err := e.local()
	if err != nil {
		return // it is said already, or next
	}
	for _, id := range config.Databases {
		d, err := e.folder.Database(id)
		if err == nil && d.Unserved() != "" {
			e.wrong("", "%s", d.Unserved())
		}
	}
}

// local returns what the functions take from tally.yaml.
func (e *examination) local() (config.Config, error) {
	env := e.folder.Variables()
	env["GOOGLE_CLOUD_PROJECT"] = someID
	config, err := config.Load(env)
	return config, e.folder.Explain(err, env)
}

// rulesFile judges the rules that firebase.json names.
func (e *examination) rulesFile(ctx context.Context) {
	e.eachDatabase("rules", func(config config.Config, d appfolder.Database) (string, error) {
		if d.Rules == "" {
			return "", nil
		}
		text, err := appfolder.ReadRules(d.Rules)
		if err == nil {
			e.judge(ctx, d.Rules, rules.Judge{Database: d.ID, Text: text}, config.Routes, nil)
		}
		return d.Rules, err
	})
}

// judge has rules judged, on documents of the app's by the templates whose totals they hold, and
// notes what is wrong. file is what messages call the rules.
func (e *examination) judge(ctx context.Context, file string, j rules.Judge, routes route.Routes, documents map[string][]rules.Document) {
	e.judging.Lock()
	defer e.judging.Unlock()
	read := rules.Parse(j.Text)
	for _, text := range read.DuplicateBlocks(routes) {
		e.note("%s:%s", file, text)
	}
	for _, path := range read.ClosedPaths(routes) {
		e.note("no client may create documents %s by %s. If clients do, tally init shows a block for them", path, file)
	}

	answers, err := e.Judge(ctx, j, routes, documents)
	if mistakes := rules.Mistakes(err, file); mistakes != nil {
		e.wrong("", "%v", mistakes)
		return
	}
	if err != nil {
		e.unknown(&deploy.Unread{What: "what the rules allow in " + file, Why: "they were not tried, or not to the end: " + err.Error()})
	}

	untried := make(map[string][]string) // requests by why
	for _, a := range answers {
		switch {
		case a.Kind == rules.Increment && e.finding.Name == rulesJudged: // rulesIncrements tries it
		case a.Verdict == rules.NotTried:
			untried[a.Why] = append(untried[a.Why], a.String())
		case a.Wrong && a.Harmless():
			e.note("%s", a.Text(file))
		case a.Wrong:
			e.wrong("", "%s", a.Text(file))
		}
	}
	for _, why := range slices.Sorted(maps.Keys(untried)) {
		e.unknown(fmt.Errorf("%s: not tried: %s: %s", file, strings.Join(untried[why], ", "), why))
	}
	if len(untried) > 0 {
		e.note("%d of %d requests were tried", len(answers)-len(slices.Concat(slices.Collect(maps.Values(untried))...)), len(answers))
	}
}

// indexesFile checks that the file of indexes that firebase.json names holds those of Tally.
func (e *examination) indexesFile(context.Context) {
	e.eachDatabase("indexes", func(config config.Config, d appfolder.Database) (string, error) {
		if d.Indexes == "" {
			return "", nil
		}
		problems, err := CheckIndexesFile(d.Indexes, config.Routes, config.Edition)
		if err == nil && len(problems) > 0 {
			err = errors.New(strings.Join(problems, "\n"))
		}
		return d.Indexes, err
	})
}

// eachDatabase checks a file of each database. The check returns the path of the file, "" if
// firebase.json names none.
func (e *examination) eachDatabase(what string, check func(config.Config, appfolder.Database) (string, error)) {
	if e.folder == nil {
		e.idle(appfolder.FileName + " cannot be used")
		return
	}
	config, err := e.local()
	if err != nil {
		e.idle(appfolder.FileName + " cannot be used")
		return
	}
	if e.folder.Firebase == "" {
		e.idle("there is no firebase.json here or above")
		return
	}

	checked := false
	for _, id := range config.Databases {
		d, err := e.folder.Database(id)
		file := ""
		if err == nil {
			file, err = check(config, d)
		}
		switch {
		case errors.Is(err, fs.ErrNotExist):
			e.wrong("", "%s names a file that is not there: %v", e.folder.Firebase, err)
		case err != nil:
			e.wrong("", "%v", err)
		case file == "":
			e.note("%s names no %s for database %s", e.folder.Firebase, what, id)
			continue
		}
		checked = true
	}
	if !checked {
		e.idle("there is no such file")
	}
}
