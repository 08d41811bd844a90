package cluster

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
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
	list    []model.Daemon // by namespace and name; replaced, never changed
}

// changed translates the DaemonSets again and marks every node as stale.
func (dm *daemons) changed() {
	dm.list = dm.list[:0:0]
	for _, ds := range dm.objects.daemonSets.live {
		if ds.DeletionTimestamp == nil {
			dm.list = append(dm.list, dm.names.Daemon(ds, dm.objects.limitRangesOf(ds.Namespace)))
		}
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
