package sandbox

import (
	"fmt"
	"net/netip"
	"sync"

	"github.com/nodeless/nodeless/microvm/wire"
)

// places are the addresses of a prefix that machines may have.
type places struct {
	prefix  netip.Prefix
	gateway netip.Addr
	first   netip.Addr // that a machine may have

	mu    sync.Mutex
	taken map[netip.Addr]bool
	last  netip.Addr // that was taken
}

func newPlaces(prefix netip.Prefix, gateway, first netip.Addr) places {
	return places{prefix: prefix, gateway: gateway, first: first, taken: map[netip.Addr]bool{}, last: first.Prev()}
}

// take goes round, so that an address that was just given back rests for a while.
func (p *places) take() (wire.Network, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	a := p.last
	for range 1 << (32 - p.prefix.Bits()) {
		if a = a.Next(); !p.prefix.Contains(a.Next()) { // the last one is for broadcasts
			a = p.first
		}
		if p.taken[a] {
			continue
		}
		p.taken[a], p.last = true, a
		ip := a.As4()
		return wire.Network{
			Address: netip.PrefixFrom(a, p.prefix.Bits()).String(), Gateway: p.gateway.String(),
			// follows from the address: as unique as that
			MAC: fmt.Sprintf("02:00:%02x:%02x:%02x:%02x", ip[0], ip[1], ip[2], ip[3]),
		}, nil
	}
	return wire.Network{}, fmt.Errorf("all addresses of %s are taken", p.prefix)
}

// Keep marks an address as taken.
func (p *places) Keep(n wire.Network) {
	if a, err := netip.ParseAddr(addressOf(n)); err == nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.taken[a] = true
	}
}

// Release gives an address back.
func (p *places) Release(n wire.Network) {
	if a, err := netip.ParseAddr(addressOf(n)); err == nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.taken, a)
	}
}
