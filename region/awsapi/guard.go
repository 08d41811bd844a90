package awsapi

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/nodeless/nodeless/internal/kit/httpguard"
)

// guard admits only loopback callers that address loopback. It refuses pages of other origins in a browser, names that
// were rebound to 127.0.0.1, and what another site makes a browser fetch without an Origin, such as an image: the query
// of a GET can carry an action and credentials.
func guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if !loopbackHost(req.Host) {
			http.Error(w, "the simulated region answers on loopback only: use 127.0.0.1 or localhost as the host",
				http.StatusForbidden)
			return
		}
		for _, origin := range req.Header.Values("Origin") {
			if u, err := url.Parse(origin); err != nil || !loopbackHost(u.Host) {
				http.Error(w, "the simulated region refuses cross-site requests", http.StatusForbidden)
				return
			}
		}
		if httpguard.ForeignSite(req) {
			http.Error(w, "the simulated region refuses cross-site requests", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, req)
	})
}

// loopbackHost reports whether host, with or without a port, names loopback. Names below localhost are loopback
// by RFC 6761, which clients that put the service or queue into the host name rely on.
func loopbackHost(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.Trim(name, "[]")
	if name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return true
	}
	addr, err := netip.ParseAddr(name)
	return err == nil && addr.IsLoopback()
}
