package model

// Subnet is a subnet from which nodes take IP addresses: their own, those of their pods, and the spare ones that
// their CNI keeps.
type Subnet struct {
	ID, Zone string
	Free     int64 // addresses that no node has and that no node in flight will take
	// CIDR is its IPv4 address range, for display only; "" if unknown.
	CIDR string `json:",omitempty"`
}

// AddressStep says how many addresses a node with at most Pods pods takes from its subnet.
type AddressStep struct{ Pods, Addresses int64 }

// AddressesFor returns how many addresses a node of the type takes from its subnet for this many pods: those of the
// first step that covers them, or else of the last step. It returns 0 if the type has no steps: subnets do not limit
// it.
func (t *InstanceType) AddressesFor(pods int64) int64 {
	for _, s := range t.Addresses {
		if pods <= s.Pods {
			return s.Addresses
		}
	}
	if n := len(t.Addresses); n > 0 {
		return t.Addresses[n-1].Addresses
	}
	return 0
}
