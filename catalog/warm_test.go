package catalog

import "testing"

// Addresses a node takes of its subnet, and how many pod addresses of them are idle (reference node-groups-and-ips.md §3.4).
func TestSubnetAddresses(t *testing.T) {
	d := DefaultWarm
	none := WarmTargets{ENIs: 0, IPs: -1, Minimum: -1}
	ips := WarmTargets{IPs: 2, Minimum: 10}
	prefixIPs := WarmTargets{IPs: 5, Minimum: 1}
	for _, row := range []struct {
		name string
		pods int
		want [5][2]int // default, WARM_ENI 0, WARM_IP 2 MIN 10, prefixes, prefixes with WARM_IP 5 MIN 1
	}{
		{"t3.medium", 5, [5][2]int{{12, 5}, {12, 5}, {12, 5}, {33, 27}, {17, 11}}},
		{"t3.medium", 10, [5][2]int{{18, 5}, {18, 5}, {15, 2}, {33, 22}, {17, 6}}},
		{"m5.large", 5, [5][2]int{{20, 13}, {10, 4}, {12, 5}, {33, 27}, {17, 11}}},
		{"m5.large", 10, [5][2]int{{30, 17}, {20, 8}, {14, 2}, {33, 22}, {17, 6}}},
		{"m5.large", 25, [5][2]int{{30, 2}, {30, 2}, {30, 2}, {49, 23}, {33, 7}}},
		{"m5.4xlarge", 5, [5][2]int{{60, 53}, {30, 24}, {11, 5}, {33, 27}, {17, 11}}},
		{"m5.4xlarge", 10, [5][2]int{{60, 48}, {30, 19}, {13, 2}, {33, 22}, {17, 6}}},
	} {
		x, _ := Lookup(row.name)
		for i, c := range []struct {
			w      WarmTargets
			prefix bool
		}{{d, false}, {none, false}, {ips, false}, {d, true}, {prefixIPs, true}} {
			if held, idle := SubnetAddresses(x, c.w, row.pods, c.prefix); held != row.want[i][0] || idle != row.want[i][1] {
				t.Errorf("%s, %d pods, %+v, prefixes %t: %d addresses, %d idle, want %v", row.name, row.pods, c.w, c.prefix, held, idle, row.want[i])
			}
		}
	}
}

// Prefix rows by the CNI's code; its document has other values for t3.small 7/20 with 0 pods (1, 1), p3dn default with 3
// (2, 2) and 95 pods (3, 7), p3dn 5/10 with 45 pods (2, 4).
func TestPrefixesByCode(t *testing.T) {
	one, seven, five := WarmTargets{IPs: 1, Minimum: 1}, WarmTargets{IPs: 7, Minimum: 20}, WarmTargets{IPs: 5, Minimum: 10}
	for _, c := range []struct {
		name                 string
		w                    WarmTargets
		pods, enis, prefixes int
	}{
		{"t3.small", one, 0, 1, 1}, {"t3.small", one, 5, 1, 1}, {"t3.small", one, 17, 1, 2}, {"t3.small", one, 58, 2, 4},
		{"t3.small", seven, 5, 1, 2}, {"t3.small", seven, 17, 1, 2},
		{"p3dn.24xlarge", DefaultWarm, 0, 1, 1}, {"p3dn.24xlarge", DefaultWarm, 3, 1, 2}, {"p3dn.24xlarge", DefaultWarm, 95, 1, 7},
		{"p3dn.24xlarge", five, 0, 1, 1}, {"p3dn.24xlarge", five, 7, 1, 1},
	} {
		x, _ := Lookup(c.name)
		if enis, prefixes := Prefixes(x, c.w, c.pods); enis != c.enis || prefixes != c.prefixes {
			t.Errorf("%s %+v with %d pods: %d interfaces, %d prefixes, want %d and %d", c.name, c.w, c.pods, enis, prefixes, c.enis, c.prefixes)
		}
	}
}

func TestATypeWithoutInterfacesHoldsNothing(t *testing.T) {
	for _, prefix := range []bool{false, true} {
		if held, idle := SubnetAddresses(&Type{}, DefaultWarm, 5, prefix); held != 0 || idle != 0 {
			t.Errorf("prefixes %t: %d addresses, %d idle", prefix, held, idle)
		}
	}
}
