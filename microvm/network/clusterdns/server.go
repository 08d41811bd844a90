package clusterdns

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"

	"github.com/miekg/dns"

	"github.com/nodeless/nodeless/microvm/network/services"
)

// largest answer over UDP that is sent to who can take it: it fits any network (DNS flag day 2020).
const largest = 1232

// mostAliases that one answer follows.
const mostAliases = 8

// Server answers over UDP and TCP at one address and port.
type Server struct {
	zone     Zone
	services func() *services.Snapshot
	others   *Resolvers
	udp      net.PacketConn
	tcp      net.Listener
}

// Listen takes the first port that is free at an address, of 53 and any other. The caller calls Run, or Close.
func Listen(ctx context.Context, at netip.Addr, zone Zone, snapshot func() *services.Snapshot,
	others *Resolvers,
) (*Server, error) {
	var failed error
	for _, port := range []uint16{53, 0, 0, 0} { // a port that is free for UDP may be taken for TCP
		s := &Server{zone: zone, services: snapshot, others: others}
		if failed = s.listen(ctx, netip.AddrPortFrom(at, port)); failed == nil {
			return s, nil
		}
	}
	return nil, fmt.Errorf("cluster DNS: %w", failed)
}

// ListenAt takes one address and port. The caller calls Run, or Close.
func ListenAt(ctx context.Context, at netip.AddrPort, zone Zone, snapshot func() *services.Snapshot,
	others *Resolvers,
) (*Server, error) {
	s := &Server{zone: zone, services: snapshot, others: others}
	if err := s.listen(ctx, at); err != nil {
		return nil, fmt.Errorf("cluster DNS: %w", err)
	}
	return s, nil
}

func (s *Server) listen(ctx context.Context, at netip.AddrPort) (err error) {
	var config net.ListenConfig
	if s.udp, err = config.ListenPacket(ctx, "udp4", at.String()); err != nil {
		return err
	}
	if s.tcp, err = config.Listen(ctx, "tcp4", s.udp.LocalAddr().String()); err != nil {
		_ = s.udp.Close()
	}
	return err
}

// At is where it listens.
func (s *Server) At() netip.AddrPort { return s.udp.LocalAddr().(*net.UDPAddr).AddrPort() }

// Close gives the port back if Run is not called.
func (s *Server) Close() error { return errors.Join(s.udp.Close(), s.tcp.Close()) }

// Run answers until ctx is done.
func (s *Server) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	failed := make(chan error, 2)
	var running sync.WaitGroup
	for _, server := range []*dns.Server{{PacketConn: s.udp, UDPSize: largest}, {Listener: s.tcp}} {
		server.Handler = dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) { s.serve(ctx, w, r) })
		started := make(chan struct{})
		server.NotifyStartedFunc = func() { close(started) }
		running.Go(func() {
			if err := server.ActivateAndServe(); err != nil {
				failed <- err
			}
			cancel()
		})
		running.Go(func() {
			<-ctx.Done()
			select { // one that has not started cannot be shut down
			case <-started:
				_ = server.Shutdown()
			default:
			}
			_ = s.Close()
		})
	}
	running.Wait()
	select {
	case err := <-failed:
		if !errors.Is(err, net.ErrClosed) {
			return fmt.Errorf("cluster DNS at %s: %w", s.At(), err)
		}
	default:
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
			size = min(max(int(edns.UDPSize()), dns.MinMsgSize), largest)
		}
		if reply.IsEdns0() == nil {
			reply.SetEdns0(largest, false)
		}
	}
	reply.Truncate(size)
	_ = w.WriteMsg(reply) // who asked has gone, or asks again
}

// reply answers a message as a whole.
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
	for hops := 0; a.Follow != "" && hops < mostAliases; hops++ {
		a = s.follow(ctx, a, q.Qtype, overTCP)
	}
	reply.SetRcode(r, a.Code)
	reply.Authoritative, reply.RecursionAvailable = true, true
	reply.Answer, reply.Extra = a.Records, a.Extra
	rand.Shuffle(len(reply.Answer), func(i, j int) { // clients take the first; an alias stays before what it is short for
		if reply.Answer[i].Header().Rrtype != dns.TypeCNAME && reply.Answer[j].Header().Rrtype != dns.TypeCNAME {
			reply.Answer[i], reply.Answer[j] = reply.Answer[j], reply.Answer[i]
		}
	})
	if a.Nothing {
		reply.Ns = []dns.RR{s.zone.SOA()}
	}
	return reply
}

// follow adds what is known of the name that an answer ends with.
func (s *Server) follow(ctx context.Context, a Answer, kind uint16, overTCP bool) Answer {
	q := dns.Question{Name: a.Follow, Qtype: kind, Qclass: dns.ClassINET}
	next, ours := s.zone.Answer(s.services(), q)
	if !ours {
		r := new(dns.Msg)
		r.SetQuestion(q.Name, q.Qtype)
		answer, err := s.others.Ask(ctx, r, overTCP)
		if err != nil {
			next = Answer{Code: dns.RcodeServerFailure}
		} else {
			next = Answer{Code: answer.Rcode, Records: answer.Answer}
		}
	}
	next.Records = append(a.Records, next.Records...)
	return next
}
