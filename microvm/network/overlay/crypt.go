package overlay

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	"golang.zx2c4.com/wireguard/conn"
	"golang.zx2c4.com/wireguard/device"
	"golang.zx2c4.com/wireguard/tun"
	"golang.zx2c4.com/wireguard/wgctrl"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"
)

// crypt encrypts the packets that an interface sends and decrypts those that arrive for it.
type crypt interface {
	configure(wgtypes.Config) error
	peers() ([]Key, error)
	Close() error
}

// createLink creates the interface, which is down: WireGuard's if the kernel has it, else one to encrypt for.
func createLink(name string) error {
	attributes := netlink.NewLinkAttrs()
	attributes.Name = name
	err := netlink.LinkAdd(&netlink.Wireguard{LinkAttrs: attributes})
	if !errors.Is(err, unix.EOPNOTSUPP) {
		return err
	}
	return netlink.LinkAdd(&netlink.Tuntap{
		LinkAttrs: attributes, Mode: netlink.TUNTAP_MODE_TUN, Flags: netlink.TUNTAP_NO_PI | netlink.TUNTAP_VNET_HDR,
	})
}

// newCrypt starts encrypting for an interface that createLink created.
func newCrypt(link netlink.Link, mtu int) (crypt, error) {
	name := link.Attrs().Name
	if link.Type() == (&netlink.Wireguard{}).Type() {
		client, err := wgctrl.New()
		return kernelCrypt{client, name}, err
	}
	packets, err := tun.CreateTUN(name, mtu)
	if err != nil {
		return nil, err
	}
	quiet := &device.Logger{Verbosef: device.DiscardLogf, Errorf: device.DiscardLogf} // relevant errors are returned
	return processCrypt{device.NewDevice(packets, conn.NewDefaultBind(), quiet)}, nil
}

// kernelCrypt is the kernel's WireGuard.
type kernelCrypt struct {
	client *wgctrl.Client
	name   string
}

func (k kernelCrypt) configure(c wgtypes.Config) error { return k.client.ConfigureDevice(k.name, c) }
func (k kernelCrypt) Close() error                     { return k.client.Close() }

func (k kernelCrypt) peers() (keys []Key, err error) {
	d, err := k.client.Device(k.name)
	if err != nil {
		return nil, err
	}
	for i := range d.Peers {
		keys = append(keys, d.Peers[i].PublicKey)
	}
	return keys, nil
}

// processCrypt is WireGuard in this process.
type processCrypt struct{ device *device.Device }

// configure speaks the device's configuration protocol (https://www.wireguard.com/xplatform/).
func (p processCrypt) configure(c wgtypes.Config) error {
	var b strings.Builder
	if c.PrivateKey != nil {
		fmt.Fprintf(&b, "private_key=%x\n", c.PrivateKey[:])
	}
	if c.ListenPort != nil {
		fmt.Fprintf(&b, "listen_port=%d\n", *c.ListenPort)
	}
	for _, peer := range c.Peers {
		fmt.Fprintf(&b, "public_key=%x\n", peer.PublicKey[:])
		if peer.Remove {
			b.WriteString("remove=true\n")
			continue
		}
		if peer.Endpoint != nil {
			fmt.Fprintf(&b, "endpoint=%s\n", peer.Endpoint)
		}
		b.WriteString("replace_allowed_ips=true\n")
		for _, pods := range peer.AllowedIPs {
			fmt.Fprintf(&b, "allowed_ip=%s\n", &pods)
		}
	}
	if err := p.device.IpcSet(b.String()); err != nil {
		return err
	}
	return p.device.Up()
}

func (p processCrypt) peers() (keys []Key, err error) {
	now, err := p.device.IpcGet()
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(now) {
		if text, ok := strings.CutPrefix(strings.TrimSpace(line), "public_key="); ok {
			b, err := hex.DecodeString(text)
			if err != nil {
				return nil, err
			}
			keys = append(keys, Key(b))
		}
	}
	return keys, nil
}

func (p processCrypt) Close() error {
	p.device.Close()
	return nil
}
