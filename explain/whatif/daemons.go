package whatif

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine/model"
)

// daemonPods binds waiting DaemonSet pods to their nodes and creates missing ones. It deletes pods whose DaemonSet
// was deleted or changed, or no longer selects the node. It reports whether it did anything.
func (r *run) daemonPods() bool {
	s, busy := r.cluster.Snapshot(), false
	wanted := map[string]*model.Daemon{}
	for i := range s.Daemons {
		wanted[s.Daemons[i].Namespace+"/"+s.Daemons[i].Name] = &s.Daemons[i]
	}
	at := map[string]*model.Node{}
	for i := range s.Nodes {
		at[s.Nodes[i].Name] = &s.Nodes[i]
	}
	have, placed := map[string]map[string]bool{}, map[string]bool{} // nodes by DaemonSet; namespaces
	for _, key := range slices.SortedFunc(maps.Keys(r.pods), compareNames) {
		pod := r.pods[key]
		p := translate.ReadPod(pod)
		if p.DaemonSet == "" || p.Terminal {
			continue
		}
		node := cmp.Or(p.Node, p.Only)
		d, n := wanted[p.DaemonSet], at[node]
		if d == nil || r.was.outdated(r.daemons[p.DaemonSet], pod) || n != nil && !translate.StaysOn(d, n) {
			r.removePod(pod)
			busy = true
			continue
		}
		if have[p.DaemonSet] == nil {
			have[p.DaemonSet] = map[string]bool{}
		}
		have[p.DaemonSet][node] = true
		if p.Node == "" && n != nil && translate.RunsOn(d, n) && fits(n) {
			r.place(key, node)
			busy, placed[key.Namespace] = true, true
		}
	}
	for namespace := range placed {
		r.recount(namespace)
	}
	return r.missingDaemons(s, wanted, have) || busy
}

// missingDaemons creates the DaemonSet pods that nodes lack; have holds the nodes that have one, by DaemonSet.
func (r *run) missingDaemons(s *model.Snapshot, wanted map[string]*model.Daemon, have map[string]map[string]bool) bool {
	busy := false
	for name, d := range wanted {
		for i := range s.Nodes {
			n := &s.Nodes[i]
			if n.State == model.InFlight || r.nodes[n.Name] == nil || n.Deleting || have[name][n.Name] ||
				!translate.RunsOn(d, n) {
				continue
			}
			r.daemonPod(name, n.Name)
			busy = true
		}
	}
	return busy
}

// fits reports whether the node has room for its pods and for those waiting for it.
func fits(n *model.Node) bool {
	free := n.Free()
	return !slices.ContainsFunc(free[:], func(left int64) bool { return left < 0 })
}

// noteDaemonPod keeps the newest bound pod of each DaemonSet, as controller/cluster does: the next ones will be like it
// if its template is still the present one. A webhook may have changed what it requests.
func (r *run) noteDaemonPod(pod *corev1.Pod) {
	p, template := translate.ReadPod(pod), translate.TemplateOfDaemonPod(pod)
	if p.DaemonSet == "" || p.Deleting || p.Node == "" || template == 0 {
		return
	}
	if old := r.newest[p.DaemonSet]; old == nil || cmp.Or(cmp.Compare(translate.TemplateOfDaemonPod(old), template),
		old.CreationTimestamp.Compare(pod.CreationTimestamp.Time), cmp.Compare(old.Name, pod.Name)) <= 0 {
		r.newest[p.DaemonSet] = pod
	}
}

// daemonSpec returns the spec of a DaemonSet's next pod, on no node yet.
func (r *run) daemonSpec(daemonSet string) corev1.PodSpec {
	ds, like := r.daemons[daemonSet], r.newest[daemonSet]
	if like == nil || !metav1.IsControlledBy(like, ds) ||
		translate.TemplateOfDaemonPod(like) != translate.TemplateOfDaemonSet(ds) {
		return translate.AsCreated(&ds.Spec.Template.Spec, r.cluster.LimitRanges(ds.Namespace))
	}
	spec := *like.Spec.DeepCopy()
	spec.NodeName = ""
	return spec
}

// daemonPod creates the pod of a DaemonSet for a node.
func (r *run) daemonPod(daemonSet, node string) {
	ds := r.daemons[daemonSet]
	r.seq++
	yes := true
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: ds.Namespace, Name: fmt.Sprintf("%s-new-%d", ds.Name, r.seq),
			UID: uidOf(fmt.Sprintf("pod-%d", r.seq)), CreationTimestamp: metav1.NewTime(r.now()),
			Labels: ds.Spec.Template.Labels, Annotations: map[string]string{madeFor: fingerprint(ds)},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "apps/v1", Kind: "DaemonSet", Name: ds.Name, UID: ds.UID,
				Controller: &yes,
			}},
		},
		Spec:   r.daemonSpec(daemonSet),
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
	onNode := &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchFields: []corev1.NodeSelectorRequirement{
			{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{node}},
		},
	}}}
	pod.Spec.Affinity = &corev1.Affinity{
		NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: onNode},
	}
	r.put(pod)
}

// waitingFor returns the DaemonSet pods that wait for a node.
func (r *run) waitingFor(node string) []*corev1.Pod {
	var out []*corev1.Pod
	for _, pod := range r.pods {
		if p := translate.ReadPod(pod); p.WaitsFor() == node {
			out = append(out, pod)
		}
	}
	return out
}

func compareNames(a, b types.NamespacedName) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}
