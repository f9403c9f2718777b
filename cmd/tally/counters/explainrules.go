package counters

import (
	"context"
	"fmt"
	"os"

	"github.com/firestore-tally/tally/cmd/tally/court"
	"github.com/firestore-tally/tally/cmd/tally/settings"
	"github.com/firestore-tally/tally/internal/cloud/firestorestore"
	"github.com/firestore-tally/tally/internal/tool/appfolder"
	"github.com/firestore-tally/tally/internal/tool/rules"
	"github.com/firestore-tally/tally/rollup/route"
)

// explainRules tries the rules that firebase.json names on the documents that hold the totals of a
// document: as they are on an emulator, else as they may be. Without Java nothing is tried.
func (s explainer) explainRules(ctx context.Context, e explanation) []explainedRule {
	file, text, err := s.rulesHere()
	if err != nil {
		return untried(err)
	}
	c := &court.Court{Downloads: court.Downloads(s.Logs)}
	defer c.Close()
	judge := c.Judge
	if at := settings.EndpointsOf(ctx); at.Judge != nil {
		judge = at.Judge
	}

	j := rules.Judge{Database: s.Database, Text: text}
	if s.Emulated {
		j.Read = rules.FromEmulator(os.Getenv(firestorestore.EmulatorHost), s.Project, s.Database)
	}
	routes, documents := s.homes(ctx, j, e)
	answers, err := judge(ctx, j, routes, documents)
	if err != nil {
		return untried(err)
	}
	all := []explainedRule{}
	for _, a := range answers {
		if a.Kind == rules.Own && a.Verdict == rules.Refused {
			continue // as it should be, of documents that are not the user's
		}
		one := explainedRule{Asks: a.String(), Verdict: a.Verdict, Wrong: a.Wrong, Says: fmt.Sprintf("%s: %s", a, a.Verdict)}
		switch {
		case a.Wrong:
			one.Says = "✗ " + a.Text(appfolder.Shown(file))
		case a.Verdict == rules.NotTried:
			one.Says = fmt.Sprintf("? %s: not tried: %s", a, a.Why)
		}
		all = append(all, one)
	}
	return all
}

// untried says why no rules were tried.
func untried(err error) []explainedRule {
	return []explainedRule{{Verdict: rules.NotTried, Says: "? not tried: " + err.Error()}}
}

// rulesHere returns the rules of the database, and their file.
func (s explainer) rulesHere() (file, text string, err error) {
	databases, err := s.Folder.Databases()
	if err != nil {
		return "", "", err
	}
	for _, d := range databases {
		if d.ID == s.Database && d.Rules != "" {
			text, err := appfolder.ReadRules(d.Rules)
			return d.Rules, text, err
		}
	}
	return "", "", fmt.Errorf("firebase.json names no rules of database %s", s.Database)
}

// homes returns the routes of the totals that have a document, or that it holds, and for each
// template the document that holds them, if it can be read.
func (s explainer) homes(ctx context.Context, j rules.Judge, e explanation) (routes route.Routes, documents map[string][]rules.Document) {
	paths := []string{e.Document}
	for _, r := range e.Routes {
		paths = append(paths, r.Counter)
	}
	documents = make(map[string][]rules.Document)
	for _, path := range paths {
		c, ok := s.Config.Routes.Counter(path)
		if !ok {
			continue
		}
		name := c.Template.String()
		if documents[name] == nil {
			routes = append(routes, c.Template.Routes...)
		}
		if j.Read == nil {
			continue
		}
		fields, err := j.Read(ctx, path)
		if err == nil && len(fields) > 0 {
			documents[name] = append(documents[name], rules.Document{Path: path, Fields: fields})
		}
	}
	return routes, documents
}
