package freeport

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// Guard has a handler answer programs of this machine alone: requests to an address of this
// machine ([IsHere]), with bodies of the media type contentType that are no larger than most. A
// web page of any site can have a browser send requests to this machine, but of no such type
// without asking first, and not under a name of this machine if the site's own name leads here. It
// can also have it GET, which changes nothing, and whose answer the page may not read.
func Guard(handler http.Handler, contentType string, most int64) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
		typed := r.Method == http.MethodGet || strings.TrimSpace(sent) == contentType
		if !IsHere(r.Host) || !typed {
			http.Error(w, "want a request of "+contentType+" to an address of this machine", http.StatusForbidden)
			return
		}
		http.MaxBytesHandler(handler, most).ServeHTTP(w, r)
	})
}

// IsHere reports whether the host of a request, with or without a port, names this machine and no
// other. If another site has its own name lead here (DNS rebinding), the host is that name.
func IsHere(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = strings.Trim(host, "[]")
	}
	addr, err := netip.ParseAddr(name)
	return strings.EqualFold(name, "localhost") || err == nil && addr.IsLoopback()
}
