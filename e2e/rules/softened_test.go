package rules

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/firestore-tally/tally/internal/tool/rules"
	"github.com/firestore-tally/tally/rollup/route"
)

var (
	statement = regexp.MustCompile(`(?ms)^ +allow ([a-z, ]+): if (.*?);(?: //[^\n]*)?$`)
	decided   = regexp.MustCompile(`false(;?) // decide: who c(?:reates|hanges) [^\n]*`)
	comment   = regexp.MustCompile(` // decide: [^\n]*`)
)

// operands returns where each operand of an expression begins and ends: what an operator joins
// outside of parentheses and texts.
func operands(text, operator string) (found [][2]int) {
	depth, from, quoted := 0, 0, false
	for i := range len(text) {
		switch {
		case text[i] == '\'' && (i == 0 || text[i-1] != '\\'):
			quoted = !quoted
		case quoted:
		case strings.ContainsRune("([{", rune(text[i])):
			depth++
		case strings.ContainsRune(")]}", rune(text[i])):
			depth--
		case depth == 0 && from <= i && strings.HasPrefix(text[i:], operator):
			found, from = append(found, [2]int{from, i}), i+len(operator)
		}
	}
	return append(found, [2]int{from, len(text)})
}

// closes returns where the parenthesis ends in which a text begins.
func closes(text string) int {
	depth := 1
	for i, c := range text {
		switch c {
		case '(':
			depth++
		case ')':
			depth--
		}
		if depth == 0 {
			return i
		}
	}
	return -1
}

// conditions returns where the conditions of an expression stand, each of which the expression is
// softer without: what "&&" joins, in it, in the branches of a choice and in parentheses.
func conditions(text string) (found [][2]int) {
	within := func(from, to int) {
		inner := text[from:to]
		for _, c := range conditions(inner) {
			found = append(found, [2]int{from + c[0], from + c[1]})
		}
	}
	if choice := operands(text, " ? "); len(choice) == 2 {
		for _, branch := range operands(text[choice[1][0]:], " : ") {
			within(choice[1][0]+branch[0], choice[1][0]+branch[1])
		}
		return found
	}
	alternatives := operands(text, "||")
	for _, a := range alternatives {
		all := operands(text[a[0]:a[1]], "&&")
		for _, c := range all {
			operand := text[a[0]+c[0] : a[0]+c[1]]
			condition := strings.TrimSpace(operand)
			from := a[0] + c[0] + strings.Index(operand, condition)
			to := from + len(condition)
			if len(alternatives) == 1 || len(all) > 1 || condition == "false" {
				found = append(found, [2]int{from, to})
			}
			inner, isOpened := strings.CutPrefix(condition, "(")
			if isOpened && closes(inner) == len(inner)-1 {
				within(from+1, to-1)
			}
		}
	}
	return found
}

// A weakened text is rules that lack one condition.
type weakened struct {
	rules      string
	path       string // of the block; "": any
	operations string
	condition  string
	names      []string // that conditions of the kind are about
}

func (w weakened) String() string { return w.path + ": " + w.operations + ": " + w.condition }

// kind returns what the condition has in common with others: all but names.
func (w weakened) kind() string {
	return w.operations + ": " + inQuotes.ReplaceAllString(called.ReplaceAllString(w.condition, "$1("), "''")
}

// called matches the name of an id that a function checks.
var called = regexp.MustCompile(`\b(isId|isShard)\(\w+`)

// inQuotes matches a text in a condition.
var inQuotes = regexp.MustCompile(`'([^']+)'`)

// quotes returns the texts in a condition.
func quotes(condition string) (all []string) {
	for _, m := range inQuotes.FindAllStringSubmatch(condition, -1) {
		all = append(all, m[1])
	}
	return all
}

// need returns the requests that may need the condition: they are of the same path and operation,
// and not honest in a field that the condition names. First come those that name most of it.
func (w weakened) need(all []*probe) []*probe {
	// named counts the names in the condition that the field of a request has.
	named := func(p *probe) (n int) {
		for _, name := range w.names {
			if slices.Contains(p.field.Names(), name) {
				n++
			}
		}
		return n
	}

	var naming, others []*probe
	for _, p := range all {
		if w.path != "" && p.path != w.path || !w.isOf(p.operation) {
			continue
		}
		switch {
		case named(p) > 0:
			naming = append(naming, p)
		case p.field == "" || p.field == "x" && len(w.names) > 0:
			others = append(others, p)
		}
	}
	slices.SortStableFunc(naming, func(a, b *probe) int { return named(b) - named(a) })
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

var (
	opened   = regexp.MustCompile(`(?m)^    match /(.*) {$`)                                            // a block
	function = regexp.MustCompile(`(?ms)^ +function (\w+)\([^)]*\) \{\n(?:[^}]*?;\n)? +return (.*?);$`) // with what it returns
)

// weaken returns the rules without each of the conditions that the routes' blocks have, and the
// functions that they call if ofFunction names them.
func weaken(text string, ofFunction func(name string) bool) (all []weakened) {
	blocks, _, _ := strings.Cut(text, "// ---- What every list needs ----")
	soften := func(w weakened, from, to int) {
		for _, c := range conditions(text[from:to]) {
			w.condition = text[from+c[0] : from+c[1]]
			w.rules = text[:from+c[0]] + "true" + text[from+c[1]:]
			switch {
			case strings.HasPrefix(w.condition, "mayHold_"):
				w.names = quotes(blocks)
			case strings.HasPrefix(w.condition, "namesWriter"):
				w.names = []string{"by"}
			case w.path != "":
				w.names = quotes(w.condition)
			}
			all = append(all, w)
		}
	}

	for _, m := range statement.FindAllStringSubmatchIndex(blocks, -1) {
		above := opened.FindAllStringSubmatch(text[:m[0]], -1)
		w := weakened{path: nameless.ReplaceAllString(above[len(above)-1][1], "{}"), operations: text[m[2]:m[3]]}
		from, to := m[4], m[5]
		switch open := open.FindAllStringIndex(text[from:to], -1); {
		case len(open) == 1: // it alone can be noticed
			soften(w, from+open[0][0], from+open[0][1])
		case open == nil && text[from:to] != "true":
			soften(w, from, to)
		}
		for _, n := range numbers.FindAllStringSubmatchIndex(text[from:to], -1) {
			w.condition = text[from+n[0] : from+n[1]]
			w.rules = text[:from] + numbers.ReplaceAllString(text[from:to], "($1 in [$2, $3])") + text[to:]
			w.names = quotes(w.condition)
			all = append(all, w)
		}
	}
	for _, m := range function.FindAllStringSubmatchIndex(text, -1) {
		name := text[m[2]:m[3]]
		if !ofFunction(name) {
			continue
		}
		calls := strings.Join(regexp.MustCompile(`\b`+name+`\([^)]*\)`).FindAllString(blocks, -1), " ")
		if !strings.Contains(calls, "'") { // other functions do
			calls = blocks
		}
		soften(weakened{operations: name + ": create, update", names: quotes(calls)}, m[4], m[5])
	}
	return all
}

var (
	open    = regexp.MustCompile(`\bfalse\b|\bmayHold_\w+\(\)`)                                     // what a person must decide
	numbers = regexp.MustCompile(`\(([^()]*\([^()]*\)) == (-?[0-9.]+) \|\| [^|]* == (-?[0-9.]+)\)`) // one of two
)

// Each condition that tally init writes is needed: without it a request breaks the law. Where a
// person must decide who creates or changes documents, the answer here is that any user may, so the
// law rests on the other conditions alone. At night each condition is tried under all routes that
// make one of its kind.
func TestEachCondition(t *testing.T) {
	t.Parallel()
	var tried sync.Map // kinds of conditions
	for name, set := range conditionRoutes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			routes, err := route.Parse(set.routes)
			if err != nil {
				t.Fatal(err)
			}
			text := rules.For(firestoreRules(t), routes, rules.Answers{})
			for _, m := range function.FindAllStringSubmatch(text, -1) {
				isOfSet := func(of conditionSet) bool { return slices.Contains(of.functions, m[1]) }
				if !strings.HasPrefix(m[1], "mayHold_") && !strings.Contains(firestoreRules(t), "function "+m[1]+"(") &&
					!slices.ContainsFunc(slices.Collect(maps.Values(conditionRoutes)), isOfSet) {
					t.Errorf("no set softens the function %s", m[1])
				}
			}
			text = decided.ReplaceAllString(text, "mayWrite()$1")
			text = comment.ReplaceAllString(text, "")
			text = replaced(t, text, "return request.auth != null;\n", rulesCode(t)["To change"][0]) // no anonymous users
			l := law{routes: routes, answered: true}

			w := newWorld(t, text, l, *lawSeed)
			plan := w.plan()
			ofFunction := func(name string) bool {
				return strings.HasPrefix(name, "mayHold_") || slices.Contains(set.functions, name)
			}
			weak := weaken(text, ofFunction)
			var attacks []*probe // of which each succeeds without one of the conditions
			for _, weak := range weak {
				_, isTried := tried.LoadOrStore(weak.kind(), true)
				if isTried && !*lawAll {
					continue
				}
				w.setRules(weak.rules)
				attack, _ := w.probes(weak.need(plan))
				if attack == nil {
					t.Errorf("no attack needs %s", weak)
					continue
				}
				attacks = append(attacks, attack)
			}
			w.setRules(text)
			if attack, why := w.probes(attacks); attack != nil {
				t.Errorf("with every condition: %s\n%s", why, text)
			}
			t.Logf("%d of %d conditions", len(attacks), len(weak))
		})
	}
}

// A conditionSet is routes, and the functions of which every condition is softened under them.
type conditionSet struct {
	routes    string
	functions []string
}

// conditionRoutes are routes that make every kind of condition.
var conditionRoutes = map[string]conditionSet{
	"karma": {
		"posts/{post}/likes/{user} -> posts/{post} : count() as likes : existing; posts/{post} by author -> users/{author} : sum(likes) as karma : existing",
		[]string{"isUncounted", "lacks", "leaves", "keepsInt"},
	},
	"likes that trend": {
		"posts/{post}/likes/{user} -> posts/{post} : count() as likes : existing; posts/{post}/likes/{user} -> charts/{post} : count() where m.at > now - 1h as given : existing",
		[]string{"isNow"},
	},
	"comments": {
		"articles/{article}/comments/{comment} -> articles/{article} : count() where approved == true as comments, latest(at) where approved == true as last : existing",
		[]string{"namesWriter", "isEmpty"},
	},
	"orders": {routes: "orders/{order} by shop -> shops/{shop} : count() as orders : existing; orders/{order} by buyer -> buyers/{buyer} : count() where at > now - 30d as recent : existing"},
	"shards": {"posts/{post}/shards/{shard} -> post_totals/{post} : likes, views", []string{"isKept"}},
	"states": {routes: "items/{item} -> totals/items : count() where kind in [\"x\", \"y\"] as x, count() where n > 2 as y, count() where a == true and b == 2 as z, count() where s in [2, 3] as w"},
	"days":   {"orders/{order} by buyer, day(at) -> buyers/{buyer}/days/{day} : count() as orders : within buyers/{buyer}", []string{"isDated"}},
	"stays":  {routes: "stays/{stay} by month(startsAt) -> months/{month} : count() as stays : within"},
	"seats":  {routes: "halls/{hall}/seats/{user} by table -> halls/{hall}/tables/{table} : count() where paid == true as paid : existing"},
	"reviews": {
		"shops/{shop}/reviews/{review} -> shops/{shop} : count() as reviews, average(stars) as rating : existing", []string{"isLeft"},
	},
	"follows":    {routes: "follows/{follow} by followed -> users/{followed} : count() as followers : existing"},
	"references": {routes: "a/{user} by ref(shop) -> shops/{shop} : count() as n : existing; b/{x} by number(store) -> stores/{store} : count() as m : existing"},
	"bookings":   {routes: "rooms/{room}/bookings/{booking} -> rooms/{room} : count() where startsAt > now - 1h as booked : existing"},
	"messages":   {routes: "users/{user}/messages/{message} -> users/{user} : count() where read == false as unread : existing"},
	"members":    {routes: "teams/{team}/members/{member} -> teams/{team} : count() where active == true as members : existing"},
	"across parents": {
		routes: "posts/{post}/comments/{comment} by author -> users/{author} : count() as comments : existing; posts/{post}/comments/{comment}/comments/{reply} -> posts/{post}/comments/{comment} : count() as replies : existing",
	},
	"totals of totals": {
		routes: "posts/{post}/likes/{user} -> posts/{post} : count() as likes : existing; posts/{post} by shop -> shops/{shop} : sum(likes) as likes : existing",
	},
}
