package main

import (
	"context"
	"fmt"
	"os"

	"github.com/firestore-tally/tally/internal/cloud/firestorestore"
	"github.com/firestore-tally/tally/internal/tool/appfolder"
	"github.com/firestore-tally/tally/internal/tool/rules"
	"github.com/firestore-tally/tally/rollup/route"
)

// An explainedRule says what the app's security rules do with a request.
type explainedRule struct {
	Asks    string        `json:"asks,omitempty"` // "": nothing could be tried
	Verdict rules.Verdict `json:"verdict"`
	Wrong   bool          `json:"wrong"`
	Says    string        `json:"says"`
}

// explainRules tries the rules that firebase.json names on the documents that hold the totals of a
// document: as they are on an emulator, else as they may be. Without Java nothing is tried.
func (s *session) explainRules(ctx context.Context, e explanation) []explainedRule {
	file, text, err := s.rulesHere()
	if err != nil {
		return untried(err)
	}
	c := &court{downloads: downloads(s.logs)}
	defer c.close()
	judge := c.judge
	if at := endpointsOf(ctx); at.judge != nil {
		judge = at.judge
	}

	j := rules.Judge{Database: s.database, Text: text}
	if s.emulated {
		j.Read = rules.FromEmulator(os.Getenv(firestorestore.EmulatorHost), s.project, s.database)
	}
	routes, documents := s.homes(ctx, j, e)
	answers, err := judge(ctx, j, routes, documents)
	if err != nil {
		return untried(err)
	}
	all := []explainedRule{}
	for _, a := range answers {
		one := explainedRule{Asks: a.String(), Verdict: a.Verdict, Wrong: a.Wrong, Says: fmt.Sprintf("%s: %s", a, a.Verdict)}
		switch {
		case a.Wrong:
			one.Says = "✗ " + a.Text(shownPath(file))
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
func (s *session) rulesHere() (file, text string, err error) {
	databases, err := s.folder.Databases()
	if err != nil {
		return "", "", err
	}
	for _, d := range databases {
		if d.ID == s.database && d.Rules != "" {
			text, err := appfolder.ReadRules(d.Rules)
			return d.Rules, text, err
		}
	}
	return "", "", fmt.Errorf("firebase.json names no rules of database %s", s.database)
}

// homes returns the routes of the totals that have a document, or that it holds, and for each
// template the document that holds them, if it can be read.
func (s *session) homes(ctx context.Context, j rules.Judge, e explanation) (routes route.Routes, documents map[string][]rules.Document) {
	paths := []string{e.Document}
	for _, r := range e.Routes {
		paths = append(paths, r.Counter)
	}
	documents = make(map[string][]rules.Document)
	for _, path := range paths {
		c, ok := s.config.Routes.Counter(path)
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
