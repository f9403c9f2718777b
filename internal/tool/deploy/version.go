package deploy

import (
	"fmt"
	"regexp"
	"strings"

	"golang.org/x/mod/semver"
)

// versionLabel of functions names the version of the source that they were built from.
const versionLabel = "tally-version"

// noVersion is the label's value where none is known.
const noVersion = "unknown"

// labelValue is what the value of a label may be:
// https://cloud.google.com/resource-manager/docs/labels-overview#requirements
var labelValue = regexp.MustCompile(`^[a-z0-9_-]{1,63}$`)

// inLabel spells a version as a label's value, which can hold neither a dot nor a plus. fromLabel
// turns that back: no version has an underscore of its own, or two dots in a row.
var (
	inLabel   = strings.NewReplacer(".", "_", "+", "__")
	fromLabel = strings.NewReplacer("__", "+", "_", ".")
)

// versionValue returns the label's value for a version.
func versionValue(version string) string {
	value := inLabel.Replace(version)
	if fromLabel.Replace(value) != version || !labelValue.MatchString(value) {
		return noVersion
	}
	return value
}

// Built returns the version and the hash of the source that the deployed functions were built from,
// "" where that is not known.
func (s *State) Built() (version, hash string) {
	functions := s.Functions()
	if len(functions) == 0 {
		return "", ""
	}

	version = fromLabel.Replace(functions[0].Get("labels." + versionLabel))
	if version == noVersion {
		version = ""
	}
	return version, functions[0].Get("labels." + sourceLabel)
}

// Replaces returns the version of the deployed functions if they are newer than the program's own
// source, which is to be uploaded. It returns "" if they are not newer, or built from the same
// files. It also returns "" for a folder that somebody named, because that is a choice. A version
// that git gives to a commit after a tag counts as older than the tag.
func (u *Upload) Replaces(have *State) string {
	version, hash := have.Built()
	if u.own == nil || hash == u.Hash {
		return ""
	}

	if !semver.IsValid(version) || !semver.IsValid(u.Version) || semver.Compare(version, u.Version) <= 0 {
		return ""
	}
	return version
}

// Versions says which version is deployed, which one this tally is, and what tally deploy would do
// about it.
func (u *Upload) Versions(have *State) string {
	if len(have.Functions()) == 0 {
		return fmt.Sprintf("nothing is deployed; this tally is %s", orUnknown(u.Version))
	}

	version, hash := have.Built()
	text := fmt.Sprintf("the functions are %s, this tally is %s: ", orUnknown(version), orUnknown(u.Version))
	switch {
	case hash == u.Hash:
		return text + "their source is the same"
	case u.Replaces(have) != "":
		return text + "tally deploy would go back, and asks before it does"
	}
	return text + "tally deploy replaces them"
}
