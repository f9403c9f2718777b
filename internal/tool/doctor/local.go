package doctor

import (
	"context"
	"errors"
	"strings"

	"github.com/firestore-tally/tally/internal/cloud/config"
	"github.com/firestore-tally/tally/internal/tool/appfolder"
	"github.com/firestore-tally/tally/internal/tool/deploy"
	"github.com/firestore-tally/tally/internal/tool/rulesfile"
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

// rulesFile checks that the rules that firebase.json names hold Tally's part.
func (e *examination) rulesFile(context.Context) {
	e.eachDatabase("rules", func(config config.Config, d appfolder.Database) (string, error) {
		if d.Rules == "" {
			return "", nil
		}
		err := deploy.CheckRules(d, config.Routes)
		text, unread := appfolder.ReadRules(d.Rules)
		if unread != nil {
			return d.Rules, err
		}
		findings := rulesfile.Check(d.Rules, text, config.Routes)
		if len(findings) > 0 {
			err = errors.Join(err, errors.New(strings.Join(findings, "\n")))
		}
		return d.Rules, err
	})
}

// indexesFile checks that the file of indexes that firebase.json names holds those of Tally.
func (e *examination) indexesFile(context.Context) {
	e.eachDatabase("indexes", func(config config.Config, d appfolder.Database) (string, error) {
		if d.Indexes == "" {
			return "", nil
		}
		problems, err := deploy.CheckIndexesFile(d.Indexes, config.Routes)
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
