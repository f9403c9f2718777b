package main

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"text/template"

	"cloud.google.com/go/firestore"
	root "github.com/firestore-tally/tally"
	"github.com/firestore-tally/tally/cmd/tally/command"
	"github.com/firestore-tally/tally/cmd/tally/draft"
	"github.com/firestore-tally/tally/internal/tool/appfolder"
	"github.com/firestore-tally/tally/internal/tool/deploy"
	"github.com/firestore-tally/tally/internal/tool/mistakes"
	"github.com/firestore-tally/tally/internal/tool/rules"
	"github.com/firestore-tally/tally/internal/tool/terminal"
	"github.com/firestore-tally/tally/rollup/route"
	"github.com/spf13/cobra"
)

//go:embed tally.yaml.tmpl
var settingsTemplate string

func initCommand() *cobra.Command {
	var a answers
	c := command.New("init")
	f := c.Flags()
	routes := f.StringArray("routes", []string{route.Default}, "routes, separated by semicolons; the flag may be repeated")
	f.StringVar(&a.alertEmail, "alert-email", "", "address that alerts are mailed to")
	ask := f.Bool("ask", false, "with --routes: ask who writes these documents")
	c.RunE = func(c *cobra.Command, _ []string) error {
		a.routes = strings.Join(*routes, "\n")
		_, err := os.Stat(appfolder.FileName)
		isHere := err == nil

		dir, err := os.Getwd()
		if err != nil {
			return err
		}
		folder, err := appfolder.Find(dir, "")
		if err != nil {
			return err
		}
		if isHere {
			return alreadyInitialized(folder)
		}
		err = mayWrite(c, folder)
		if err != nil {
			return err
		}

		// With its routes given, init may be one of several commands that were pasted. The next would
		// be taken for answers.
		isAsking := !f.Changed("routes") || *ask
		if isAsking && terminal.IsTerminal(c.InOrStdin()) {
			q := draft.NewQuestions(c.InOrStdin(), c.OutOrStdout())
			err := a.ask(c.Context(), q, f.Changed)
			if err != nil {
				return err
			}
		}
		wrote, err := a.write(folder)
		if err != nil {
			return err
		}
		a.printNextSteps(c.OutOrStdout(), wrote)
		return nil
	}
	return c
}

// alreadyInitialized returns the error for a folder that has a tally.yaml. If the app's security
// rules are missing, it says how to get them.
func alreadyInitialized(folder *appfolder.Folder) error {
	err := fmt.Errorf("%s is here already; edit it", appfolder.FileName)
	databases, problem := folder.Databases()
	if problem != nil {
		return errors.Join(err, problem)
	}

	names := []string{rulesFile, mergeFile}
	for _, d := range databases {
		names = append(names, d.Rules)
	}
	exists := func(name string) bool { _, err := os.Stat(name); return err == nil }
	if slices.ContainsFunc(names, exists) {
		return err
	}
	routes := cmp.Or(string(folder.Settings.Routes), route.Default)
	again := deploy.Command(os.Args[0], "init", "--routes", strings.TrimSpace(routes))
	return fmt.Errorf("%w. Its security rules are missing; this writes them:\n  mv %s tally.mine && %s && mv tally.mine %[2]s", err, appfolder.FileName, again)
}

// answers are what tally init writes.
type answers struct {
	routes     string
	writers    rules.Answers
	alertEmail string // empty: no one gets alerts

	databases []appfolder.Database // that firebase.json names
	edition   string               // of the one that Tally serves; "": Standard
	rulesName string               // the file for the security rules
	rules     string               // those that follow from the answers
	warnings  []string             // about the databases, the rules that the folder has, and the routes
}

// mayWrite returns an error if the folder is above or next to what configures the Firebase CLI for
// the app, unless the user goes on all the same.
func mayWrite(c *cobra.Command, folder *appfolder.Folder) error {
	if folder.Firebase != "" {
		return nil
	}
	others, err := folder.OtherConfigs()
	if err != nil || len(others) == 0 {
		return err
	}

	problem := "there is no firebase.json here, but " + strings.Join(others[:min(len(others), 3)], ", ")
	if terminal.IsTerminal(c.InOrStdin()) {
		return terminal.Confirm(c.Context(), c.InOrStdin(), c.OutOrStdout(), false, problem+". Is this the folder of another app?")
	}
	return fmt.Errorf("nothing was written: %s. Run tally init in the folder of the app's firebase.json. If you give the Firebase CLI another file by --config, copy that to firebase.json first", problem)
}

// printNextSteps says what was written, and what the user does next. The file of the rules was
// there before if it is not among what was written.
func (a *answers) printNextSteps(out io.Writer, wrote []string) {
	fmt.Fprintf(out, "wrote %s; tally dev runs it on this machine\n", strings.Join(wrote, ", "))
	for _, text := range a.warnings {
		fmt.Fprintln(out, text)
	}
	if !slices.Contains(wrote, a.rulesName) {
		fmt.Fprintf(out, "%s is here already, and stays as it is\n", a.rulesName)
		return
	}
	if a.rulesName == mergeFile {
		fmt.Fprintln(out, a.mergeSteps())
	}
	fmt.Fprint(out, decisions(a.rulesName, a.rules))

	left := len(rules.Decisions(a.rules))
	if left == 0 {
		return
	}
	stand := "decisions stand"
	if left == 1 {
		stand = "decision stands"
	}
	fmt.Fprintf(out, "%d %s in %s as false; // decide. To be asked instead, delete the written files and run tally init --ask\n", left, stand, a.rulesName)
}

// mergeSteps says where the rules to merge go: into the files that are there, else into one that
// firebase.json has yet to name, or names already.
func (a *answers) mergeSteps() string {
	var there, missing []string
	for _, d := range a.databases {
		_, err := os.Stat(d.Rules)
		switch {
		case d.Rules == "":
		case err != nil:
			missing = append(missing, appfolder.Shown(d.Rules))
		default:
			there = append(there, appfolder.Shown(d.Rules))
		}
	}

	switch {
	case len(there) > 0:
		return fmt.Sprintf("merge %s into %s, where nothing was changed, and then delete it", mergeFile, strings.Join(there, ", "))
	case len(missing) > 0:
		return fmt.Sprintf("firebase.json names %s, which is not there: rename %s to that, unless the rules are elsewhere", strings.Join(missing, ", "), mergeFile)
	default:
		return fmt.Sprintf(`firebase.json names no rules: rename %s to %s, and name it there: "firestore": {"rules": "%[2]s"}. firebase deploy then replaces the project's rules by them`, mergeFile, rulesFile)
	}
}

// ask prompts for settings that no flag sets.
func (a *answers) ask(ctx context.Context, q draft.Questions, isSet func(flag string) bool) (err error) {
	if isSet("routes") {
		a.writers, err = q.Writers(ctx, a.routes)
	} else {
		a.routes, a.writers, err = q.Routes(ctx)
	}
	if err != nil {
		return err
	}
	if !isSet("alert-email") {
		a.alertEmail, err = q.Address(ctx)
	}
	return err
}

// write writes tally.yaml and security rules. If the folder belongs to no Firebase project, it also
// writes a firebase.json that names the app's rules. It returns the names of what it wrote. Rules
// that are there already stay: those to merge get a file of their own.
func (a *answers) write(folder *appfolder.Folder) (wrote []string, err error) {
	if a.alertEmail != "" {
		err := appfolder.CheckEmail(a.alertEmail)
		if err != nil {
			return nil, fmt.Errorf("--alert-email: %w", err)
		}
	}
	routes, err := mistakes.Parse(a.routes)
	if err != nil {
		return nil, err
	}
	if why := mistakes.WithoutSummer(routes, nil); why != "" {
		return nil, errors.New(why)
	}
	err = a.readDatabases(folder, routes)
	if err != nil {
		return nil, err
	}

	settings, err := a.settings(folder, routes)
	if err != nil {
		return nil, err
	}
	files := []file{{appfolder.FileName, settings}}
	if folder.Firebase == "" {
		files = append(files, file{"firebase.json", firebaseJSON})
	}
	if a.rulesName == mergeFile {
		a.rules = rules.ToMerge(root.Rules, routes, a.writers)
	} else {
		a.rules = rules.For(root.Rules, routes, a.writers)
	}
	return writeNew(append(files, file{a.rulesName, a.rules}))
}

// databaseID matches the id of a database with a name of its own
// (https://firebase.google.com/docs/firestore/manage-databases#database_id).
var databaseID = regexp.MustCompile(`^[a-z0-9-]+$`)

// settings returns the text of tally.yaml.
func (a *answers) settings(folder *appfolder.Folder, routes route.Routes) (string, error) {
	ids, err := folder.DatabaseIDs()
	if err != nil {
		return "", err
	}
	for _, id := range ids {
		if !databaseID.MatchString(id) {
			return "", fmt.Errorf("%s: firestore.database: %q is no id of a database", folder.Firebase, id)
		}
	}

	var text bytes.Buffer
	page := template.Must(template.New("").Parse(settingsTemplate))
	err = page.Execute(&text, map[string]any{"Schema": appfolder.SchemaURL, "Routes": routes, "Alerts": a.alertEmail, "Databases": strings.Join(ids, ", "), "Edition": a.edition})
	return text.String(), err
}

// readDatabases reads which databases the folder has, chooses the file for the rules, and notes
// what does not go together with the routes.
func (a *answers) readDatabases(folder *appfolder.Folder, routes route.Routes) (err error) {
	a.databases, err = folder.Databases()
	if err != nil {
		return err
	}
	a.rulesName = mergeFile
	if folder.Firebase == "" {
		_, err := os.Stat(rulesFile)
		if err != nil {
			a.rulesName = rulesFile
		} else {
			a.databases = []appfolder.Database{{ID: firestore.DefaultDatabaseID, Rules: rulesFile}}
		}
	}

	a.edition, err = folder.Edition()
	if err != nil {
		return err
	}
	if a.edition != "" {
		a.warnings = append(a.warnings, "firebase.json says that the database is of the Enterprise edition, on which no one has tried Tally yet (docs/limits.md#not-tried-yet). Without the line \"edition: enterprise\" in tally.yaml, tally deploy refuses it")
	}

	for _, d := range a.databases {
		text, err := appfolder.ReadRules(d.Rules)
		if err == nil { // otherwise tally dev says why
			a.warnings = append(a.warnings, rules.Overview(appfolder.Shown(d.Rules), text, routes)...)
		}
	}
	if len(a.databases) > 1 {
		a.warnings = append(a.warnings, severalDatabases(a.databases))
	}
	for _, found := range countedField.FindAllStringSubmatch(a.routes, -1) {
		a.warnings = append(a.warnings, fmt.Sprintf("count as %s adds up the field count of each document. To count the documents, write count() as %[1]s", found[1]))
	}
	if circles := routes.Circles(); circles != "" {
		a.warnings = append(a.warnings, circles)
	}
	return nil
}

// countedField matches a total that adds up a field called count, where count() may be meant.
var countedField = regexp.MustCompile(`\bcount as ([^\s,:]+)`)

// severalDatabases says which of an app's databases Tally serves until tally.yaml says others.
func severalDatabases(all []appfolder.Database) string {
	var ids []string
	for _, d := range all {
		ids = append(ids, d.ID)
	}
	return fmt.Sprintf("firebase.json names the databases %s. Tally serves (default) alone until %s names others: write under databases in which of them the routes are", strings.Join(ids, ", "), appfolder.FileName)
}

// rulesFile is the file of the security rules, and firebaseJSON the firebase.json that names it.
// mergeFile has the rules for an app with rules of its own. Without a port of its own the Firebase
// CLI does not start the emulator that signs users in, which needs no console.
const (
	rulesFile    = "firestore.rules"
	mergeFile    = "tally.rules"
	firebaseJSON = `{
  "firestore": {
    "rules": "` + rulesFile + `"
  },
  "emulators": {
    "auth": { "port": 9099 },
    "ui": { "enabled": false }
  }
}
`
)

// decisions says what security rules leave to the user, each by its line in the file. Apps see only
// that such a request is refused.
func decisions(file, text string) string {
	left := rules.Decisions(text)
	if len(left) == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "These requests of clients are refused until you decide, in %s:\n", file)
	for _, d := range left {
		fmt.Fprintf(&b, "  line %d: %s\n", d.Line, terminal.Shown(d.Text))
	}
	return b.String()
}

// A file is a file to write.
type file struct{ name, text string }

// writeNew writes the files that do not exist, and returns their names.
func writeNew(files []file) (wrote []string, err error) {
	for _, f := range files {
		opened, err := os.OpenFile(f.name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return wrote, err
		}
		_, err = opened.WriteString(f.text)
		err = errors.Join(err, opened.Close())
		if err != nil {
			return wrote, err
		}
		wrote = append(wrote, f.name)
	}
	return wrote, nil
}
