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
	"strings"
	"text/template"

	"github.com/firestore-tally/tally/internal/appfolder"
	"github.com/firestore-tally/tally/rollup"
	"github.com/spf13/cobra"
)

//go:embed tally.yaml.tmpl
var settingsTemplate string

// nobody is the answer to who is mailed when only Enter is pressed.
const nobody = "none"

func initCommand() *cobra.Command {
	var routes, alertEmail string
	c := newCommand("init")
	f := c.Flags()
	f.StringVar(&routes, "routes", rollup.DefaultRoute, "routes, separated by semicolons")
	f.StringVar(&alertEmail, "alert-email", "", "address that alerts are mailed to")
	c.RunE = func(c *cobra.Command, _ []string) (err error) {
		if _, err := os.Stat(appfolder.FileName); err == nil {
			return fmt.Errorf("%s is here already; edit it", appfolder.FileName)
		}
		q := questions{bufio.NewReader(c.InOrStdin()), c.OutOrStdout()}
		asks := isTerminal(c.InOrStdin())
		if asks && !f.Changed("routes") {
			routes, err = q.route(c.Context())
		}
		if asks && !f.Changed("alert-email") && err == nil {
			alertEmail, err = q.address(c.Context())
		}
		if err != nil {
			return err
		}
		if err := appfolder.CheckEmail(alertEmail); err != nil && alertEmail != "" {
			return fmt.Errorf("--alert-email: %w", err)
		}
		parsed, err := rollup.ParseRoutes(routes)
		if err != nil {
			return err
		}
		var text bytes.Buffer
		err = template.Must(template.New("").Parse(settingsTemplate)).Execute(&text, map[string]any{"Routes": parsed, "AlertEmail": alertEmail})
		if err == nil {
			err = os.WriteFile(appfolder.FileName, text.Bytes(), 0o644)
		}
		if err == nil {
			fmt.Fprintf(c.OutOrStdout(), "wrote %s; tally dev runs it on this machine\n", appfolder.FileName)
		}
		return err
	}
	return c
}

// questions are asked on a terminal.
type questions struct {
	in  *bufio.Reader
	out io.Writer
}

// ask asks a question, to which there is an answer when only Enter is pressed.
func (q questions) ask(ctx context.Context, question, otherwise string) (string, error) {
	answer, err := ask(ctx, q.in, q.out, fmt.Sprintf("%s [%s]: ", question, otherwise))
	if errors.Is(err, io.EOF) {
		err = errors.New("nobody answered, so nothing was written")
	}
	return cmp.Or(answer, otherwise), err
}

// address asks who is mailed, until the answer is an address; "" is nobody.
func (q questions) address(ctx context.Context) (string, error) {
	for {
		answer, err := q.ask(ctx, "Address that alerts are mailed to, for when it is deployed", nobody)
		if err != nil || answer == nobody {
			return "", err
		}
		err = appfolder.CheckEmail(answer)
		if err == nil {
			return answer, nil
		}
		fmt.Fprintln(q.out, err)
	}
}

func (q questions) route(ctx context.Context) (string, error) {
	fmt.Fprint(q.out, `What does the app count?
  1  what it adds to shards, such as counters/likes/shards/3
  2  documents, such as posts/7/likes/ann; their number goes into posts/7
  or a route of your own
`)
	for {
		answer, err := q.ask(ctx, "1, 2 or a route", "1")
		if err != nil {
			return "", err
		}
		var example, total string
		switch answer {
		case "1":
			if example, err = q.ask(ctx, "Path of a shard", "counters/likes/shards/3"); err == nil {
				total, err = q.ask(ctx, "Its field", "count")
			}
		case "2":
			example, err = q.ask(ctx, "Path of such a document", "posts/7/likes/ann")
		}
		if err != nil {
			return "", err
		}
		if example != "" {
			answer = routeFor(example, total)
		}
		_, err = rollup.ParseRoutes(answer)
		if err == nil {
			return answer, nil
		}
		fmt.Fprintln(q.out, err)
	}
}

// routeFor returns a route for the documents like the one at path: it sums their field, or without
// one it counts them into the documents that they are below.
func routeFor(path, field string) string {
	pattern, template := generalized(path)
	ids := strings.Split(pattern, "/")
	above, collection := strings.Join(ids[:len(ids)-2], "/"), ids[len(ids)-2]
	switch {
	case field == "" && above == "":
		return pattern + " -> " + template + " : count() as " + collection
	case field == "":
		return pattern + " -> " + above + " : count() as " + collection + " : existing"
	case strings.HasPrefix(rollup.DefaultRoute, pattern+" -> "):
		template = "rollups/" + ids[1]
	}
	return pattern + " -> " + template + " : " + rollup.Quote(field)
}
