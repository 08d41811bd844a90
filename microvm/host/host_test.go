package host

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nodeless/nodeless/microvm/sandbox"
	"github.com/nodeless/nodeless/microvm/vmm"
	"github.com/nodeless/nodeless/microvm/wire"
)

// The kubelet API listens on every loopback address that stands for a microVM, on a port that is stored.
func TestALoopbackAddressForEachMicroVM(t *testing.T) {
	dir := t.TempDir()
	l, port, err := listenLocally(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []string{"127.0.0.1", "127.201.0.3", "127.249.255.254"} {
		conn, err := net.Dial("tcp", netip.AddrPortFrom(netip.MustParseAddr(at), port).String())
		if err != nil {
			t.Fatal(err)
		}
		here, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if got := here.LocalAddr().(*net.TCPAddr).AddrPort(); got.Addr().Unmap().String() != at || got.Port() != port {
			t.Errorf("a connection to %s came to %s", at, got)
		}
		_, _ = conn.Close(), here.Close()
	}
	own, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range own {
		p, err := netip.ParsePrefix(a.String())
		if err != nil || !p.Addr().Is4() || p.Addr().IsLoopback() {
			continue
		}
		if conn, err := net.Dial("tcp", netip.AddrPortFrom(p.Addr(), port).String()); err == nil {
			one := make([]byte, 1)
			if _, err := conn.Read(one); err == nil {
				t.Errorf("it answers at %s too", p.Addr())
			}
			_ = conn.Close()
		}
	}
	other, elsewhere, err := listenLocally(dir) // the port is in use
	if err != nil || elsewhere == port {
		t.Fatalf("port %d, %v", elsewhere, err)
	}
	_, _ = other.Close(), l.Close()
	if l, again, err := listenLocally(dir); err != nil || again != elsewhere {
		t.Errorf("port %d, %v; want %d, the last one", again, err, elsewhere)
	} else {
		_ = l.Close()
	}
}

func TestAddressesOfABridgeMeetNoneOfThisMachine(t *testing.T) {
	first, err := freePrefix("/some/where", nil)
	if err != nil || first.Bits() != 20 || !netip.MustParsePrefix("10.0.0.0/8").Overlaps(first) {
		t.Fatal(first, err)
	}
	taken := &net.IPNet{IP: first.Addr().Next().AsSlice(), Mask: net.CIDRMask(24, 32)}
	second, err := freePrefix("/some/where", []net.Addr{taken})
	if err != nil || second.Overlaps(first) {
		t.Errorf("%s is taken in part, got %s, %v", first, second, err)
	}
	all := &net.IPNet{IP: net.IPv4(10, 1, 1, 1).To4(), Mask: net.CIDRMask(8, 32)}
	if p, err := freePrefix("/some/where", []net.Addr{all}); err == nil {
		t.Errorf("all of 10.0.0.0/8 is taken, got %s", p)
	}
}

type never struct{ vmm.Driver }

func (never) Probe(context.Context) (vmm.Capabilities, error) {
	return vmm.Capabilities{}, vmm.ErrNoVMM
}

// Something that was missing may be installed while the host runs.
func TestADriverThatFailedIsMadeAgain(t *testing.T) {
	made := 0
	r := &retryingDriver{make: func() (vmm.Driver, error) {
		switch made++; made {
		case 1:
			return nil, vmm.ErrNoKernel
		case 2:
			return never{}, nil
		}
		return broken{}, nil
	}}
	for _, want := range []error{vmm.ErrNoKernel, vmm.ErrNoVMM, nil, nil} {
		if _, err := r.Probe(t.Context()); !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
	}
	if made != 3 {
		t.Errorf("made %d times, want 3: what works stays", made)
	}
}

func TestARecordThatCannotBeReadIsNamed(t *testing.T) {
	h := &Host{records: recordStore{t.TempDir()}, microVMs: map[string]*microVM{}}
	if err := os.MkdirAll(h.records.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	bad := filepath.Join(h.records.dir, "microvm-x.json")
	for _, content := range []string{"", "{", `{"ID": "another"}`, `{"ID": "microvm-x"}`} {
		if err := os.WriteFile(bad, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := h.loadRecords(); err == nil || !strings.Contains(err.Error(), bad) {
			t.Errorf("%q: %v", content, err)
		}
	}
}

func TestOnlyWhatFilesHoldIsContent(t *testing.T) {
	one := wire.Volume{Name: "v", Files: []wire.File{{Path: "a", Data: []byte("1")}}}
	same := wire.Volume{Name: "v", Projected: true, Files: []wire.File{{Path: "a", Data: []byte("1")}}}
	other := wire.Volume{Name: "v", Files: []wire.File{{Path: "a", Data: []byte("2")}}}
	if contentOf(one) != contentOf(same) || contentOf(one) == contentOf(other) {
		t.Error(contentOf(one), contentOf(same), contentOf(other))
	}
}

// A microVM that has ended uses nothing.
func TestOnlyARunningGuestIsMeasured(t *testing.T) {
	h := &Host{microVMs: map[string]*microVM{}}
	h.microVMs["one"] = &microVM{
		h: h, vm: &sandbox.VM{}, record: record{ID: "one"}, samples: [2]wire.Stats{{UnixNano: 1}, {UnixNano: 2, CPUNanos: 1}},
	}
	if s, err := h.Kubelet().Stats(t.Context(), h.node(h.microVMs["one"].record)); err == nil ||
		!strings.Contains(err.Error(), "microVM one does not run") {
		t.Errorf("%+v, %v", s, err)
	}
}

// A microVM is started when one of its pod's containers can run: the first init container or, without any, a regular one.
func TestWhenAPodCanBegin(t *testing.T) {
	held := &wire.Held{Reason: "ErrImagePull"}
	// The kinds of the containers are i(nit), s(idecar) and r(egular), in capitals if the container is held.
	for kinds, want := range map[string]bool{
		"r": true, "R": false, "Rr": true, "RR": false, "iR": true, "iIR": true, "Ir": false, "Sr": false, "sI": true,
		"Sir": false,
	} {
		var pod wire.Pod
		for _, k := range kinds {
			made := wire.Container{Kind: map[string]wire.ContainerKind{
				"i": wire.KindInit, "s": wire.KindSidecar, "r": wire.KindRegular,
			}[strings.ToLower(string(k))]}
			if k < 'a' {
				made.Held = held
			}
			pod.Containers = append(pod.Containers, made)
		}
		if got := canBegin(pod); got != want {
			t.Errorf("%s: %t", kinds, got)
		}
	}
}

// Limits are changed by a resize, and a container's history is of its first run only: neither is supplied.
func TestWhatIsSuppliedAgain(t *testing.T) {
	c := wire.Container{Name: "c", Env: []string{"A=1"}}
	same, other, held := c, c, c
	same.MemoryBytes, same.Earlier = 1, &wire.Earlier{Runs: 1}
	other.Env, held.Held = []string{"A=2"}, &wire.Held{}
	if suppliedOf(same) != suppliedOf(c) || suppliedOf(other) == suppliedOf(c) || suppliedOf(held) == suppliedOf(c) {
		t.Error(suppliedOf(c), suppliedOf(same), suppliedOf(other), suppliedOf(held))
	}
}

// A host looks again for what a container lacks only as long as that container waits for it.
func TestOnlyAContainerThatWaitsIsAwaited(t *testing.T) {
	for _, c := range []struct {
		s    wire.ContainerStatus
		want string
	}{
		{wire.ContainerStatus{Name: "c", Held: true, State: wire.Waiting}, "Running c"},
		{wire.ContainerStatus{Name: "c", Held: true, State: wire.Running}, "Running"},
		{wire.ContainerStatus{Name: "c", Held: true, State: wire.Terminated}, "Running"},
		{wire.ContainerStatus{Name: "c", State: wire.Waiting}, "Running"},
	} {
		s := sandbox.Status{Phase: sandbox.Running, Pod: wire.PodStatus{Containers: []wire.ContainerStatus{c.s}}}
		if got := owedTo(s); got != c.want {
			t.Errorf("%+v: %q, want %q", c.s, got, c.want)
		}
	}
}
