package deploy

import (
	"fmt"
	"strings"
)

// Surplus returns the commands that delete what Tally has too much of: what triggers or calls the
// functions, or was made for them, and is not in the description. Those of lost are for triggers of
// documents that no route has; the others can go without a pause.
func (d *Description) Surplus(have *State) (lost, others Plan) {
	for _, k := range []Kind{Trigger, Job, Function, Repository} {
		for _, o := range have.have[k] {
			if d.wants(k, o.name()) {
				continue
			}

			if k == Trigger && d.losesDocuments(o) {
				lost.remove(d.Project, k, o, d.whySurplus(k, o, have))
				continue
			}
			if reason := d.whySurplus(k, o, have); reason != "" {
				others.remove(d.Project, k, o, reason)
			}
		}
	}
	return lost, others
}

// callsOnWrite reports whether the trigger calls RollUpOnWrite.
func callsOnWrite(trigger Object) bool {
	return trigger.Get("destination.cloudRun.service") == OnWriteName
}

// losesDocuments reports whether no route has the documents of a trigger that calls RollUpOnWrite.
func (d *Description) losesDocuments(trigger Object) bool {
	database, pattern := trigger.Get("eventFilters.database"), trigger.Get("eventFilters.document")
	return callsOnWrite(trigger) && (d.routeOf(pattern) == nil || !d.serves(database))
}

// whySurplus returns why a resource that is not in the description is too much; "" if it is none of
// Tally's.
func (d *Description) whySurplus(k Kind, o Object, have *State) string {
	uri := d.uri(have)
	elsewhere := fmt.Sprintf("it is in %s, and the functions are not", segment(o.name(), "locations"))

	switch {
	case k == Trigger && callsOnWrite(o):
		return d.whySurplusTrigger(o)
	case k == Job && uri != "" && strings.HasPrefix(o.Get("httpTarget.uri"), uri):
		return "it calls RollUpOnSchedule too, and each call audits"
	case k == Job && made(o), k == Function && ours(o), k == Repository && made(o):
		return elsewhere
	}
	return ""
}

// whySurplusTrigger returns why a trigger that calls RollUpOnWrite, and is not in the description, is
// too much.
func (d *Description) whySurplusTrigger(trigger Object) string {
	database, pattern := trigger.Get("eventFilters.database"), trigger.Get("eventFilters.document")
	if d.losesDocuments(trigger) {
		return fmt.Sprintf("no route has the documents %s of database %s", pattern, database)
	}

	t := d.routeOf(pattern).Template
	if t.Scheduled() {
		return fmt.Sprintf("the schedule keeps %s every %v, and each event is billed for nothing", pattern, t.Every)
	}
	return fmt.Sprintf("another has the documents %s of database %s, and their events come twice", pattern, database)
}
