package web

import (
	"net/http/httptest"
	"os"
	"strings"
	"testing"
)

// A browser is served the files as they are in the repository, with the types that it insists on.
func TestExample(t *testing.T) {
	handler := Example()
	for _, test := range []struct{ path, file, contentType string }{
		{"/", "example/index.html", "text/html"},
		{"/?user=alice", "example/index.html", "text/html"},
		{"/page.css", "example/page.css", "text/css"},
		{"/page.js", "example/page.js", "text/javascript"},
		{"/src/index.js", "src/index.js", "text/javascript"},
		{"/src/counter.js", "src/counter.js", "text/javascript"},
	} {
		want, err := os.ReadFile(test.file)
		if err != nil {
			t.Fatal(err)
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest("GET", test.path, nil))
		contentType := w.Header().Get("Content-Type")
		if w.Code != 200 || w.Body.String() != string(want) || !strings.HasPrefix(contentType, test.contentType) {
			t.Errorf("GET %s: status %d, %s, not %s as it is", test.path, w.Code, contentType, test.file)
		}
	}
	for _, path := range []string{"/page.html", "/src/index.d.ts", "/package.json", "/example/page.js"} {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		if w.Code != 404 {
			t.Errorf("GET %s: status %d, want 404", path, w.Code)
		}
	}
}
