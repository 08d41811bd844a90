package clusterdns

import (
	"net/netip"
	"strings"

	"github.com/miekg/dns"

	"github.com/nodeless/nodeless/microvm/network/services"
)

// ttl of all answers in seconds: as CoreDNS has it. Services change, and their clients are near.
const ttl = 5

// Answer to a question.
type Answer struct {
	Code    int // as dns.RcodeSuccess
	Records []dns.RR
	Extra   []dns.RR // addresses of what Records names
	// Nothing: there are no such records, and SOA says for how long that may be remembered.
	Nothing bool
	// Follow is another name that the one asked for is short for, to be asked for in its place.
	Follow string
}

// Answer answers a question of class IN; ok is false if the zone is not the one to ask.
func (z Zone) Answer(s *services.Snapshot, q dns.Question) (a Answer, ok bool) {
	f, ok := z.find(s, strings.ToLower(q.Name))
	switch {
	case !ok:
		return Answer{}, false
	case !f.exists:
		return Answer{Code: dns.RcodeNameError, Nothing: true}, true
	case f.alias != "":
		a.Records = []dns.RR{&dns.CNAME{Hdr: header(q.Name, dns.TypeCNAME), Target: f.alias}}
		if q.Qtype != dns.TypeCNAME {
			a.Follow = f.alias
		}
		return a, true
	}
	switch q.Qtype {
	case dns.TypeA, dns.TypeAAAA:
		a.Records = addresses(q.Name, q.Qtype, f.addresses)
	case dns.TypeANY: // any that there are, and not all: RFC 8482
		a.Records = append(addresses(q.Name, dns.TypeA, f.addresses), addresses(q.Name, dns.TypeAAAA, f.addresses)...)
	case dns.TypeSRV:
		a.Records, a.Extra = ports(q.Name, f.ports)
	case dns.TypePTR:
		for _, name := range f.names {
			a.Records = append(a.Records, &dns.PTR{Hdr: header(q.Name, dns.TypePTR), Ptr: name})
		}
	case dns.TypeTXT:
		if f.text != "" {
			a.Records = []dns.RR{&dns.TXT{Hdr: header(q.Name, dns.TypeTXT), Txt: []string{f.text}}}
		}
	case dns.TypeSOA:
		if f.apex {
			a.Records = []dns.RR{z.SOA()}
		}
	case dns.TypeNS:
		if f.apex {
			a.Records = []dns.RR{&dns.NS{Hdr: header(q.Name, dns.TypeNS), Ns: "ns.dns." + z.Domain}}
		}
	}
	a.Nothing = len(a.Records) == 0
	return a, true
}

// SOA is the record that says whose the zone is.
func (z Zone) SOA() *dns.SOA {
	return &dns.SOA{
		Hdr: header(z.Domain, dns.TypeSOA), Ns: "ns.dns." + z.Domain, Mbox: "hostmaster." + z.Domain,
		Serial: 1, Refresh: 7200, Retry: 1800, Expire: 86400, Minttl: ttl,
	}
}

func header(name string, kind uint16) dns.RR_Header {
	return dns.RR_Header{Name: name, Rrtype: kind, Class: dns.ClassINET, Ttl: ttl}
}

func addresses(name string, kind uint16, all []netip.Addr) []dns.RR {
	var records []dns.RR
	for _, a := range all {
		switch {
		case kind == dns.TypeA && a.Is4():
			records = append(records, &dns.A{Hdr: header(name, kind), A: a.AsSlice()})
		case kind == dns.TypeAAAA && !a.Is4():
			records = append(records, &dns.AAAA{Hdr: header(name, kind), AAAA: a.AsSlice()})
		}
	}
	return records
}

// ports are SRV records of equal right, and the addresses of their targets. A target with several addresses is one.
func ports(name string, all []target) (records, extra []dns.RR) {
	type port struct {
		of     string
		number uint16
	}
	type address struct {
		of string
		a  netip.Addr
	}
	hasPort, hasAddress := map[port]bool{}, map[address]bool{}
	for _, t := range all {
		if p := (port{t.name, t.port}); !hasPort[p] {
			hasPort[p] = true
			records = append(records,
				&dns.SRV{Hdr: header(name, dns.TypeSRV), Priority: 0, Weight: 100, Port: t.port, Target: t.name})
		}
		for _, a := range t.addresses {
			if of := (address{t.name, a}); !hasAddress[of] {
				hasAddress[of] = true
				one := []netip.Addr{a}
				extra = append(append(extra, addresses(t.name, dns.TypeA, one)...), addresses(t.name, dns.TypeAAAA, one)...)
			}
		}
	}
	return records, extra
}
