package awsapi

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/nodeless/nodeless/internal/kit/httpguard"
)

// guard admits only callers that address loopback. It refuses pages of other origins in a browser, names rebound to
// 127.0.0.1, and requests that another site makes a browser send without an Origin, such as for an image: the query
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

// loopbackHost reports whether host, with or without a port, names loopback. By RFC 6761, so do names below
// localhost, on which clients rely that put the service or queue into the host name.
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
