package main

import (
	"errors"
	"fmt"
	"regexp"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// takeArguments has every command below c that says nothing else take the arguments that its usage names.
func takeArguments(c *cobra.Command) {
	for _, c := range c.Commands() {
		takeArguments(c)
		if c.Args == nil && c.Runnable() {
			c.Args = arguments
		}
	}
}

// arguments returns an error if the arguments are not those that the command's usage names.
func arguments(c *cobra.Command, args []string) error {
	names := strings.Fields(c.Use)[1:]
	if len(args) < len(names) {
		example, _, _ := strings.Cut(strings.TrimSpace(c.Example), "\n")
		return fmt.Errorf("%s is missing, as in: %s", strings.TrimSuffix(names[len(args)], "..."), example)
	}
	if len(args) > len(names) && !strings.HasSuffix(c.Use, "...") {
		return fmt.Errorf("%q is one argument too many, want: %s", args[len(names)], strings.TrimSuffix(c.UseLine(), " [flags]"))
	}
	return nil
}

// wanted says what values of flags are, by their types.
var wanted = map[string]string{
	"int":      "a whole number",
	"uint64":   "a whole number, 0 or more",
	"float64":  "a number",
	"bool":     "true or false",
	"duration": "a time with its unit, such as 90s or 5m",
}

// flagError says what is wrong with a flag.
func flagError(c *cobra.Command, err error) error {
	if invalid := new(pflag.InvalidValueError); errors.As(err, &invalid) {
		f := invalid.GetFlag()
		if want := wanted[f.Value.Type()]; want != "" {
			err = fmt.Errorf("--%s %q: want %s", f.Name, invalid.GetValue(), want)
		}
	}
	return fmt.Errorf("%w; see %s --help", err, c.CommandPath())
}

var negative = regexp.MustCompile(`^-[.\d]`)

// negatives returns the arguments with those that are negative numbers behind a "--", or they would be
// taken for flags.
func negatives(root *cobra.Command, args []string) []string {
	c, _, err := root.Find(args)
	if err != nil {
		return args
	}
	var others, numbers []string
	for i, arg := range args {
		switch {
		case arg == "--":
			return args
		case negative.MatchString(arg) && !takesValue(c, args[max(0, i-1)]):
			numbers = append(numbers, arg)
		default:
			others = append(others, arg)
		}
	}
	if numbers == nil {
		return args
	}
	return append(append(others, "--"), numbers...)
}

// takesValue reports whether an argument is a flag whose value is the next one.
func takesValue(c *cobra.Command, arg string) bool {
	name, long := strings.CutPrefix(arg, "--")
	f := c.Flags().Lookup(name)
	return long && f != nil && f.NoOptDefVal == ""
}

// version returns the version of the module, which names the revision that it was built from, and of Go.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown" // not reached: the go command builds it with modules
	}
	return info.Main.Version + " " + info.GoVersion
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Show which version of Tally this is",
		Example: "  tally version",
		Run:     func(c *cobra.Command, _ []string) { fmt.Fprintf(c.OutOrStdout(), "tally %s\n", version()) },
	}
}
