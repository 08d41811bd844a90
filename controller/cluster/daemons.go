package cluster

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine/model"
)

// missingDaemons are the pods of DaemonSets that each wait for one particular node.
type missingDaemons struct {
	*hub
	nodes *nodes

	on map[string]map[types.NamespacedName]model.MissingDaemon // by the Node's name
	of map[types.NamespacedName]string                         // the Node, by pod
}

// noteLacking records that a pod waits for the Node, or for none if node is "".
func (md *missingDaemons) noteLacking(key types.NamespacedName, node string, p *translate.Pod) {
	before := md.of[key]
	if before == node && (node == "" || md.on[node][key].Since.Equal(p.Created)) {
		return
	}
	if delete(md.on[before], key); len(md.on[before]) == 0 {
		delete(md.on, before)
	}
	delete(md.of, key)
	if node != "" {
		if md.on[node] == nil {
			md.on[node] = map[types.NamespacedName]model.MissingDaemon{}
		}
		md.on[node][key], md.of[key] = model.MissingDaemon{DaemonSet: p.DaemonSet, Since: p.Created}, node
	}
	md.nodes.touchPods(before)
	md.nodes.touchPods(node)
	md.poke()
}

// lacks returns the DaemonSets whose pods wait for a Node, by name; of several pods of one DaemonSet, the oldest.
func (md *missingDaemons) lacks(node string) []model.MissingDaemon {
	var out []model.MissingDaemon
	for _, l := range md.on[node] {
		out = append(out, l)
	}
	slices.SortFunc(out, func(a, b model.MissingDaemon) int {
		return cmp.Or(cmp.Compare(a.DaemonSet, b.DaemonSet), a.Since.Compare(b.Since))
	})
	return slices.CompactFunc(out, func(a, b model.MissingDaemon) bool { return a.DaemonSet == b.DaemonSet })
}

// daemons are the DaemonSets with the limits of their namespaces.
type daemons struct {
	*hub
	objects *objects
	nodes   *nodes
	names   *translate.Names
	newest  map[types.UID]newestPod // by UID of the DaemonSet
	list    []model.Daemon          // by namespace and name; replaced, never changed
}

func newDaemons(h *hub, objects *objects, nodes *nodes, names *translate.Names) *daemons {
	return &daemons{hub: h, objects: objects, nodes: nodes, names: names, newest: map[types.UID]newestPod{}}
}

// newestPod is the newest bound pod of a DaemonSet. If it was made from the current template, the next pods will
// request the same, even after it has been deleted.
type newestPod struct {
	name     string
	created  time.Time
	template int64 // see translate.TemplateOfDaemonPod
	shape    model.Shape
}

func (n *newestPod) compare(o *newestPod) int {
	return cmp.Or(cmp.Compare(n.template, o.template), n.created.Compare(o.created), cmp.Compare(n.name, o.name))
}

// podCame takes in a pod that may be a DaemonSet's newest.
func (dm *daemons) podCame(o *corev1.Pod, p *pod) {
	if p.DaemonSet == "" || p.Deleting || p.shape == nil {
		return
	}
	owner, template := metav1.GetControllerOfNoCopy(o), translate.TemplateOfDaemonPod(o)
	if owner == nil || template == 0 {
		return
	}
	next := newestPod{name: o.Name, created: p.Created, template: template, shape: p.shape.Shape}
	before := dm.newest[owner.UID]
	if next.compare(&before) < 0 {
		return
	}
	dm.newest[owner.UID] = next
	if next.template != before.template || next.shape.Requests != before.shape.Requests ||
		!slices.Equal(next.shape.HostPorts, before.shape.HostPorts) {
		dm.changed()
	}
}

// changed translates the DaemonSets again and marks every node as stale.
func (dm *daemons) changed() {
	dm.list = dm.list[:0:0]
	for _, ds := range dm.objects.daemonSets.live {
		if ds.DeletionTimestamp != nil {
			continue
		}
		d := dm.names.Daemon(ds, dm.objects.limitRangesOf(ds.Namespace))
		if pod, ok := dm.newest[ds.UID]; ok && pod.template == translate.TemplateOfDaemonSet(ds) {
			d = dm.names.AsItsPod(d, &pod.shape)
		}
		dm.list = append(dm.list, d)
	}
	slices.SortFunc(dm.list, func(a, b model.Daemon) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	for node := range dm.nodes.byName {
		dm.nodes.touchPods(node)
	}
	for _, m := range dm.nodes.unpaired {
		m.stalePods, dm.nodes.stale = true, true
	}
	dm.poke()
}

// LimitRanges returns the LimitRanges of a namespace, by name: the first one that sets a value counts.
func (os *objects) LimitRanges(namespace string) []*corev1.LimitRange {
	os.mu.Lock()
	defer os.mu.Unlock()
	return os.limitRangesOf(namespace)
}

// daemonSetsChanged handles a change of DaemonSets: of what runs on every node, including the VPC CNI.
func (s *State) daemonSetsChanged() {
	s.daemons.changed()
	if s.subnets.readCNI() {
		s.pools.readdress()
	}
}

func (os *objects) limitRangesOf(namespace string) []*corev1.LimitRange {
	var out []*corev1.LimitRange
	for _, r := range os.limitRanges.live {
		if r.Namespace == namespace {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b *corev1.LimitRange) int { return cmp.Compare(a.Name, b.Name) })
	return out
}
