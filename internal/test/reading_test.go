package test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// longestWithoutParagraph is how many lines a function may have without an empty one. A reader sees
// the steps of a longer one by its paragraphs.
const longestWithoutParagraph = 30

// longestComment is how many columns a line of a comment may have; a tab is one.
const longestComment = 100

// TestReading holds what no linter does, of all Go but tests: a long function has paragraphs, and
// what happens stands in a line of its own, not in the header of an if, a switch or a loop. The
// comments of tests, too, wrap in time.
func TestReading(t *testing.T) {
	files := token.NewFileSet()
	err := filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == "node_modules" || entry.Name() == "testdata" || entry.Name() == ".git"):
			return fs.SkipDir
		case !strings.HasSuffix(name, ".go"):
			return nil
		}

		source, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(files, name, source, parser.SkipObjectResolution)
		if err != nil {
			return err
		}

		r := reading{files: files, lines: strings.Split(string(source), "\n")}
		r.comments(name)
		if !strings.HasSuffix(name, "_test.go") {
			ast.Inspect(file, r.read)
		}
		for _, problem := range r.problems {
			t.Error(problem)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// plain are the folders and pages that TestWords and TestSentences read.
var plain = []string{
	"CHANGELOG.md", "CONTRIBUTING.md", "README.md", "SECURITY.md",
	"clients", "cmd", "docs", "e2e", "examples", "internal", "npm", "rollup", "shards",
}

// stilted are words that are not plain American English, as regular expressions, and words to write
// instead. A space stands for any space, also between two lines of a comment.
var stilted = []struct{ words, instead string }{
	{"spelt", "spelled, written"},
	{"(?-i:[Nn]obody)", "no one; or name who it is"},
	{"anew", "again, from the start"},
	{"beside", "next to, in addition to"},
	{"whoever", "anyone who; or name who it is"},
	{"(tells?|told|telling) of", "describes, is about"},
	{"but for", "except for, except in"},
	{"for ever", "forever"},
	{"(is|are|was|were) no (failure|finite|drift)", "is not a, does not count as"},
	{"(it|that|which|value|field) (is|are|was|were) no (number|error|text|string|total)s?", "is not a"},
	{"of no known", "of an unknown"},
	{"one must know", "you need to know"},
	{"mend|mends|mended|mending", "fix, repair"},
	{"(is|are|was|were) to be", "should be, must be, will be; or a verb"},
	{"afterwards", "afterward"},
	{"(it|that|which|a (call|counter|query|scan|sum)) bills", "costs; Firestore bills"},
	{"whilst|amongst", "while, among"},
	{"(behaviour|colour|honour|neighbour)(s|ed|ing)?|favour(s|ed|ing)?|licence|centre|catalogue|cancell(ed|ing)|(labell|modell|travell)(ed|ing)", "its American spelling"},
	{"(author|custom|initial|maxim|minim|normal|organ|priorit|recogn|serial|summar)is(e|es|ed|ing|ation)", "its American spelling, with z"},
	{"amiss|lest|thereof|whence|wherein", "plain words"},
}

// TestWords reads Go and Markdown for words that are not plain American English.
func TestWords(t *testing.T) {
	patterns := make([]*regexp.Regexp, len(stilted))
	for i, s := range stilted {
		patterns[i] = regexp.MustCompile(`(?i)\b(` + strings.ReplaceAll(s.words, " ", `[\s/]+`) + `)\b`)
	}

	const own = "internal/test/reading_test.go" // it has the words
	wanted := func(name string) bool {
		return name != own && (filepath.Ext(name) == ".go" || filepath.Ext(name) == ".md")
	}
	readPlain(t, wanted, func(name string) error {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		for i, pattern := range patterns {
			for _, at := range pattern.FindAllIndex(text, -1) {
				line := 1 + bytes.Count(text[:at[0]], []byte("\n"))
				t.Errorf("%s:%d: instead of %q write: %s", name, line, text[at[0]:at[1]], stilted[i].instead)
			}
		}
		return nil
	})
}

// readPlain calls read for the files of plain that are wanted.
func readPlain(t *testing.T, wanted func(name string) bool, read func(name string) error) {
	t.Helper()
	for _, root := range plain {
		err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case entry.IsDir() && (entry.Name() == "node_modules" || entry.Name() == "testdata"):
				return fs.SkipDir
			case !wanted(name):
				return nil
			}
			return read(name)
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// headless finds sentences without a subject, such as "What fails is tried again".
var headless = regexp.MustCompile(`(?m)(?:^|[.!?:] |\| )((?:What|That which|All that)[ \n][^.?!|]*[.!])(?:\s|\||$)`)

// notSaid is code, a heading, or the bold words that begin a paragraph as a heading does.
var notSaid = regexp.MustCompile("(?ms)^ *```.*?^ *```$|^#[^\n]*$|^    [^\n]*$|\\*\\*[^*\n]*\\*\\*")

// TestSentences reads pages, and the texts in the code that users see: no sentence begins with
// What, except for questions.
func TestSentences(t *testing.T) {
	wanted := func(name string) bool {
		return filepath.Ext(name) == ".md" || filepath.Ext(name) == ".go" && !strings.HasSuffix(name, "_test.go")
	}
	readPlain(t, wanted, func(name string) error {
		texts, err := textsOf(name)
		if err != nil {
			return err
		}
		for _, text := range texts {
			for _, found := range headless.FindAllStringSubmatch(text, -1) {
				t.Errorf("%s: begin with the subject: %s", name, found[1])
			}
		}
		return nil
	})
}

// textsOf returns what users read of a file: a page, or the string literals of Go.
func textsOf(name string) (texts []string, err error) {
	source, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	if filepath.Ext(name) == ".md" {
		return []string{notSaid.ReplaceAllString(string(source), "")}, nil
	}

	file, err := parser.ParseFile(token.NewFileSet(), name, source, parser.SkipObjectResolution|parser.ParseComments)
	if err != nil {
		return nil, err
	}
	if file.Doc != nil {
		texts = append(texts, file.Doc.Text())
	}
	ast.Inspect(file, func(n ast.Node) bool {
		literal, ok := n.(*ast.BasicLit)
		if ok && literal.Kind == token.STRING {
			texts = append(texts, strings.Trim(literal.Value, "\"`"))
		}
		return true
	})
	return texts, nil
}

// A reading is of one file.
type reading struct {
	files    *token.FileSet
	lines    []string
	problems []string
}

func (r *reading) report(n ast.Node, format string, args ...any) {
	r.problems = append(r.problems, fmt.Sprintf("%v: %s", r.files.Position(n.Pos()), fmt.Sprintf(format, args...)))
}

// line returns the number of a line.
func (r *reading) line(p token.Pos) int { return r.files.Position(p).Line }

// prose is a line of a comment that is neither code nor an address.
var prose = regexp.MustCompile(`^\t*// +[^\t ].*$`)

func (r *reading) comments(file string) {
	for n, line := range r.lines {
		long := utf8.RuneCountInString(line) > longestComment
		if long && prose.MatchString(line) && !strings.Contains(line, "https://") {
			r.problems = append(r.problems, fmt.Sprintf("%s:%d: this comment is longer than %d columns", file, n+1, longestComment))
		}
	}
}

func (r *reading) read(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.FuncDecl:
		r.paragraphs(n)
	case *ast.IfStmt:
		r.header(n, n.Init, n.Cond)
	case *ast.SwitchStmt:
		r.header(n, n.Init, n.Tag)
	case *ast.ForStmt:
		if init, ok := n.Init.(*ast.AssignStmt); ok && isBool(init.Rhs[0]) {
			r.report(n, "this loop counts by a bool; do its first turn before it")
		}
	case *ast.IndexExpr:
		if literal, ok := n.X.(*ast.CompositeLit); ok {
			if m, ok := literal.Type.(*ast.MapType); ok && fmt.Sprint(m.Key) == "bool" {
				r.report(n, "this chooses by a map of bool; use an if")
			}
		}
	}
	return true
}

// paragraphs wants an empty line in a long function.
func (r *reading) paragraphs(f *ast.FuncDecl) {
	if f.Body == nil {
		return
	}

	first, last := r.line(f.Pos()), r.line(f.End())
	if last-first < longestWithoutParagraph {
		return
	}
	for _, line := range r.lines[first:last] {
		if strings.TrimSpace(line) == "" {
			return
		}
	}
	r.report(f, "%s has %d lines and no paragraph", f.Name.Name, last-first+1)
}

// header wants neither an assignment to what lives longer nor a function of several lines in a
// header.
func (r *reading) header(n ast.Node, init ast.Stmt, tag ast.Expr) {
	if assign, ok := init.(*ast.AssignStmt); ok && assign.Tok != token.DEFINE {
		r.report(n, "its header changes a variable; do so in a line before")
	}

	for _, part := range []ast.Node{init, tag} {
		if part == nil {
			continue
		}
		ast.Inspect(part, func(inner ast.Node) bool {
			if f, ok := inner.(*ast.FuncLit); ok && r.line(f.Pos()) != r.line(f.End()) {
				r.report(n, "its header has a function of several lines in it; give that a name before")
			}
			return true
		})
	}
}

func isBool(e ast.Expr) bool {
	name, ok := e.(*ast.Ident)
	return ok && (name.Name == "true" || name.Name == "false")
}
