package host

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"github.com/nodeless/nodeless/microvm/sandbox"
)

// Bridge returns the network of a state directory's microVMs; it requires root. The addresses are chosen once, so
// that they do not overlap this instance's, and stored.
func Bridge(dir string) (*sandbox.Bridge, error) {
	prefix, err := bridgePrefix(dir)
	if err != nil {
		return nil, err
	}
	return sandbox.NewBridge(bridgeName(dir), prefix)
}

// BridgeAt returns the network with the addresses assigned to a host, or an error if they overlap this instance's.
func BridgeAt(dir string, prefix netip.Prefix) (*sandbox.Bridge, error) {
	interfaces, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("addresses of this machine: %w", err)
	}
	for _, i := range interfaces {
		if strings.HasPrefix(i.Name, bridgeName(dir)) {
			continue
		}
		own, _ := i.Addrs() // fails if the interface is gone
		if overlapsAny(prefix, own) {
			return nil, fmt.Errorf("the addresses of this host's microVMs, %s, overlap those of this machine's interface %s; "+
				"remove the host (kubectl delete namespace nodeless-host-NAME) and register it again with other addresses "+
				"(nodeless host token NAME --pod-cidr CIDR)", prefix, i.Name)
		}
	}
	return sandbox.NewBridge(bridgeName(dir), prefix)
}

func overlapsAny(prefix netip.Prefix, own []net.Addr) bool {
	for _, a := range own {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Masked().Overlaps(prefix) {
			return true
		}
	}
	return false
}

func bridgeName(dir string) string { return "nl" + shortHash(dir) }

func bridgePrefix(dir string) (netip.Prefix, error) {
	file := filepath.Join(dir, "network")
	if kept, err := os.ReadFile(file); err == nil {
		prefix, err := netip.ParsePrefix(strings.TrimSpace(string(kept)))
		if err != nil {
			return prefix, fmt.Errorf("%s, the network of the microVMs: %w; remove the file when no pods run", file, err)
		}
		return prefix, nil
	}
	own, err := net.InterfaceAddrs()
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("addresses of this machine: %w", err)
	}
	prefix, err := freePrefix(dir, own)
	if err == nil {
		err = errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(file, []byte(prefix.String()+"\n"), 0o600))
	}
	return prefix, err
}

// freePrefix returns a block of 4,096 addresses within 10.202.0.0 to 10.249.255.255: the one derived from the
// directory, or the next one that overlaps none of this instance's networks.
func freePrefix(dir string, own []net.Addr) (netip.Prefix, error) {
	const blocks = 48 * 16
	b, _ := hex.DecodeString(shortHash(dir)) // always hexadecimal
	start := binary.BigEndian.Uint32(b)
	for i := range uint32(blocks) {
		n := (start + i) % blocks
		prefix := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(202 + n/16), byte(n % 16 * 16), 0}), 20)
		if !overlapsAny(prefix, own) {
			return prefix, nil
		}
	}
	return netip.Prefix{}, errors.New("this machine's networks leave no addresses for microVMs")
}
