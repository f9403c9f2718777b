package mistakes

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Each kind of mistake that package route finds has a sentence, and each sentence, remedy and habit
// has a kind. A kind is the text that a call of mistake, wrong, add, field or name gives, or that a
// broken token has.
func TestKinds(t *testing.T) {
	files, err := filepath.Glob("../../../rollup/route/*.go")
	if err != nil {
		t.Fatal(err)
	}
	kinds := make(map[string]bool)
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			for _, kind := range kindsOf(n) {
				text, err := strconv.Unquote(kind.Value)
				if err != nil {
					t.Fatal(err)
				}
				kinds[text] = true
			}
			return true
		})
	}

	for kind := range kinds {
		if sentences[kind] == "" {
			t.Errorf("no sentence for %q", kind)
		}
	}
	others := slices.Collect(maps.Keys(sentences))
	others = slices.AppendSeq(others, maps.Keys(remedies))
	others = slices.AppendSeq(others, maps.Keys(words))
	others = append(others, noNames...)
	for _, h := range habits {
		others = append(others, h.kinds...)
	}
	for _, kind := range others {
		if !kinds[kind] {
			t.Errorf("package route finds no %q", kind)
		}
	}
}

// The tests say each kind, so each sentence fits the values that package route gives.
func TestEachKindIsSaid(t *testing.T) {
	said := make(map[string]bool)
	for _, routes := range examples(t, refusedFile) {
		_, err := Parse(routes)
		for _, m := range in(err) {
			said[m.Kind] = true
			if strings.Contains(sentence(m), "%!") {
				t.Errorf("%s: %s", routes, sentence(m))
			}
		}
	}
	for kind := range sentences {
		if !said[kind] {
			t.Errorf("no test says %q", kind)
		}
	}
}

// Wherever a route breaks off, or lacks a character, something is said of it.
func TestBrokenRoutes(t *testing.T) {
	for _, test := range placed {
		for i, r := range test.routes[:min(len(test.routes), 120)] {
			for _, routes := range []string{test.routes[:i], test.routes[:i] + test.routes[i+len(string(r)):]} {
				checkSentences(t, routes)
			}
		}
	}
}

// kindsOf returns the kinds of mistakes that a node gives.
func kindsOf(n ast.Node) (kinds []*ast.BasicLit) {
	switch n := n.(type) {
	case *ast.CallExpr:
		method, ok := n.Fun.(*ast.SelectorExpr)
		at, is := map[string]int{"mistake": 1, "add": 1, "wrong": 0, "field": 0, "name": 0}[nameOf(method, ok)]
		if is && len(n.Args) > at {
			kinds = append(kinds, literal(n.Args[at])...)
		}
	case *ast.CompositeLit: // a broken token
		if name, ok := n.Type.(*ast.Ident); ok && name.Name == "Token" && len(n.Elts) == 2 {
			kind, text := n.Elts[0].(*ast.KeyValueExpr), n.Elts[1].(*ast.KeyValueExpr)
			if name, ok := kind.Value.(*ast.Ident); ok && name.Name == "Broken" {
				kinds = append(kinds, literal(text.Value)...)
			}
		}
	}
	return kinds
}

func nameOf(method *ast.SelectorExpr, ok bool) string {
	if !ok {
		return ""
	}
	return method.Sel.Name
}

// literal returns an expression if it is a text.
func literal(e ast.Expr) []*ast.BasicLit {
	if text, ok := e.(*ast.BasicLit); ok && text.Kind == token.STRING {
		return []*ast.BasicLit{text}
	}
	return nil
}
