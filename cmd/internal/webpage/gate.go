package webpage

import (
	"context"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/spf13/pflag"

	"github.com/nodeless/nodeless/controller/rbac"
	"github.com/nodeless/nodeless/internal/kit/clock"
	"github.com/nodeless/nodeless/view"
	"github.com/nodeless/nodeless/view/access"
	"github.com/nodeless/nodeless/view/web"
)

// GateFlags configure how a page is served to people on other machines.
type GateFlags struct{ cert, key string }

// Add declares the flags, with a prefix before their names.
func (g *GateFlags) Add(f *pflag.FlagSet, prefix string) {
	f.StringVar(&g.cert, prefix+"tls-cert", "",
		"PEM file with the page's TLS certificate (default on non-loopback addresses: a self-signed one, whose "+
			"fingerprint is printed)")
	f.StringVar(&g.key, prefix+"tls-key", "", "PEM file with the certificate's key")
}

// Listen opens an address. On a loopback address without a certificate, the page has one token of its own; otherwise
// people log in with theirs, and gated is true.
func (g *GateFlags) Listen(ctx context.Context, address string, asked bool) (l net.Listener, gated bool, err error) {
	if web.Check(address) == nil && g.cert == "" && g.key == "" {
		l, err = Listen(ctx, address, asked)
		return l, false, err
	}
	if _, _, err := net.SplitHostPort(address); err != nil {
		return nil, false, web.Check(address)
	}
	l, err = web.ListenAnywhere(ctx, address)
	return l, true, err
}

// gate returns a Gate that admits whoever the page's own cluster knows.
func (p *Page) gate(ctx context.Context, l net.Listener, m *view.Model) (*web.Gate, error) {
	config, fingerprint, err := access.Certificate(p.Certificate.cert, p.Certificate.key, l.Addr().String(), time.Now())
	if err != nil {
		return nil, err
	}
	r, err := access.New(p.Cluster.REST, clock.Real{}, m.Namespaces, rbac.ViewRules())
	if err != nil {
		return nil, err
	}
	if err := r.Check(ctx); err != nil {
		return nil, err
	}
	p.Said("the page asks for a bearer token of the cluster and shows what its owner may list; SHA-256 fingerprint of " +
		"its certificate: " + fingerprint)
	return &web.Gate{TLS: config, Review: r.Review}, nil
}

// GatedURL returns the address of a listener as others may reach it.
func GatedURL(l net.Listener) string {
	host, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		return "https://" + l.Addr().String() + "/"
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		if name, err := os.Hostname(); err == nil {
			host = name
		}
	}
	return fmt.Sprintf("https://%s/", net.JoinHostPort(host, port))
}
