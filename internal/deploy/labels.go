package deploy

import "slices"

// Labels of functions, triggers, alerts and channels, of which Terraform gives the first too, and
// the description of what tally deploy made and cannot label.
const (
	purposeLabel = "tally"        // its purpose
	madeByLabel  = "tally-deploy" // its maker
	sourceLabel  = "tally-source" // of functions: which source
	madeBy       = "Made by tally deploy"
)

// ours reports whether tally deploy or its Terraform made the resource.
func ours(o Object) bool {
	return o.Get("labels."+purposeLabel) != "" || o.Get("userLabels."+purposeLabel) != ""
}

// made reports whether tally deploy made the resource.
func made(o Object) bool {
	return o.Get("labels."+madeByLabel) != "" || o.Get("userLabels."+madeByLabel) != "" || o.Get("description") == madeBy
}

// unmarked reports whether the resource is Tally's by its name alone, because its kind has no room for
// the mark that made looks for.
func unmarked(k Kind, o Object) bool {
	switch k {
	case Dashboard:
		return k.key(o) == dashboardName
	case Metric:
		return slices.ContainsFunc(logMetrics, func(m logMetric) bool { return m.name == o.name() })
	}
	return false
}
