package cluster

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	storagehelper "k8s.io/component-helpers/storage/volume"

	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine/model"
)

// storage holds the objects behind volumes, and makes the shapes of pods.
type storage struct {
	*hub
	nodes  *nodes
	names  *translate.Names
	spread *defaultSpread

	claims   table[*corev1.PersistentVolumeClaim]
	volumes  table[*corev1.PersistentVolume]
	classes  table[*storagev1.StorageClass]
	csiNodes table[*storagev1.CSINode]
	devices  *devices

	capacities capacities

	users map[need]map[*pod]bool // pods whose shape depends on an object, or on its absence
}

// need names an object that shapes depend on. The storage class with an empty name is the default.
type need struct {
	kind string
	types.NamespacedName
}

const (
	claimKind  = "PersistentVolumeClaim"
	volumeKind = "PersistentVolume"
	classKind  = "StorageClass"
	// volumesKind stands for all PersistentVolumes of the StorageClass with that name.
	volumesKind = "PersistentVolumes"
)

// lookup is the translate.Storage of one pod. It records the objects that were looked up.
type lookup struct {
	in    *storage
	needs []need
}

func (l *lookup) note(kind string, key types.NamespacedName) {
	if n := (need{kind, key}); !slices.Contains(l.needs, n) {
		l.needs = append(l.needs, n)
	}
}

func (l *lookup) VolumeClaim(namespace, name string) *corev1.PersistentVolumeClaim {
	key := types.NamespacedName{Namespace: namespace, Name: name}
	l.note(claimKind, key)
	return l.in.claims.live[key]
}

func (l *lookup) Volume(name string) *corev1.PersistentVolume {
	l.note(volumeKind, clusterKey(name))
	return l.in.volumes.live[clusterKey(name)]
}

func (l *lookup) Class(name string) *storagev1.StorageClass {
	l.note(classKind, clusterKey(name))
	return l.in.classes.live[clusterKey(name)]
}

// VolumesOf implements translate.Storage.
func (l *lookup) VolumesOf(class string) (found []*corev1.PersistentVolume) {
	l.note(volumesKind, clusterKey(class))
	for _, v := range l.in.volumes.live {
		if storagehelper.GetPersistentVolumeClass(v) == class {
			found = append(found, v)
		}
	}
	slices.SortFunc(found, func(a, b *corev1.PersistentVolume) int { return cmp.Compare(a.Name, b.Name) })
	return found
}

const defaultClass = "storageclass.kubernetes.io/is-default-class"

// DefaultClass returns the newest of the classes that are marked as the default, as Kubernetes' admission does.
func (l *lookup) DefaultClass() *storagev1.StorageClass {
	l.note(classKind, clusterKey(""))
	var best *storagev1.StorageClass
	for _, c := range l.in.classes.live {
		if c.Annotations[defaultClass] != "true" {
			continue
		}
		if best == nil || cmp.Or(best.CreationTimestamp.Compare(c.CreationTimestamp.Time),
			cmp.Compare(c.Name, best.Name)) < 0 {
			best = c
		}
	}
	return best
}

// shapeOf translates a pod, and returns the objects that its shape depends on.
func (st *storage) shapeOf(o *corev1.Pod) (model.Shape, []need) {
	l := lookup{in: st}
	return st.names.Shape(st.spread.apply(o, l.note), &l), l.needs
}

// use records which objects a pod's shape depends on; unuse reverts that.
func (st *storage) use(p *pod) {
	for _, n := range p.needs {
		if st.users[n] == nil {
			st.users[n] = map[*pod]bool{}
		}
		st.users[n][p] = true
	}
}

func (st *storage) unuse(p *pod) {
	for _, n := range p.needs {
		if delete(st.users[n], p); len(st.users[n]) == 0 {
			delete(st.users, n)
		}
	}
}

// reshapeUsers translates the pods again whose shapes depend on an object.
func (ps *pods) reshapeUsers(kind string, key types.NamespacedName) {
	var users []*pod
	for p := range ps.storage.users[need{kind, key}] {
		users = append(users, p) // reshape changes the map
	}
	for _, p := range users {
		ps.reshape(p)
	}
}

// reshape translates a pod again, and signals a change if its shape differs.
func (ps *pods) reshape(p *pod) {
	m, needs := ps.storage.shapeOf(ps.objects.pods.live[types.NamespacedName{
		Namespace: p.Key.Namespace,
		Name:      p.Key.Name,
	}])
	same := m.Key == p.shape.Key
	if p.incomplete() {
		same = false // it may be planned for now
	}
	ps.storage.unuse(p)
	before := p.needs
	p.needs = needs
	ps.storage.use(p)
	if slices.ContainsFunc(needs, func(n need) bool { return n.kind == sharersKind && !slices.Contains(before, n) }) {
		defer ps.sharersChanged(p) // last, since it may reshape p again
	}
	if same {
		return
	}
	old := p.shape
	p.shape = ps.shapes.intern(m)
	ps.shapes.release(old)
	if p.Node == "" {
		ps.stalePending = true
	} else {
		ps.nodes.touchPods(p.Node)
	}
	ps.poke()
}

// limitsOf returns the attach limits of a node.
func (st *storage) limitsOf(node string) []model.AttachLimit {
	return translate.AttachLimits(st.csiNodes.live[clusterKey(node)])
}

func otherAttachLimits(a, b *storagev1.CSINode) bool {
	return !slices.Equal(translate.AttachLimits(a), translate.AttachLimits(b))
}

func (st *storage) limitsChanged(node string) {
	if m := st.nodes.byName[node]; m != nil {
		st.nodes.touch(m)
		st.poke()
	}
}
