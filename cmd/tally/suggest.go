package main

import (
	"fmt"
	"strings"

	"github.com/firestore-tally/tally/rollup"
)

// routeFor returns a route that would serve the document and those like it: it sums their field, or
// without one it counts them into the document that they are below. The route may be invalid, as the path
// may be.
func routeFor(path, field string) string {
	ids := strings.Split(path, "/")
	if strings.HasPrefix(path, "counters/") && len(ids) == 4 && field != "" {
		return strings.TrimSuffix(rollup.DefaultRoute, "count") + field
	}
	captures := make(map[string]bool)
	for i := 1; i < len(ids); i += 2 {
		name := singular(ids[i-1])
		for captures[name] {
			name += "_"
		}
		captures[name] = true
		ids[i] = "{" + name + "}"
	}
	pattern, n := strings.Join(ids, "/"), len(ids)
	switch {
	case n < 4 && field == "":
		return fmt.Sprintf("%s -> %s_totals/all : count() as %s", pattern, singular(ids[0]), ids[0])
	case n < 4:
		return fmt.Sprintf("%s -> %s_totals/all : %s", pattern, singular(ids[0]), field)
	case field == "":
		return fmt.Sprintf("%s -> %s : count() as %s : existing", pattern, strings.Join(ids[:n-2], "/"), ids[n-2])
	}
	ids[n-4] = singular(ids[n-4]) + "_totals"
	return fmt.Sprintf("%s -> %s : %s", pattern, strings.Join(ids[:n-2], "/"), field)
}

// singular returns what a document of the collection may be called.
func singular(collection string) string {
	return strings.Trim(strings.TrimSuffix(collection, "s"), "_")
}
