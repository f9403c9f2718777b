package main

import (
	"embed"
	"strings"

	"github.com/spf13/cobra"
)

// help holds a page for each command, by its name: a heading, a text and examples.
//
//go:embed help
var help embed.FS

// newCommand returns a command that says of itself what its page of help says. It takes the
// arguments that its usage names.
func newCommand(use string) *cobra.Command {
	c := &cobra.Command{Use: use, Args: arguments}
	page, err := help.ReadFile("help/" + c.Name() + ".md")
	if err != nil {
		panic(err) // not reached: each run makes all commands, so every test would fail
	}
	heading, text, _ := strings.Cut(string(page), "\n")
	long, examples, _ := strings.Cut(text, "## Examples\n\n")
	c.Short, c.Long, c.Example = strings.TrimPrefix(heading, "# "), strings.TrimSpace(long), strings.TrimRight(examples, "\n")
	return c
}
