package whatif

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/reason"
)

// DaemonPending is a DaemonSet pod that would stay Pending because its node has no room for it.
type DaemonPending struct {
	DaemonSet string `json:"daemonSet"` // namespace/name
	Node      string `json:"node"`
	Why       string `json:"why"`
	Then      string `json:"then"` // what Nodeless does about it, and what you can do
	Before    bool   `json:"before,omitempty"`
}

// daemonsPending returns the DaemonSet pods that are still pending at the end.
func (r *run) daemonsPending(s *model.Snapshot) []DaemonPending {
	out := []DaemonPending{}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if n.Deleting || r.nodes[n.Name] == nil {
			continue
		}
		for _, l := range n.MissingDaemons {
			out = append(out, DaemonPending{
				DaemonSet: l.DaemonSet, Node: n.Name, Why: shortOf(s, n),
				Then: r.crowdedAction(s, n, l.DaemonSet),
			})
		}
	}
	return out
}

// shortOf says which resources a node lacks for its pods and for those waiting for it.
func shortOf(s *model.Snapshot, n *model.Node) string {
	var short []string
	for i, left := range n.Free() {
		if left < 0 && i < len(s.ResourceNames) {
			short = append(short, model.Quantity(s.ResourceNames[i], -left)+" "+s.ResourceNames[i])
		}
	}
	if len(short) == 0 {
		return "the node does not take it"
	}
	return "the node is short of " + strings.Join(short, " and ")
}

// crowdedAction says what happens to a node without room for a DaemonSet's pod.
func (r *run) crowdedAction(s *model.Snapshot, n *model.Node, daemonSet string) string {
	var then string
	at := slices.IndexFunc(s.Pools, func(p model.Pool) bool { return p.Name == n.Pool })
	switch {
	case at < 0 || n.Claim == "":
		then = "Nodeless does not manage this node. Make room on it."
	case s.Pools[at].Disruption.ReplaceCrowded:
		then = fmt.Sprintf("NodePool %s has such nodes replaced", n.Pool)
		if k := slices.IndexFunc(r.kept, func(k model.Kept) bool { return k.Node == n.Name }); k >= 0 {
			why := reason.Undone(r.kept[k].Reason)
			then += ", but this one stays: " + why
		}
		then += "."
	default:
		then = fmt.Sprintf("Nodeless keeps the node; nodes that it launches from now on have room. To have such nodes "+
			"replaced: kubectl annotate nodepool %s %s=true",
			n.Pool, translate.AnnotationMakeRoom)
	}
	if ds := r.daemons[daemonSet]; ds != nil && ds.Spec.Template.Spec.PriorityClassName != "" {
		then += fmt.Sprintf(" (kube-scheduler may first evict pods of lower priority than %s there; this is not forecast)",
			ds.Spec.Template.Spec.PriorityClassName)
	}
	return then
}
