package rulesfile

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Limits of what whole reads of one condition. Firestore evaluates no more than 1,000 expressions
// for a request, so few conditions that it takes are longer.
const (
	maxCalls     = 200
	maxArguments = 1 << 10  // bytes, of one call
	maxWhole     = 16 << 10 // bytes
)

// called matches the name of a function that a text calls, and bound a name that a function gives
// to a value. Strings are blank.
var (
	called = regexp.MustCompile(`\b(\w+)\s*\(`)
	bound  = regexp.MustCompile(`\blet\s+(\w+)\s*=([^;]*);`)
)

// whole returns a condition, and on lines of their own the bodies of all functions that it calls,
// and that these call. In the bodies, names of parameters and of values are replaced by what they
// stand for, so that a form of the condition is found however it is spread over functions.
func (b *block) whole(condition string) string {
	all, seen, calls := condition, make(map[string]bool), 0
	for todo := []string{condition}; len(todo) > 0; todo = todo[1:] {
		_, shape := blanked(todo[0])
		for _, at := range called.FindAllStringSubmatchIndex(shape, -1) {
			name := shape[at[2]:at[3]]
			f, known := b.function(name)
			if !known {
				continue
			}
			calls++
			if calls > maxCalls || len(all) > maxWhole {
				return all
			}

			arguments := arguments(todo[0][at[1]:], shape[at[1]:])
			call := name + "(" + strings.Join(arguments, ",")
			if !seen[call] {
				seen[call] = true
				body := f.with(arguments)
				all += "\n" + body
				todo = append(todo, body)
			}
		}
	}
	return all
}

// function returns the function that a condition of the block calls by a name.
func (b *block) function(name string) (f function, known bool) {
	for scope := b; scope != nil && !known; scope = scope.above {
		f, known = scope.functions[name]
	}
	return f, known
}

// builtIn are the functions that all rules have, and words that may stand before a parenthesis.
var builtIn = []string{
	"bool", "bytes", "debug", "exists", "existsAfter", "float", "get", "getAfter", "int", "path", "string",
	"in", "is", "return",
}

// ofItself matches the name of a function that a text calls. What stands before a method's name is
// in the first group. Strings are blank.
var ofItself = regexp.MustCompile(`(\.\s*)?\b([A-Za-z_]\w*)\s*\(`)

// undefined returns a sentence about each function that conditions call and that is not defined
// for them. Firestore takes such rules, and refuses the requests that need the function.
func (r *Rules) undefined() (all []string) {
	seen := make(map[string]bool)
	for _, b := range r.blocks {
		for _, a := range b.allows {
			_, shape := blanked(b.whole(a.condition))
			for _, call := range ofItself.FindAllStringSubmatch(shape, -1) {
				name := call[2]
				_, known := b.function(name)
				if known || call[1] != "" || seen[name] || slices.Contains(builtIn, name) {
					continue
				}
				seen[name] = true
				all = append(all, fmt.Sprintf("%d: this calls %s(), which these rules do not define, so it refuses requests: take the function along with the block (docs/recipes.md)", a.line, name))
			}
		}
	}
	return all
}

// arguments returns the arguments of the call whose opening parenthesis is before the text. shape
// is the text with blank strings.
func arguments(text, shape string) (all []string) {
	begin, open := 0, 1
	for i, c := range []byte(shape[:min(len(shape), maxArguments)]) {
		switch c {
		case '(', '[', '{':
			open++
		case ')', ']', '}':
			open--
		}
		if open == 0 || open == 1 && c == ',' {
			all = append(all, strings.TrimSpace(text[begin:i]))
			begin = i + 1
		}
		if open == 0 {
			break
		}
	}
	return all
}

// with returns the body of a call with these arguments.
func (f function) with(arguments []string) string {
	stand := make(map[string]string)
	for i, name := range f.parameters {
		if i < len(arguments) {
			stand[name] = arguments[i]
		}
	}

	body := replaced(f.body, stand)
	for {
		_, shape := blanked(body)
		at := bound.FindStringSubmatchIndex(shape)
		if at == nil || len(body) > maxWhole {
			return body
		}
		value := map[string]string{body[at[2]:at[3]]: strings.TrimSpace(body[at[4]:at[5]])}
		body = body[:at[0]] + replaced(body[at[1]:], value)
	}
}

// word matches a name. One behind a dot is that of a field.
var word = regexp.MustCompile(`\.?\s*\b[A-Za-z_]\w*`)

// replaced returns a text in which names are replaced by what they stand for.
func replaced(text string, stand map[string]string) string {
	_, shape := blanked(text)
	var b strings.Builder
	from := 0
	for _, at := range word.FindAllStringIndex(shape, -1) {
		name := strings.TrimSpace(shape[at[0]:at[1]])
		value, stands := stand[name]
		if !stands || b.Len() > maxWhole {
			continue
		}
		b.WriteString(text[from : at[1]-len(name)])
		b.WriteString(value)
		from = at[1]
	}
	b.WriteString(text[from:])
	return b.String()
}
