// Package model holds the engine's data: an immutable Snapshot of a cluster goes in, a Plan comes out.
//
// Everything is in canonical order (said at each field), so that equal clusters are equal values and give equal plans.
// Nothing here knows Kubernetes' Go types, a cloud or a clock; controller/translate translates.
package model

import "time"

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

// Snapshot is a cluster at one instant. It is never changed after it was made; several may share structure.
type Snapshot struct {
	Now           time.Time
	ResourceNames []string    // by resource index; begins with WellKnownResources
	Shapes        []Shape     // distinct pod shapes, by Key
	Pending       []Pod       // pods that wait for a place, by Created, then Namespace, Name
	Expected      []Pod       // pods that were driven off machines that go and whose successors are yet to come, in the same order: room for these is not free for others
	Nodes         []Node      // machines that exist or are on their way, by Name
	Pools         []Pool      // by Weight descending, then Name
	Daemons       []Daemon    // DaemonSets, by Namespace, Name
	Namespaces    []Namespace // by Name
	// Ended is how many pods have succeeded or failed in the last RecentlyEnded, but those that were evicted: kubelets say of them that they did.
	Ended int
	// Running is how many pods are on Nodes, but daemons' and those that ended, if whoever made the snapshot has counted them; else 0. It
	// saves looking at each.
	Running int
}

// RecentlyEnded is for how long the end of a pod is news.
const RecentlyEnded = 10 * time.Minute

// PodKey identifies one pod through its life.
type PodKey struct{ Namespace, Name, UID string }

// Pod is one pod of a shape.
type Pod struct {
	PodKey
	Shape    int // index into Snapshot.Shapes
	Priority int32
	Created  time.Time
	// From is the node that the pod is on and has to leave, since the machine goes; "" for a pod that waits unbound. Such a
	// pod is in Snapshot.Pending and no longer among its node's Pods: its next place is prepared before it is evicted.
	From string
	// Nominated is the machine on which kube-scheduler keeps room for the pod, since an earlier plan gave it its place there
	// (status.nominatedNodeName); "" for none.
	Nominated string
	// Virtual: nobody waits for a place. The pod stands for room that a CapacityBuffer keeps free; it gets what others leave,
	// whatever its priority, and the policy's cut-off is not for it.
	Virtual bool
}

// Shape is all that decides where a pod may go; equal pods share one.
type Shape struct {
	Key         string    // canonical text of everything below; unique in a snapshot
	Requests    Resources // init containers, sidecars and overhead included; Pods is 1
	Required    Requirements
	AnyOf       []Requirements // required node affinity terms: at least one must hold; none = no such rule
	Preferred   []Preference
	Tolerations []Toleration

	Namespace     string    // with Labels, what other pods' selectors see
	Labels        []Label   // by Key
	Affinity      []PodTerm // required; canonical order is the pod's own
	AntiAffinity  []PodTerm // required
	PreferredPods []PodPreference
	Spread        []Spread
	HostPorts     []HostPort
	Volumes       []Volume

	// Blocked says what must happen before any machine can take the pod, such as "persistentVolumeClaim data does not exist";
	// "" if nothing must.
	Blocked string
	// Unmodelled names constraints of the pod that this engine does not decide, such as "resourceClaims"; such a pod is not
	// given a machine but a Reason, never a wrong machine.
	Unmodelled []string
}

// Preference is a node affinity the pod would rather have, with its weight 1..100.
type Preference struct {
	Weight int32
	Terms  Requirements
}

// Daemon is a DaemonSet: a pod of its shape runs on every node it fits.
type Daemon struct {
	Namespace, Name string
	Shape           Shape
}

// NodeState is how far a machine is on its way.
type NodeState int

// States of a machine, in order.
const (
	InFlight    NodeState = iota // claimed; no Node object yet
	Registered                   // the Node exists; startup work is not over
	Initialized                  // ready for pods, all resources there
)

// Node is a machine: managed or not, existing or on its way.
type Node struct {
	Name           string // the Node's name; the NodeClaim's while there is no Node
	Claim          string // NodeClaim, "" if not managed by us
	Pool           string // NodePool, "" if none
	Type           string
	Zone           string
	CapacityType   string
	Labels         Requirements // each label as key In [value]; for a machine in flight what its claim requires
	Taints         []Taint      // what counts for scheduling: startup and boot-time taints are left out until Initialized
	Capacity       Resources    // counts against the pool's limits
	Allocatable    Resources
	Used           Resources // requests of pods bound to it, plus daemons that will come
	Price          Price     // 0 if not known
	State          NodeState
	Created        time.Time
	Initialized    time.Time       // zero if not yet
	LastPodEvent   time.Time       // last time a pod came or went, zero if never
	Pods           []BoundPod      // by Namespace, Name
	Deleting       bool            // being drained or terminated: takes no pods
	Cordoned       bool            // spec.unschedulable: takes no pods
	DoNotDisrupt   bool            // annotation karpenter.sh/do-not-disrupt on the node
	Drifted        string          // reason of drift, "" if none
	DriftedSince   time.Time       // when it drifted
	Expires        time.Time       // when the claim's expireAfter is over, zero if never
	MissingDaemons []MissingDaemon `json:"Lacks"` // DaemonSets whose pods wait for it, by DaemonSet; Used counts what they ask
	NominatedUntil time.Time       // pods had their place there a moment ago and may be on their way: it stays until then; zero if not
	Command        string          // ID of the Command by which the machine is to go, "" if there is none; then Deleting too
	// Deadline: the claim has a terminationGracePeriod, so that its pods leave in the end, whatever protects them. Drift waits
	// for none of them then (karpenter.sh/v1: the "eventual" disruption class).
	Deadline     bool
	AttachLimits []AttachLimit // of CSINode, by Driver
}

// Free is what can still be requested.
func (n *Node) Free() Resources { return n.Allocatable.Minus(n.Used) }

// BoundPod is a pod that has its place. Shape is below 0 if nothing of it matters to others.
type BoundPod struct {
	Pod
	Daemon       bool // owned by a DaemonSet or the node itself: goes with the node
	DoNotDisrupt bool
	Terminal     bool // Succeeded or Failed
	Terminating  bool `json:"Leaving"` // has a deletionTimestamp: topology spread does not count it any more, all else does
	// Held is why the pod cannot be evicted now though nothing on it says so, such as "PodDisruptionBudget shop/web allows no
	// eviction"; "" if it can.
	EvictionBlocked string `json:"Held"`
	// EvictionCost is what moving the pod counts for, in thousandths: 1000 is an ordinary pod (karpenter.md §8.2: deletion cost
	// and priority); never below −10000 or above 10000.
	EvictionCost int32
	Job          *JobRun // of a Job's pod that has begun; nil for others
}

// DisruptionPolicy is a pool's spec.disruption.
type DisruptionPolicy struct {
	ConsolidateAfter time.Duration
	Never            bool // consolidateAfter: Never
	WhenEmptyOnly    bool // consolidationPolicy: WhenEmpty
	Balanced         bool // consolidationPolicy: Balanced
	AllowedEmpty     int  // nodes the budgets allow to go now for being empty; computed by controller/translate, cron and all
	AllowedDrifted   int  // … for drift
	AllowedUnderused int  // … for under-use

	Window Window // the times at which machines may go; the zero value = any
	// Unclear is why nothing of the pool may be disrupted: what its owner said of disruption cannot be read. "" = it can.
	Unclear string
	// MinSaving is what consolidation must save an hour for each machine that goes, MinSavingPercent in percent of what they
	// cost, 0 to 100; 0 = anything.
	MinSaving        Price
	MinSavingPercent int
	SoftExpireAfter  time.Duration // machines this old are replaced, as if they had drifted; 0 = never
	ReplaceCrowded   bool          // so are machines on which a DaemonSet's pod has no room
	WaitForJobs      bool          // consolidation waits for pods of Jobs that will be done sooner than moving them pays
}

// Limits are a pool's spec.limits: resource index → most that may exist. Only indices with Set count.
type Limits struct {
	Set      [MaxResources]bool
	Max      Resources `json:"Most"`
	NodesSet bool
	Nodes    int64
}

// Pool is a NodePool that may launch machines.
type Pool struct {
	Name          string
	Weight        int32
	Requirements  Requirements // spec requirements, template labels and the pool's own label
	Taints        []Taint
	StartupTaints []Taint
	Limits        Limits
	Usage         Resources // capacity of all its machines, also those in flight or going
	NodeCount     int64
	Types         []InstanceType // what its node class offers; shared, by Name
	NotReady      string         // why it may not launch now, "" if it may
	Disruption    DisruptionPolicy
	// Static pools have Replicas machines, whatever pods there are; none is launched in them for a pod.
	Static   bool
	Replicas int64
}

// InstanceType is a kind of machine.
type InstanceType struct {
	Name         string
	Requirements Requirements // its labels, each In [value]
	Capacity     Resources
	Allocatable  Resources     // capacity less reserved resources and eviction thresholds
	Offerings    []Offering    // by Zone, CapacityType
	AttachLimits []AttachLimit // by Driver; a driver that is not named has no limit
}

// Offering is a type that can be had in a zone on a capacity type, at a price.
type Offering struct {
	Zone         string
	CapacityType string
	Price        Price
	Available    bool      // false while the cloud lately had none
	RetryAt      time.Time `json:"Again"` // when one that is not available is tried again; zero if that is not known
}

// OfferingKey names an offering.
type OfferingKey struct{ Type, Zone, CapacityType string }
