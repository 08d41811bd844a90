package sandbox

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/nodeless/nodeless/internal/kit/osthread"
	"github.com/nodeless/nodeless/microvm/vmm"
	"github.com/nodeless/nodeless/microvm/wire"
)

// Pods see only the host, which forwards: they reach each other, and the host reaches them. Their devices vanish with
// their VMs.
func TestBridge(t *testing.T) { withEachDriver(t, reachEachOther) }

// A host without TUN has no bridge, and says why.
func TestHostWithoutTUN(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("a bridge needs root")
	}
	err := osthread.Run(func() error {
		if err := errors.Join(unix.Unshare(unix.CLONE_NEWNET|unix.CLONE_NEWNS),
			unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""),
			unix.Mount("tmpfs", "/dev/net", "tmpfs", 0, "")); err != nil {
			return err
		}
		_, err := NewBridge("nltest", netip.MustParsePrefix("10.213.78.0/24"))
		const want = "open /dev/net/tun: no such file or directory; load the kernel module"
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v", err)
		}
		if _, err := netlink.LinkByName("nltest"); err == nil {
			t.Error("the bridge is left")
		}
		return nil
	})
	if err != nil {
		t.Skip("no namespaces here:", err)
	}
}

func reachEachOther(t *testing.T, d vmm.Driver) {
	if os.Geteuid() != 0 {
		t.Skip("a bridge needs root")
	}
	b, err := NewBridge("nltest"+strconv.Itoa(os.Getpid()%10000), netip.MustParsePrefix("10.213.77.0/24"))
	if err != nil {
		t.Skip("no bridge can be made here:", err)
	}
	t.Cleanup(func() {
		left, _ := filepath.Glob("/sys/class/net/" + b.name + "-*")
		if err := b.Delete(); err != nil || len(left) > 0 {
			t.Error("taps left:", left, err)
		}
	})
	h := open(t, Config{Driver: d, Network: b})
	server := run(t, h, workload("server", wire.Pod{Containers: []wire.Container{
		container("main", "mkdir /www; echo hello > /www/index.html; httpd -f -p 8080 -h /www"),
	}}))
	s := await(t, server, "running", isRunning)
	client := run(t, h, workload("client", wire.Pod{Containers: []wire.Container{
		container("main", fmt.Sprintf("until wget -q -O - http://%s:8080/ 2>/dev/null; do sleep 0.5; done", s.Address)),
	}}))
	c := await(t, client, "the client's end", ended)
	if got := log(t, client, logOptions{Container: "main"}); got != "hello\n" || c.Pod.Containers[0].Exit.Code != 0 {
		t.Errorf("the client got %q: %+v", got, c)
	}
	if c.Address == s.Address || c.Address == "" {
		t.Errorf("addresses %s and %s", c.Address, s.Address)
	}
}
