package scheduler

import (
	"encoding/binary"
	"net/netip"
)

// Kubelets say where a host serves the kubelet APIs of its microVMs if it is another machine than the API server: at its own address, at a port for each
// that follows from the microVM's address. Nothing is to be remembered, and both sides work it out alike.
type Kubelets struct {
	Host      netip.Addr
	FirstPort uint16       // of the first address of Pods
	Pods      netip.Prefix // the addresses of the host's microVMs, IPv4
}

// At is where the kubelet API of the microVM with an address is.
func (k Kubelets) At(microVM netip.Addr) netip.AddrPort {
	if !microVM.Is4() || !k.Pods.Contains(microVM) {
		return netip.AddrPort{}
	}
	is, first := microVM.As4(), k.Pods.Masked().Addr().As4()
	n := binary.BigEndian.Uint32(is[:]) - binary.BigEndian.Uint32(first[:])
	return netip.AddrPortFrom(k.Host, k.FirstPort+uint16(n))
}
