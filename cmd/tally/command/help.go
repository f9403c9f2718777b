// Package command makes the commands of tally from their pages of help, and reads arguments.
package command

import (
	"embed"
	"fmt"
	"slices"
	"strings"

	"github.com/firestore-tally/tally/internal/tool/terminal"
	"github.com/spf13/cobra"
)

// Pages holds a page for each command, by its name: a heading, a text and examples.
//
//go:embed help
var Pages embed.FS

// New returns a command that says of itself what its page of help says. It takes the
// arguments that its usage names.
func New(use string) *cobra.Command {
	c := &cobra.Command{Use: use, Args: arguments}
	page, err := Pages.ReadFile("help/" + c.Name() + ".md")
	if err != nil {
		panic(err) // not reached: each run makes all commands, so every test would fail
	}
	heading, text, _ := strings.Cut(string(page), "\n")
	long, examples, _ := strings.Cut(text, "## Examples\n\n")
	c.Short, c.Long, c.Example = strings.TrimPrefix(heading, "# "), strings.TrimSpace(long), strings.TrimRight(examples, "\n")
	return c
}

// WrapLines has what a command says to a person keep to the terminal's width: its notices and
// errors, and its output if that is no JSON. Others print what is copied or read by programs.
func WrapLines(c *cobra.Command, _ []string) {
	terminal.Wrap(c.ErrOrStderr())
	talks := slices.Contains([]string{"audit", "demo", "dev", "doctor", "explain", "get", "help", "init", "ls"}, c.Name())
	json := c.Flags().Lookup("json")
	if talks && (json == nil || json.Value.String() != "true") {
		terminal.Wrap(c.OutOrStdout())
	}
}

// HelpIn returns the function that shows a command's help, which keeps to the terminal's width.
// show shows it.
func HelpIn(show func(*cobra.Command, []string)) func(*cobra.Command, []string) {
	return func(c *cobra.Command, args []string) {
		width := terminal.Width(c.OutOrStdout())
		if width > 0 {
			terminal.Wrap(c.OutOrStdout())
			c.Long, c.Example = joined(c.Long), terminal.Commands(c.Example, width)
			c.SetUsageTemplate(strings.ReplaceAll(c.UsageTemplate(), ".FlagUsages ", fmt.Sprintf(".FlagUsagesWrapped %d ", width)))
		}
		show(c, args)
	}
}

// joined makes each paragraph of a text one line, except for lines that are indented.
func joined(text string) string {
	var b strings.Builder
	for i, line := range strings.Split(text, "\n") {
		isIndented := strings.HasPrefix(line, " ")
		switch {
		case i == 0:
		case line == "" || isIndented || strings.HasSuffix(b.String(), "\n"):
			b.WriteString("\n")
		default:
			b.WriteString(" ")
		}
		b.WriteString(line)
	}
	return b.String()
}
