package dashboard

import (
	"embed"
	"encoding/json"
	"html/template"
	"net/http"
	"time"

	"github.com/firestore-tally/tally/internal/tool/local/freeport"
)

//go:embed page
var pageFiles embed.FS

//go:embed page.html
var pageHTML string

// pageTemplate makes the page of a [state].
var pageTemplate = template.Must(template.New("page.html").Funcs(formats).Parse(pageHTML))

// policy lets the page load its own files and nothing else from anywhere.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// handler serves the page and what it asks for.
func (b *Board) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /page/", http.FileServerFS(pageFiles))
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		write(w, b.show(view{Sort: "rate", Down: true}, time.Now()))
	})
	mux.HandleFunc("GET /state", b.serveState)
	return guarded(mux)
}

// guarded serves the handler's answers with headers that keep other sites away, to requests that
// name this machine.
func guarded(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store") // the next run may be of another version

		if !freeport.IsHere(r.Host) {
			http.Error(w, "tally: this page answers only at localhost and 127.0.0.1", http.StatusForbidden)
			return
		}
		handler.ServeHTTP(w, r)
	})
}

// serveState answers with the page in the view that a page asks for.
func (b *Board) serveState(w http.ResponseWriter, r *http.Request) {
	// Another site could not read the answer, but its request may cost reads.
	site := r.Header.Get("Sec-Fetch-Site")
	if site != "" && site != "same-origin" && site != "none" {
		http.Error(w, "tally: only for the dashboard's own page", http.StatusForbidden)
		return
	}

	var v view
	err := json.Unmarshal([]byte(r.FormValue("view")), &v)
	if err != nil || v.column() < 0 || v.From < 0 {
		http.Error(w, "tally: this is no view of the page", http.StatusBadRequest)
		return
	}
	write(w, b.show(v, time.Now()))
}

// write answers with the page. An error means that the browser has gone away.
func write(w http.ResponseWriter, s *state) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_ = pageTemplate.Execute(w, s)
}
