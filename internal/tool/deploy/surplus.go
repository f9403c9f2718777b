package deploy

import (
	"fmt"
	"strings"
)

// Surplus returns the steps that delete what Tally has too much of: resources that call the
// functions or were made for them, and that the description does not want. lost has those for
// triggers of documents that no route has: after them the functions may change only when the last
// events of these triggers have ended. Nothing has to wait for the others.
func (d *Description) Surplus(have *State) (lost, others Plan) {
	for _, k := range []*Kind{Trigger, Job, Function, Repository} {
		for _, o := range have.have[k] {
			if d.wants(k, o.name()) {
				continue
			}

			if k == Trigger && d.losesDocuments(o) {
				lost.remove(k, o, d.whySurplus(k, o, have))
				continue
			}
			if reason := d.whySurplus(k, o, have); reason != "" {
				others.remove(k, o, reason)
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
	database, pattern := filter(trigger, "database"), filter(trigger, "document")
	return callsOnWrite(trigger) && (d.routeOf(pattern) == nil || !d.serves(database))
}

// whySurplus returns why a resource is too much that the description does not want; "" if it does
// not belong to Tally.
func (d *Description) whySurplus(k *Kind, o Object, have *State) string {
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

// whySurplusTrigger returns why a trigger that calls RollUpOnWrite, and is not in the description,
// is too much.
func (d *Description) whySurplusTrigger(trigger Object) string {
	database, pattern := filter(trigger, "database"), filter(trigger, "document")
	if d.losesDocuments(trigger) {
		return fmt.Sprintf("no route has the documents %s of database %s", pattern, database)
	}

	t := d.routeOf(pattern).Template
	if t.Scheduled() {
		return fmt.Sprintf("the schedule keeps %s every %v, and each event is billed for nothing", pattern, t.Every)
	}
	return fmt.Sprintf("another has the documents %s of database %s, and their events come twice", pattern, database)
}

// remove adds the step that deletes what the project has.
func (p *Plan) remove(k *Kind, o Object, reasons ...string) {
	p.add(Step{Does: Delete, Of: k, Name: o.name(), Title: "delete " + k.Noun + " " + k.labelOf(o), Reasons: reasons})
}
