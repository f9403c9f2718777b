package rulesfile

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/rollup/route"
)

// Forms of conditions on an update. Strings are blank in a text that they are sought in.
var (
	// lists matches a condition that lists or counts all fields of the document, and not only those
	// that change. Fields of a map in it are not all of them.
	lists = regexp.MustCompile(`\bresource\s*\.\s*data\s*(?:` +
		`\.\s*keys\s*\(\s*\)\s*(?:\.\s*(?:hasOnly|size|toSet|removeAll)\b|==|!=)` +
		`|\.\s*size\s*\(` +
		`|==\s*\{)` +
		`|\bhas(?:All|Only)\s*\(\s*(?:request\s*\.\s*)?resource\s*\.\s*data\s*\.\s*keys\s*\(`)

	// changing matches the beginning of a list of the fields that may change.
	changing = regexp.MustCompile(`\b(?:affected|changed)Keys\s*\(\s*\)\s*(?:\.\s*hasOnly\s*\(|==)\s*\[`)
)

// updates returns the statements about updates that do not go together with a template's documents,
// once these have totals: those that refuse every update then, and those that let users change a
// total.
func (r *Rules) updates(t *route.Template) (all []Finding) {
	fields := append([]string{document.TallyField}, t.Totals()...)
	for _, b := range r.blocks {
		if !meet(b.path, segmentsIn(t.Segments())) {
			continue
		}
		for _, a := range b.allows {
			if !a.allows("update") {
				continue
			}

			condition := b.whole(a.condition)
			_, shape := blanked(condition)
			if lists.MatchString(shape) && slices.ContainsFunc(fields, func(f string) bool { return !names(condition, f) }) {
				all = append(all, Finding{t, true, a.line, fmt.Sprintf("%d: this lists or counts the fields of %s on update, and Tally adds %s: from the first roll-up on it refuses every edit. "+
					"Name the fields that may change instead: request.resource.data.diff(resource.data).affectedKeys().hasOnly([…])", a.line, t, strings.Join(fields, ", "))})
			}
			open := slices.DeleteFunc(t.Totals(), func(total string) bool { return !changes(condition, shape, total) })
			if len(open) > 0 {
				all = append(all, Finding{t, false, a.line, fmt.Sprintf("%d: this lets users change %s of %s, and only Tally may: a user makes up a total, which stays until the next roll-up", a.line, strings.Join(open, ", "), t)})
			}
		}
	}
	return all
}

// names reports whether a text has a field's name as a string.
func names(text, field string) bool {
	return strings.Contains(text, "'"+field+"'") || strings.Contains(text, `"`+field+`"`)
}

// changes reports whether a condition lets users change a total: it lists the total with the fields
// that may change and does not keep its value, or it compares the value with the former one and
// some more or less.
func changes(condition, shape, total string) bool {
	field := `resource\s*\.\s*data\s*\.\s*` + regexp.QuoteMeta(total) + `\b\s*`
	comparison := regexp.MustCompile(`\brequest\s*\.\s*` + field + `(?:==|<=?|>=?)\s*` + field + `([-+]?)`)
	kept := false
	for _, found := range comparison.FindAllStringSubmatch(condition, -1) {
		if found[1] != "" {
			return true
		}
		kept = true
	}

	for _, at := range changing.FindAllStringIndex(shape, -1) {
		list, _, _ := strings.Cut(shape[at[1]:], "]")
		if !kept && names(condition[at[1]:at[1]+len(list)], total) {
			return true
		}
	}
	return false
}
