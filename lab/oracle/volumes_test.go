package oracle

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// storage generates classes, claims, volumes and the nodes' attach limits.
func (g *gen) storage() {
	g.c.Classes = []*storagev1.StorageClass{
		class("now", storagev1.VolumeBindingImmediate), class("wait", storagev1.VolumeBindingWaitForFirstConsumer),
		class("wait-there", storagev1.VolumeBindingWaitForFirstConsumer),
		class("files", storagev1.VolumeBindingWaitForFirstConsumer),
		class("local", storagev1.VolumeBindingWaitForFirstConsumer),
	}
	g.c.Classes[3].Provisioner, g.c.Classes[4].Provisioner = files, "kubernetes.io/no-provisioner"
	g.disks()
	for range 1 + g.IntN(2) {
		g.c.Classes[2].AllowedTopologies = append(g.c.Classes[2].AllowedTopologies, g.topology())
	}
	for _, n := range g.c.Nodes {
		g.c.CSINodes = append(g.c.CSINodes, g.csiNode(n.Name))
	}
	for i := range 4 {
		g.claim(fmt.Sprintf("c%d", i))
	}
	if g.chance(0.5) {
		g.capacities()
	}
}

// capacities lets drivers report where they could create volumes. The nodes belong to no NodePool: on those that were
// launched capacity may still appear, which kube-scheduler does not expect.
func (g *gen) capacities() {
	for _, name := range []string{storage, files} {
		d := &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if g.chance(0.8) {
			d.Spec.StorageCapacity = new(g.chance(0.8))
		}
		g.c.CSIDrivers = append(g.c.CSIDrivers, d)
	}
	for i := range 1 + g.IntN(8) {
		c := &storagev1.CSIStorageCapacity{
			ObjectMeta:       metav1.ObjectMeta{Name: fmt.Sprintf("report-%d", i), Namespace: "default"},
			StorageClassName: pick(g, "wait", "wait-there", "files"),
		}
		if g.chance(0.9) {
			c.Capacity = new(q(pick(g, "0", "500Mi", "1Gi", "1Gi", "2Gi")))
		}
		if g.chance(0.2) {
			c.MaximumVolumeSize = new(q(pick(g, "500Mi", "1Gi")))
		}
		if g.chance(0.95) {
			c.NodeTopology = g.nodeTopology()
		}
		g.c.Capacities = append(g.c.Capacities, c)
	}
}

func (g *gen) nodeTopology() *metav1.LabelSelector {
	s := &metav1.LabelSelector{MatchLabels: map[string]string{}}
	switch g.IntN(10) {
	case 0:
	case 1, 2:
		s.MatchLabels[corev1.LabelHostname] = pick(g, g.c.Nodes...).Name
	case 3, 4:
		s.MatchLabels[rack] = pick(g, "r1", "r2")
	case 5:
		s.MatchExpressions = append(s.MatchExpressions, metav1.LabelSelectorRequirement{
			Key:      pick(g, rack, corev1.LabelTopologyZone),
			Operator: pick(g, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist),
		})
	case 6:
		s.MatchExpressions = append(s.MatchExpressions, metav1.LabelSelectorRequirement{
			Key:      pick(g, rack, corev1.LabelTopologyZone),
			Operator: pick(g, metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn), Values: []string{pick(g, "a", "r1")},
		})
	}
	if g.chance(0.5) {
		s.MatchLabels[pick(g, corev1.LabelTopologyZone, zoneOfEBS)] = pick(g, "a", "b", "c")
	}
	return s
}

// disks adds volumes that no provisioner creates, on some nodes.
func (g *gen) disks() {
	for i, n := range g.c.Nodes {
		for k := range g.IntN(3) {
			v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("disk-%d-%d", i, k)}}
			v.Spec.StorageClassName, v.Status.Phase = "local", corev1.VolumeAvailable
			v.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce, corev1.ReadWriteMany}
			v.Spec.Capacity = corev1.ResourceList{"storage": q(pick(g, "500Mi", "1Gi", "2Gi"))}
			v.Spec.Local = &corev1.LocalVolumeSource{Path: "/disk"}
			v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{
					Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{n.Labels[corev1.LabelHostname]},
				}}}},
			}}
			switch g.IntN(10) {
			case 0:
				v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "default", Name: "another"}
			case 1:
				v.Status.Phase = corev1.VolumeReleased
			}
			g.c.Volumes = append(g.c.Volumes, v)
		}
	}
}

func class(name string, mode storagev1.VolumeBindingMode) *storagev1.StorageClass {
	return &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: storage,
		VolumeBindingMode: &mode,
	}
}

func (g *gen) topology() corev1.TopologySelectorTerm {
	t := corev1.TopologySelectorTerm{}
	if g.chance(0.9) {
		t.MatchLabelExpressions = append(t.MatchLabelExpressions, corev1.TopologySelectorLabelRequirement{
			Key: pick(g, corev1.LabelTopologyZone, zoneOfEBS), Values: pick(g, []string{"a"}, []string{"a", "b"}, []string{"c"}),
		})
	}
	if g.chance(0.3) {
		t.MatchLabelExpressions = append(t.MatchLabelExpressions,
			corev1.TopologySelectorLabelRequirement{Key: rack, Values: []string{"r1"}})
	}
	return t
}

func (g *gen) csiNode(name string) *storagev1.CSINode {
	n := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{
		// as every kubelet reports
		Name: name, Annotations: map[string]string{corev1.MigratedPluginsAnnotationKey: "kubernetes.io/aws-ebs"},
	}}
	for _, driver := range []string{storage, files} {
		if g.chance(0.2) {
			continue
		}
		d := storagev1.CSINodeDriver{Name: driver, NodeID: name}
		if g.chance(0.8) {
			d.Allocatable = &storagev1.VolumeNodeResources{Count: new(pick[int32](g, 0, 1, 1, 2))}
		}
		n.Spec.Drivers = append(n.Spec.Drivers, d)
	}
	return n
}

// claim generates a claim in each namespace, in one of the states that a claim can have.
func (g *gen) claim(name string) {
	for _, namespace := range []string{"default", "blue", "green"} {
		if g.chance(0.02) {
			continue // the claim does not exist
		}
		c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: namespace,
			UID: types.UID(namespace + name),
		}}
		c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{pick(g, corev1.ReadWriteOnce, corev1.ReadWriteMany,
			corev1.ReadWriteOncePod)}
		c.Spec.Resources.Requests = corev1.ResourceList{"storage": q("1Gi")}
		c.Spec.StorageClassName = new(pick(g, "wait", "wait", "wait-there", "wait-there", "files", "local"))
		switch g.IntN(40) {
		case 0:
			c.Spec.StorageClassName = new("now") // unbound with immediate binding: it has to be bound first
		case 1:
			c.Spec.StorageClassName = new("none-such")
		case 2:
			c.Spec.StorageClassName = nil
		case 3:
			c.Spec.VolumeName = "promised" // has a volume, but is not fully bound
		case 4:
			c.DeletionTimestamp = &metav1.Time{Time: noon}
			c.Finalizers = []string{"kubernetes.io/pvc-protection"}
		case 5:
			c.Status.Phase = corev1.ClaimLost
		case 6:
			c.Spec.VolumeName = "gone"
			c.Annotations = map[string]string{"pv.kubernetes.io/bind-completed": "yes"}
		case 7:
			c.Annotations = map[string]string{"volume.kubernetes.io/selected-node": pick(g, g.c.Nodes...).Name}
		case 8:
			c.Spec.StorageClassName = nil
			c.Annotations = map[string]string{corev1.BetaStorageClassAnnotation: "wait-there"}
		default:
			if g.chance(0.6) {
				g.bind(c)
			}
		}
		g.c.Claims = append(g.c.Claims, c)
	}
}

// bind binds the claim to a new volume.
func (g *gen) bind(c *corev1.PersistentVolumeClaim) {
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-" + c.Namespace + "-" + c.Name}}
	v.Spec.StorageClassName = *c.Spec.StorageClassName
	v.Spec.AccessModes, v.Spec.Capacity = c.Spec.AccessModes, corev1.ResourceList{"storage": q("1Gi")}
	v.Spec.ClaimRef = &corev1.ObjectReference{
		Kind: "PersistentVolumeClaim", Namespace: c.Namespace, Name: c.Name,
		UID: c.UID,
	}
	driver := pick(g, storage, storage, files)
	handle := v.Name
	if g.chance(0.1) {
		handle = "vol-shared"
	}
	switch {
	case g.chance(0.08):
		v.Spec.HostPath = &corev1.HostPathVolumeSource{Path: "/data"}
	case g.chance(0.08):
		v.Spec.AWSElasticBlockStore = &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "aws://a/vol-" + c.Name}
	default:
		v.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: handle}
	}
	if g.chance(0.6) {
		required := &corev1.NodeSelector{}
		for range 1 + g.IntN(2) {
			required.NodeSelectorTerms = append(required.NodeSelectorTerms,
				corev1.NodeSelectorTerm{MatchExpressions: g.volumeExpressions()})
		}
		v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: required}
		if v.Spec.AWSElasticBlockStore != nil { // its provisioner writes no other affinity
			required.NodeSelectorTerms = required.NodeSelectorTerms[:1]
			required.NodeSelectorTerms[0].MatchExpressions = []corev1.NodeSelectorRequirement{
				{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{pick(g, "a", "b")}},
			}
		}
	}
	if g.chance(0.25) {
		v.Labels = map[string]string{pick(g, corev1.LabelTopologyZone, corev1.LabelTopologyZone,
			corev1.LabelFailureDomainBetaZone): pick(g, "a", "b__a", "a__b__c")}
	}
	c.Spec.VolumeName = v.Name
	c.Annotations = map[string]string{"pv.kubernetes.io/bind-completed": "yes"}
	c.Status.Phase = corev1.ClaimBound
	g.c.Volumes = append(g.c.Volumes, v)
}

func (g *gen) volumeExpressions() []corev1.NodeSelectorRequirement {
	out := []corev1.NodeSelectorRequirement{{
		Key: pick(g, corev1.LabelTopologyZone, zoneOfEBS),
		Operator: pick(g, corev1.NodeSelectorOpIn, corev1.NodeSelectorOpIn, corev1.NodeSelectorOpIn,
			corev1.NodeSelectorOpNotIn),
		Values: pick(g, []string{"a"}, []string{"b"}, []string{"a", "b"}),
	}}
	if g.chance(0.2) {
		out = append(out, corev1.NodeSelectorRequirement{
			Key:      rack,
			Operator: pick(g, corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist),
		})
	}
	return out
}

// loseCSINodes removes some CSINodes, as if their nodes had just joined. In-tree volumes need them: there the kubelet
// reports that it has migrated them to the CSI driver.
func (g *gen) loseCSINodes() {
	if !slices.ContainsFunc(g.c.Volumes, takenOver) {
		g.c.CSINodes = slices.DeleteFunc(g.c.CSINodes, func(*storagev1.CSINode) bool { return g.chance(0.2) })
	}
}

func takenOver(v *corev1.PersistentVolume) bool { return v.Spec.AWSElasticBlockStore != nil }

// mount gives the pod volumes.
func (g *gen) mount(p *corev1.Pod) {
	for i := range g.IntN(4) {
		v := corev1.Volume{Name: fmt.Sprintf("v%d", i)}
		switch g.IntN(12) {
		case 0:
			v.EmptyDir = &corev1.EmptyDirVolumeSource{}
		case 1:
			g.ephemeral(p, &v)
		case 2:
			g.inline(&v)
		default:
			v.PersistentVolumeClaim = &corev1.PersistentVolumeClaimVolumeSource{ClaimName: fmt.Sprintf("c%d", g.IntN(4))}
		}
		p.Spec.Volumes = append(p.Spec.Volumes, v)
	}
}

// inline adds a disk that the pod names itself. The check that keeps such pods apart takes nodes with the same host
// name for one.
func (g *gen) inline(v *corev1.Volume) {
	if slices.ContainsFunc(g.c.Nodes, func(n *corev1.Node) bool { return n.Labels[corev1.LabelHostname] != n.Name }) {
		v.EmptyDir = &corev1.EmptyDirVolumeSource{}
		return
	}
	name, reads := pick(g, "a", "a", "b"), g.chance(0.5)
	switch g.IntN(3) {
	case 0:
		v.AWSElasticBlockStore = &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "vol-" + name, ReadOnly: reads}
	case 1:
		v.ISCSI = &corev1.ISCSIVolumeSource{IQN: "iqn." + name, ReadOnly: reads}
	default:
		v.RBD = &corev1.RBDVolumeSource{
			CephMonitors: pick(g, []string{"m1"}, []string{"m2"}, []string{"m1", "m2"}), RBDImage: name, ReadOnly: reads,
		}
	}
}

// ephemeral adds a generic ephemeral volume, whose claim may not exist yet or belong to something else.
func (g *gen) ephemeral(p *corev1.Pod, v *corev1.Volume) {
	v.Ephemeral = &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{}}
	if g.chance(0.05) {
		return
	}
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
		Name: p.Name + "-" + v.Name, Namespace: p.Namespace, UID: types.UID(p.Name + v.Name),
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: "v1", Kind: "Pod", Name: p.Name, UID: p.UID,
			Controller: new(true),
		}},
	}}
	if p.Name == "pending" && g.chance(0.05) {
		c.OwnerReferences = nil
	}
	c.Spec.StorageClassName = new(pick(g, "wait", "wait-there", "files"))
	c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	c.Spec.Resources.Requests = corev1.ResourceList{"storage": q("1Gi")}
	if g.chance(0.3) {
		g.bind(c)
	}
	g.c.Claims = append(g.c.Claims, c)
}
