//go:build unix

package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/firestore-tally/tally/cmd/tally/command"
	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// common are the flags that the page explains once, because most commands have them.
var common = map[string]bool{"config": true, "project": true, "database": true, "routes": true, "json": true, "timeout": true, "yes": true, "help": true}

// docs/cli.md is what the commands say of themselves; -update writes it.
func TestCommandLinePage(t *testing.T) {
	const page = "../../docs/cli.md"
	want := commandLinePage(rootCommand())
	if *update {
		write(t, page, []byte(want))
	}
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, string(got)); d != "" {
		t.Errorf("docs/cli.md differs from the commands; -update writes it (-want +got):\n%s", d)
	}
}

func commandLinePage(root *cobra.Command) string {
	var b strings.Builder
	b.WriteString("# The command line\n\n[The README](../README.md#run-it) explains how to install `tally`.\n\n")
	b.WriteString(paragraphs(root.Long) + root.Example + "\n")
	b.WriteString("\n`tally COMMAND --help` says all of a command, with examples. These are the commands, and the flags with their defaults.\n")
	for _, g := range root.Groups() {
		fmt.Fprintf(&b, "\n## %s\n\n| command | what it does | flags |\n| --- | --- | --- |\n", strings.TrimSuffix(g.Title, ":"))
		for _, c := range root.Commands() {
			if c.GroupID == g.ID && !c.Hidden {
				describe(&b, c)
			}
		}
	}
	b.WriteString("\nMost commands have these flags, too:\n\n| flag | meaning |\n| --- | --- |\n")
	one, _, _ := root.Find([]string{"delete"})
	one.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if common[f.Name] {
			fmt.Fprintf(&b, "| `--%s` | %s |\n", f.Name, f.Usage)
		}
	})
	b.WriteString("\n## Completion\n\nA shell completes commands and flags by Tab, once its file of start-up runs this line; `tally completion SHELL --help` says where that file is.\n\n| shell | line |\n| --- | --- |\n")
	for _, line := range [][2]string{{"bash", "source <(tally completion bash)"}, {"zsh", "source <(tally completion zsh)"}, {"fish", "tally completion fish \\| source"}, {"powershell", "tally completion powershell \\| Out-String \\| Invoke-Expression"}} {
		fmt.Fprintf(&b, "| %s | `%s` |\n", line[0], line[1])
	}
	return b.String()
}

// describe writes a row of a table for a command, or for each command below it.
func describe(b *strings.Builder, c *cobra.Command) {
	for _, below := range c.Commands() {
		describe(b, below)
	}
	if c.HasSubCommands() {
		return
	}
	var flags []string
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if common[f.Name] {
			return
		}
		flag := "`--" + f.Name
		if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "[]" {
			flag += "=" + f.DefValue
		}
		flags = append(flags, flag+"`")
	})
	fmt.Fprintf(b, "| `%s` | %s | %s |\n", strings.TrimSuffix(c.UseLine(), " [flags]"), c.Short, strings.Join(flags, " "))
}

// paragraphs returns text with each paragraph in one line, as Markdown has it.
func paragraphs(text string) string {
	var b strings.Builder
	for p := range strings.SplitSeq(text, "\n\n") {
		b.WriteString(strings.ReplaceAll(p, "\n", " ") + "\n\n")
	}
	return b.String()
}

// Every page of help is a command's. command.New makes sure of the opposite.
func TestHelpPages(t *testing.T) {
	names := map[string]bool{}
	var note func(c *cobra.Command)
	note = func(c *cobra.Command) {
		names[c.Name()+".md"] = true
		for _, below := range c.Commands() {
			note(below)
		}
	}
	note(rootCommand())
	pages, err := command.Pages.ReadDir("help")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		if !names[page.Name()] {
			t.Errorf("help/%s is no command's", page.Name())
		}
	}
}
