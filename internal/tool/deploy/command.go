package deploy

import (
	"regexp"
	"strings"
)

// Command returns a command that people are told to run, as a POSIX shell reads it.
func Command(args ...string) string {
	words := make([]string, len(args))
	for i, arg := range args {
		words[i] = quote(arg)
	}
	return strings.Join(words, " ")
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
