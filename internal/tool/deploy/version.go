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
func (p *Project) Built() (version, hash string) {
	if len(p.Functions) == 0 {
		return "", ""
	}
	version = fromLabel.Replace(p.Functions[0].Get("labels." + versionLabel))
	if version == noVersion {
		version = ""
	}
	return version, p.Functions[0].Get("labels." + sourceLabel)
}

// Replaces returns the version of the deployed functions if they are newer than the source, and ""
// if they are not, or are built from the same files.
func (u *Upload) Replaces(p *Project) string {
	version, hash := p.Built()
	isNewer := semver.IsValid(version) && semver.IsValid(u.Version) && semver.Compare(version, u.Version) > 0
	if hash == u.Hash || !isNewer {
		return ""
	}
	return version
}

// Versions says which version is deployed, which one this tally is, and what tally deploy would do
// about it.
func (u *Upload) Versions(p *Project) string {
	if len(p.Functions) == 0 {
		return fmt.Sprintf("nothing is deployed; this tally is %s", orUnknown(u.Version))
	}

	version, hash := p.Built()
	text := fmt.Sprintf("the functions are %s, this tally is %s: ", orUnknown(version), orUnknown(u.Version))
	switch {
	case hash == u.Hash:
		return text + "their source is the same"
	case u.Replaces(p) != "":
		return text + "tally deploy would go back, and asks before it does"
	}
	return text + "tally deploy replaces them"
}
