package clusterdns

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/nodeless/nodeless/microvm/network/services"
)

// serve runs a Server on loopback, whose upstream name server knows the names of example.com.
func serve(t *testing.T, s *services.Snapshot) (at string) {
	t.Helper()
	upstream, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	tcp, err := net.Listen("tcp4", upstream.LocalAddr().String())
	if err != nil {
		t.Skip("the port is not free for TCP:", err)
	}
	handler := dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
		reply := new(dns.Msg).SetReply(r)
		switch q := r.Question[0]; {
		case !strings.HasSuffix(q.Name, "example.com."):
			reply.Rcode = dns.RcodeNameError
		case q.Name == "large.example.com." && w.RemoteAddr().Network() == "udp":
			reply.Truncated = true
		case q.Qtype == dns.TypeA:
			reply.Answer = addresses(q.Name, []netip.Addr{netip.MustParseAddr("192.0.2.80")})
		}
		_ = w.WriteMsg(reply)
	})
	for _, u := range []*dns.Server{{PacketConn: upstream, Handler: handler}, {Listener: tcp, Handler: handler}} {
		started := make(chan struct{})
		u.NotifyStartedFunc = func() { close(started) }
		go func() { _ = u.ActivateAndServe() }()
		<-started
		t.Cleanup(func() { _ = u.Shutdown() })
	}
	_, port, _ := net.SplitHostPort(upstream.LocalAddr().String())
	file := filepath.Join(t.TempDir(), "resolv.conf")
	if err := os.WriteFile(file, []byte("nameserver 127.0.0.1\nnameserver 172.29.0.1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	others := NewResolvers(file, netip.MustParseAddr("172.29.0.1"))
	others.port = port
	server, err := Listen(t.Context(), netip.MustParseAddr("127.0.0.1"), zone, func() *services.Snapshot { return s },
		others)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return server.At().String()
}

func ask(t *testing.T, network, at, name string, kind uint16, change ...func(*dns.Msg)) *dns.Msg {
	t.Helper()
	m := new(dns.Msg).SetQuestion(name, kind)
	for _, f := range change {
		f(m)
	}
	c := dns.Client{Net: network, Timeout: time.Minute}
	for deadline := time.Now().Add(time.Minute); ; {
		reply, _, err := c.Exchange(m, at)
		if err != nil {
			t.Fatalf("%s over %s: %v", name, network, err)
		}
		// A busy host may not let the upstream name server answer in time.
		if reply.Rcode != dns.RcodeServerFailure || time.Now().After(deadline) {
			return reply
		}
	}
}

func TestOwnAndOthersNamesOverTheWire(t *testing.T) {
	at := serve(t, parse(t, objects))
	for _, network := range []string{"udp", "tcp"} {
		own := ask(t, network, at, "web.shop.svc.cluster.local.", dns.TypeA)
		if !own.Authoritative || !own.RecursionAvailable || len(own.Answer) != 1 ||
			own.Answer[0].(*dns.A).A.String() != "10.96.7.7" {
			t.Errorf("own name over %s: %v", network, own)
		}
		other := ask(t, network, at, "www.example.com.", dns.TypeA)
		if other.Authoritative || len(other.Answer) != 1 || other.Answer[0].(*dns.A).A.String() != "192.0.2.80" {
			t.Errorf("another's over %s: %v", network, other)
		}
		alias := ask(t, network, at, "out.shop.svc.cluster.local.", dns.TypeA)
		if len(alias.Answer) != 2 || alias.Answer[0].(*dns.CNAME).Target != "db.example.com." ||
			alias.Answer[1].(*dns.A).A.String() != "192.0.2.80" {
			t.Errorf("an alias over %s: %v", network, alias)
		}
		none := ask(t, network, at, "none.shop.svc.cluster.local.", dns.TypeA)
		if none.Rcode != dns.RcodeNameError || len(none.Ns) != 1 || none.Ns[0].(*dns.SOA).Minttl != ttl {
			t.Errorf("no name over %s: %v", network, none)
		}
	}
	if large := ask(t, "udp", at, "large.example.com.", dns.TypeA); !large.Truncated {
		t.Error("the other's word that there is more was lost:", large)
	}
	if large := ask(t, "tcp", at, "large.example.com.", dns.TypeA); large.Truncated || len(large.Answer) != 1 {
		t.Error("over TCP there is all:", large)
	}
	if reply := ask(t, "udp", at, "web.shop.svc.cluster.local.", dns.TypeA,
		func(m *dns.Msg) { m.Question[0].Qclass = dns.ClassCHAOS }); reply.Rcode != dns.RcodeRefused {
		t.Error("class CHAOS:", reply)
	}
}

// A thousand endpoints do not fit into a datagram: the client gets a truncated response, and all of them over TCP.
func TestManyEndpoints(t *testing.T) {
	text := "kind: Service\nmetadata: {namespace: a, name: many}\nspec: {clusterIP: None, ports: [{port: 1}]}\n"
	for i := range 10 {
		text += fmt.Sprintf("---\nkind: EndpointSlice\nmetadata: {namespace: a, name: many-%d, labels: {kubernetes.io/service-name: many}}\naddressType: IPv4\nports: [{port: 1}]\nendpoints:\n", i)
		for j := range 100 {
			text += fmt.Sprintf("- {addresses: [172.29.%d.%d]}\n", i, j)
		}
	}
	at := serve(t, parse(t, text))
	for what, size := range map[string]int{"without EDNS": dns.MinMsgSize, "with EDNS": maxUDPSize} {
		reply := ask(t, "udp", at, "many.a.svc.cluster.local.", dns.TypeA, func(m *dns.Msg) {
			if size > dns.MinMsgSize {
				m.SetEdns0(4096, false)
			}
		})
		reply.Compress = true // as on the wire
		if !reply.Truncated || len(reply.Answer) == 0 || reply.Len() > size ||
			(reply.IsEdns0() != nil) != (size > dns.MinMsgSize) {
			t.Errorf("%s: %d answers in %d bytes, truncated %t", what, len(reply.Answer), reply.Len(), reply.Truncated)
		}
	}
	if reply := ask(t, "tcp", at, "many.a.svc.cluster.local.", dns.TypeA); len(reply.Answer) != 1000 {
		t.Errorf("%d answers over TCP", len(reply.Answer))
	}
}

func TestTheMachinesNameServers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "resolv.conf")
	r := NewResolvers(file, netip.MustParseAddr("172.29.0.1"))
	if _, err := r.Ask(t.Context(), new(dns.Msg).SetQuestion("example.com.", dns.TypeA), false); err == nil {
		t.Error("nobody was asked, and there is an answer")
	}
	if err := os.WriteFile(file,
		[]byte("search example.com\nnameserver 192.0.2.53\nnameserver 172.29.0.1\nnameserver 2001:db8::53\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(r.Servers()); got != "[192.0.2.53:53 [2001:db8::53]:53]" {
		t.Error("after the file came:", got)
	}
}
