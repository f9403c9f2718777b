package rules

import "testing"

// readParts are the softenings that attacks of TestReads need.
var readParts = map[string]bool{"no collection groups": true, "votes are the user's to read": true, "votes are not listed": true}

func TestReads(t *testing.T) {}
