package region

import (
	"cmp"
	"slices"
	"time"
)

// The types of network interfaces besides the ordinary one, "". A trunk carries the branches that are associated with
// it, each in its own VLAN; the instance sees only the trunk.
const (
	TrunkInterface  = "trunk"
	BranchInterface = "branch"
)

// mostVLANs is the number of VLANs of a trunk; VLAN 0 is never assigned (amazon-vpc-resource-controller-k8s v1.8,
// pkg/provider/branch/trunk: MaxAllocatableVlanIds).
const mostVLANs = 121

// TrunkAssociation is the association of a branch interface with its trunk.
type TrunkAssociation struct {
	ID, BranchID, TrunkID string
	VLAN                  int
}

// branchesOf returns the branches of an interface by VLAN; none if it is not a trunk.
func (s *interfaces) branchesOf(trunk *NetworkInterface) (out []*NetworkInterface) {
	if trunk.Type != TrunkInterface {
		return nil
	}
	for _, e := range s.byID {
		if e.TrunkID == trunk.ID {
			out = append(out, e)
		}
	}
	slices.SortFunc(out, func(a, b *NetworkInterface) int { return cmp.Compare(a.VLAN, b.VLAN) })
	return out
}

// trunkOf returns the trunk of an instance; nil if it has none.
func (s *interfaces) trunkOf(instance string) *NetworkInterface {
	list := s.byInstance[instance]
	if i := slices.IndexFunc(list, func(e *NetworkInterface) bool { return e.Type == TrunkInterface }); i >= 0 {
		return list[i]
	}
	return nil
}

// freeVLAN returns a trunk's lowest free VLAN.
func (s *interfaces) freeVLAN(trunk *NetworkInterface) int {
	vlan := 1
	for _, b := range s.branchesOf(trunk) {
		if b.VLAN == vlan {
			vlan++
		}
	}
	return vlan
}

// associate makes an unattached interface a branch of a trunk.
func (s *interfaces) associate(e, trunk *NetworkInterface, vlan int) *APIError {
	have, i := s.branchesOf(trunk), s.instances.byID[trunk.InstanceID]
	switch {
	case trunk.Type != TrunkInterface || i == nil:
		return apiError("InvalidParameterValue", "Network interface '%s' is no trunk that is attached to an instance",
			trunk.ID)
	case e.InUse() || e.Type == TrunkInterface:
		return inUse(e.ID)
	case s.network.subnet(e.SubnetID).Zone != i.Zone:
		return otherZone()
	case vlan < 1 || vlan >= mostVLANs:
		return apiError("InvalidParameterValue", "Value (%d) for parameter vlanId is invalid: give 1 to %d", vlan,
			mostVLANs-1)
	case slices.ContainsFunc(have, func(b *NetworkInterface) bool { return b.VLAN == vlan }):
		return apiError("InvalidParameterValue", "VLAN %d of trunk '%s' is in use", vlan, trunk.ID)
	case len(have) >= s.market.Type(i.Type).BranchENIs:
		return apiError("AttachmentLimitExceeded", "Interface count %d exceeds the limit of branch interfaces for %s",
			len(have)+1, i.Type)
	}
	e.Type, e.TrunkID, e.VLAN, e.AssociationID = BranchInterface, trunk.ID, vlan, "trunk-assoc-"+s.newID()
	s.save(e)
	return nil
}

func (e *NetworkInterface) disassociate() {
	e.TrunkID, e.VLAN, e.AssociationID, e.ReleasedAt = "", 0, "", time.Time{}
}

// AssociateTrunkInterface makes an interface a branch of a trunk.
func (s *interfaces) AssociateTrunkInterface(branch, trunk string, vlan int) (TrunkAssociation, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, t := s.byID[branch], s.byID[trunk]
	switch {
	case e == nil:
		return TrunkAssociation{}, noInterface(branch)
	case t == nil:
		return TrunkAssociation{}, noInterface(trunk)
	}
	if err := s.associate(e, t, vlan); err != nil {
		return TrunkAssociation{}, err
	}
	return e.association(), s.commit()
}

func (e *NetworkInterface) association() TrunkAssociation {
	return TrunkAssociation{ID: e.AssociationID, BranchID: e.ID, TrunkID: e.TrunkID, VLAN: e.VLAN}
}

// DisassociateTrunkInterface removes a branch from its trunk, by the association ID.
func (s *interfaces) DisassociateTrunkInterface(association string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.byID {
		if e.AssociationID != "" && e.AssociationID == association {
			e.disassociate()
			s.save(e)
			return s.commit()
		}
	}
	return apiError("InvalidAssociationID.NotFound", "The association ID '%s' does not exist", association)
}

// TrunkAssociations returns the associations of all branches with their trunks, by ID.
func (s *interfaces) TrunkAssociations() (out []TrunkAssociation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.byID {
		if e.AssociationID != "" {
			out = append(out, e.association())
		}
	}
	slices.SortFunc(out, func(a, b TrunkAssociation) int { return cmp.Compare(a.ID, b.ID) })
	return out
}
