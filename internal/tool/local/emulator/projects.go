package emulator

import (
	"bytes"
	"regexp"
	"slices"
)

// RulesProject is a project for rules that are tried: Start sets its rules to have them compiled.
// No app uses it, and what is asked there is not told.
const RulesProject = "demo-tally-rules"

// maxProjects is how many projects a projectWatch reports. Tests may take a new one each.
const maxProjects = 10

// A projectWatch reads what an emulator prints, and tells once of each project that a request names
// and that is not the emulator's own. The emulator prints a line for each such request, be it a
// client's or a server's (https://github.com/firebase/firebase-tools/pull/4890). An emulator that
// is older than that prints none.
type projectWatch struct {
	tell func(project string)
	told []string
	line []byte // that has begun
}

var otherProject = regexp.MustCompile(`^Multiple projectIds .* Requested project ID (\S+), but the emulator`)

// Write takes more of the output. Calls must not overlap. It always succeeds.
func (w *projectWatch) Write(p []byte) (int, error) {
	w.line = append(w.line, p...)
	for {
		line, rest, whole := bytes.Cut(w.line, []byte("\n"))
		if !whole {
			break
		}
		w.judgeLine(line)
		w.line = rest
	}

	// Only the beginning of a line matters. One that never ends takes no more than that.
	w.line = bytes.Clone(w.line[:min(len(w.line), tailSize)])
	return len(p), nil
}

// judgeLine judges one line.
func (w *projectWatch) judgeLine(line []byte) {
	found := otherProject.FindSubmatch(line)
	if found == nil || len(w.told) == maxProjects {
		return
	}

	project := string(found[1])
	if project == RulesProject || slices.Contains(w.told, project) {
		return
	}
	w.told = append(w.told, project)
	w.tell(project)
}
