package deploy

import (
	"fmt"
	"slices"
	"strings"
)

// again is a shell's function that tries a command for ten minutes, as Tools.Run does.
const again = "# What was made just now, such as a role, is not known everywhere yet: again tries for ten minutes.\n" +
	"again() { for i in $(seq 20); do \"$@\" && return; sleep 30; done; \"$@\"; }"

// Script returns the plan as a script for a POSIX shell, to be run anywhere. It ends at the first
// command that fails. A script that takes nothing away can be run again. dir is the folder of the
// functions' source; "" if the plan uploads nothing.
func (p Plan) Script(dir string) string {
	var b strings.Builder
	b.WriteString(p.preamble())
	if dir != "" {
		b.WriteString("cd " + quote(dir) + "\n")
	}
	b.WriteString("\n")

	for _, note := range p.Notes {
		b.WriteString(commented("Note: "+note) + "\n")
	}

	for _, step := range p.Steps {
		b.WriteString(commented(step.Title))
		for _, reason := range step.Reasons {
			b.WriteString(commented("  " + reason))
		}
		b.WriteString(step.shell() + "\n\n")
	}
	return b.String()
}

// preamble returns what a script of the plan begins with; "" if there is nothing to do.
func (p Plan) preamble() string {
	if len(p.Steps) == 0 {
		return ""
	}

	text := "set -eu\nexport CLOUDSDK_CORE_DISABLE_PROMPTS=1\n"
	if !slices.ContainsFunc(p.Steps, func(s Step) bool { return s.takes() }) {
		text = commented("This can be run again: what exists is not made a second time.") + text
	}
	if slices.ContainsFunc(p.Steps, func(s Step) bool { return s.Again }) {
		text += again + "\n"
	}
	return text
}

// commented returns the text as lines of comment.
func commented(text string) string { return "# " + strings.ReplaceAll(text, "\n", "\n# ") + "\n" }

// shell returns the step's command for a POSIX shell. If what the step creates exists already, the
// shell does not run the command.
func (s *Step) shell() string {
	command := s.shown().Lines()
	if s.Again {
		command = "again " + command
	}
	if s.Exists != nil {
		command = `[ -n "$(` + s.Exists.String() + ` 2>/dev/null)" ] ||` + "\n" + command
	}
	return command
}

// summary returns the steps in words, and with commands also their commands.
func (p Plan) summary(commands bool) string {
	var b strings.Builder
	for _, step := range p.Steps {
		fmt.Fprintf(&b, "  %s\n", step.Title)
		for _, reason := range step.Reasons {
			fmt.Fprintf(&b, "      %s\n", reason)
		}
		if commands {
			fmt.Fprintf(&b, "      $ %s\n", step.shown())
		}
	}
	return b.String()
}
