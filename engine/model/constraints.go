package model

import (
	"slices"
	"strconv"
)

// Label is a label of a pod or a namespace.
type Label struct{ Key, Value string }

// NodeNameField is the key of a Requirement on the node's name (node affinity matchFields on metadata.name). A label
// key cannot contain a colon.
const NodeNameField = "field:metadata.name"

// Namespace is a namespace with the labels that a namespaceSelector sees.
type Namespace struct {
	Name   string
	Labels []Label // by Key
}

// Selector selects pods by namespace and labels.
type Selector struct {
	Namespaces []string // sorted, distinct
	// also namespaces whose labels satisfy NamespaceLabels; empty NamespaceLabels = all namespaces
	InMatching      bool
	NamespaceLabels Requirements
	Nothing         bool         // labelSelector is missing: selects no pod
	Labels          Requirements // on the pod's labels; empty = every pod; matchLabelKeys are merged in
}

// PodTerm is a required pod affinity or anti-affinity term: the same (or no common) value of the Topology label.
type PodTerm struct {
	Topology string
	Pods     Selector
}

// PodPreference is a preferred pod affinity (Weight 1..100) or anti-affinity (-100..-1).
type PodPreference struct {
	Weight int32
	PodTerm
}

// Spread is a topology spread constraint (Kubernetes documentation, "Pod Topology Spread Constraints").
type Spread struct {
	Topology   string
	MaxSkew    int32
	MinDomains int32 // with fewer eligible domains the global minimum counts as 0; 0 = no minimum
	Hard       bool  // DoNotSchedule; else ScheduleAnyway, a preference
	Pods       Selector
	// AnyNode includes nodes that the pod's node affinity excludes (nodeAffinityPolicy: Ignore).
	AnyNode bool
	// Untainted excludes nodes with taints that the pod does not tolerate (nodeTaintsPolicy: Honor).
	Untainted bool
}

// HostPort is a port that the pod occupies on its node. IP "0.0.0.0" means every address.
type HostPort struct {
	IP, Protocol string
	Port         int32
}

// String formats the port for people, such as "TCP 8080", with the address unless it is every address.
func (p HostPort) String() string {
	text := p.Protocol + " " + strconv.Itoa(int(p.Port))
	if p.IP != "" && p.IP != "0.0.0.0" {
		text += " of " + p.IP
	}
	return text
}

// Conflicts reports whether one node cannot serve both ports.
func (p HostPort) Conflicts(o HostPort) bool {
	const every = "0.0.0.0"
	return p.Port == o.Port && p.Protocol == o.Protocol && (p.IP == o.IP || p.IP == every || o.IP == every)
}

// Volume is what a pod's volume requires of the node.
type Volume struct {
	ID     string // identifies the volume: it attaches to a node once, however many pods use it
	Driver string // CSI driver whose attach limit it counts against, "" if none
	// conjunctions of node labels, at least one of which must hold: from the bound PV or the StorageClass; none =
	// anywhere
	Topology []Requirements
	Alone    bool // ReadWriteOncePod: no other pod may use it at the same time
	// Short says where the volume's driver has too little capacity to create it, so that Topology does not lead there;
	// "" if nowhere.
	Short string `json:",omitempty"`
}

// DevicesOf is the prefix of the names of resources that count devices of a DeviceClass (dynamic resource
// allocation), and of the IDs of Volumes that say where such devices are. No Kubernetes resource has such a name.
const DevicesOf = "devices of "

// AttachLimit is the number of volumes of a CSI driver that a node can attach.
type AttachLimit struct {
	Driver string
	Max    int64 `json:"Most"`
}

// AttachLimitOf returns the limit for the driver, and whether there is one.
func AttachLimitOf(limits []AttachLimit, driver string) (int64, bool) {
	i := slices.IndexFunc(limits, func(l AttachLimit) bool { return l.Driver == driver })
	if i < 0 {
		return 0, false
	}
	return limits[i].Max, true
}

// Value returns the value of the label with the key, and whether the label exists.
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

// Matches reports whether the selector selects a pod with these labels in the given namespace, which has the labels
// ofNamespace.
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
