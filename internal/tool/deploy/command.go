package deploy

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// A Command is one call of gcloud or firebase.
type Command struct {
	Args []string // the tool's name first

	// Output, if not nil, is a command whose output replaces Placeholder in Args. It looks up a name
	// that the server has made up.
	Output *Command

	Input string // of the command; empty: none

	// Shown, if not nil, is the command as people may see it: without the secrets in Input.
	Shown *Command
}

// Placeholder stands in a command's arguments for the output of another.
const Placeholder = "\x00"

// gcloud returns a command of gcloud.
func gcloud(args ...string) Command { return Command{Args: append([]string{"gcloud"}, args...)} }

// in returns the command with the project's flag.
func (c Command) in(project string) Command { return c.with("--project=" + project) }

// with returns the command with more arguments.
func (c Command) with(args ...string) Command {
	c.Args = slices.Concat(c.Args, args)
	return c
}

// filled returns the command with by as its Output; nil leaves the Output that it has.
func (c Command) filled(by *Command) Command {
	if by != nil {
		c.Output = by
	}
	return c
}

// String returns the command for a POSIX shell, on one line.
func (c Command) String() string {
	if c.Shown != nil {
		return c.Shown.String()
	}
	return c.piped(" ") + strings.Join(c.words(), " ")
}

// repeatable reports whether a shell can try the command again. With an input it cannot: a second
// try would find that read already.
func (c Command) repeatable() bool { return c.Input == "" || c.Shown != nil && c.Shown.Input == "" }

// MarshalText returns the command as String does.
func (c Command) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// Lines returns the command for a POSIX shell, one flag to a line.
func (c Command) Lines() string {
	if c.Shown != nil {
		return c.Shown.Lines()
	}

	words := c.words()
	for i, word := range words {
		if strings.HasPrefix(word, "-") {
			words[i] = "\\\n    " + word
		}
	}
	return c.piped("\n") + strings.Join(words, " ")
}

// piped returns what a shell needs before the command to hand it its input, with the separator at
// the end; "" if the command has no input.
func (c Command) piped(separator string) string {
	if c.Input == "" {
		return ""
	}
	return "printf %s " + quote(c.Input) + " |" + separator
}

func (c Command) words() []string {
	var words []string
	for _, arg := range c.Args {
		word := quote(arg)
		if c.Output != nil {
			word = strings.ReplaceAll(word, Placeholder, `"$(`+c.Output.String()+`)"`)
		}
		words = append(words, word)
	}
	return words
}

// plain matches words that need no quotes in a POSIX shell, whatever stands for Placeholder.
var plain = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./` + Placeholder + `-]+$`)

// flag is the name of a flag and its =, which need no quotes.
var flag = regexp.MustCompile(`^--[a-z0-9-]+=`)

// quote returns the argument as a POSIX shell reads it, with Placeholder outside quotes.
func quote(arg string) string {
	if plain.MatchString(arg) {
		return arg
	}

	name := flag.FindString(arg)
	return name + "'" + strings.NewReplacer("'", `'\''`, Placeholder, "'"+Placeholder+"'").Replace(arg[len(name):]) + "'"
}

// dict returns the value of a flag that takes pairs. gcloud splits them at commas unless told of
// another delimiter ("gcloud topic escaping").
func dict(pairs []string) string {
	joined := strings.Join(pairs, ",")
	if splits(pairs, ",") && !strings.HasPrefix(joined, "^") {
		return joined
	}

	delimiter := "@"
	for i := 0; !splits(pairs, delimiter); i++ {
		delimiter = fmt.Sprintf("@%d@", i)
	}
	return "^" + delimiter + "^" + strings.Join(pairs, delimiter)
}

// splits reports whether gcloud gets the pairs back when it splits the joined ones at the
// delimiter. It may not, although no pair holds the delimiter: a pair may end in the delimiter's
// first letters.
func splits(pairs []string, delimiter string) bool {
	joined := strings.Join(pairs, delimiter)
	if !strings.HasSuffix(joined, delimiter) {
		joined += delimiter
	}
	parts := strings.Split(joined, delimiter)
	return slices.Equal(pairs, parts[:len(parts)-1])
}
