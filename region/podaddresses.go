package region

import (
	"encoding/json"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/nodeless/nodeless/catalog"
	"github.com/nodeless/nodeless/internal/kit/clock"
)

// PodAddress is an address that a pod holds.
type PodAddress struct {
	InstanceID string
	SubnetID   string
	IP         netip.Addr
	BranchID   string `json:",omitempty"` // of the branch interface that has the address; "" = the instance's own
}

// podAddresses assigns addresses of an instance's network interfaces to pods, as the VPC CNI's address manager does
// on each node (amazon-vpc-cni-k8s v1.23, pkg/ipamd): it keeps as many addresses ready as the warm targets require.
// Its calls to EC2 take no time here.
type podAddresses struct {
	*core
	market     *market
	interfaces *interfaces
	instances  *instances
	byPod      map[string]PodAddress // by UID

	branchCooldown time.Duration
}

// Durations of the VPC CNI.
const (
	ipCooldown     = 30 * time.Second  // from a pod's end until its address may be reused
	subnetCooldown = 120 * time.Second // from a subnet's refusal until the next request
)

// addressPool is the state of an instance's VPC CNI.
type addressPool struct {
	cni        catalog.CNI
	told       bool // configured by SetCNI
	maxPods    int  // 0 = unknown: use the type's default
	network    *PodNetwork
	cooling    map[netip.Addr]time.Time
	refusal    *APIError // the subnet's last answer to a request, if it refused
	shortUntil time.Time // time of the next request
	timer      clock.Timer
}

// PodNetwork is the subnet and security groups of an instance's pod interfaces under custom networking.
type PodNetwork struct {
	SubnetID       string
	SecurityGroups []string // nil = the instance's
}

func newPodAddresses(c *core, m *market, e *interfaces, i *instances) *podAddresses {
	s := &podAddresses{
		core: c, market: m, interfaces: e, instances: i, byPod: map[string]PodAddress{},
		branchCooldown: DefaultBranchCooldown,
	}
	i.ending = s.releaseAll
	return s
}

// SetCNI configures an instance's VPC CNI and the maximum number of pods of its kubelet. From then on the instance
// holds what the warm targets require. An instance without SetCNI holds an address for each pod and none to spare,
// even more than its interfaces support: on EKS's nodes, aws-node and kube-proxy count towards the kubelet's maximum
// but need no address.
func (s *podAddresses) SetCNI(instanceID string, c catalog.CNI, maxPods int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.instances.byID[instanceID]
	if i == nil || !i.active() {
		return
	}
	p := s.pool(i)
	p.cni, p.told, p.maxPods, p.shortUntil = c, true, maxPods, time.Time{}
	_ = s.balance(i, 0)
	s.rest(i)
	s.commitBackground("instance", instanceID)
}

// SetPodNetwork applies an instance's ENIConfig. Under custom networking its pods get no address before that.
func (s *podAddresses) SetPodNetwork(instanceID string, w PodNetwork) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.instances.byID[instanceID]
	if i == nil {
		return noInstance(instanceID)
	}
	switch n := s.interfaces.network.subnet(w.SubnetID); {
	case n == nil:
		return noSubnet(w.SubnetID)
	case n.Zone != i.Zone:
		return otherZone()
	}
	p := s.pool(i)
	p.network, p.shortUntil = &w, time.Time{}
	return nil
}

func (s *podAddresses) pool(i *instance) *addressPool {
	if i.addresses == nil {
		i.addresses = &addressPool{cni: catalog.CNI{MinimumIP: 1}, cooling: map[netip.Addr]time.Time{}}
	}
	return i.addresses
}

// AssignPodIP assigns a pod an address of its instance's interfaces. The same pod gets the same address again.
func (s *podAddresses) AssignPodIP(instanceID, podUID string) (netip.Addr, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p, ok := s.byPod[podUID]; ok && p.InstanceID == instanceID {
		return p.IP, nil
	}
	i := s.instances.byID[instanceID]
	if i == nil || !i.active() || s.market.Type(i.Type) == nil {
		return netip.Addr{}, apiError("InvalidInstanceID.NotFound", "The instance ID '%s' does not exist or is ending",
			instanceID)
	}
	ip, e := s.unassigned(i)
	if e == nil {
		failure := s.balance(i, 1)
		if ip, e = s.unassigned(i); e == nil {
			return ip, s.noAddress(i, failure)
		}
	}
	s.release(podUID) // its address on another instance
	p := PodAddress{InstanceID: instanceID, SubnetID: e.SubnetID, IP: ip}
	s.hold(podUID, p)
	s.store.put(bucketPods, podUID, p)
	_ = s.balance(i, 0) // a subnet that refused is tried again later
	return ip, s.commit()
}

// noAddress returns why an instance has no address for another pod.
func (s *podAddresses) noAddress(i *instance, failure *APIError) *APIError {
	if failure != nil {
		return failure
	}
	if _, _, failure := s.placeForPods(i); failure != nil {
		return failure
	}
	if n := len(s.pool(i).cooling); n > 0 {
		return apiError("PrivateIpAddressLimitExceeded", "The network interfaces of instance %s have no address left: "+
			"%d pods have one each, and %d are in cooldown until %s after their pods ended", i.ID, len(i.pods), n, ipCooldown)
	}
	return apiError("PrivateIpAddressLimitExceeded",
		"The network interfaces of instance %s hold %d pod addresses, and all are taken", i.ID, len(i.pods))
}

// unassigned returns an address that no pod holds and that is not cooling down, with its interface; nil if there is
// none.
func (s *podAddresses) unassigned(i *instance) (netip.Addr, *NetworkInterface) {
	busy := s.busy(i)
	for _, e := range s.forPods(i) {
		for _, ip := range e.Addresses {
			if !busy[ip] {
				return ip, e
			}
		}
		for _, p := range e.Prefixes {
			for ip := p.Addr(); p.Contains(ip); ip = ip.Next() {
				if !busy[ip] {
					return ip, e
				}
			}
		}
	}
	return netip.Addr{}, nil
}

// busy returns the addresses that pods hold and those still cooling down.
func (s *podAddresses) busy(i *instance) map[netip.Addr]bool {
	out := make(map[netip.Addr]bool, len(i.pods))
	for uid := range i.pods {
		out[s.byPod[uid].IP] = true
	}
	now, p := s.clock.Now(), s.pool(i)
	for ip, until := range p.cooling {
		if now.Before(until) {
			out[ip] = true
			continue
		}
		delete(p.cooling, ip)
	}
	return out
}

// ReleasePodIP releases a pod's address; unknown pods are ignored.
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

// HolderOf returns the instance that holds an address, for itself or for one of its pods; "" if none does.
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
	if i := s.instances.byID[p.InstanceID]; i != nil && p.BranchID == "" {
		i.pods[uid] = true
	}
}

func (s *podAddresses) release(uid string) {
	p, ok := s.byPod[uid]
	if !ok {
		return
	}
	delete(s.byPod, uid)
	s.store.remove(bucketPods, uid)
	if p.BranchID != "" {
		s.coolBranch(p.BranchID)
		return
	}
	i := s.instances.byID[p.InstanceID]
	if i == nil {
		return
	}
	delete(i.pods, uid)
	if i.active() {
		s.pool(i).cooling[p.IP] = s.clock.Now().Add(ipCooldown)
		s.rest(i)
	}
}

// releaseAll releases the addresses of all pods of an instance that is shutting down.
func (s *podAddresses) releaseAll(i *instance) {
	for uid := range i.pods {
		s.release(uid)
	}
	if s.interfaces.trunkOf(i.ID) != nil {
		for uid, p := range s.byPod {
			if p.InstanceID == i.ID {
				s.release(uid)
			}
		}
	}
	if i.addresses != nil && i.addresses.timer != nil {
		i.addresses.timer.Stop()
	}
}

// rest schedules shrinkLater for when addresses have cooled down, unless it is already scheduled.
func (s *podAddresses) rest(i *instance) {
	p := s.pool(i)
	if p.timer == nil {
		p.timer = s.clock.AfterFunc(ipCooldown, func() { s.shrinkLater(i) })
	}
}

// shrinkLater gives back the addresses that an instance does not need. The VPC CNI waits 30 s between two such
// passes.
func (s *podAddresses) shrinkLater(i *instance) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.instances.byID[i.ID] != i || !i.active() {
		return
	}
	p := s.pool(i)
	p.timer = nil
	s.shrink(i)
	if len(p.cooling) > 0 {
		s.rest(i)
	}
	s.commitBackground("instance", i.ID)
}

func (s *podAddresses) restore(uid string, value []byte) error {
	var p PodAddress
	if err := json.Unmarshal(value, &p); err != nil {
		return err
	}
	s.hold(uid, p)
	list := s.interfaces.byInstance[p.InstanceID]
	if len(list) == 0 || p.BranchID != "" ||
		slices.ContainsFunc(list, func(e *NetworkInterface) bool { return e.has(p.IP) }) {
		return nil
	}
	// A state file from before interfaces had addresses.
	list[0].Addresses = append(list[0].Addresses, p.IP)
	s.interfaces.network.occupy(p.SubnetID, p.IP)
	return nil
}

func (e *NetworkInterface) has(ip netip.Addr) bool {
	return slices.Contains(e.Addresses, ip) ||
		slices.ContainsFunc(e.Prefixes, func(p netip.Prefix) bool { return p.Contains(ip) })
}
