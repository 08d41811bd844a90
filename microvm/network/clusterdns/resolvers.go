package clusterdns

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/miekg/dns"
)

// Resolvers are the instance's own name servers.
type Resolvers struct {
	file  string       // a resolv.conf(5)
	own   []netip.Addr // the instance's own addresses, which must not be queried
	port  string       // 53 except in tests
	slots chan struct{}
}

// maxQueries is the number of concurrent queries; queryTimeout is the time for one server to answer.
const (
	maxQueries   = 512
	queryTimeout = 2 * time.Second
)

// NewResolvers returns the name servers in a file, which is read for each query, except those at own addresses.
func NewResolvers(file string, own ...netip.Addr) *Resolvers {
	return &Resolvers{file: file, own: own, port: "53", slots: make(chan struct{}, maxQueries)}
}

var (
	errNoServer = errors.New("there is no name server to ask")
	errBusy     = errors.New("too many queries are open")
)

// Ask forwards a query to one server after another, and returns the first answer unchanged.
func (r *Resolvers) Ask(ctx context.Context, query *dns.Msg, overTCP bool) (*dns.Msg, error) {
	select {
	case r.slots <- struct{}{}:
		defer func() { <-r.slots }()
	default:
		return nil, errBusy
	}
	c := dns.Client{Net: "udp", Timeout: queryTimeout, UDPSize: maxUDPSize}
	if overTCP {
		c.Net = "tcp"
	}
	failed := errNoServer
	for _, server := range r.Servers() {
		forwarded := query.Copy()
		forwarded.Id = dns.Id() // not the client's, which someone forging answers could have chosen
		answer, err := exchange(ctx, &c, forwarded, server)
		if err != nil {
			failed = err
			continue
		}
		answer.Id = query.Id
		return answer, nil
	}
	return nil, failed
}

// exchange queries one server. Unlike the client's own method, it also ends when ctx does.
func exchange(ctx context.Context, c *dns.Client, query *dns.Msg, server string) (*dns.Msg, error) {
	conn, err := c.DialContext(ctx, server)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	answer, _, err := c.ExchangeWithConnContext(ctx, query, conn)
	return answer, err
}

// Servers returns the name servers, as host:port.
func (r *Resolvers) Servers() []string {
	config, err := dns.ClientConfigFromFile(r.file)
	if err != nil {
		return nil
	}
	var servers []string
	for _, server := range config.Servers {
		if a, err := netip.ParseAddr(server); err == nil && !slices.Contains(r.own, a.Unmap()) {
			servers = append(servers, net.JoinHostPort(server, r.port))
		}
	}
	return servers
}
