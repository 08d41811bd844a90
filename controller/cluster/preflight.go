package cluster

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	facts "github.com/nodeless/nodeless/catalog"
	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/reason"
	"github.com/nodeless/nodeless/engine/rules"
	"github.com/nodeless/nodeless/internal/kit/conditions"
)

// criticalPriority is the lowest priority of Kubernetes' critical classes (k8s.io/kubernetes/pkg/apis/scheduling).
const criticalPriority = 2_000_000_000

// updateDaemonSet takes in a DaemonSet. Of its status, only the progress of the VPC CNI's rollout matters.
func (s *State) updateDaemonSet(ds *appsv1.DaemonSet, now time.Time) {
	old, known := s.objects.daemonSets.live[keyOf(ds)]
	switch {
	case !s.objects.daemonSets.put(ds, now):
	case !known || otherGeneration(old, ds):
		s.daemonSetsChanged()
	case ds == s.subnets.cniDaemonSet() && s.subnets.rolled != ds.Generation:
		s.poke()
	}
}

func (sn *subnets) cniDaemonSet() *appsv1.DaemonSet {
	return sn.objects.daemonSets.live[types.NamespacedName{Namespace: metav1.NamespaceSystem, Name: facts.CNIContainer}]
}

// unsettled returns why pods should not be moved now, "" if they may be: where the VPC CNI restarts, a starting pod
// gets no address until it is back, and where critical pods wait, moving others takes the capacity they wait for.
func (s *State) unsettled() string {
	if text := s.subnets.rolling(); text != "" {
		return text
	}
	var critical []string
	for i := range s.out.pending {
		if p := &s.out.pending[i]; p.Priority >= criticalPriority && p.From == "" && !p.Virtual {
			critical = append(critical, p.Namespace+"/"+p.Name)
		}
	}
	if len(critical) == 0 {
		return ""
	}
	return fmt.Sprintf("%s of critical priority without a node (%s)", reason.Count(len(critical), "pod"),
		reason.Some(critical, 3))
}

// rolling describes the progress of the VPC CNI's rollout, "" if it is complete. Nodes that are not ready do not
// count, unless their pod is ready as on a new node for a moment; and once the rollout is complete, later nodes get the
// new pods without one.
func (sn *subnets) rolling() string {
	ds := sn.cniDaemonSet()
	if sn.cni == nil || ds == nil || ds.Status.ObservedGeneration == 0 || sn.rolled == ds.Generation ||
		ds.Spec.UpdateStrategy.Type == appsv1.OnDeleteDaemonSetStrategyType {
		return ""
	}
	unready := int32(0)
	for _, m := range sn.nodes.byName {
		if m.notReady && !slices.ContainsFunc(m.pods, func(p *pod) bool { return sn.runsReady(p, ds) }) {
			unready++
		}
	}
	st := &ds.Status
	want, has := st.DesiredNumberScheduled, min(st.UpdatedNumberScheduled, st.NumberReady)
	if st.ObservedGeneration >= ds.Generation && has+unready >= want {
		sn.rolled = ds.Generation
		return ""
	}
	if st.ObservedGeneration < ds.Generation {
		has = 0
	}
	return fmt.Sprintf("DaemonSet kube-system/%s rolls: its new pods are ready on %d of %s", facts.CNIContainer, has,
		reason.Count(int(want), "node"))
}

// runsReady reports whether a pod of a DaemonSet is ready.
func (sn *subnets) runsReady(p *pod, ds *appsv1.DaemonSet) bool {
	o := sn.objects.pods.live[types.NamespacedName{Namespace: p.Key.Namespace, Name: p.Key.Name}]
	return o != nil && metav1.IsControlledBy(o, ds) && conditions.PodReady(o)
}

// ClassChanged keeps the pools of a class from launching until SetCatalog says what the class offers now. An enforced
// preflight needs that: nodes drift as soon as their class changes, and their replacements must be known.
func (pl *pools) ClassChanged(class cloud.ClassRef) {
	pl.mu.Lock()
	defer pl.mu.Unlock()
	if c, known := pl.catalogs[class]; known && !c.stale {
		c.stale = true
		pl.catalogs[class] = c
		pl.poke()
	}
}

// Preflight checks a claim that was decided on before its class or the VPC CNI changed: whether it must wait until
// the change is known, and whether its node would have too few addresses for its pods.
func (s *State) Preflight(claim *karpv1.NodeClaim) (wait, fails bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.pools.catalogs[ClassRef(claim.Spec.NodeClassRef)]
	base := s.names.Node(nil, claim)
	for _, name := range valuesOf(&base, base.Type, model.LabelInstanceType) {
		at, ok := slices.BinarySearchFunc(c.types, name,
			func(t model.InstanceType, name string) int { return cmp.Compare(t.Name, name) })
		fails = fails || ok && c.types[at].Unaddressed > 0
	}
	return c.stale, fails
}

// unaddressed returns how many of the pods that a Node accepts would have no address.
func (sn *subnets) unaddressed(n *model.Node) int64 {
	t, ok := facts.Lookup(n.Type)
	if sn.cni == nil || !ok || strings.HasPrefix(n.Name, "i-") || // EKS Auto Mode's names
		n.Labels.Conflict(onWindows, nil) == "" {
		return 0
	}
	return int64(sn.cni.Unaddressed(t, int(n.Allocatable[model.Pods]), sn.host))
}

// Unaddressed describes the types allowed by a NodePool that accept more pods than they have addresses for; "" if
// there are none, or it is unknown.
func (s *State) Unaddressed(pool string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	np := s.objects.pools.live[clusterKey(pool)]
	if np == nil {
		return ""
	}
	all := s.pools.catalogs[ClassRef(np.Spec.Template.Spec.NodeClassRef)].types
	if !slices.ContainsFunc(all, func(t model.InstanceType) bool { return t.Unaddressed > 0 }) {
		return ""
	}
	p, _ := s.names.Pool(np, translate.PoolState{Now: s.clock.Now(), Types: all}) // nothing is known of an invalid pool
	v := rules.NewView(&p, nil)
	var worst *model.InstanceType
	allowed, short := 0, 0
	for t := range v.Eligible.All() {
		allowed++
		if of := &all[t]; of.Unaddressed > 0 {
			short++
			if worst == nil || of.Unaddressed > worst.Unaddressed {
				worst = of
			}
		}
	}
	if worst == nil {
		return ""
	}
	return fmt.Sprintf("%d of %s that the NodePool allows would take more pods than they have addresses for, such as "+
		"%s: %d pods, %d of them without an address", short, reason.Count(allowed, "instance type"), worst.Name,
		worst.Capacity[model.Pods], worst.Unaddressed)
}
