package kubelet

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// fixed holds fixed nodes and pods.
type fixed struct {
	hosts map[string]netip.Addr
	pods  map[string]*corev1.Pod
}

func (f fixed) Host(name string) (string, netip.Addr, error) {
	if name == "ended" {
		return "", netip.Addr{}, errors.New("the simulated instance of node ended does not run")
	}
	ip, ok := f.hosts[name]
	if !ok {
		name = ""
	}
	return name, ip, nil
}

func (f fixed) Pod(_, name string) (*corev1.Pod, bool) {
	pod, ok := f.pods[name]
	return pod, ok
}

func (fixed) Pods(string) []*corev1.Pod { return nil }

func TestConnectionsToSimulatedNodesAreToldApartAndOthersTakeTheHostsNetwork(t *testing.T) {
	n := NewNetwork()
	defer n.Close()
	n.join(fixed{hosts: map[string]netip.Addr{"a": netip.MustParseAddr("10.0.0.4"), "b": netip.MustParseAddr("10.0.0.4")}})
	served := func(host string) (string, net.Conn) {
		t.Helper()
		came := make(chan net.Conn, 1)
		go func() {
			c, err := n.Accept()
			if err != nil {
				t.Error(err)
			}
			came <- c
		}()
		client, err := n.DialContext(t.Context(), "tcp", net.JoinHostPort(host, "10250"))
		if err != nil {
			t.Fatal(err)
		}
		c := <-came
		t.Cleanup(func() { _, _ = c.Close(), client.Close() })
		if _, err := client.Write([]byte("hello")); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 5)
		if _, err := c.Read(buf); err != nil || string(buf) != "hello" {
			t.Errorf("%s read %q, %v", host, buf, err)
		}
		node, _ := n.nodeAt(c.LocalAddr().(*net.TCPAddr).AddrPort())
		return node, c
	}
	for _, host := range []string{"a", "b", "a"} { // all have one address, like simulated instances without a network
		if node, _ := served(host); node != host {
			t.Errorf("a connection to %s is one to %q", host, node)
		}
	}
	_, c := served("a")
	at := c.LocalAddr().(*net.TCPAddr).AddrPort()
	_ = c.Close()
	if node, ok := n.nodeAt(at); ok {
		t.Errorf("a closed connection is still one to %s", node)
	}

	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	other, err := n.DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatalf("an address that is no simulated node's: %v", err)
	}
	_ = other.Close()
}

func TestANodeThatCannotAnswerIsAnError(t *testing.T) {
	n := NewNetwork()
	n.join(fixed{hosts: map[string]netip.Addr{"a": netip.MustParseAddr("10.0.0.4")}})
	if _, err := n.DialContext(t.Context(), "tcp", "ended:10250"); err == nil ||
		err.Error() != "the simulated instance of node ended does not run" {
		t.Errorf("a node whose instance has ended: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := n.DialContext(ctx, "tcp", "a:10250"); !errors.Is(err, context.Canceled) {
		t.Errorf("nobody accepts: %v", err)
	}
	_ = n.Close()
	if _, err := n.DialContext(t.Context(), "tcp", "a:10250"); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the simulator has ended: %v", err)
	}
	if _, err := n.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("accept after the end: %v", err)
	}
}
