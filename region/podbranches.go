package region

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"time"
)

// Each pod with its own security groups has a branch interface, which EKS's VPC resource controller creates on the
// trunk of its instance (amazon-vpc-resource-controller-k8s v1.8, pkg/provider/branch). Its calls to EC2 take no time
// here.

// How long the branch of an ended pod is kept.
const (
	DefaultBranchCooldown = time.Minute
	LeastBranchCooldown   = 30 * time.Second
)

// Branch is a pod's interface on the trunk of its instance.
type Branch struct {
	NetworkInterface
	SubnetCIDR netip.Prefix
}

// SetBranchCooldown sets how long the branches of pods that end from now on are kept, and returns the effective
// value: 0 means DefaultBranchCooldown, and LeastBranchCooldown is the minimum.
func (s *podAddresses) SetBranchCooldown(d time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.branchCooldown = max(cmp.Or(d, DefaultBranchCooldown), LeastBranchCooldown)
	return s.branchCooldown
}

// AttachTrunk creates and attaches an instance's trunk interface, at the highest free device index, and returns it.
// If the instance has one, AttachTrunk returns that.
func (s *podAddresses) AttachTrunk(instanceID string) (NetworkInterface, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.instances.byID[instanceID]
	if i == nil || !i.active() {
		return NetworkInterface{}, noInstance(instanceID)
	}
	if e := s.interfaces.trunkOf(i.ID); e != nil {
		return s.interfaces.copyOf(e), nil
	}
	t := s.market.Type(i.Type)
	if t == nil || t.NoENIs() || t.BranchENIs == 0 {
		return NetworkInterface{}, apiError("InvalidParameterValue", "Instance type %s takes no trunk interface", i.Type)
	}
	subnet, groups, failure := s.placeForPods(i)
	if failure != nil {
		return NetworkInterface{}, failure
	}
	device := t.MaxENIs - 1
	taken := func(e *NetworkInterface) bool { return e.DeviceIndex == device }
	for slices.ContainsFunc(s.interfaces.byInstance[i.ID], taken) {
		device--
	}
	e, failure := s.interfaces.create(NetworkInterface{
		Type: TrunkInterface, SubnetID: subnet, SecurityGroups: groups, Description: "aws-k8s-trunk-eni",
		Tags: s.branchTags(i),
	}, grant{})
	if failure != nil {
		return NetworkInterface{}, failure
	}
	if failure := s.interfaces.attach(e, i, device); failure != nil {
		s.interfaces.remove(e)
		return NetworkInterface{}, failure
	}
	return s.interfaces.copyOf(e), s.commit()
}

// branchTags returns the tags of an instance's trunk and branches.
func (s *podAddresses) branchTags(i *instance) map[string]string {
	return map[string]string{"eks:eni:owner": "eks-vpc-resource-controller", "node.k8s.amazonaws.com/instance_id": i.ID}
}

// AssignBranch assigns a pod a branch of its instance's trunk, in the given security groups or, if there are none, in
// the trunk's. The same pod gets the same branch again.
func (s *podAddresses) AssignBranch(instanceID, podUID string, groups []string) (Branch, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p, ok := s.byPod[podUID]; ok && p.InstanceID == instanceID && p.BranchID != "" {
		return s.branch(p.BranchID), nil
	}
	i := s.instances.byID[instanceID]
	if i == nil || !i.active() {
		return Branch{}, noInstance(instanceID)
	}
	trunk := s.interfaces.trunkOf(i.ID)
	if trunk == nil {
		return Branch{}, apiError("InvalidParameterValue", "Instance %s has no trunk interface", i.ID)
	}
	subnet, _, failure := s.placeForPods(i)
	if failure != nil {
		return Branch{}, failure
	}
	if len(groups) == 0 {
		groups = trunk.SecurityGroups
	} else if err := s.interfaces.groups.check(groups); err != nil {
		return Branch{}, err
	}
	vlan := s.interfaces.freeVLAN(trunk)
	tags := s.branchTags(i)
	tags["vpcresources.k8s.aws/trunk-eni-id"], tags["vpcresources.k8s.aws/vlan-id"] = trunk.ID, strconv.Itoa(vlan)
	e, failure := s.interfaces.create(NetworkInterface{
		SubnetID: subnet, SecurityGroups: groups, Description: "aws-k8s-branch-eni", Tags: tags,
	}, grant{})
	if failure != nil {
		return Branch{}, failure
	}
	if failure := s.interfaces.associate(e, trunk, vlan); failure != nil {
		s.interfaces.remove(e)
		return Branch{}, failure
	}
	s.release(podUID) // its address on another instance
	p := PodAddress{InstanceID: i.ID, SubnetID: subnet, IP: e.PrivateIP, BranchID: e.ID}
	s.hold(podUID, p)
	s.store.put(bucketPods, podUID, p)
	return s.branch(e.ID), s.commit()
}

func (s *podAddresses) branch(id string) Branch {
	e := s.interfaces.byID[id]
	if e == nil {
		return Branch{}
	}
	return Branch{s.interfaces.copyOf(e), s.interfaces.network.subnet(e.SubnetID).CIDR}
}

// coolBranch keeps the branch of an ended pod until it has cooled down, then removes it.
func (s *podAddresses) coolBranch(id string) {
	e := s.interfaces.byID[id]
	if e == nil {
		return
	}
	e.ReleasedAt = s.clock.Now()
	s.interfaces.save(e)
	s.removeBranchLater(e)
}

func (s *podAddresses) removeBranchLater(e *NetworkInterface) {
	left := e.ReleasedAt.Add(s.branchCooldown).Sub(s.clock.Now())
	s.clock.AfterFunc(max(left, 0), func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.closed || s.interfaces.byID[e.ID] != e || e.ReleasedAt.IsZero() {
			return
		}
		s.interfaces.remove(e)
		s.commitBackground("interface", e.ID)
	})
}

// resumeBranches schedules the removal of branches whose pods ended before a restart.
func (s *podAddresses) resumeBranches() {
	for _, id := range slices.Sorted(maps.Keys(s.interfaces.byID)) {
		if e := s.interfaces.byID[id]; !e.ReleasedAt.IsZero() {
			s.removeBranchLater(e)
		}
	}
}
