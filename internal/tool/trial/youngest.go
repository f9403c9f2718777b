package trial

import (
	"path"
	"slices"
	"time"
)

// settling is how long after its creation a part of the deployment may not work yet. A trigger
// takes up to two minutes, and may deliver nothing of what was written before. A role takes up to
// seven (https://cloud.google.com/iam/docs/access-change-propagation), and then the events that
// were refused meanwhile come again.
const settling = 10 * time.Minute

// youngest returns which of the triggers and functions was made or changed last, and when; zero if
// that is not known. Nothing tells when an account was given a role, but a deployment changes a
// function, too.
func (d *Deployment) youngest() (name string, at time.Time) {
	for _, part := range slices.Concat(d.on.Functions, d.triggers) {
		for _, field := range []string{"createTime", "updateTime"} {
			t, err := time.Parse(time.RFC3339, part.Get(field))
			if err == nil && t.After(at) {
				name, at = path.Base(part.Get("name")), t
			}
		}
	}
	return name, at
}
