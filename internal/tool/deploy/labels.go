package deploy

import (
	"path"
	"strings"
)

// How Tally marks its resources. Functions, triggers, alerts and channels get labels. One that can
// have no label mostly gets the description madeBy; unmarked has the others.
const (
	purposeLabel = "tally"        // its purpose
	madeByLabel  = "tally-deploy" // its maker
	sourceLabel  = "tally-source" // of functions: which source
	madeBy       = "Made by tally deploy"
)

// ours reports whether the resource is of Tally, no matter which tool made it.
func ours(o Object) bool {
	return o.Get("labels."+purposeLabel) != "" || o.Get("userLabels."+purposeLabel) != ""
}

// made reports whether tally deploy made the resource.
func made(o Object) bool {
	return o.Get("labels."+madeByLabel) != "" || o.Get("userLabels."+madeByLabel) != "" || o.Get("description") == madeBy
}

// unmarked reports whether the resource is Tally's by its name alone, because its kind has no room
// for the mark that made looks for.
func unmarked(k *Kind, o Object) bool {
	switch k {
	case Dashboard:
		return dashboardKey(o) == "Tally"
	case Metric:
		name := path.Base(o.name())
		return strings.Contains(monitoringText, `"metric" (list . "`+name+`"`) || strings.Contains(monitoringText, `/metrics/`+name+`"`)
	}
	return false
}
