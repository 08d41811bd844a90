package network

import (
	"context"
	"errors"
	"net"
	"time"
)

// dialLimit is how long a connection may take to be made.
const dialLimit = 10 * time.Second

// DialContext connects to an address from this machine. Names are the cluster's or, where there is no network or no
// such name, the machine's own.
func (n *Net) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	own := net.Dialer{Timeout: dialLimit}
	select {
	case <-n.ready:
	default:
		return own.DialContext(ctx, network, address)
	}
	if n.dns == nil {
		return own.DialContext(ctx, network, address)
	}
	ask := func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, n.dns.At().String())
	}
	d := net.Dialer{Timeout: dialLimit, Resolver: &net.Resolver{PreferGo: true, Dial: ask}}
	conn, err := d.DialContext(ctx, network, address)
	var unknown *net.DNSError
	if errors.As(err, &unknown) {
		return own.DialContext(ctx, network, address)
	}
	return conn, err
}
