package main

// An access is what a command does to the counters of a project.
type access int

// Each does what those before it do, too.
const (
	reads   access = iota
	adds           // creates counters, adds to them, freezes them: replaces no total
	changes        // replaces totals, moves them between documents, deletes
)

// role returns the role of Identity and Access Management that the access needs.
func (a access) role() string {
	if a == reads {
		return "roles/datastore.viewer"
	}
	return "roles/datastore.user"
}

// readsIf returns the access of a command that only reads if a flag is set, and else changes.
func readsIf(flag *bool) func() access {
	return func() access {
		if *flag {
			return reads
		}
		return changes
	}
}
