package region

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"time"
)

// NetworkInterface is an elastic network interface. Methods return copies, whose slices must not be changed.
type NetworkInterface struct {
	ID, SubnetID   string
	Description    string
	PrivateIP      netip.Addr
	Addresses      []netip.Addr   // secondary ones
	Prefixes       []netip.Prefix // delegated, /28
	SecurityGroups []string
	Tags           map[string]string
	CreatedAt      time.Time

	InstanceID   string // "" while it is available
	AttachmentID string
	DeviceIndex  int
	AttachedAt   time.Time
	Keep         bool // it outlives its instance

	Type          string    `json:",omitempty"` // TrunkInterface, BranchInterface or "" for an ordinary one
	TrunkID       string    `json:",omitempty"` // of a branch
	AssociationID string    `json:",omitempty"` // of a branch with its trunk
	VLAN          int       `json:",omitempty"` // of a branch
	ReleasedAt    time.Time `json:",omitzero"`  // when the branch's pod ended
}

// InUse reports whether the interface is attached to an instance, or associated with a trunk.
func (e *NetworkInterface) InUse() bool { return e.InstanceID != "" || e.TrunkID != "" }

// MAC returns the interface's hardware address: locally administered and derived from its VPC address.
func (e *NetworkInterface) MAC() string {
	b := e.PrivateIP.As4()
	return fmt.Sprintf("02:00:%02x:%02x:%02x:%02x", b[0], b[1], b[2], b[3])
}

// used returns how many slots for addresses are taken, apart from the primary address.
func (e *NetworkInterface) used() int { return len(e.Addresses) + len(e.Prefixes) }

// addresses returns the number of addresses for pods.
func (e *NetworkInterface) addresses() int { return len(e.Addresses) + blockSize*len(e.Prefixes) }

// interfaces holds the network interfaces, including the primary ones of instances.
type interfaces struct {
	*core
	tokens    *tokens
	market    *market
	network   *network
	instances *instances
	groups    *securityGroups

	byID       map[string]*NetworkInterface
	byInstance map[string][]*NetworkInterface // by device index
}

func newInterfaces(k *tokens, m *market, n *network, i *instances) *interfaces {
	s := &interfaces{
		core: k.core, tokens: k, market: m, network: n, instances: i, byID: map[string]*NetworkInterface{},
		byInstance: map[string][]*NetworkInterface{},
	}
	i.interfaces = s
	return s
}

// addFirst adds the primary interface of a new instance. Its record is saved only once it changes: until then it
// follows from the instance's record. One that existed before the instance has a record of its own.
func (s *interfaces) addFirst(i *instance) {
	if i.InterfaceID != "" {
		return
	}
	part := i.ID[min(2, len(i.ID)):]
	s.keep(&NetworkInterface{
		ID: "eni-" + part, SubnetID: i.SubnetID, PrivateIP: i.PrivateIP, SecurityGroups: i.SecurityGroups,
		CreatedAt: i.LaunchedAt, InstanceID: i.ID, AttachmentID: "eni-attach-" + part, AttachedAt: i.LaunchedAt,
	})
}

// forLaunch returns the available interface that is to be the primary one of an instance in a subnet.
func (s *interfaces) forLaunch(id, subnet string) (*NetworkInterface, *APIError) {
	e := s.byID[id]
	switch {
	case e == nil:
		return nil, noInterface(id)
	case e.InUse():
		return nil, inUse(id)
	case e.SubnetID != subnet:
		return nil, apiError("InvalidParameterCombination", "The network interface '%s' is in the subnet %s, not in %s", id,
			e.SubnetID, subnet)
	}
	return e, nil
}

// attachFirst makes an interface the primary one of a new instance.
func (s *interfaces) attachFirst(e *NetworkInterface, instanceID string) {
	e.InstanceID, e.AttachmentID, e.AttachedAt = instanceID, "eni-attach-"+s.newID(), s.clock.Now()
	s.keep(e)
	s.save(e)
}

// tagFirst gives the primary interface of a new instance the tags of its launch template.
func (s *interfaces) tagFirst(instanceID string, tags map[string]string) {
	if len(tags) > 0 {
		e := s.byInstance[instanceID][0]
		e.Tags = tags
		s.save(e)
	}
}

func (s *interfaces) keep(e *NetworkInterface) {
	s.byID[e.ID] = e
	if e.InstanceID == "" {
		return
	}
	list := slices.DeleteFunc(s.byInstance[e.InstanceID], func(o *NetworkInterface) bool { return o.ID == e.ID })
	list = append(list, e)
	slices.SortFunc(list, func(a, b *NetworkInterface) int { return cmp.Compare(a.DeviceIndex, b.DeviceIndex) })
	s.byInstance[e.InstanceID] = list
}

func (s *interfaces) save(e *NetworkInterface) { s.store.put(bucketInterfaces, e.ID, e) }

func (s *interfaces) restore(_ string, value []byte) error {
	e := &NetworkInterface{}
	if err := json.Unmarshal(value, e); err != nil {
		return err
	}
	s.keep(e)
	s.network.occupy(e.SubnetID, e.PrivateIP)
	for _, ip := range e.Addresses {
		s.network.occupy(e.SubnetID, ip)
	}
	if n := s.network.subnet(e.SubnetID); n != nil {
		for _, p := range e.Prefixes {
			n.occupyPrefix(p)
		}
	}
	return nil
}

// releaseAll deletes the interfaces of a terminated instance, except those with Keep.
func (s *interfaces) releaseAll(i *instance) {
	for _, e := range slices.Clone(s.byInstance[i.ID]) {
		for _, b := range s.branchesOf(e) {
			b.disassociate()
			if b.Keep {
				s.save(b)
				continue
			}
			s.remove(b)
		}
		s.unlink(e)
		if e.Keep {
			s.save(e)
			continue
		}
		s.remove(e)
	}
	delete(s.byInstance, i.ID)
}

func (s *interfaces) unlink(e *NetworkInterface) {
	s.byInstance[e.InstanceID] = slices.DeleteFunc(s.byInstance[e.InstanceID],
		func(o *NetworkInterface) bool { return o == e })
	e.InstanceID, e.AttachmentID, e.DeviceIndex, e.AttachedAt = "", "", 0, time.Time{}
}

func (s *interfaces) remove(e *NetworkInterface) {
	if n := s.network.subnet(e.SubnetID); n != nil {
		n.release(e.PrivateIP)
		for _, ip := range e.Addresses {
			n.release(ip)
		}
		for _, p := range e.Prefixes {
			n.releasePrefix(p)
		}
	}
	delete(s.byID, e.ID)
	delete(s.tags, e.ID)
	s.store.remove(bucketInterfaces, e.ID)
	s.store.remove(bucketTags, e.ID)
}

// NetworkInterfaces returns all interfaces, by ID.
func (s *interfaces) NetworkInterfaces() []NetworkInterface {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]NetworkInterface, 0, len(s.byID))
	for _, e := range s.byID {
		out = append(out, s.copyOf(e))
	}
	slices.SortFunc(out, func(a, b NetworkInterface) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

func (s *interfaces) copyOf(e *NetworkInterface) NetworkInterface {
	out := *e
	out.Addresses, out.Prefixes = slices.Clone(e.Addresses), slices.Clone(e.Prefixes)
	out.Tags = s.tagged(e.ID, e.Tags)
	return out
}

func noInterface(id string) *APIError {
	return apiError("InvalidNetworkInterfaceID.NotFound", "The networkInterface ID '%s' does not exist", id)
}

// limits returns how many interfaces a type supports, and how many addresses besides the primary one each of them
// holds.
func (s *interfaces) limits(typeName string) (enis, addresses int) {
	t := s.market.Type(typeName)
	switch {
	case t == nil:
		return 1, 0
	case t.NoENIs():
		return 1, max(t.Pods, t.IPv4PerENI)
	}
	return t.MaxENIs, t.IPv4PerENI - 1
}

// grant is a number of addresses or of prefixes.
type grant struct {
	n        int
	prefixes bool
}

// give assigns addresses or prefixes to an interface, all or none.
func (s *interfaces) give(e *NetworkInterface, g grant) *APIError {
	n := s.network.subnet(e.SubnetID)
	had, hadPrefixes := len(e.Addresses), len(e.Prefixes)
	undo := func() {
		for _, ip := range e.Addresses[had:] {
			n.release(ip)
		}
		for _, p := range e.Prefixes[hadPrefixes:] {
			n.releasePrefix(p)
		}
		e.Addresses, e.Prefixes = e.Addresses[:had], e.Prefixes[:hadPrefixes]
	}
	for i := range g.n {
		if g.prefixes {
			p, ok := n.takePrefix(s.network.scattered(n, "prefix", e.ID))
			if !ok {
				undo()
				return apiError("InsufficientCidrBlocks",
					"There are not enough free cidr blocks in the specified subnet to satisfy the request.")
			}
			e.Prefixes = append(e.Prefixes, p)
			continue
		}
		ip, ok := s.network.takeScattered(n, "address", e.ID, string(rune(had+i)))
		if !ok {
			undo()
			return noAddresses(e.SubnetID, " to satisfy the request")
		}
		e.Addresses = append(e.Addresses, ip)
	}
	return nil
}

// create creates an unattached interface with addresses or prefixes.
func (s *interfaces) create(e NetworkInterface, g grant) (*NetworkInterface, *APIError) {
	n := s.network.subnet(e.SubnetID)
	if n == nil {
		return nil, noSubnet(e.SubnetID)
	}
	e.ID, e.CreatedAt = "eni-"+s.newID(), s.clock.Now()
	ip, ok := s.network.takeScattered(n, "first", e.ID)
	if !ok {
		return nil, noAddresses(e.SubnetID, " to satisfy the request")
	}
	e.PrivateIP = ip
	if err := s.give(&e, g); err != nil {
		n.release(ip)
		return nil, err
	}
	s.keep(&e)
	s.save(&e)
	return &e, nil
}

func (s *interfaces) attach(e *NetworkInterface, i *instance, device int) *APIError {
	enis, addresses := s.limits(i.Type)
	switch n := s.network.subnet(e.SubnetID); {
	case e.InUse():
		return inUse(e.ID)
	case n.Zone != i.Zone:
		return otherZone()
	case slices.ContainsFunc(s.byInstance[i.ID], func(o *NetworkInterface) bool { return o.DeviceIndex == device }):
		return apiError("InvalidParameterValue", "Instance '%s' already has an interface attached at device index '%d'.",
			i.ID, device)
	case len(s.byInstance[i.ID]) >= enis:
		return apiError("AttachmentLimitExceeded", "Interface count %d exceeds the limit for %s",
			len(s.byInstance[i.ID])+1, i.Type)
	case e.used() > addresses:
		return addressLimit()
	}
	e.InstanceID, e.AttachmentID, e.DeviceIndex, e.AttachedAt = i.ID, "eni-attach-"+s.newID(), device, s.clock.Now()
	s.keep(e)
	s.save(e)
	return nil
}

func inUse(id string) *APIError {
	return apiError("InvalidNetworkInterface.InUse", "Interface: [%s] in use.", id)
}

func otherZone() *APIError {
	return apiError("InvalidParameterValue",
		"You may not attach a network interface to an instance if they are not in the same availability zone")
}

func addressLimit() *APIError {
	return apiError("PrivateIpAddressLimitExceeded", "Number of private addresses will exceed limit.")
}

// room returns how many more addresses or prefixes the interface can hold.
func (s *interfaces) room(e *NetworkInterface) int {
	i := s.instances.byID[e.InstanceID]
	if i == nil {
		return 1 << 10 // the limit depends on the instance type
	}
	_, addresses := s.limits(i.Type)
	return max(addresses-e.used(), 0)
}
