package command

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// arguments returns an error if the arguments are not those that the command's usage names.
func arguments(c *cobra.Command, args []string) error {
	names := strings.Fields(c.Use)[1:]
	if len(args) < len(names) {
		example, _, _ := strings.Cut(strings.TrimSpace(c.Example), "\n")
		return fmt.Errorf("%s is missing, as in: %s", strings.TrimSuffix(names[len(args)], "..."), example)
	}
	if len(args) > len(names) && !strings.HasSuffix(c.Use, "...") {
		return fmt.Errorf("unexpected argument %q; usage: %s", args[len(names)], strings.TrimSuffix(c.UseLine(), " [flags]"))
	}
	return nil
}

// wanted says in words which values a flag of a type takes, where the error of its value does not.
var wanted = map[string]string{
	"int":      "a whole number",
	"uint64":   "a whole number, 0 or more",
	"float64":  "a number",
	"bool":     "true or false",
	"duration": "a time with its unit, such as 90s or 5m",
}

// FlagError says what is wrong with a flag.
func FlagError(c *cobra.Command, err error) error {
	invalid, isInvalid := errors.AsType[*pflag.InvalidValueError](err)
	if isInvalid {
		f := invalid.GetFlag()
		why := invalid.Unwrap()
		if want := wanted[f.Value.Type()]; want != "" {
			why = errors.New("want " + want)
		}
		err = fmt.Errorf("--%s %q: %w", f.Name, invalid.GetValue(), why)
	}
	return fmt.Errorf("%w; see %s --help", err, c.CommandPath())
}

// NegativesLast returns the arguments with the negative numbers moved to the end, after "--":
// otherwise they would be taken for flags. Values of flags stay where they are.
func NegativesLast(root *cobra.Command, args []string) []string {
	c, _, err := root.Find(args)
	if err != nil || slices.Contains(args, "--") {
		return args
	}

	var others, negatives []string
	for i, arg := range args {
		if isNegative(arg) && !isValue(c, args, i) {
			negatives = append(negatives, arg)
		} else {
			others = append(others, arg)
		}
	}
	if negatives == nil {
		return args
	}
	return slices.Concat(others, []string{"--"}, negatives)
}

// isNegative reports whether an argument is a negative number.
func isNegative(arg string) bool {
	_, err := strconv.ParseFloat(arg, 64)
	return err == nil && arg[0] == '-'
}

// isValue reports whether the i-th argument is the value of the flag before it.
func isValue(c *cobra.Command, args []string, i int) bool {
	if i == 0 {
		return false
	}
	name, long := strings.CutPrefix(args[i-1], "--")
	flag := c.Flags().Lookup(name)
	return long && flag != nil && flag.NoOptDefVal == ""
}
