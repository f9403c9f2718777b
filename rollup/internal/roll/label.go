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
func (l *Look) writtenLabels() map[string]string {
	labels := l.Counter.Labels()
	for name := range l.RollUp.Foreign {
		delete(labels, name)
	}
	return labels
}

// Mislabeled reports whether the look's roll-up lacks one of its labels, or has a wrong one. A
// document that Tally never wrote needs none.
func (l *Look) Mislabeled() bool {
	if l.AsOf.IsZero() {
		return false
	}
	for name, id := range l.writtenLabels() {
		if l.RollUp.Labels[name] != id {
			return true
		}
	}
	return false
}
