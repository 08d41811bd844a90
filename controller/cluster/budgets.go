package cluster

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/internal/kit/conditions"
)

// budget is the relevant part of a PodDisruptionBudget.
type budget struct {
	name     string // namespace/name
	selector labels.Selector
	spent    bool // allows no eviction now
	never    bool // allows none, however many pods are healthy
	unready  bool // allows evicting unready pods at any time (unhealthyPodEvictionPolicy AlwaysAllow)

	pods map[*pod]bool // that it covers
}

// budgets are all PodDisruptionBudgets.
type budgets struct {
	*hub
	objects *objects
	nodes   *nodes

	known table[*policyv1.PodDisruptionBudget]
	in    map[string]map[string]*budget // by namespace, name
}

// readBudget translates a PodDisruptionBudget; one whose selector cannot be read covers no pods, as in the Eviction
// API.
func readBudget(o *policyv1.PodDisruptionBudget) *budget {
	b := &budget{
		name: o.Namespace + "/" + o.Name, spent: o.Status.DisruptionsAllowed <= 0, never: never(&o.Spec),
		pods:    map[*pod]bool{},
		unready: o.Spec.UnhealthyPodEvictionPolicy != nil && *o.Spec.UnhealthyPodEvictionPolicy == policyv1.AlwaysAllow,
	}
	var err error
	if b.selector, err = metav1.LabelSelectorAsSelector(o.Spec.Selector); err != nil {
		b.selector = labels.Nothing()
	}
	return b
}

// never reports whether a budget allows no eviction, however many pods are healthy.
func never(spec *policyv1.PodDisruptionBudgetSpec) bool {
	if most := spec.MaxUnavailable; most != nil {
		return most.Type == intstr.Int && most.IntVal == 0 || most.Type == intstr.String && most.StrVal == "0%"
	}
	least := spec.MinAvailable
	return least != nil && least.Type == intstr.String && least.StrVal == "100%"
}

func (bs *budgets) updateBudget(o *policyv1.PodDisruptionBudget, pods map[types.NamespacedName]*pod, now time.Time) {
	if !bs.known.put(o, now) {
		return
	}
	b, old := readBudget(o), bs.in[o.Namespace][o.Name]
	if old != nil && sameSelector(old.selector, b.selector) {
		if old.spent != b.spent || old.never != b.never || old.unready != b.unready {
			old.spent, old.never, old.unready = b.spent, b.never, b.unready
			bs.touchCovered(old)
		}
		return
	}
	bs.dropBudget(old)
	if bs.in[o.Namespace] == nil {
		bs.in[o.Namespace] = map[string]*budget{}
	}
	bs.in[o.Namespace][o.Name] = b
	for key, p := range pods {
		if key.Namespace == o.Namespace {
			b.cover(p, bs.objects.pods.live[key].Labels)
		}
	}
	bs.touchCovered(b)
}

// sameSelector reports whether both select the same pods. The text of those that select nothing and everything is "".
func sameSelector(a, b labels.Selector) bool {
	return a.String() == b.String() && a.Empty() == b.Empty()
}

func (bs *budgets) deleteBudget(o *policyv1.PodDisruptionBudget, now time.Time) {
	if !bs.known.drop(o, now) {
		return
	}
	bs.dropBudget(bs.in[o.Namespace][o.Name])
	if delete(bs.in[o.Namespace], o.Name); len(bs.in[o.Namespace]) == 0 {
		delete(bs.in, o.Namespace)
	}
}

// dropBudget removes a budget from the pods it covers.
func (bs *budgets) dropBudget(b *budget) {
	if b == nil {
		return
	}
	bs.touchCovered(b)
	for p := range b.pods {
		p.budgets = slices.DeleteFunc(p.budgets, func(other *budget) bool { return other == b })
	}
}

// touchCovered marks the nodes of the pods that a budget covers as stale.
func (bs *budgets) touchCovered(b *budget) {
	for p := range b.pods {
		p.unready = unready(bs.objects.pods.live[types.NamespacedName{Namespace: p.Key.Namespace, Name: p.Key.Name}])
		if p.Node != "" {
			bs.nodes.touchPods(p.Node)
			bs.poke()
		}
	}
}

// cover records which budgets of its namespace cover a pod with these labels.
func (bs *budgets) cover(p *pod, of map[string]string) {
	for _, b := range bs.in[p.Key.Namespace] {
		b.cover(p, of)
	}
}

func (b *budget) cover(p *pod, of map[string]string) {
	if !b.selector.Matches(labels.Set(of)) {
		return
	}
	b.pods[p] = true
	p.budgets = append(p.budgets, b)
	slices.SortFunc(p.budgets, func(x, y *budget) int { return strings.Compare(x.name, y.name) })
}

// uncover removes a pod from the budgets that cover it.
func (p *pod) uncover() {
	for _, b := range p.budgets {
		delete(b.pods, p)
	}
}

// unready reports whether a pod says that it is not ready.
func unready(o *corev1.Pod) bool {
	c := conditions.OfPod(o, corev1.PodReady)
	return c != nil && c.Status == corev1.ConditionFalse
}

// readiness updates whether a pod that has not changed otherwise is ready, if a budget depends on it.
func (bs *budgets) readiness(p *pod, o *corev1.Pod) {
	if now := unready(o); now != p.unready && slices.ContainsFunc(p.budgets, func(b *budget) bool { return b.unready }) {
		p.unready = now
		if p.Node != "" {
			bs.nodes.touchPods(p.Node)
			bs.poke()
		}
	}
}

// heldBy returns which budgets keep the Eviction API from evicting the pod now, "" if none does. The API refuses pods
// that more than one budget covers (k8s.io/kubernetes pkg/registry/core/pod/storage/eviction.go).
func (p *pod) heldBy() string {
	switch {
	case !p.asksBudgets():
		return ""
	case len(p.budgets) > 1:
		return "PodDisruptionBudgets " + p.budgets[0].name + " and " + p.budgets[1].name +
			" both cover it, and no pod with two is evicted"
	case p.budgets[0].spent:
		return "PodDisruptionBudget " + p.budgets[0].name + " allows no eviction"
	}
	return ""
}

// blocked reports whether the pod will not be evicted, however long one waits.
func (p *pod) blocked() bool {
	return p.asksBudgets() && (len(p.budgets) > 1 || p.budgets[0].never)
}

// asksBudgets reports whether budgets apply to the pod: not to a pod that is terminal or terminating, that stays
// until its node is deleted instead of being evicted, or that is not ready and whose budget allows evicting it then.
func (p *pod) asksBudgets() bool {
	if len(p.budgets) == 0 || p.Terminal || p.Deleting || p.Static {
		return false
	}
	if len(p.budgets) == 1 && p.budgets[0].unready && p.unready {
		return false
	}
	_, refused := model.Untolerated(disrupted, p.shape.Tolerations)
	return refused
}

// disrupted is the taint of nodes being removed: pods that tolerate it stay until the node is deleted.
var disrupted = translate.Taints([]corev1.Taint{karpv1.DisruptedNoScheduleTaint})
