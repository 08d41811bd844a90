package clusterdns

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/miekg/dns"
)

// Resolvers are the machine's own name servers.
type Resolvers struct {
	// File as resolv.conf(5): it is read again when it has changed.
	File string
	// Not are addresses not to ask: one's own, in whatever form.
	Not []netip.Addr

	port  string // 53, but in tests
	slots chan struct{}
	mu    sync.Mutex
	read  time.Time // the file's modification time
	found []string
}

// How many questions may be open at the same time, and how long one may take with one name server.
const (
	mostOpen = 512
	patience = 2 * time.Second
)

// NewResolvers are those of a file.
func NewResolvers(file string, not ...netip.Addr) *Resolvers {
	return &Resolvers{File: file, Not: not, port: "53", slots: make(chan struct{}, mostOpen)}
}

var (
	errNobody = errors.New("there is no name server to ask")
	errBusy   = errors.New("too many questions are open")
)

// Ask passes a question on, to one name server after the other until one answers, and gives the answer as it is.
func (r *Resolvers) Ask(ctx context.Context, question *dns.Msg, overTCP bool) (*dns.Msg, error) {
	select {
	case r.slots <- struct{}{}:
		defer func() { <-r.slots }()
	default:
		return nil, errBusy
	}
	c := dns.Client{Net: "udp", Timeout: patience, UDPSize: largest}
	if overTCP {
		c.Net = "tcp"
	}
	failed := errNobody
	for _, server := range r.Servers() {
		asked := question.Copy()
		asked.Id = dns.Id() // not the asker's choice: who forges answers must guess it
		answer, err := exchange(ctx, &c, asked, server)
		if err != nil {
			failed = err
			continue
		}
		answer.Id = question.Id
		return answer, nil
	}
	return nil, failed
}

// exchange asks one name server. It ends when ctx does.
func exchange(ctx context.Context, c *dns.Client, question *dns.Msg, server string) (*dns.Msg, error) {
	conn, err := c.DialContext(ctx, server)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	answer, _, err := c.ExchangeWithConnContext(ctx, question, conn)
	return answer, err
}

// Servers are the name servers, as host:port.
func (r *Resolvers) Servers() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	info, err := os.Stat(r.File)
	if err != nil || info.ModTime().Equal(r.read) {
		return r.found
	}
	config, err := dns.ClientConfigFromFile(r.File)
	if err != nil {
		return r.found
	}
	r.read, r.found = info.ModTime(), nil
	for _, server := range config.Servers {
		if a, err := netip.ParseAddr(server); err == nil && !r.own(a) {
			r.found = append(r.found, net.JoinHostPort(server, r.port))
		}
	}
	return r.found
}

func (r *Resolvers) own(a netip.Addr) bool {
	for _, not := range r.Not {
		if a.Unmap() == not {
			return true
		}
	}
	return false
}
