package freeport

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A web page can send texts and forms to any address, and have its own name lead here. Neither
// comes through, and no body without end.
func TestGuard(t *testing.T) {
	handler := Guard(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, err := io.Copy(io.Discard, r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
		}
	}), "application/json", 100)

	const small, large = 100, 101
	answer := func(method, host, contentType string, size int) int {
		r := httptest.NewRequest(method, "/", strings.NewReader(strings.Repeat("x", size)))
		r.Host = host
		r.Header.Set("Content-Type", contentType)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w.Code
	}
	for _, test := range []struct {
		host, contentType string
		size, want        int
	}{
		{"127.0.0.1:9499", "application/json", small, http.StatusOK},
		{"127.0.0.1", "application/json", small, http.StatusOK},
		{"LocalHost:9499", "application/json; charset=utf-8", small, http.StatusOK},
		{"[::1]:9499", "application/json ;charset=utf-8", small, http.StatusOK},
		{"[::1]", "application/json", small, http.StatusOK},
		{"127.0.0.1:9499", "application/json", large, http.StatusRequestEntityTooLarge},
		{"127.0.0.1:9499", "text/plain", small, http.StatusForbidden},
		{"127.0.0.1:9499", "text/plain; application/json", small, http.StatusForbidden},
		{"127.0.0.1:9499", "application/x-www-form-urlencoded", small, http.StatusForbidden},
		{"127.0.0.1:9499", "application/jsonp", small, http.StatusForbidden},
		{"127.0.0.1:9499", "", small, http.StatusForbidden},
		{"evil.example:9499", "application/json", small, http.StatusForbidden},
		{"localhost.evil.example:9499", "application/json", small, http.StatusForbidden},
		{"127.0.0.1.evil.example", "application/json", small, http.StatusForbidden},
		{"192.168.0.7:9499", "application/json", small, http.StatusForbidden},
		{"0.0.0.0:9499", "application/json", small, http.StatusForbidden},
		{"", "application/json", small, http.StatusForbidden},
	} {
		got := answer(http.MethodPost, test.host, test.contentType, test.size)
		if got != test.want {
			t.Errorf("%s, %q, %d bytes: %d, want %d", test.host, test.contentType, test.size, got, test.want)
		}
	}

	// What only reads has no body, and so no type.
	for host, want := range map[string]int{"127.0.0.1:9499": http.StatusOK, "evil.example:9499": http.StatusForbidden} {
		got := answer(http.MethodGet, host, "", 0)
		if got != want {
			t.Errorf("GET at %s: %d, want %d", host, got, want)
		}
	}
}
