package main

import (
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// takeArguments has every command below c that says nothing else take the arguments that its usage
// names.
func takeArguments(c *cobra.Command) {
	for _, c := range c.Commands() {
		takeArguments(c)
		check := c.Args
		if check == nil {
			check = arguments
		}
		c.Args = func(c *cobra.Command, args []string) error {
			for i, arg := range args {
				args[i] = strings.TrimPrefix(arg, " ") // see negatives
			}
			return check(c, args)
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

// negatives returns the arguments with a blank before those that are negative numbers, or they
// would be taken for flags. Values of flags are left alone.
func negatives(root *cobra.Command, args []string) []string {
	c, _, err := root.Find(args)
	if err != nil {
		return args
	}
	args = slices.Clone(args)
	for i := 1; i < len(args); i++ {
		name, long := strings.CutPrefix(args[i-1], "--")
		flag := c.Flags().Lookup(name)
		isValue := long && flag != nil && flag.NoOptDefVal == ""
		if _, err := strconv.ParseFloat(args[i], 64); err == nil && args[i][0] == '-' && !isValue {
			args[i] = " " + args[i]
		}
	}
	return args
}

// version returns the version of the module, which names the revision that it was built from, and
// of Go.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown" // not reached: the go command builds it with modules
	}
	return info.Main.Version + " " + info.GoVersion
}

func versionCommand() *cobra.Command {
	c := newCommand("version")
	c.Run = func(c *cobra.Command, _ []string) { fmt.Fprintf(c.OutOrStdout(), "tally %s\n", version()) }
	return c
}
