package webpage

import (
	"net"
	"testing"
)

// The chart's address of the page, 0.0.0.0, is that of IPv6 too: pods of IPv6 clusters have no other (package net,
// ListenConfig.Listen: an unspecified address means all).
func TestThePageInAPodIsReachedOverIPv6(t *testing.T) {
	probe, err := net.Listen("tcp6", "[::1]:0")
	if err != nil {
		t.Skipf("this machine has no IPv6: %v", err)
	}
	_ = probe.Close()
	l, gated, err := (&GateFlags{}).Listen(t.Context(), "0.0.0.0:0", true)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"::1", "127.0.0.1"} {
		c, err := net.Dial("tcp", net.JoinHostPort(host, port))
		if err != nil {
			t.Errorf("at %s: %v", host, err)
			continue
		}
		_ = c.Close()
	}
	if !gated {
		t.Error("everybody may see it")
	}
}
