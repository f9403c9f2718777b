// Package counters has the commands about counters of an emulator or of a project, a file each.
// shown.go is how they show totals and roll-ups.
package counters

import "github.com/spf13/cobra"

// Commands returns the commands about counters.
func Commands() []*cobra.Command {
	return []*cobra.Command{
		createCommand(), incrementCommand(), getCommand(), explainCommand(), watchCommand(), listCommand(), resizeCommand(), setCommand(),
		migrateCommand(), deleteCommand(), auditCommand(),
	}
}
