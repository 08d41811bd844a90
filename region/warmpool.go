package region

import (
	"net/netip"
	"slices"

	"github.com/nodeless/nodeless/catalog"
)

// target returns what the warm targets require if the instance had more additional pods. A cooling address counts as
// a pod.
func (s *podAddresses) target(i *instance, more int) (want catalog.Holding, t *catalog.Type) {
	p, pods := s.pool(i), len(s.busy(i))+more
	t = s.market.Type(i.Type)
	maxPods := p.maxPods
	if maxPods == 0 {
		maxPods = int(catalog.MaxPods(t, 0, p.cni.Prefixes(t)))
	}
	return p.cni.Holding(t, pods, maxPods), t
}

// forPods returns the interfaces of an instance that may hold addresses of pods.
func (s *podAddresses) forPods(i *instance) (out []*NetworkInterface) {
	custom := s.pool(i).cni.Custom(s.market.Type(i.Type))
	for _, e := range s.interfaces.byInstance[i.ID] {
		if e.Type != TrunkInterface && !(custom && e.DeviceIndex == 0) {
			out = append(out, e)
		}
	}
	return out
}

// placeForPods returns the subnet and security groups of an instance's interfaces for pods: the instance's own, or
// under custom networking those of its ENIConfig.
func (s *podAddresses) placeForPods(i *instance) (subnet string, groups []string, failure *APIError) {
	p := s.pool(i)
	switch {
	case !p.cni.Custom(s.market.Type(i.Type)):
		return i.SubnetID, i.SecurityGroups, nil
	case p.network == nil:
		return "", nil, apiError("InvalidSubnetID.NotFound", "Instance %s has no ENIConfig", i.ID)
	case p.network.SecurityGroups == nil:
		return p.network.SubnetID, i.SecurityGroups, nil
	}
	return p.network.SubnetID, p.network.SecurityGroups, nil
}

// held returns how many pod addresses the instance holds.
func (s *podAddresses) held(i *instance) (n int) {
	for _, e := range s.forPods(i) {
		n += e.addresses()
	}
	return n
}

// balance obtains the addresses that the warm targets would require with more additional pods, or returns why it
// cannot.
func (s *podAddresses) balance(i *instance, more int) *APIError {
	p := s.pool(i)
	want, t := s.target(i, more)
	missing := max(want.Addresses, len(i.pods)+more) - s.held(i)
	if missing <= 0 {
		return nil
	}
	if s.clock.Now().Before(p.shortUntil) {
		return p.refusal
	}
	enis := p.cni.ENIs(t)
	if p.cni.Branches(t) > 0 && s.interfaces.trunkOf(i.ID) == nil {
		enis-- // reserved for the trunk
	}
	if failure := s.grow(i, missing, p.cni.Prefixes(t) && !t.NoENIs(), enis); failure != nil {
		p.refusal, p.shortUntil = failure, s.clock.Now().Add(subnetCooldown)
		return failure
	}
	return nil
}

// grow obtains more addresses, first on the instance's interfaces, then on new ones. If the subnet cannot provide all
// the missing ones on an interface, grow requests a single address or prefix.
func (s *podAddresses) grow(i *instance, missing int, prefixes bool, enis int) *APIError {
	unit := 1
	if prefixes {
		unit = blockSize
	}
	for _, e := range s.forPods(i) {
		n := min((missing+unit-1)/unit, s.interfaces.room(e))
		if n <= 0 {
			continue
		}
		failure := s.interfaces.give(e, grant{n, prefixes})
		if failure == nil || n > 1 && s.interfaces.give(e, grant{1, prefixes}) == nil {
			s.interfaces.save(e)
		}
		if failure != nil {
			return failure
		}
		missing -= n * unit
	}
	_, perENI := s.interfaces.limits(i.Type)
	for missing > 0 && len(s.interfaces.byInstance[i.ID]) < enis && perENI > 0 {
		n := min((missing+unit-1)/unit, perENI)
		if failure := s.addInterface(i, grant{n, prefixes}); failure != nil {
			return failure
		}
		missing -= n * unit
	}
	if list := s.interfaces.byInstance[i.ID]; missing > 0 && !s.pool(i).told && len(list) > 0 {
		defer s.interfaces.save(list[0])
		return s.interfaces.give(list[0], grant{missing, false})
	}
	return nil
}

// addInterface creates an interface with addresses and attaches it at the lowest free device index. Under custom
// networking, the ENIConfig determines its subnet and security groups.
func (s *podAddresses) addInterface(i *instance, g grant) *APIError {
	list := s.interfaces.byInstance[i.ID]
	device := 0
	for slices.ContainsFunc(list, func(e *NetworkInterface) bool { return e.DeviceIndex == device }) {
		device++
	}
	subnet, groups, failure := s.placeForPods(i)
	if failure != nil {
		return failure
	}
	e, failure := s.interfaces.create(NetworkInterface{
		SubnetID: subnet, Description: "aws-K8S-" + i.ID, SecurityGroups: groups,
		Tags: map[string]string{"node.k8s.amazonaws.com/instance_id": i.ID},
	}, g)
	if failure != nil {
		return failure
	}
	return s.interfaces.attach(e, i, device)
}

// shrink gives back what the warm targets do not require and no pod uses: interfaces and, if the targets count
// addresses or prefixes, those too.
func (s *podAddresses) shrink(i *instance) {
	want, t := s.target(i, 0)
	spare := s.held(i) - want.Addresses
	if t.NoENIs() || spare <= 0 {
		return
	}
	busy := s.busy(i)
	for _, e := range slices.Backward(slices.Clone(s.forPods(i))) {
		if e.DeviceIndex > 0 && e.addresses() <= spare && !e.hasAny(busy) {
			spare -= e.addresses()
			s.interfaces.unlink(e)
			s.interfaces.remove(e)
		}
	}
	c := s.pool(i).cni
	if !c.Prefixes(t) && c.WarmIP == 0 && c.MinimumIP == 0 {
		return
	}
	for _, e := range slices.Backward(s.forPods(i)) {
		spare -= s.trim(e, spare, busy)
	}
}

// trim removes up to spare addresses from an interface, whole prefixes first, and returns how many it removed.
func (s *podAddresses) trim(e *NetworkInterface, spare int, busy map[netip.Addr]bool) int {
	var addresses []netip.Addr
	var prefixes []netip.Prefix
	n := 0
	for _, p := range slices.Backward(e.Prefixes) {
		if n+blockSize <= spare && !(&NetworkInterface{Prefixes: []netip.Prefix{p}}).hasAny(busy) {
			prefixes = append(prefixes, p)
			n += blockSize
		}
	}
	for _, ip := range slices.Backward(e.Addresses) {
		if n < spare && !busy[ip] {
			addresses = append(addresses, ip)
			n++
		}
	}
	if n > 0 {
		s.interfaces.take(e, addresses, prefixes)
	}
	return n
}

// hasAny reports whether the interface has one of the addresses.
func (e *NetworkInterface) hasAny(of map[netip.Addr]bool) bool {
	for ip := range of {
		if e.has(ip) {
			return true
		}
	}
	return false
}
