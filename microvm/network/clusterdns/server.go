package clusterdns

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"

	"github.com/miekg/dns"
	"golang.org/x/sync/errgroup"

	"github.com/nodeless/nodeless/microvm/network/services"
)

// maxUDPSize is the maximum size of an answer over UDP to a client that supports EDNS: such answers fit through any
// network (DNS flag day 2020).
const maxUDPSize = 1232

// maxAliases is the number of aliases that one answer follows.
const maxAliases = 8

// Server answers over UDP and TCP at one address and port.
type Server struct {
	zone     Zone
	services func() *services.Snapshot
	others   *Resolvers
	udp      net.PacketConn
	tcp      net.Listener
}

// Listen listens at port 53 of an address or, if that is taken, at a free port. The caller calls Run or Close.
func Listen(ctx context.Context, at netip.Addr, zone Zone, snapshot func() *services.Snapshot, others *Resolvers,
) (s *Server, err error) {
	for _, port := range []uint16{53, 0, 0, 0} { // a port that is free for UDP may be taken for TCP
		if s, err = ListenAt(ctx, netip.AddrPortFrom(at, port), zone, snapshot, others); err == nil {
			break
		}
	}
	return s, err
}

// ListenAt listens at an address and port. The caller calls Run or Close.
func ListenAt(ctx context.Context, at netip.AddrPort, zone Zone, snapshot func() *services.Snapshot, others *Resolvers,
) (*Server, error) {
	var config net.ListenConfig
	udp, err := config.ListenPacket(ctx, "udp4", at.String())
	if err != nil {
		return nil, fmt.Errorf("cluster DNS: %w", err)
	}
	tcp, err := config.Listen(ctx, "tcp4", udp.LocalAddr().String())
	if err != nil {
		_ = udp.Close()
		return nil, fmt.Errorf("cluster DNS: %w", err)
	}
	return &Server{zone: zone, services: snapshot, others: others, udp: udp, tcp: tcp}, nil
}

// At returns the address and port at which the server listens.
func (s *Server) At() netip.AddrPort { return s.udp.LocalAddr().(*net.UDPAddr).AddrPort() }

// Close stops listening. It is for servers that are not Run.
func (s *Server) Close() error { return errors.Join(s.udp.Close(), s.tcp.Close()) }

// Run answers until ctx is done.
func (s *Server) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, server := range []*dns.Server{{PacketConn: s.udp, UDPSize: maxUDPSize}, {Listener: s.tcp}} {
		server.Handler = dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) { s.serve(ctx, w, r) })
		started := make(chan struct{})
		server.NotifyStartedFunc = func() { close(started) }
		group.Go(func() error {
			if err := server.ActivateAndServe(); err != nil && !errors.Is(err, net.ErrClosed) {
				return fmt.Errorf("cluster DNS at %s: %w", s.At(), err)
			}
			return context.Canceled // one does not serve without the other
		})
		group.Go(func() error {
			<-ctx.Done()
			select { // a server that has not started cannot be shut down
			case <-started:
				_ = server.Shutdown()
			default:
			}
			_ = s.Close()
			return nil
		})
	}
	if err := group.Wait(); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

func (s *Server) serve(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) {
	_, overTCP := w.RemoteAddr().(*net.TCPAddr)
	reply := s.reply(ctx, r, overTCP)
	size := dns.MaxMsgSize
	if !overTCP {
		size = dns.MinMsgSize
	}
	if edns := r.IsEdns0(); edns != nil {
		if !overTCP {
			size = min(max(int(edns.UDPSize()), dns.MinMsgSize), maxUDPSize)
		}
		if reply.IsEdns0() == nil {
			reply.SetEdns0(maxUDPSize, false)
		}
	}
	reply.Truncate(size)
	_ = w.WriteMsg(reply) // a client that gets no answer retries
}

// reply answers a message.
func (s *Server) reply(ctx context.Context, r *dns.Msg, overTCP bool) *dns.Msg {
	reply := new(dns.Msg)
	if r.Opcode != dns.OpcodeQuery || len(r.Question) != 1 {
		return reply.SetRcode(r, dns.RcodeNotImplemented)
	}
	q := r.Question[0]
	if q.Qclass != dns.ClassINET {
		return reply.SetRcode(r, dns.RcodeRefused)
	}
	a, ours := s.zone.Answer(s.services(), q)
	if !ours {
		answer, err := s.others.Ask(ctx, r, overTCP)
		if err != nil {
			return reply.SetRcode(r, dns.RcodeServerFailure)
		}
		return answer
	}
	for hops := 0; a.Follow != "" && hops < maxAliases; hops++ {
		a = s.follow(ctx, a, q.Qtype, overTCP)
	}
	reply.SetRcode(r, a.Code)
	reply.Authoritative, reply.RecursionAvailable = true, true
	reply.Answer, reply.Extra = a.Records, a.Extra
	// Clients take the first address. An alias stays before its target.
	rand.Shuffle(len(reply.Answer), func(i, j int) {
		if reply.Answer[i].Header().Rrtype != dns.TypeCNAME && reply.Answer[j].Header().Rrtype != dns.TypeCNAME {
			reply.Answer[i], reply.Answer[j] = reply.Answer[j], reply.Answer[i]
		}
	})
	if a.NoData {
		reply.Ns = []dns.RR{s.zone.SOA()}
	}
	return reply
}

// follow resolves the name to which a leads, and appends the result to a.
func (s *Server) follow(ctx context.Context, a Answer, kind uint16, overTCP bool) Answer {
	next, ours := s.zone.Answer(s.services(), dns.Question{Name: a.Follow, Qtype: kind, Qclass: dns.ClassINET})
	if !ours {
		answer, err := s.others.Ask(ctx, new(dns.Msg).SetQuestion(a.Follow, kind), overTCP)
		if err != nil {
			next = Answer{Code: dns.RcodeServerFailure}
		} else {
			next = Answer{Code: answer.Rcode, Records: answer.Answer}
		}
	}
	next.Records = append(a.Records, next.Records...)
	return next
}
