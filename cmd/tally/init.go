package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"text/template"

	"github.com/firestore-tally/tally/internal/tool/appfolder"
	"github.com/firestore-tally/tally/rollup/route"
	"github.com/spf13/cobra"
)

//go:embed tally.yaml.tmpl
var settingsTemplate string

// none is the answer that there is no address, or no field.
const none = "none"

func initCommand() *cobra.Command {
	var a answers
	c := newCommand("init")
	f := c.Flags()
	f.StringVar(&a.routes, "routes", route.Default, "routes, separated by semicolons")
	f.StringVar(&a.alertEmail, "alert-email", "", "address that alerts are mailed to")
	c.RunE = func(c *cobra.Command, _ []string) error {
		_, err := os.Stat(appfolder.FileName)
		if err == nil {
			return fmt.Errorf("%s is here already; edit it", appfolder.FileName)
		}

		if isTerminal(c.InOrStdin()) {
			q := questions{bufio.NewReader(c.InOrStdin()), c.OutOrStdout()}
			err := a.ask(c.Context(), q, f.Changed)
			if err != nil {
				return err
			}
		}
		if err := a.write(); err != nil {
			return err
		}
		fmt.Fprintf(c.OutOrStdout(), "wrote %s; tally dev runs it on this machine\n", appfolder.FileName)
		return nil
	}
	return c
}

// answers are what tally init writes.
type answers struct {
	routes     string
	alertEmail string // empty: nobody's
}

// ask asks for what no flag has said.
func (a *answers) ask(ctx context.Context, q questions, said func(flag string) bool) (err error) {
	if !said("routes") {
		a.routes, err = q.route(ctx)
		if err != nil {
			return err
		}
	}
	if !said("alert-email") {
		a.alertEmail, err = q.address(ctx)
	}
	return err
}

// write writes tally.yaml.
func (a *answers) write() error {
	if a.alertEmail != "" {
		err := appfolder.CheckEmail(a.alertEmail)
		if err != nil {
			return fmt.Errorf("--alert-email: %w", err)
		}
	}
	routes, err := route.Parse(a.routes)
	if err != nil {
		return err
	}

	var text bytes.Buffer
	page := template.Must(template.New("").Parse(settingsTemplate))
	err = page.Execute(&text, map[string]any{"Schema": appfolder.SchemaURL, "Routes": routes, "AlertEmail": a.alertEmail})
	if err != nil {
		return err
	}
	return os.WriteFile(appfolder.FileName, text.Bytes(), 0o644)
}

// questions are asked on a terminal.
type questions struct {
	in  *bufio.Reader
	out io.Writer
}

// ask asks a question. If the user only presses Enter, the answer is otherwise.
func (q questions) ask(ctx context.Context, question, otherwise string) (string, error) {
	answer, err := ask(ctx, q.in, q.out, fmt.Sprintf("%s [%s]: ", question, otherwise))
	if errors.Is(err, io.EOF) {
		err = errors.New("nobody answered, so nothing was written")
	}
	return cmp.Or(answer, otherwise), err
}

// valid asks until check accepts the answer. It shows why an answer is not accepted.
func (q questions) valid(ctx context.Context, question, otherwise string, check func(answer string) error) (string, error) {
	for {
		answer, err := q.ask(ctx, question, otherwise)
		if err != nil {
			return "", err
		}
		err = check(answer)
		if err == nil {
			return answer, nil
		}
		fmt.Fprintln(q.out, err)
	}
}

// address asks for the address that alerts are mailed to; "": none.
func (q questions) address(ctx context.Context) (string, error) {
	check := func(answer string) error {
		if answer == none {
			return nil
		}
		return appfolder.CheckEmail(answer)
	}
	answer, err := q.valid(ctx, "Address that alerts are mailed to, for when it is deployed", none, check)
	if answer == none {
		answer = ""
	}
	return answer, err
}

// route asks which documents make which totals in which document, and returns the route.
func (q questions) route(ctx context.Context) (string, error) {
	fmt.Fprint(q.out, `Which documents does the app count or add up?
Name one, such as posts/7/likes/ann or orders/1, or write a whole route.
`)
	source, err := q.valid(ctx, "Document", "counters/likes/shards/3", checkSource)
	if err != nil || isRoute(source) {
		return source, err
	}
	d := newDraft(source)

	fmt.Fprint(q.out, `Which total of them? A field's name is the field's sum, and count() is how many they are.
Others are average(stars) as rating, maximum(points) as best, latest(at) as last.
A condition comes before the name: count() where approved == true as comments.
`)
	d.totals, err = q.valid(ctx, "Total, or several with commas", d.totals, d.checkTotals)
	if err != nil {
		return "", err
	}

	proposed := d.target
	d.target, err = q.valid(ctx, "In which document", proposed, d.checkTarget)
	if err != nil {
		return "", err
	}
	if d.target == proposed {
		return d.String(), nil
	}

	if d.mayGroup() {
		question := fmt.Sprintf("Which field of %s says %q", source, d.lastID())
		d.group, err = q.valid(ctx, question, none, d.checkGroup)
		if err != nil {
			return "", err
		}
	}
	if d.group != none {
		fmt.Fprintf(q.out, "The app creates %s and all others like it: Tally writes totals only into documents that exist.\n", d.target)
	}

	if !d.mustExist() {
		question := "Who creates " + d.target + ": app or tally"
		d.creator, err = q.valid(ctx, question, byTally, checkCreator)
	}
	return d.String(), err
}
