package view

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Labels of nodes that are shown.
const (
	labelPool     = "karpenter.sh/nodepool"
	labelCapacity = "karpenter.sh/capacity-type"
	labelType     = "node.kubernetes.io/instance-type"
	labelZone     = "topology.kubernetes.io/zone"
	labelRegion   = "topology.kubernetes.io/region"
	labelCompute  = "eks.amazonaws.com/compute-type"
	eksCapacity   = "eks.amazonaws.com/capacityType"
)

// Status is the state of a node, the most pressing one if it has several.
type Status string

// The statuses of a node.
const (
	StatusDeleting    Status = "Deleting"
	StatusInterrupted Status = "Interrupted"
	StatusDisrupted   Status = "Disrupted"
	StatusLaunching   Status = "Launching"  // requested
	StatusLaunched    Status = "Launched"   // the instance exists, the Node does not yet
	StatusRegistered  Status = "Registered" // the Node exists and is not initialized yet
	StatusNotReady    Status = "NotReady"
	StatusCordoned    Status = "Cordoned"
	StatusDrifted     Status = "Drifted"
	StatusReady       Status = "Ready"
	StatusUnknown     Status = "Unknown" // the viewer may not list Nodes
)

func (s Status) going() bool {
	return s == StatusDeleting || s == StatusInterrupted || s == StatusDisrupted
}

// Waits reports whether a node of this status is launching or not ready, so that it matters how long it has been so.
func (s Status) Waits() bool {
	return s == StatusLaunching || s == StatusLaunched || s == StatusRegistered || s == StatusNotReady
}

func (x *nodeEntry) status() Status {
	n, c := x.node, x.claim
	if s := x.removal(); s != "" {
		return s
	}
	switch {
	case n == nil && c.Launched.IsZero():
		return StatusLaunching
	case n == nil:
		return StatusLaunched
	case !n.Ready:
		return StatusNotReady
	case c != nil && c.Initialized.IsZero():
		return StatusRegistered
	case n.Cordoned:
		return StatusCordoned
	case c != nil && c.Drift != "":
		return StatusDrifted
	}
	return StatusReady
}

// removal returns the status of a node that is being removed, or known by name alone; "" otherwise.
func (x *nodeEntry) removal() Status {
	n, c := cmp.Or(x.node, &Node{}), cmp.Or(x.claim, &Claim{})
	switch {
	case n.Deleting || c.Deleting:
		return StatusDeleting
	case n.Unknown:
		return StatusUnknown
	case c.Interruption != "":
		return StatusInterrupted
	case n.Disrupted || c.Disruption != "":
		return StatusDisrupted
	}
	return ""
}

// NodeRow is a node as it is shown.
type NodeRow struct {
	Name         string // of the Node, or of the NodeClaim if there is no Node yet
	Claim        string
	HasNode      bool
	Pool         string
	Type         string
	CapacityType string // on-demand, spot, reserved, or fargate; "" = unknown
	Zone, Region string
	Status       Status
	Since        time.Time // when a waiting status began
	Why          []string  // explanations of the status, most important first
	Created      time.Time
	ReadyIn      time.Duration // from the claim's creation to its initialization; 0 = unknown
	Price        int64         // millionths of a dollar an hour; 0 = unknown, unless Priced
	Pods         int
	MicroVM      string // namespace/name of the pod whose microVM this is
	Requests     Amounts
	Allocatable  Amounts
	Labels       map[string]string // shared: do not change it
}

// Priced reports whether the node's price is known. That of a prepaid node is 0.
func (r *NodeRow) Priced() bool { return r.Price > 0 || r.CapacityType == reserved }

// row returns the node as it is shown.
func (m *Model) row(x *nodeEntry) NodeRow {
	r := NodeRow{
		Name: x.name(), HasNode: x.node != nil, Pool: x.label(labelPool), Type: x.label(labelType),
		CapacityType: x.capacityType(),
		Zone:         x.label(labelZone), Region: x.label(labelRegion), Status: x.status(), Created: x.created(),
		Price:   x.price(),
		MicroVM: x.pod(), Allocatable: x.allocatable(), Labels: x.labels(),
	}
	if c := x.claim; c != nil {
		if r.Claim = c.Name; c.Initialized.After(c.Created) {
			r.ReadyIn = c.Initialized.Sub(c.Created)
		}
	}
	if r.Since = r.Created; x.node != nil {
		r.Pods, r.Requests = x.use.pods, x.comparable(x.use.requests)
		if !x.node.Ready && (x.claim == nil || !x.claim.Initialized.IsZero()) && !x.node.ReadyChanged.IsZero() {
			r.Since = x.node.ReadyChanged
		}
	}
	r.Why = m.why(x)
	return r
}

// why returns the explanations of a node's status, the newest event about it last.
func (t *eventTable) why(x *nodeEntry) []string {
	var out []string
	say := func(text string) {
		if text != "" {
			out = append(out, text)
		}
	}
	if c := x.claim; c != nil {
		say(c.Interruption)
		say(c.Disruption)
		say(c.Problem)
		say(c.Drift)
	}
	if n := x.node; n != nil && n.Cordoned && x.status() != StatusCordoned {
		say("cordoned")
	}
	if x.node != nil && x.node.DoNotDisrupt || x.claim != nil && x.claim.DoNotDisrupt {
		say("do-not-disrupt")
	}
	if x.pod() != "" {
		say("microVM of " + x.pod())
	}
	for _, about := range []Object{{Kind: "Node", Name: x.name()}, {Kind: "NodeClaim", Name: x.claimName()}} {
		s, ok := t.said[about]
		if !ok {
			continue
		}
		switch going := x.status().going(); s.Reason {
		case "Unconsolidatable", "DisruptionBlocked":
			if !going && s.keeps(t.now) {
				say("kept: " + s.Message)
			}
		case "DisruptionTerminating":
			if going && len(out) == 0 {
				say(s.Message)
			}
		case "DisruptionLaunching", "DisruptionWaitingReadiness": // transient; the status says more
		default:
			say(s.Message)
		}
		break
	}
	return out
}

func (x *nodeEntry) name() string {
	if x.node != nil {
		return x.node.Name
	}
	return x.claim.Name
}

func (x *nodeEntry) claimName() string {
	if x.claim != nil {
		return x.claim.Name
	}
	return ""
}

func (x *nodeEntry) created() time.Time {
	if x.claim != nil {
		return x.claim.Created
	}
	return x.node.Created
}

func (x *nodeEntry) price() int64 {
	if x.node != nil && x.node.Price > 0 {
		return x.node.Price
	}
	if x.claim != nil && (x.node != nil || !x.claim.Launched.IsZero()) {
		return x.claim.Price
	}
	return 0
}

// priced reports whether the node's price is known; see NodeRow.Priced.
func (x *nodeEntry) priced() bool { return x.price() > 0 || x.capacityType() == reserved }

// comparable returns what pods on the node request, without addresses if it is unknown how many the node has for pods:
// the sums of several nodes are compared, too.
func (x *nodeEntry) comparable(requests Amounts) Amounts {
	if offered := x.allocatable(); offered[Addresses] == 0 {
		requests[Addresses] = 0
	}
	return requests
}

func (x *nodeEntry) allocatable() Amounts {
	if x.node != nil && x.node.Allocatable != (Amounts{}) || x.claim == nil {
		return x.node.Allocatable
	}
	return x.claim.Allocatable
}

func (x *nodeEntry) pod() string {
	if x.node != nil && x.node.Pod != "" {
		return x.node.Pod
	}
	if x.claim != nil {
		return x.claim.Pod
	}
	return ""
}

func (x *nodeEntry) microVM() bool { return x.pod() != "" }

// label returns the Node's label, or its NodeClaim's if the Node does not have it.
func (x *nodeEntry) label(key string) string {
	if x.node != nil {
		if v, ok := x.node.Labels[key]; ok {
			return v
		}
	}
	if x.claim != nil {
		return x.claim.Labels[key]
	}
	return ""
}

func (x *nodeEntry) labels() map[string]string {
	switch {
	case x.node == nil:
		return x.claim.Labels
	case x.claim == nil || len(x.node.Labels) > 0:
		return x.node.Labels
	}
	return x.claim.Labels
}

// capacityType returns Karpenter's label, or that of an EKS node group, whose values are spelled differently.
func (x *nodeEntry) capacityType() string {
	if x.label(labelCompute) == "fargate" {
		return "fargate"
	}
	eks := map[string]string{"ON_DEMAND": "on-demand", "SPOT": "spot", "CAPACITY_BLOCK": reserved}
	return cmp.Or(x.label(labelCapacity), eks[x.label(eksCapacity)])
}

func sortedNotes(notes map[string]string) []string {
	var out []string
	for _, source := range slices.Sorted(maps.Keys(notes)) {
		out = append(out, notes[source])
	}
	return out
}
