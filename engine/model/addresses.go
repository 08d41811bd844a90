package model

// Subnet is a subnet from which nodes take IP addresses: their own, those of their pods, and the spare ones that
// their CNI keeps.
type Subnet struct {
	ID, Zone string
	Free     int64 // addresses that no node has, that no node in flight will take, and that the next one can use
	// Scattered is how many further addresses are free but outside the free /28 blocks that pods get. What nodes take is
	// charged to Free, even if they can use these, because EC2 may break blocks for them: then Free may be negative.
	Scattered int64 `json:",omitempty"`
	// CIDR is its IPv4 address range, for display only; "" if unknown.
	CIDR string `json:",omitempty"`
}

// FreeFor returns how many addresses a node of the type can get.
func (s *Subnet) FreeFor(t *InstanceType) int64 {
	if t.SingleAddresses {
		return s.Free + s.Scattered
	}
	return s.Free
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
