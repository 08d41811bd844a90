// Package model holds the engine's data: an immutable Snapshot of a cluster goes in, a Plan comes out.
//
// Everything is in canonical order (see each field), so that equal clusters are equal values and give equal plans.
// Nothing here depends on Kubernetes' Go types, a cloud or a clock; controller/translate translates.
package model

import (
	"sort"
	"time"
)

// Label keys that have a meaning to the engine. Names: Kubernetes well-known labels and karpenter.sh/v1.
const (
	LabelPool         = "karpenter.sh/nodepool"
	LabelCapacityType = "karpenter.sh/capacity-type"
	LabelZone         = "topology.kubernetes.io/zone"
	LabelRegion       = "topology.kubernetes.io/region"
	LabelInstanceType = "node.kubernetes.io/instance-type"
	LabelArch         = "kubernetes.io/arch"
	LabelOS           = "kubernetes.io/os"
	LabelHostname     = "kubernetes.io/hostname"
)

// Capacity types.
const (
	OnDemand = "on-demand"
	Spot     = "spot"
	Reserved = "reserved"
)

// Snapshot is a cluster at one instant. It is immutable once made; several snapshots may share structure.
type Snapshot struct {
	Now           time.Time
	ResourceNames []string // by resource index; begins with WellKnownResources
	Shapes        []Shape  // distinct pod shapes, by Key
	Pending       []Pod    // pods that need a node, by Created, then Namespace, Name
	// Expected are pods not created yet, in the order of Pending: replacements of evicted pods, and what the
	// controllers of pending pods have yet to create. Capacity is reserved for them.
	Expected   []Pod
	Nodes      []Node      // nodes that exist or are being launched, by Name
	Pools      []Pool      // by Weight descending, then Name
	Daemons    []Daemon    // DaemonSets, by Namespace, Name
	Namespaces []Namespace // by Name
	Subnets    []Subnet    `json:",omitempty"` // by ID; those that no pool uses limit nothing
	// Unsettled says why no pods are moved under Enforce, such as a rollout of the VPC CNI; "" if they may be moved.
	Unsettled string `json:",omitempty"`
}

// Pool returns the pool with the name, nil if there is none.
func (s *Snapshot) Pool(name string) *Pool {
	for i := range s.Pools { // pools are large: compare them in place
		if s.Pools[i].Name == name {
			return &s.Pools[i]
		}
	}
	return nil
}

// NodeIndex returns the index in Nodes of the node with the name, -1 if there is none.
func (s *Snapshot) NodeIndex(name string) int {
	i := sort.Search(len(s.Nodes), func(i int) bool { return s.Nodes[i].Name >= name })
	if i < len(s.Nodes) && s.Nodes[i].Name == name {
		return i
	}
	return -1
}

// PodKey identifies one pod throughout its life.
type PodKey struct{ Namespace, Name, UID string }

// Pod is one pod of a shape.
type Pod struct {
	PodKey
	Shape    int // index into Snapshot.Shapes
	Priority int32
	Created  time.Time
	// From is the node that the pod runs on and has to leave because the node is being removed; "" for an unbound pod.
	// Such a pod is in Snapshot.Pending and not among its node's Pods: capacity for it is prepared before it is
	// evicted.
	From string
	// Nominated is the node on which kube-scheduler reserves room for the pod because an earlier plan placed it there
	// (status.nominatedNodeName); "" for none.
	Nominated string
	// Virtual marks a placeholder for capacity that a CapacityBuffer or a CronJob's next run reserves. It gets what other
	// pods leave, whatever its priority, and ignores the policy's priority cutoff.
	Virtual  bool
	Expected bool `json:"-"` // marks one of Snapshot.Expected for which Provision plans
	// FromTemplate marks one of Snapshot.Expected whose controller has created no such pod yet. Its shape is that of the
	// controller's template, which admission may change: nodes are sized for it, but none is launched for it alone.
	FromTemplate bool `json:",omitempty"`
}

// Shape holds everything that decides where a pod may run. Equal pods share one shape.
type Shape struct {
	Key         string    // canonical text of everything below; unique in a snapshot
	Requests    Resources // init containers, sidecars and overhead included; Pods is 1
	Required    Requirements
	AnyOf       []Requirements // required node affinity terms: at least one must hold; empty = no constraint
	Preferred   []Preference
	Tolerations []Toleration

	Namespace     string    // with Labels, what selectors of other pods see
	Labels        []Label   // by Key
	Affinity      []PodTerm // required; in the pod's own order
	AntiAffinity  []PodTerm // required
	PreferredPods []PodPreference
	Spread        []Spread
	HostPorts     []HostPort
	Volumes       []Volume

	// Blocked says what must happen before any node can take the pod, such as "persistentVolumeClaim data does not
	// exist"; "" if nothing must.
	Blocked string
	// Unmodelled names constraints that the engine does not decide, such as "resourceClaims". Such a pod gets a Reason
	// rather than a wrong node.
	Unmodelled []string
	// Original is the shape without the preferences that a plan adds to it as requirements, nil if there are none. It is
	// not part of Key: only the engine sets it, in copies.
	Original *Shape `json:"-"`
}

// Scheduled returns the shape as kube-scheduler sees it, whose spreads count nodes by what its pods require, whatever
// they prefer.
func (s *Shape) Scheduled() *Shape {
	if s.Original != nil {
		return s.Original
	}
	return s
}

// Preference is a preferred node affinity term with weight 1..100.
type Preference struct {
	Weight int32
	Terms  Requirements
}

// Daemon is a DaemonSet: one pod of its shape runs on every node it fits.
type Daemon struct {
	Namespace, Name string
	Shape           Shape
}

// NodeState is a node's stage in its life cycle.
type NodeState int

// States of a node, in order.
const (
	InFlight    NodeState = iota // launched or about to be; there is no Node object yet
	Registered                   // the Node exists but startup has not finished
	Initialized                  // ready for pods, all resources there
)

// Node is a node, managed or not, that exists or is being launched.
type Node struct {
	Name         string // the Node's name; the NodeClaim's while there is no Node
	Claim        string // NodeClaim, "" if the node is not managed
	Pool         string // NodePool, "" if none
	Type         string
	Zone         string
	CapacityType string
	Labels       Requirements // each label as key In [value]; for a node in flight the requirements of its claim
	// those that matter for scheduling: startup and boot-time taints are left out until Initialized
	Taints       []Taint
	Capacity     Resources // counts against the pool's limits
	Allocatable  Resources
	Used         Resources  // requests of its pods and of the daemon pods expected on it
	DaemonPorts  []HostPort `json:",omitempty"` // host ports of these daemon pods
	Price        Price      // 0 if unknown
	State        NodeState
	Created      time.Time
	Initialized  time.Time  // zero if not yet
	LastPodEvent time.Time  // last time a pod was bound or removed; zero if never
	Pods         []BoundPod // by Namespace, Name
	Deleting     bool       // being drained or terminated: accepts no pods
	Cordoned     bool       // spec.unschedulable: accepts no pods
	DoNotDisrupt bool       // annotation karpenter.sh/do-not-disrupt on the node
	Drifted      string     // reason of drift, "" if none
	DriftedSince time.Time
	Expires      time.Time // when the claim's expireAfter passes; zero if never
	// DaemonSets whose pods wait for this node, by DaemonSet; Used includes their requests
	MissingDaemons []MissingDaemon `json:"Lacks"`
	// recently nominated for pods that may be about to arrive: not disrupted before then; zero if none
	NominatedUntil time.Time
	Command        string // ID of the Command that removes the node, "" if none; implies Deleting
	// Deadline means that the claim has a terminationGracePeriod: its pods are deleted in the end, whatever protects
	// them, so drift does not wait for them (karpenter.sh/v1: the "eventual" disruption class).
	Deadline     bool
	AttachLimits []AttachLimit // of CSINode, by Driver
	Unaddressed  int64         `json:",omitempty"` // see InstanceType
	Unlaunched   bool          `json:"-"`          // marks one that Provision launches only if it places pods there
}

// Free returns what pods can still request.
func (n *Node) Free() Resources { return n.Allocatable.Minus(n.Used) }

// BoundPod is a pod on a node. Shape is negative if the pod has no influence on others.
type BoundPod struct {
	Pod
	Daemon       bool // owned by a DaemonSet or the node itself: deleted with the node
	DoNotDisrupt bool
	Terminal     bool // Succeeded or Failed
	Terminating  bool `json:"Leaving"`    // has a deletionTimestamp: topology spread ignores it, the rest counts it
	Returns      bool `json:",omitempty"` // Terminating, and a StatefulSet creates its replacement once it has ended
	// EvictionBlocked says why the pod cannot be evicted now although the pod itself allows it, such as
	// "PodDisruptionBudget shop/web allows no eviction"; "" if it can be evicted.
	EvictionBlocked string `json:"Held"`
	// EvictionCost is the cost of moving the pod in thousandths of an ordinary pod, from its deletion cost and priority,
	// between -1,000,000 and 1,000,000; a negative one counts as 0.
	EvictionCost int32
	Job          *JobRun // set for a running pod of a Job
}

// Limits are a pool's spec.limits, by resource index. Only indices in Set count.
type Limits struct {
	Set      [MaxResources]bool
	Max      Resources `json:"Most"`
	NodesSet bool
	Nodes    int64
	OfGroup  bool `json:",omitempty"` // Nodes is the maximum of an Auto Scaling group
}

// Pool is a NodePool that may launch nodes.
type Pool struct {
	Name          string
	Weight        int32
	Requirements  Requirements
	Taints        []Taint
	StartupTaints []Taint
	Limits        Limits
	Usage         Resources // capacity of all its nodes, including those in flight and being removed
	NodeCount     int64
	MinNodes      int64          `json:",omitempty"` // which it keeps: the minimum of an Auto Scaling group
	Types         []InstanceType // what its node class offers, by Name; shared
	NotReady      string         // why it may not launch now, "" if it may
	Unread        bool           `json:",omitempty"` // its node class was not read yet: prices of its nodes are unknown
	Disruption    DisruptionPolicy
	// Static pools keep Replicas nodes, regardless of pods; no pod causes a launch in them.
	Static   bool
	Replicas int64
	// Reservations are capacity reservations whose free instances it may launch, by ID; shared among pools.
	Reservations []Reservation `json:",omitempty"`
	// Subnets are the IDs of the subnets in which it launches, at least one per zone, sorted; nil = addresses limit
	// nothing.
	Subnets []string `json:",omitempty"`
}

// InstanceType is a type of instance that pools can launch.
type InstanceType struct {
	Name         string
	Requirements Requirements // its labels, each In [value]
	Capacity     Resources
	Allocatable  Resources     // capacity less reserved resources and eviction thresholds
	Offerings    []Offering    // by Zone, CapacityType
	AttachLimits []AttachLimit // by Driver; a driver without an entry has no limit
	// Addresses says how many addresses a node takes from its subnet by its pods, ascending; nil = unknown, no limit.
	Addresses []AddressStep `json:",omitempty"`
	// SingleAddresses means that its nodes need no free /28 blocks: see Subnet.Scattered.
	SingleAddresses bool `json:",omitempty"`
	// Unaddressed is how many of a node's pods would have no address; if any, the type is not launched under Enforce.
	Unaddressed int64 `json:",omitempty"`
}

// Offering is an instance type in a zone with a capacity type, at a price.
type Offering struct {
	Zone         string
	CapacityType string
	Price        Price // what a node costs: the instance and SidePrice
	// SidePrice is the part of Price that is not the instance's: the node's volumes and public addresses.
	SidePrice Price     `json:",omitempty"`
	Available bool      // false while the cloud reported insufficient capacity recently
	RetryAt   time.Time `json:"Again"` // when an unavailable offering is tried again; zero if unknown
	// Shifted means that it is not available because traffic is shifted away from its zone, until RetryAt.
	Shifted bool `json:",omitempty"`
}

// OfferingKey identifies an offering.
type OfferingKey struct{ Type, Zone, CapacityType string }
