package region

import (
	"net/netip"
	"slices"

	"github.com/nodeless/nodeless/catalog"
)

// target returns what the instance's warm targets ask for if it had more pods. An address that rests counts as a pod.
func (s *podAddresses) target(i *instance, more int) (want catalog.Holding, t *catalog.Type) {
	p, pods := s.pool(i), len(s.busy(i))+more
	t = s.market.Type(i.Type)
	maxPods := p.maxPods
	if maxPods == 0 {
		maxPods = int(catalog.MaxPods(t, 0, p.cni.Prefixes(t)))
	}
	return p.cni.Holding(t, pods, maxPods), t
}

// custom reports whether custom networking applies to instances of the type.
func (p *addressPool) custom(t *catalog.Type) bool { return p.cni.NoPods(t) > 0 }

// forPods returns the interfaces of an instance that may hold addresses of pods.
func (s *podAddresses) forPods(i *instance) []*NetworkInterface {
	list := s.interfaces.byInstance[i.ID]
	if len(list) > 0 && list[0].DeviceIndex == 0 && s.pool(i).custom(s.market.Type(i.Type)) {
		return list[1:]
	}
	return list
}

// held returns how many addresses for pods the instance has.
func (s *podAddresses) held(i *instance) (n int) {
	for _, e := range s.forPods(i) {
		n += e.addresses()
	}
	return n
}

// balance gets the addresses that the warm targets ask for if the instance had more pods, and returns why it cannot.
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
	if failure := s.grow(i, missing, p.cni.Prefixes(t) && !t.NoENIs(), p.cni.ENIs(t)); failure != nil {
		p.refusal, p.shortUntil = failure, s.clock.Now().Add(subnetCooldown)
		return failure
	}
	return nil
}

// grow gets more addresses: on the interfaces that the instance has, then on new ones. Where the subnet refuses what
// is missing, one address or prefix is asked for.
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

// addInterface makes an interface with addresses and attaches it at the first device index that is free. Under custom
// networking it is where the ENIConfig says.
func (s *podAddresses) addInterface(i *instance, g grant) *APIError {
	list := s.interfaces.byInstance[i.ID]
	device := 0
	for slices.ContainsFunc(list, func(e *NetworkInterface) bool { return e.DeviceIndex == device }) {
		device++
	}
	subnet, groups, p := i.SubnetID, i.SecurityGroups, s.pool(i)
	if p.custom(s.market.Type(i.Type)) {
		if p.network == nil {
			return s.noAddress(i, nil)
		}
		subnet = p.network.SubnetID
		if p.network.SecurityGroups != nil {
			groups = p.network.SecurityGroups
		}
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

// shrink gives back what the warm targets do not ask for and no pod has: interfaces, and where the targets count
// addresses or prefixes, these.
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

// trim takes up to so many addresses from an interface, whole prefixes first, and returns how many.
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
