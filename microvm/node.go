package microvm

import (
	"encoding/binary"
	"net/netip"
	"strings"
)

// HostLabel names the host of a microVM on its NodeClaim and Node.
const HostLabel = "nodeless.sh/host"

// NodeName returns the name of the Node of a microVM with an address, as Fargate names it.
func NodeName(ip netip.Addr, region string) string {
	name := "fargate-ip-" + strings.NewReplacer(".", "-", ":", "-").Replace(ip.StringExpanded())
	switch region {
	case "":
		return name
	case "us-east-1":
		return name + ".ec2.internal"
	}
	return name + "." + region + ".compute.internal"
}

// JoinedNodeName returns the name of the Node of a microVM on a host that has joined the cluster. It depends on nothing but
// the address, so that the names as which a host may act are known in advance (package rbac).
func JoinedNodeName(ip netip.Addr) string { return NodeName(ip, "") }

// KubeletEndpoints says where a host that is not the API server's instance serves the kubelet APIs of its microVMs: at its own
// address, each at a port that follows from the microVM's address. Host and controller compute it alike and store nothing.
type KubeletEndpoints struct {
	Host      netip.Addr
	FirstPort uint16       // of the first address in Pods
	Pods      netip.Prefix // the IPv4 addresses of the host's microVMs
}

// At returns the endpoint of the microVM with an address, or the zero value if the address is not one of Pods.
func (k KubeletEndpoints) At(microVM netip.Addr) netip.AddrPort {
	if !microVM.Is4() || !k.Pods.Contains(microVM) {
		return netip.AddrPort{}
	}
	address, first := microVM.As4(), k.Pods.Masked().Addr().As4()
	n := binary.BigEndian.Uint32(address[:]) - binary.BigEndian.Uint32(first[:])
	return netip.AddrPortFrom(k.Host, k.FirstPort+uint16(n))
}
