package model

import (
	"slices"
	"strconv"
)

// Label is a key and its value, of a pod or a namespace.
type Label struct{ Key, Value string }

// NodeNameField is the key by which a Requirement speaks of the node's name (node affinity matchFields on metadata.name). A
// colon cannot stand in a label's key.
const NodeNameField = "field:metadata.name"

// Namespace is a namespace with its labels, for namespaceSelector.
type Namespace struct {
	Name   string
	Labels []Label // by Key
}

// Selector chooses pods by namespace and label.
type Selector struct {
	Namespaces      []string // sorted, distinct
	InMatching      bool     // also namespaces whose labels satisfy NamespaceLabels; empty NamespaceLabels = all namespaces
	NamespaceLabels Requirements
	Nothing         bool         // labelSelector is missing: it matches no pod
	Labels          Requirements // on the pod's labels; empty = every pod. matchLabelKeys are merged into it
}

// PodTerm is a required affinity or anti-affinity to other pods: same (or no) value of the Topology label.
type PodTerm struct {
	Topology string
	Pods     Selector
}

// PodPreference is a wish to be near other pods (Weight 1..100) or away from them (−100..−1).
type PodPreference struct {
	Weight int32
	PodTerm
}

// Spread is a topology spread constraint (Kubernetes documentation, "Pod Topology Spread Constraints").
type Spread struct {
	Topology   string
	MaxSkew    int32
	MinDomains int32 // with fewer eligible domains the global minimum counts as 0; 0 = no such rule
	Hard       bool  // DoNotSchedule; else ScheduleAnyway, a preference
	Pods       Selector
	// AnyNode: domains of nodes that the pod's own node affinity rules out count too (nodeAffinityPolicy: Ignore).
	AnyNode bool
	// Untainted: nodes with taints that the pod does not tolerate do not count (nodeTaintsPolicy: Honor).
	Untainted bool
}

// HostPort is a port of the node that a pod takes for itself. IP "0.0.0.0" is every address.
type HostPort struct {
	IP, Protocol string
	Port         int32
}

// String is the port as people write it, such as "TCP 8080", with the address if it is not every one.
func (p HostPort) String() string {
	text := p.Protocol + " " + strconv.Itoa(int(p.Port))
	if p.IP != "" && p.IP != "0.0.0.0" {
		text += " of " + p.IP
	}
	return text
}

// Conflicts reports whether both cannot be had on one node.
func (p HostPort) Conflicts(o HostPort) bool {
	const every = "0.0.0.0"
	return p.Port == o.Port && p.Protocol == o.Protocol && (p.IP == o.IP || p.IP == every || o.IP == every)
}

// Volume is what a pod's volume demands of its node.
type Volume struct {
	ID       string         // who uses the same volume has the same ID; it is attached to a node once
	Driver   string         // CSI driver whose attach limit it counts against, "" if none
	Topology []Requirements // node labels of which one conjunction must hold: of the bound PV or the StorageClass; none = anywhere
	Alone    bool           // ReadWriteOncePod: no other pod may use it at the same time
}

// AttachLimit is the number of volumes of a CSI driver that a node can take.
type AttachLimit struct {
	Driver string
	Max    int64 `json:"Most"`
}

// AttachLimitOf is the most volumes of the driver, and whether there is a limit.
func AttachLimitOf(limits []AttachLimit, driver string) (int64, bool) {
	i := slices.IndexFunc(limits, func(l AttachLimit) bool { return l.Driver == driver })
	if i < 0 {
		return 0, false
	}
	return limits[i].Max, true
}

// Value is the value of the label with the key, and whether it is there.
func Value(labels []Label, key string) (string, bool) {
	for _, l := range labels {
		if l.Key == key {
			return l.Value, true
		}
	}
	return "", false
}

// Matches reports whether a set of labels satisfies all requirements.
func (rs Requirements) Matches(labels []Label) bool {
	for _, r := range rs {
		value, ok := Value(labels, r.Key)
		if ok && !r.Has(value) || !ok && !r.AllowsAbsence() {
			return false
		}
	}
	return true
}

// Matches reports whether the selector chooses a pod with these labels in the namespace, whose own labels are given.
func (s *Selector) Matches(namespace string, ofNamespace, labels []Label) bool {
	if s.Nothing {
		return false
	}
	_, named := slices.BinarySearch(s.Namespaces, namespace)
	if !named && (!s.InMatching || !s.NamespaceLabels.Matches(ofNamespace)) {
		return false
	}
	return s.Labels.Matches(labels)
}
