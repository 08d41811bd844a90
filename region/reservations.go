package region

import (
	"encoding/json"
	"net/netip"
	"slices"
)

// Types of a subnet CIDR reservation.
const (
	ReservePrefix   = "prefix"   // for prefixes of network interfaces: no single address is taken from it
	ReserveExplicit = "explicit" // for addresses that a call names: EC2 assigns none itself
)

// Reservation is a subnet CIDR reservation.
type Reservation struct {
	ID, SubnetID, Type, Description string
	CIDR                            netip.Prefix
	Tags                            map[string]string
}

// CreateSubnetCIDRReservation reserves a part of a subnet. Used addresses in it stay used.
func (n *network) CreateSubnetCIDRReservation(q Reservation) (Reservation, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := n.subnet(q.SubnetID)
	switch {
	case s == nil:
		return q, noSubnet(q.SubnetID)
	case q.Type != ReservePrefix && q.Type != ReserveExplicit:
		return q, apiError("InvalidParameterValue", "Value (%s) for parameter ReservationType is invalid: use %s or %s",
			q.Type, ReservePrefix, ReserveExplicit)
	case !q.CIDR.IsValid() || q.CIDR != q.CIDR.Masked() || q.CIDR.Bits() < s.CIDR.Bits() || !s.CIDR.Overlaps(q.CIDR):
		return q, apiError("InvalidParameterValue", "The CIDR '%s' is not a block of subnet %s (%s)", q.CIDR, s.ID, s.CIDR)
	case q.Type == ReservePrefix && q.CIDR.Bits() > 28:
		return q, apiError("InvalidParameterValue", "The CIDR '%s' is smaller than a prefix, a /28", q.CIDR)
	}
	if i := slices.IndexFunc(s.reserved, func(o Reservation) bool { return o.CIDR.Overlaps(q.CIDR) }); i >= 0 {
		return q, apiError("InvalidSubnetCidrReservation.Conflict", "The CIDR '%s' conflicts with reservation %s (%s)",
			q.CIDR, s.reserved[i].ID, s.reserved[i].CIDR)
	}
	q.ID = "scr-" + n.newID()
	s.reserved = append(s.reserved, q)
	n.store.put(bucketReservations, q.ID, q)
	return q, n.commit()
}

// DeleteSubnetCIDRReservation deletes a reservation. Addresses taken from it stay used.
func (n *network) DeleteSubnetCIDRReservation(id string) (Reservation, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, s := range n.subnets {
		if i := slices.IndexFunc(s.reserved, func(o Reservation) bool { return o.ID == id }); i >= 0 {
			q := s.reserved[i]
			s.reserved = slices.Delete(s.reserved, i, i+1)
			q.Tags = n.tagged(id, q.Tags)
			delete(n.tags, id)
			n.store.remove(bucketReservations, id)
			n.store.remove(bucketTags, id)
			return q, n.commit()
		}
	}
	return Reservation{}, noReservation(id)
}

func noReservation(id string) *APIError {
	return apiError("InvalidSubnetCidrReservationID.NotFound", "The subnet CIDR reservation ID '%s' does not exist", id)
}

// SubnetCIDRReservations returns the reservations of a subnet, oldest first.
func (n *network) SubnetCIDRReservations(subnet string) ([]Reservation, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := n.subnet(subnet)
	if s == nil {
		return nil, noSubnet(subnet)
	}
	out := slices.Clone(s.reserved)
	for i := range out {
		out[i].Tags = n.tagged(out[i].ID, out[i].Tags)
	}
	return out, nil
}

func (n *network) reservation(id string) *Reservation {
	for _, s := range n.subnets {
		if i := slices.IndexFunc(s.reserved, func(q Reservation) bool { return q.ID == id }); i >= 0 {
			return &s.reserved[i]
		}
	}
	return nil
}

func (n *network) restoreReservation(_ string, value []byte) error {
	var q Reservation
	if err := json.Unmarshal(value, &q); err != nil {
		return err
	}
	if s := n.subnet(q.SubnetID); s != nil {
		s.reserved = append(s.reserved, q)
	}
	return nil
}
