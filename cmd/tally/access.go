package main

// An access is what a command does to the counters of a project.
type access int

// Each does what those before it do, too.
const (
	reads   access = iota
	adds           // makes counters and adds to them: by wrong routes it takes no other document for a counter's
	changes        // replaces totals, moves them between documents, deletes
)

// role returns the role of Identity and Access Management that the access needs.
func (a access) role() string {
	if a == reads {
		return "roles/datastore.viewer"
	}
	return "roles/datastore.user"
}

// readsIf returns what a command does that changes nothing when a flag is set.
func readsIf(flag *bool) func() access {
	return func() access {
		if *flag {
			return reads
		}
		return changes
	}
}
