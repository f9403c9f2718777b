package deploy

import (
	"regexp"
	"strings"
)

// A Command is one that people are told to run.
type Command struct{ Args []string }

// command returns the command whose words have blanks between them.
func command(words string) Command { return Command{strings.Fields(words)} }

// String returns the command for a POSIX shell, on one line.
func (c Command) String() string { return strings.Join(c.words(), " ") }

// MarshalText returns the command as String does.
func (c Command) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// Lines returns the command for a POSIX shell, one flag to a line.
func (c Command) Lines() string {
	words := c.words()
	for i, word := range words {
		if strings.HasPrefix(word, "-") {
			words[i] = "\\\n    " + word
		}
	}
	return strings.Join(words, " ")
}

func (c Command) words() []string {
	var words []string
	for _, arg := range c.Args {
		words = append(words, quote(arg))
	}
	return words
}

// plain matches words that need no quotes in a POSIX shell.
var plain = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// flag is the name of a flag and its =, which need no quotes.
var flag = regexp.MustCompile(`^--[a-z0-9-]+=`)

// quote returns the argument as a POSIX shell reads it.
func quote(arg string) string {
	if plain.MatchString(arg) {
		return arg
	}
	name := flag.FindString(arg)
	return name + "'" + strings.ReplaceAll(arg[len(name):], "'", `'\''`) + "'"
}
