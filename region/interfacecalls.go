package region

import (
	"cmp"
	"net/netip"
	"slices"
)

// InterfaceRequest holds the parameters of CreateNetworkInterface.
type InterfaceRequest struct {
	ClientToken           string
	SubnetID, Description string
	SecurityGroups        []string
	Tags                  map[string]string
	Addresses, Prefixes   int    // besides the primary address; at least one of them is 0
	Type                  string // TrunkInterface, BranchInterface or "" for an ordinary one
}

// CreateNetworkInterface creates an interface, which is available until it is attached. The same client token returns
// the same interface again.
func (s *interfaces) CreateNetworkInterface(q InterfaceRequest) (NetworkInterface, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, err := grantOf(q.Addresses, q.Prefixes)
	if err := cmp.Or(err, s.groups.check(q.SecurityGroups)); err != nil {
		return NetworkInterface{}, err
	}
	id, remember, err := s.tokens.created("interface/", q.ClientToken, q)
	if err != nil {
		return NetworkInterface{}, err
	}
	if e := s.byID[id]; e != nil {
		return s.copyOf(e), nil
	}
	e, failure := s.create(NetworkInterface{
		SubnetID: q.SubnetID, Description: q.Description, SecurityGroups: q.SecurityGroups, Tags: q.Tags, Keep: true,
		Type: q.Type,
	}, g)
	if failure != nil {
		return NetworkInterface{}, failure
	}
	remember(e.ID)
	return s.copyOf(e), s.commit()
}

func grantOf(addresses, prefixes int) (grant, error) {
	switch {
	case addresses < 0 || prefixes < 0:
		return grant{}, apiError("InvalidParameterValue", "The number of addresses or prefixes must not be negative")
	case addresses > 0 && prefixes > 0:
		return grant{}, apiError("InvalidParameterCombination",
			"You can specify either SecondaryPrivateIpAddressCount or Ipv4PrefixCount, not both")
	}
	return grant{addresses + prefixes, prefixes > 0}, nil
}

// AttachNetworkInterface attaches an interface to an instance and returns the ID of the attachment.
func (s *interfaces) AttachNetworkInterface(id, instanceID string, device int) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, i := s.byID[id], s.instances.byID[instanceID]
	switch {
	case e == nil:
		return "", noInterface(id)
	case i == nil:
		return "", noInstance(instanceID)
	case !i.active():
		return "", apiError("IncorrectState", "The instance '%s' is not in a state from which it can be attached to",
			instanceID)
	}
	if err := s.attach(e, i, device); err != nil {
		return "", err
	}
	return e.AttachmentID, s.commit()
}

// DetachNetworkInterface detaches an interface by its attachment ID.
func (s *interfaces) DetachNetworkInterface(attachment string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.byID {
		if e.AttachmentID == "" || e.AttachmentID != attachment {
			continue
		}
		if e.DeviceIndex == 0 {
			return apiError("OperationNotPermitted", "The network interface at device index 0 cannot be detached.")
		}
		s.unlink(e)
		s.save(e)
		return s.commit()
	}
	return apiError("InvalidAttachmentID.NotFound", "The attachment '%s' does not exist", attachment)
}

// DeleteNetworkInterface deletes an interface that is not attached.
func (s *interfaces) DeleteNetworkInterface(id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.byID[id]
	switch {
	case e == nil:
		return noInterface(id)
	case e.InUse():
		return apiError("InvalidParameterValue", "Network interface '%s' is currently in use.", id)
	}
	s.remove(e)
	return s.commit()
}

// AssignPrivateIPAddresses assigns secondary addresses or prefixes to an interface, all or none, and returns them.
func (s *interfaces) AssignPrivateIPAddresses(
	id string, addresses, prefixes int,
) ([]netip.Addr, []netip.Prefix, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.byID[id]
	if e == nil {
		return nil, nil, noInterface(id)
	}
	g, err := grantOf(addresses, prefixes)
	if err != nil {
		return nil, nil, err
	}
	if g.n > s.room(e) {
		return nil, nil, addressLimit()
	}
	if i := s.instances.byID[e.InstanceID]; i != nil && g.prefixes {
		if t := s.market.Type(i.Type); t != nil && t.Hypervisor == "xen" {
			return nil, nil, apiError("InvalidParameterValue",
				"Instance type %s does not support prefix delegation; nitro-based types do", i.Type)
		}
	}
	had, hadPrefixes := len(e.Addresses), len(e.Prefixes)
	if failure := s.give(e, g); failure != nil {
		return nil, nil, failure
	}
	s.save(e)
	return slices.Clone(e.Addresses[had:]), slices.Clone(e.Prefixes[hadPrefixes:]), s.commit()
}

// UnassignPrivateIPAddresses removes secondary addresses and prefixes from an interface, all or none.
func (s *interfaces) UnassignPrivateIPAddresses(id string, addresses []netip.Addr, prefixes []netip.Prefix) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.byID[id]
	if e == nil {
		return noInterface(id)
	}
	for _, ip := range addresses {
		if !slices.Contains(e.Addresses, ip) {
			return apiError("InvalidParameterValue", "Some of [%s] are not assigned to interface %s", ip, id)
		}
	}
	for _, p := range prefixes {
		if !slices.Contains(e.Prefixes, p) {
			return apiError("InvalidParameterValue", "Some of [%s] are not assigned to interface %s", p, id)
		}
	}
	s.take(e, addresses, prefixes)
	return s.commit()
}

// take removes addresses and prefixes from an interface that has them.
func (s *interfaces) take(e *NetworkInterface, addresses []netip.Addr, prefixes []netip.Prefix) {
	n := s.network.subnet(e.SubnetID)
	for _, ip := range addresses {
		n.release(ip)
	}
	for _, p := range prefixes {
		n.releasePrefix(p)
	}
	e.Addresses = slices.DeleteFunc(e.Addresses, func(ip netip.Addr) bool { return slices.Contains(addresses, ip) })
	e.Prefixes = slices.DeleteFunc(e.Prefixes, func(p netip.Prefix) bool { return slices.Contains(prefixes, p) })
	s.save(e)
}

// ModifyNetworkInterfaceAttribute sets whether an interface is deleted with its instance, and its security groups;
// nil leaves either unchanged. An instance has the groups of its primary interface.
func (s *interfaces) ModifyNetworkInterfaceAttribute(id string, deleteOnTermination *bool, groups []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.byID[id]
	if e == nil {
		return noInterface(id)
	}
	if err := s.groups.check(groups); err != nil {
		return err
	}
	if deleteOnTermination != nil {
		e.Keep = !*deleteOnTermination
	}
	if groups != nil {
		e.SecurityGroups = groups
		if i := s.instances.byID[e.InstanceID]; i != nil && e.DeviceIndex == 0 {
			i.SecurityGroups = groups
			s.instances.save(i)
		}
	}
	s.save(e)
	return s.commit()
}
