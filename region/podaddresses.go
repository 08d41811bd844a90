package region

import (
	"maps"
	"net/netip"
)

// PodAddress is an address that a pod holds.
type PodAddress struct {
	InstanceID string
	SubnetID   string
	IP         netip.Addr
}

// podAddresses gives pods addresses from their instances' subnets, as the VPC CNI does.
type podAddresses struct {
	*core
	market    *market
	network   *network
	instances *instances
	byPod     map[string]PodAddress // by UID
}

func newPodAddresses(c *core, m *market, n *network, i *instances) *podAddresses {
	s := &podAddresses{core: c, market: m, network: n, instances: i, byPod: map[string]PodAddress{}}
	i.ending = s.releaseAll
	return s
}

// AssignPodIP takes an address for a pod from its instance's subnet, within what the type's interfaces can hold. The
// same pod gets the same address again.
func (s *podAddresses) AssignPodIP(instanceID, podUID string) (netip.Addr, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p, ok := s.byPod[podUID]; ok && p.InstanceID == instanceID {
		return p.IP, nil
	}
	i := s.instances.byID[instanceID]
	if i == nil || !i.active() {
		return netip.Addr{}, apiError("InvalidInstanceID.NotFound", "The instance ID '%s' does not exist or is ending",
			instanceID)
	}
	if limit := s.limit(i); len(i.pods) >= limit {
		return netip.Addr{}, apiError("PrivateIpAddressLimitExceeded",
			"The network interfaces of instance %s hold %d pod addresses, and all are taken", instanceID, limit)
	}
	ip, ok := s.network.takeAddress(s.network.subnet(i.SubnetID))
	if !ok {
		return netip.Addr{}, noAddresses(i.SubnetID, "")
	}
	p := PodAddress{InstanceID: instanceID, SubnetID: i.SubnetID, IP: ip}
	s.release(podUID) // the address it had on another instance
	s.hold(podUID, p)
	s.store.put(bucketPods, podUID, p)
	return ip, s.commit()
}

// limit returns how many pod addresses an instance can hold: as many as its node takes pods (catalog.MaxPods) except
// aws-node and kube-proxy, which use the node's own address. A type that is not AWS's has an address for every pod.
func (s *podAddresses) limit(i *instance) int {
	t := s.market.Type(i.Type)
	switch {
	case t == nil:
		return 0
	case t.Pods > 0:
		return t.Pods
	}
	return t.MaxENIs * (t.IPv4PerENI - 1)
}

// ReleasePodIP gives a pod's address back; unknown pods are ignored.
func (s *podAddresses) ReleasePodIP(podUID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.release(podUID)
	s.commitBackground("pod", podUID)
}

// PodAddresses returns the addresses that pods hold, by pod UID.
func (s *podAddresses) PodAddresses() map[string]PodAddress {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.byPod)
}

// HolderOf returns the instance that holds an address, itself or for one of its pods; "" if none does.
func (s *podAddresses) HolderOf(ip netip.Addr) (instanceID string, isPod bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.byPod {
		if p.IP == ip {
			return p.InstanceID, true
		}
	}
	for id, i := range s.instances.byID {
		if i.PrivateIP == ip && i.active() {
			return id, false
		}
	}
	return "", false
}

func (s *podAddresses) hold(uid string, p PodAddress) {
	s.byPod[uid] = p
	if i := s.instances.byID[p.InstanceID]; i != nil {
		i.pods[uid] = true
	}
}

func (s *podAddresses) release(uid string) {
	p, ok := s.byPod[uid]
	if !ok {
		return
	}
	s.network.freeAddress(p.SubnetID, p.IP)
	delete(s.byPod, uid)
	if i := s.instances.byID[p.InstanceID]; i != nil {
		delete(i.pods, uid)
	}
	s.store.remove(bucketPods, uid)
}

// releaseAll gives back the addresses of all pods of an instance.
func (s *podAddresses) releaseAll(i *instance) {
	for uid := range i.pods {
		s.release(uid)
	}
}
