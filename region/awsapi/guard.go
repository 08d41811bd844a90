package awsapi

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/nodeless/nodeless/internal/kit/httpguard"
)

// guard lets only loopback callers through that know they speak to loopback: a page in a browser, whose Origin is
// elsewhere, and a name that was rebound to 127.0.0.1 are refused. So is what another site makes a browser fetch
// without an Origin, such as an image: a GET can carry an action and credentials in its query.
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
