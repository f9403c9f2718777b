package roll

import (
	"github.com/firestore-tally/tally/internal/value"
	"github.com/firestore-tally/tally/rollup/route"
)

// The roll-ups of a template that says within have the ids of their paths in fields, too, so that
// queries go by them: docs/design/rules.md#labels.

// readLabels notes what stands in the fields of labels.
func (r *RollUp) readLabels(t *route.Template, fields map[string]any) {
	for _, name := range t.Labels() {
		text, isText := fields[name].(string)
		switch {
		case isText && r.Labels == nil:
			r.Labels = map[string]string{name: text}
		case isText:
			r.Labels[name] = text
		case !value.IsNothing(fields[name]):
			r.addForeign(name, value.KindOf(fields[name]))
		}
	}
}

// writtenLabels returns the labels that the look's roll-up is written with: those whose fields hold
// nothing of the app's.
func (l *Look) writtenLabels() map[string]string { return l.RollUp.labelsOf(l.Counter) }

// labelsOf returns the labels that a counter's roll-up should have, if it is r.
func (r RollUp) labelsOf(c route.Counter) map[string]string {
	labels := c.Labels()
	for name := range r.Foreign {
		delete(labels, name)
	}
	return labels
}

// Mislabeled reports whether the look's roll-up lacks one of its labels, or has a wrong one. A
// document that Tally never wrote needs none.
func (l *Look) Mislabeled() bool { return !l.AsOf.IsZero() && l.RollUp.Mislabeled(l.Counter) }

// Mislabeled reports whether a counter's roll-up lacks one of its labels, or has a wrong one.
func (r RollUp) Mislabeled(c route.Counter) bool {
	want := r.labelsOf(c)
	for name, id := range want {
		if r.Labels[name] != id {
			return true
		}
	}
	return false
}
