package deploy

import (
	"fmt"
	"time"
)

// Versions says whether the deployed functions are of this tally's source.
func (u *Upload) Versions(p *Project) string {
	switch {
	case len(p.Functions) == 0:
		return "nothing is deployed; this tally is " + orUnknown(u.Version)
	case p.Functions[0].Get("labels."+sourceLabel) == u.Hash:
		return "the functions have the source of this tally, " + orUnknown(u.Version)
	}
	return "the functions' source differs from that of this tally, " + orUnknown(u.Version) + ": tally deploy replaces them"
}

// notice is how long before a runtime is deprecated Deprecated says so. Google tells as early.
const notice = 90 * 24 * time.Hour

// Deprecated returns what to say of the deployed functions' version of Go at a time; "" if it is
// not deprecated, and is not about to be.
func (p *Project) Deprecated(now time.Time) string {
	if len(p.Functions) == 0 {
		return ""
	}
	runtime := p.Functions[0].Get("buildConfig.runtime")
	at, err := time.Parse(time.DateOnly, known().Runtimes[runtime])
	if err != nil || at.Sub(now) > notice {
		return ""
	}
	return fmt.Sprintf("Google deprecates the functions' runtime %s on %s: a newer tally deploys a newer one", runtime, at.Format(time.DateOnly))
}
