package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/firestore-tally/tally/cmd/tally/command"
	"github.com/firestore-tally/tally/cmd/tally/settings"
	"github.com/firestore-tally/tally/internal/tool/doctor"
	"github.com/firestore-tally/tally/internal/tool/mistakes"
	"github.com/firestore-tally/tally/rollup/route"
	"github.com/spf13/cobra"
)

func indexesCommand() *cobra.Command {
	var file settings.File
	var routes, check string
	c := command.New("indexes")
	f := c.Flags()
	file.Define(f)
	f.StringVar(&routes, "routes", "", "routes, separated by semicolons (default: those of tally.yaml)")
	f.StringVar(&check, "check", "", "say what this firestore.indexes.json lacks, and print nothing else")
	c.RunE = func(c *cobra.Command, _ []string) error {
		folder, err := file.Here(c.ErrOrStderr())
		if err != nil {
			return err
		}
		parsed, err := mistakes.Parse(cmp.Or(routes, settings.Variables(folder)["TALLY_ROUTES"], route.Default))
		if err != nil {
			return err
		}

		var edition route.Edition
		err = edition.UnmarshalText([]byte(settings.Variables(folder)["TALLY_EDITION"]))
		if err != nil {
			return err
		}

		if check == "" {
			boards := doctor.Boards(parsed)
			if len(boards) > 0 {
				fmt.Fprintf(c.ErrOrStderr(), "A board of the best of a week or month needs one of these, too; no route does (docs/recipes.md#a-board-for-each-week):\n%s\n", strings.Join(boards, "\n"))
			}
			e := json.NewEncoder(c.OutOrStdout())
			e.SetIndent("", "  ")
			return e.Encode(doctor.NewIndexesFile(parsed, edition))
		}

		problems, err := doctor.CheckIndexesFile(check, parsed, edition)
		if err != nil {
			return err
		}
		if len(problems) > 0 {
			return errors.New(strings.Join(problems, "\n"))
		}
		fmt.Fprintf(c.OutOrStdout(), "%s has all that the routes need\n", check)
		return nil
	}
	return c
}
