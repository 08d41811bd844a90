package catalog

// WarmTargets are the VPC CNI's settings of how many spare addresses a node keeps. The zero value is not the default: see
// DefaultWarm.
type WarmTargets struct {
	ENIs     int // WARM_ENI_TARGET; used when IPs and Minimum are both unset
	IPs      int // WARM_IP_TARGET, -1 = unset
	Minimum  int // MINIMUM_IP_TARGET, -1 = unset
	Prefixes int // WARM_PREFIX_TARGET; used with prefix delegation when IPs and Minimum are both unset
}

// DefaultWarm is what the CNI's manifest sets.
var DefaultWarm = WarmTargets{ENIs: 1, IPs: -1, Minimum: -1, Prefixes: 1}

// SecondaryAddresses is how many interfaces and secondary addresses the CNI holds on a node of a type with pods that have
// an address of their own. Source: pkg/ipamd of amazon-vpc-cni-k8s v1.23.2 (reference node-groups-and-ips.md §3.4).
func SecondaryAddresses(t *Type, w WarmTargets, pods int) (enis, addresses int) {
	each := t.IPv4PerENI - 1
	if each <= 0 || t.MaxENIs <= 0 {
		return 0, 0
	}
	if w.IPs < 0 && w.Minimum < 0 {
		switch {
		case w.ENIs > 0:
			enis = min(t.MaxENIs, ceil(pods, each)+w.ENIs)
		default:
			enis = min(t.MaxENIs, pods/each+1)
		}
		return enis, enis * each
	}
	addresses = min(t.MaxENIs*each, max(pods+max(w.IPs, 0), max(w.Minimum, 0)))
	return max(ceil(addresses, each), 1), addresses
}

// Prefixes is how many interfaces and /28 prefixes the CNI holds under prefix delegation.
// Source: as SecondaryAddresses, the code's arithmetic where the document differs.
func Prefixes(t *Type, w WarmTargets, pods int) (enis, prefixes int) {
	each := t.IPv4PerENI - 1
	if each <= 0 || t.MaxENIs <= 0 {
		return 0, 0
	}
	if w.IPs < 0 && w.Minimum < 0 {
		prefixes = max(1, ceil(pods, 16)+w.Prefixes)
	} else {
		prefixes = max(1, ceil(pods+max(w.IPs, 0), 16), ceil(max(w.Minimum, 0), 16))
	}
	prefixes = min(prefixes, t.MaxENIs*each)
	return max(ceil(prefixes, each), 1), prefixes
}

// SubnetAddresses is how many addresses of its subnet a node holds, with those of the interfaces themselves and without
// branch interfaces, and how many of the pod addresses among them are idle.
func SubnetAddresses(t *Type, w WarmTargets, pods int, prefixDelegation bool) (held, idle int) {
	var enis, addresses int
	if prefixDelegation {
		enis, addresses = Prefixes(t, w, pods)
		addresses *= 16
	} else {
		enis, addresses = SecondaryAddresses(t, w, pods)
	}
	return enis + addresses, max(addresses-pods, 0)
}

func ceil(a, b int) int { return (a + b - 1) / b }
