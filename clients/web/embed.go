// Package web holds the web client and its example page. A browser loads the files as they are in
// the repository: nothing is built.
package web

import (
	"embed"
	"net/http"
	"path"
)

//go:embed src/*.js example/index.html example/page.css example/page.js
var files embed.FS

// Example serves the example page at / and the client at /src/. The page fetches config.json, which
// the caller serves. A browser takes the Firebase SDK from Google's CDN, as the page's import map
// says.
func Example() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /src/", http.FileServerFS(files))
	mux.HandleFunc("GET /", func(w http.ResponseWriter, r *http.Request) {
		http.ServeFileFS(w, r, files, path.Join("example", r.URL.Path))
	})
	return mux
}
