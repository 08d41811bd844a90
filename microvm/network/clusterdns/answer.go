package clusterdns

import (
	"net/netip"
	"strings"

	"github.com/miekg/dns"

	"github.com/nodeless/nodeless/microvm/network/services"
)

// ttl is the lifetime of all answers in seconds, as in CoreDNS: Services change, and their clients are near.
const ttl = 5

// Answer is the answer to a question.
type Answer struct {
	Code    int // such as dns.RcodeSuccess
	Records []dns.RR
	Extra   []dns.RR // the addresses of the targets in Records
	// NoData is set if the name has no such records. A SOA record then says how long that may be cached.
	NoData bool
	// Follow is the canonical name to resolve next, if the question was for an alias.
	Follow string
}

// Answer answers a question of class IN. ok is false if the name does not belong to the zone.
func (z Zone) Answer(s *services.Snapshot, q dns.Question) (a Answer, ok bool) {
	f, ok := z.find(s, strings.ToLower(q.Name))
	switch {
	case !ok:
		return Answer{}, false
	case !f.exists:
		return Answer{Code: dns.RcodeNameError, NoData: true}, true
	case f.alias != "":
		a.Records = []dns.RR{&dns.CNAME{Hdr: header(q.Name, dns.TypeCNAME), Target: f.alias}}
		if q.Qtype != dns.TypeCNAME {
			a.Follow = f.alias
		}
		return a, true
	}
	for _, r := range z.records(q.Name, f) {
		kind := r.Header().Rrtype
		// For ANY, a server may choose what to return (RFC 8482).
		if kind == q.Qtype || q.Qtype == dns.TypeANY && (kind == dns.TypeA || kind == dns.TypeAAAA) {
			a.Records = append(a.Records, r)
		}
	}
	if q.Qtype == dns.TypeSRV {
		for _, t := range f.ports {
			a.Extra = append(a.Extra, addresses(t.name, t.addresses)...)
		}
		a.Records, a.Extra = dns.Dedup(a.Records, nil), dns.Dedup(a.Extra, nil) // a target may have several addresses
	}
	a.NoData = len(a.Records) == 0
	return a, true
}

// records returns all records of a name.
func (z Zone) records(name string, f found) []dns.RR {
	all := addresses(name, f.addresses)
	for _, t := range f.ports {
		all = append(all, &dns.SRV{Hdr: header(name, dns.TypeSRV), Weight: 100, Port: t.port, Target: t.name})
	}
	for _, n := range f.names {
		all = append(all, &dns.PTR{Hdr: header(name, dns.TypePTR), Ptr: n})
	}
	if f.text != "" {
		all = append(all, &dns.TXT{Hdr: header(name, dns.TypeTXT), Txt: []string{f.text}})
	}
	if f.apex {
		all = append(all, z.SOA(), &dns.NS{Hdr: header(name, dns.TypeNS), Ns: "ns.dns." + z.Domain})
	}
	return all
}

// SOA returns the zone's start of authority.
func (z Zone) SOA() *dns.SOA {
	return &dns.SOA{
		Hdr: header(z.Domain, dns.TypeSOA), Ns: "ns.dns." + z.Domain, Mbox: "hostmaster." + z.Domain,
		Serial: 1, Refresh: 7200, Retry: 1800, Expire: 86400, Minttl: ttl,
	}
}

func header(name string, kind uint16) dns.RR_Header {
	return dns.RR_Header{Name: name, Rrtype: kind, Class: dns.ClassINET, Ttl: ttl}
}

func addresses(name string, all []netip.Addr) []dns.RR {
	var records []dns.RR
	for _, a := range all {
		if a.Is4() {
			records = append(records, &dns.A{Hdr: header(name, dns.TypeA), A: a.AsSlice()})
		} else {
			records = append(records, &dns.AAAA{Hdr: header(name, dns.TypeAAAA), AAAA: a.AsSlice()})
		}
	}
	return records
}
