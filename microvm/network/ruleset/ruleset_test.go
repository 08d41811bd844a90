package ruleset

import (
	"net/netip"
	"strings"
	"testing"
)

func example() Config {
	at := netip.MustParseAddrPort
	return Config{
		Table: "nl-test", Links: "nl-test", Pods: netip.MustParsePrefix("172.29.0.0/16"),
		Host:     netip.MustParseAddr("172.29.0.1"),
		Services: netip.MustParsePrefix("10.96.0.0/16"), Opened: []string{"eth0"},
		Destinations: []Destination{
			{Name: "service/default/none/tcp/80", At: at("10.96.0.9:80"), Protocol: TCP},
			{
				Name: "service/default/web/tcp/80", At: at("10.96.0.50:80"), Protocol: TCP,
				To: []netip.AddrPort{at("172.29.0.2:8080"), at("172.29.0.3:8080"), at("172.29.0.4:8080")},
			},
			{
				Name: "service/default/sticky/tcp/80", At: at("10.96.0.51:80"), Protocol: TCP, Sticky: true,
				To: []netip.AddrPort{at("172.29.0.2:8080"), at("172.29.0.3:8080")},
			},
			{
				Name: "service/kube-system/kube-dns/udp/53", At: at("10.96.0.10:53"), Protocol: UDP,
				To: []netip.AddrPort{at("172.29.0.1:53")},
			},
			{
				Name: "service/shop/db/tcp/5432", At: at("10.96.0.60:5432"), Protocol: TCP,
				To: []netip.AddrPort{at("192.0.2.7:5432")},
			},
		},
	}
}

const wanted = `table ip nl-test {
	map destinations {
		type ipv4_addr . inet_proto . inet_service : verdict
		10.96.0.50 . tcp . 80 : goto service/default/web/tcp/80
		10.96.0.51 . tcp . 80 : goto service/default/sticky/tcp/80
		10.96.0.10 . udp . 53 : goto service/kube-system/kube-dns/udp/53
		10.96.0.60 . tcp . 5432 : goto service/shop/db/tcp/5432
	}
	map node-ports {
		type inet_proto . inet_service : verdict
	}
	set loops {
		type ipv4_addr . ipv4_addr
		172.29.0.2 . 172.29.0.2
		172.29.0.3 . 172.29.0.3
		172.29.0.4 . 172.29.0.4
		172.29.0.1 . 172.29.0.1
	}
	chain anti-spoofing {
		type filter hook prerouting priority -300; policy accept;
		iifname "nl-test*" fib saddr . iif oif missing drop
	}
	chain services {
		type nat hook prerouting priority -100; policy accept;
		iifname "nl-test*" ip daddr . meta l4proto . th dport vmap @destinations
		iifname "nl-test*" fib daddr type local meta l4proto . th dport vmap @node-ports
	}
	chain services-of-host {
		type nat hook output priority -100; policy accept;
		ip daddr . meta l4proto . th dport vmap @destinations
		ip daddr != 127.0.0.0/8 fib daddr type local meta l4proto . th dport vmap @node-ports
	}
	chain masquerade {
		type nat hook postrouting priority 100; policy accept;
		ip saddr . ip daddr @loops masquerade
		ip saddr 172.29.0.0/16 oifname != "nl-test*" masquerade
	}
	chain forward {
		type filter hook forward priority 0; policy accept;
		ct state established,related accept
		iifname "nl-test*" ip daddr 10.96.0.0/16 meta l4proto tcp reject with tcp reset
		iifname "nl-test*" ip daddr 10.96.0.0/16 reject
		iifname "nl-test*" ip daddr 169.254.0.0/16 reject
		iifname "nl-test*" accept
		oifname "nl-test*" reject
		iifname "eth0" drop
	}
	chain input {
		type filter hook input priority 0; policy accept;
		ip daddr 172.29.0.1 iifname != "nl-test*" iifname != "lo" reject
	}
	chain output {
		type filter hook output priority 0; policy accept;
		oifname "nl-test*" icmp type redirect drop
		ip daddr 10.96.0.0/16 meta l4proto tcp reject with tcp reset
		ip daddr 10.96.0.0/16 reject
	}
	chain service/default/web/tcp/80 {
		numgen random mod 3 0 dnat to 172.29.0.2:8080
		numgen random mod 2 0 dnat to 172.29.0.3:8080
		dnat to 172.29.0.4:8080
	}
	chain service/default/sticky/tcp/80 {
		jhash ip saddr mod 2 seed 0x1 0 dnat to 172.29.0.2:8080
		jhash ip saddr mod 2 seed 0x1 1 dnat to 172.29.0.3:8080
	}
	chain service/kube-system/kube-dns/udp/53 {
		dnat to 172.29.0.1:53
	}
	chain service/shop/db/tcp/5432 {
		dnat to 192.0.2.7:5432
	}
}
`

// The whole table in nft's language.
func TestTheRulesOfAnExample(t *testing.T) {
	if got := New(example()).String(); got != wanted {
		t.Errorf("got\n%s", got)
	}
}

const betweenHosts = `	chain masquerade {
		type nat hook postrouting priority 100; policy accept;
		ip saddr . ip daddr @loops masquerade
		ip saddr 172.29.0.0/16 ip daddr 172.31.0.0/16 accept
		ip saddr 172.29.0.0/16 oifname != "nl-test*" masquerade
		oifname "nl-test-x" ip saddr != 172.29.0.0/16 masquerade
	}
	chain forward {
		type filter hook forward priority 0; policy accept;
		ct state established,related accept
		iifname "nl-test-x" oifname != "nl-test*" reject
		iifname "nl-test-x" oifname "nl-test-x" drop
		iifname "nl-test*" ip daddr 10.96.0.0/16 meta l4proto tcp reject with tcp reset
		iifname "nl-test*" ip daddr 10.96.0.0/16 reject
		iifname "nl-test*" ip daddr 169.254.0.0/16 reject
		iifname "nl-test*" accept
		iifname "nl*" ip saddr 172.31.0.0/16 oifname "nl-test*" accept
		oifname "nl-test*" reject
		iifname "eth0" drop
	}
	chain input {
		type filter hook input priority 0; policy accept;
		iifname "nl-test-x" ct state established,related accept
		iifname "nl-test-x" ip daddr != 172.29.0.1 reject
		ip daddr 172.29.0.1 iifname != "nl-test*" iifname != "lo" reject
	}
`

// Pods of other hosts reach pods only.
func TestTheRulesBetweenHosts(t *testing.T) {
	c := example()
	c.between()
	if got := New(c).String(); !strings.Contains(got, betweenHosts) {
		t.Errorf("got\n%s", got)
	}
}

// between adds two other hosts: one on this instance and one on another.
func (c *Config) between() {
	c.Near = []netip.Prefix{netip.MustParsePrefix("172.31.0.0/16")}
	c.Tunnel = "nl-test-x"
}
