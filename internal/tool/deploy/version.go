package deploy

import (
	"fmt"
	"regexp"
	"strings"
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

// VersionLabel returns the version as the label's value.
func (u *Upload) VersionLabel() string {
	value := inLabel.Replace(u.Version)
	if fromLabel.Replace(value) != u.Version || !labelValue.MatchString(value) {
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

// Versions says which version is deployed, which one this tally is, and whether tally deploy would
// replace the functions.
func (u *Upload) Versions(p *Project) string {
	if len(p.Functions) == 0 {
		return fmt.Sprintf("nothing is deployed; this tally is %s", orUnknown(u.Version))
	}

	version, hash := p.Built()
	text := fmt.Sprintf("the functions are %s, this tally is %s: ", orUnknown(version), orUnknown(u.Version))
	if hash == u.Hash {
		return text + "their source is the same"
	}
	return text + "tally deploy replaces them"
}
