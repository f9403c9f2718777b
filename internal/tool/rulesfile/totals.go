package rulesfile

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/rollup/route"
)

// Forms of conditions. All except told are sought in a text whose strings are blank.
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

	// after matches what a condition reads of the document as it is written: a field, whose name is
	// followed by no parenthesis, or anything else.
	after = regexp.MustCompile(`\brequest\s*\.\s*resource\b(?:\s*\.\s*data\s*\.\s*(\w+)\b\s*(\(?))?`)

	// told matches a condition that tells users apart by another document, or names them.
	told = regexp.MustCompile(`\b(?:get|exists)(?:After)?\s*\(\s*/|\bauth\s*\.\s*uid\s*(?:==|in)\s*['"[]`)
)

// written returns the statements about writes that do not go together with a template's documents.
// Once these have totals, some refuse every update. Others let users write a total.
func (r *Rules) written(t *route.Template) (all []Finding) {
	for _, b := range r.blocks {
		if !meet(b.path, segmentsIn(t.Segments())) {
			continue
		}
		for _, a := range b.allows {
			condition := b.whole(a.condition)
			_, shape := blanked(condition)
			if t.Existing && a.allows("update") {
				all = append(all, a.locks(t, condition, shape)...)
				all = append(all, a.opens(t, condition, shape)...)
			}
			if !t.Existing && slices.ContainsFunc(writeMethods, a.allows) && a.ofUsers(condition) {
				all = append(all, Finding{t, false, a.line, fmt.Sprintf("%d: this lets users write %s, and only Tally may: a user makes up a total, which stays until the next roll-up", a.line, t)})
			}
		}
	}
	return all
}

// ofUsers reports whether a statement lets users in whom neither a claim of their token, nor
// another document, nor the rules themselves tell apart. Other users may be administrators.
func (a allow) ofUsers(condition string) bool {
	return a.condition != "false" && !claim.MatchString(condition) && !told.MatchString(condition)
}

// locks finds that a statement refuses every update of a document with totals.
func (a allow) locks(t *route.Template, condition, shape string) []Finding {
	fields := append([]string{document.TallyField}, t.Totals()...)
	missing := func(f string) bool { return !names(condition, f) }
	if !lists.MatchString(shape) || !slices.ContainsFunc(fields, missing) {
		return nil
	}
	return []Finding{{t, true, a.line, fmt.Sprintf("%d: this lists or counts the fields of %s on update, and Tally adds %s: from the first roll-up on it refuses every edit. "+
		"Name the fields that may change instead: request.resource.data.diff(resource.data).affectedKeys().hasOnly([…])", a.line, t, strings.Join(fields, ", "))}}
}

// opens finds that a statement lets users change totals of a document.
func (a allow) opens(t *route.Template, condition, shape string) []Finding {
	open := slices.DeleteFunc(t.Totals(), func(total string) bool {
		return !changes(condition, shape, total) && (!a.ofUsers(condition) || reads(shape, total))
	})
	if len(open) == 0 {
		return nil
	}
	return []Finding{{t, false, a.line, fmt.Sprintf("%d: this lets users change %s of %s, and only Tally may: a user makes up a total, which stays until the next roll-up. "+
		"Name the fields that may change: request.resource.data.diff(resource.data).affectedKeys().hasOnly([…])", a.line, strings.Join(open, ", "), t)}}
}

// reads reports whether a condition looks at a total of the document as it is written, or at more
// than single fields of it.
func reads(shape, total string) bool {
	return slices.ContainsFunc(after.FindAllStringSubmatch(shape, -1), func(found []string) bool {
		return found[1] == "" || found[2] != "" || found[1] == total
	})
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
