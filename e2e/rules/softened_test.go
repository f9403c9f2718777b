package rules

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/firestore-tally/tally/internal/tool/rules"
	"github.com/firestore-tally/tally/rollup/route"
)

var (
	statement = regexp.MustCompile(`(?ms)^ +allow ([a-z, ]+): if (.*?);(?: //[^\n]*)?$`)
	decided   = regexp.MustCompile(`false(;?) // decide: who c(?:reates|hanges) [^\n]*`)
	comment   = regexp.MustCompile(` // decide: [^\n]*`)
)

// conjuncts returns where each condition of a statement begins and ends: what " && " joins outside
// of parentheses.
func conjuncts(text string) (found [][2]int) {
	depth, from := 0, 0
	for i := range len(text) {
		switch {
		case strings.ContainsRune("([{", rune(text[i])):
			depth++
		case strings.ContainsRune(")]}", rune(text[i])):
			depth--
		case depth == 0 && strings.HasPrefix(text[i:], "&&"):
			found, from = append(found, [2]int{from, i}), i+2
		}
	}
	return append(found, [2]int{from, len(text)})
}

// A weakened text is rules that lack one condition.
type weakened struct{ rules, path, operations, lacks string }

// inQuotes matches a text in a condition.
var inQuotes = regexp.MustCompile(`'([^']+)'`)

// need returns the requests that may need the condition: they are of the same path and operation,
// and not honest in a field that the condition names. First come those that name most of it.
func (w weakened) need(all []probe) []probe {
	condition := w.lacks[strings.LastIndex(w.lacks, ": ")+2:]
	isID := !strings.Contains(w.lacks, "request.") && strings.Contains(w.lacks, " != ")
	names := inQuotes.FindAllStringSubmatch(w.lacks, -1)

	// named counts the names in the condition that the field of a request has.
	named := func(p probe) (n int) {
		for _, m := range names {
			if slices.Contains(p.field.Names(), m[1]) {
				n++
			}
		}
		return n
	}

	var naming, others []probe
	for _, p := range all {
		if p.path != w.path || !w.isOf(p.operation) {
			continue
		}
		switch {
		case named(p) > 0:
			naming = append(naming, p)
		case p.field == "by" && strings.HasPrefix(condition, "namesWriter"):
			naming = append(naming, p)
		case p.field == "" || isID || p.field == "x" && len(names) > 0:
			others = append(others, p)
		}
	}
	slices.SortStableFunc(naming, func(a, b probe) int { return named(b) - named(a) })
	return append(naming, others...)
}

// isOf reports whether the condition is one of an operation.
func (w weakened) isOf(operation string) bool {
	if operation == "write" {
		operation = "create"
		if strings.Contains(w.operations, "update") {
			operation = "update"
		}
	}
	return strings.Contains(w.operations, operation)
}

// opened matches the line that begins a block.
var opened = regexp.MustCompile(`(?m)^    match /(.*) {$`)

// weaken returns the rules without each of the conditions that the routes' blocks have.
func weaken(rules string) (all []weakened) {
	blocks, _, _ := strings.Cut(rules, "// ---- What every list needs ----")
	for _, m := range statement.FindAllStringSubmatchIndex(blocks, -1) {
		operations, text := rules[m[2]:m[3]], rules[m[4]:m[5]]
		if strings.HasSuffix(text, "false") || strings.Contains(text, "false\n") {
			continue // an undecided one refuses everything
		}
		above := opened.FindAllStringSubmatch(rules[:m[0]], -1)
		path := nameless.ReplaceAllString(above[len(above)-1][1], "{}")
		for _, c := range conjuncts(text) {
			condition := strings.TrimSpace(text[c[0]:c[1]])
			if condition == "true" || condition == "false" {
				continue
			}
			without := text[:c[0]] + " true " + text[c[1]:]
			all = append(all, weakened{rules[:m[4]] + without + rules[m[5]:], path, operations, path + ": " + operations + ": " + condition})
		}
	}
	return all
}

// Each condition that tally init writes is needed: without it a request breaks the law. Where a
// person must decide who creates or changes documents, the answer here is that any user may, so the
// law rests on the other conditions alone.
func TestEachCondition(t *testing.T) {
	t.Parallel()
	for name, text := range conditionRoutes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			routes, err := route.Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			text := rules.For(firestoreRules(t), routes, rules.Answers{})
			text = decided.ReplaceAllString(text, "mayWrite()$1")
			text = comment.ReplaceAllString(text, "")
			text = replaced(t, text, "return request.auth != null;\n", rulesCode(t)["To change"][0]) // no anonymous users
			l := law{routes: routes, answered: true}

			w := newWorld(t, text, l, *lawSeed)
			why, refused := w.probes(w.plan())
			if why != "" {
				t.Fatalf("with every condition: %s\n%s", why, text)
			}
			weak := weaken(text)
			for _, weak := range weak {
				w.setRules(weak.rules)
				why, _ := w.probes(weak.need(refused))
				if why == "" {
					t.Errorf("no attack needs %s", weak.lacks)
				}
			}
			t.Logf("%d conditions", len(weak))
		})
	}
}

// conditionRoutes are routes that make every kind of condition.
var conditionRoutes = map[string]string{
	"karma":            "posts/{post}/likes/{user} -> posts/{post} : count() as likes : existing; posts/{post} by author -> users/{author} : sum(likes) as karma : existing",
	"likes that trend": "posts/{post}/likes/{user} -> posts/{post} : count() as likes : existing; posts/{post}/likes/{user} -> charts/{post} : count() where m.at > now - 1h as given : existing",
	"comments":         "articles/{article}/comments/{comment} -> articles/{article} : count() where approved == true as comments, latest(at) where approved == true as last : existing",
	"orders":           "orders/{order} by shop -> shops/{shop} : count() as orders : existing; orders/{order} by buyer -> buyers/{buyer} : count() where at > now - 30d as recent : existing",
	"shards":           "posts/{post}/shards/{shard} -> post_totals/{post} : likes, views",
	"states":           "items/{item} -> totals/items : count() where kind in [\"x\", \"y\"] as x, count() where n > 2 as y, count() where a == true and b == 1 as z",
}
