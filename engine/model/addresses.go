package model

// Subnet is a subnet from which nodes take addresses: their own, those of their pods, and those that their CNI keeps to
// spare.
type Subnet struct {
	ID, Zone string
	Free     int64 // addresses that no node has and none in flight is about to take
	// CIDR is its range of IPv4 addresses, for people; "" if it is not known. Nothing is decided by it.
	CIDR string `json:",omitempty"`
}

// AddressStep says what nodes with up to so many pods take from their subnet.
type AddressStep struct{ Pods, Addresses int64 }

// AddressesFor returns what a node of the type takes from its subnet for so many pods: the number of the first step
// that has them, else of the last one. 0 if nothing is known of the type: subnets do not limit it.
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
