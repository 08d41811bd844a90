package oracle

import (
	"fmt"
	"math/rand/v2"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"
)

// Case is a cluster and a pending pod.
type Case struct {
	Pod        *corev1.Pod                     `json:"pod"`
	Nodes      []*corev1.Node                  `json:"nodes"`
	Pods       []*corev1.Pod                   `json:"pods,omitempty"` // bound
	Namespaces []*corev1.Namespace             `json:"namespaces,omitempty"`
	Claims     []*corev1.PersistentVolumeClaim `json:"claims,omitempty"`
	Volumes    []*corev1.PersistentVolume      `json:"volumes,omitempty"`
	Classes    []*storagev1.StorageClass       `json:"classes,omitempty"`
	CSINodes   []*storagev1.CSINode            `json:"csiNodes,omitempty"`
	CSIDrivers []*storagev1.CSIDriver          `json:"csiDrivers,omitempty"`
	Capacities []*storagev1.CSIStorageCapacity `json:"capacities,omitempty"`
	Services   []*corev1.Service               `json:"services,omitempty"`

	DeviceClasses  []*resourcev1.DeviceClass   `json:"deviceClasses,omitempty"`
	Slices         []*resourcev1.ResourceSlice `json:"slices,omitempty"`
	ResourceClaims []*resourcev1.ResourceClaim `json:"resourceClaims,omitempty"`
}

// YAML formats the case for people, and for testdata.
func (c *Case) YAML() string {
	data, err := yaml.Marshal(c)
	if err != nil {
		return err.Error()
	}
	var tree any
	if err := yaml.Unmarshal(data, &tree); err != nil {
		return err.Error()
	}
	tidy(tree)
	if data, err = yaml.Marshal(tree); err != nil {
		return err.Error()
	}
	return string(data)
}

// noise are fields that are marshalled although they were not set.
var noise = []string{
	"nodeInfo", "daemonEndpoints", "lastProbeTime", "lastTransitionTime", "lastHeartbeatTime", "image", "imageID",
	"lastState",
	"ready", "restartCount", "state", "creationTimestamp",
}

// tidy removes noise, and empty values that mean nothing.
func tidy(tree any) {
	switch v := tree.(type) {
	case map[string]any:
		for key, value := range v {
			tidy(value)
			inner, isMap := value.(map[string]any)
			if slices.Contains(noise, key) || isMap && len(inner) == 0 &&
				slices.Contains([]string{"status", "spec", "resources"}, key) {
				delete(v, key)
			}
		}
	case []any:
		for _, value := range v {
			tidy(value)
		}
	}
}

// feature is a group of rules that a case tests.
type feature int

const (
	resources feature = iota
	affinityToNodes
	taints
	affinityToPods
	spread
	ports
	volumes
	claimed
	features
)

// gen generates one case.
type gen struct {
	*rand.Rand
	on     [features]bool
	c      *Case
	nextID int
	taken  map[string]bool // devices in use
}

func (g *gen) chance(p float64) bool { return g.Float64() < p }

func pick[T any](g *gen, from ...T) T { return from[g.IntN(len(from))] }

// some returns up to most elements of from, in their order.
func some[T any](g *gen, most int, from ...T) []T {
	var out []T
	for i, v := range from {
		if len(out) < most && g.IntN(len(from)-i) < most-len(out) {
			out = append(out, v)
		}
	}
	return out[:g.IntN(len(out)+1)]
}

func (g *gen) id(prefix string) string {
	g.nextID++
	return fmt.Sprintf("%s%d", prefix, g.nextID)
}

// generate returns the case with the number; equal seeds and numbers give equal cases.
func generate(seed, number uint64) *Case {
	g := &gen{Rand: rand.New(rand.NewPCG(seed, number)), c: &Case{}, taken: map[string]bool{}}
	g.on[g.IntN(int(features))] = true
	for f := range g.on {
		g.on[f] = g.on[f] || g.chance(0.18)
	}
	for _, name := range []string{"blue", "default", "green"} {
		g.c.Namespaces = append(g.c.Namespaces, g.namespace(name))
	}
	for i := range 2 + g.IntN(4) {
		g.c.Nodes = append(g.c.Nodes, g.node(fmt.Sprintf("n%d", i)))
	}
	if g.on[volumes] {
		g.storage()
	}
	if g.on[claimed] {
		g.devices()
	}
	bound := g.IntN(8)
	if g.on[spread] {
		bound += g.IntN(6)
	}
	for range bound {
		p := g.pod(g.id("p"), true)
		p.Spec.NodeName = pick(g, g.c.Nodes...).Name
		if g.on[claimed] && g.chance(0.6) {
			g.allocate(p)
		}
		g.c.Pods = append(g.c.Pods, p)
	}
	g.c.Pod = g.pod("pending", false)
	if g.on[claimed] {
		g.claimDevices(g.c.Pod)
	}
	if g.chance(0.3) {
		g.siblings()
	}
	g.loseCSINodes()
	return g.c
}

// siblings adds bound pods like the pending one.
func (g *gen) siblings() {
	for range 1 + g.IntN(3) {
		p := g.c.Pod.DeepCopy()
		p.Name = g.id("sibling")
		p.UID = types.UID(p.Name)
		p.Spec.NodeName = pick(g, g.c.Nodes...).Name
		p.Spec.ResourceClaims, p.Status.ResourceClaimStatuses = nil, nil
		g.c.Pods = append(g.c.Pods, p)
	}
}

func (g *gen) namespace(name string) *corev1.Namespace {
	labels := map[string]string{corev1.LabelMetadataName: name}
	if g.chance(0.6) {
		labels["team"] = pick(g, "red", "white")
	}
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
}

const (
	rack       = "example.com/rack"
	generation = "example.com/generation"
	chip       = "example.com/chip"
	gpu        = "nvidia.com/gpu"
	betaOS     = "beta.kubernetes.io/os"
	taintA     = "dedicated"
	taintB     = "maintenance"
	storage    = "ebs.csi.aws.com"
	files      = "efs.csi.aws.com"

	zoneOfEBS = "topology.ebs.csi.aws.com/zone" // the driver's key for the zone, a label of the nodes it runs on
)

func (g *gen) node(name string) *corev1.Node {
	labels := map[string]string{corev1.LabelHostname: name}
	if g.chance(0.05) {
		labels[corev1.LabelHostname] = pick(g, "host-of-"+name, "n0")
	}
	if g.chance(0.85) {
		zone := pick(g, "a", "a", "b", "c")
		labels[corev1.LabelTopologyZone], labels[zoneOfEBS] = zone, zone
	}
	if g.chance(0.6) {
		labels[rack] = pick(g, "r1", "r2")
	}
	if g.on[affinityToNodes] {
		g.nodeLabels(labels)
	}
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: labels}}
	n.Status.Allocatable = g.allocatable()
	n.Status.Capacity = n.Status.Allocatable
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	if g.on[taints] {
		g.taint(n)
	} else if g.on[spread] && g.chance(0.25) {
		n.Spec.Taints = []corev1.Taint{{Key: taintA, Value: "x", Effect: corev1.TaintEffectNoSchedule}}
	}
	if g.on[spread] && g.chance(0.04) {
		n.DeletionTimestamp = &metav1.Time{Time: noon}
		n.Finalizers = []string{"karpenter.sh/termination"}
	}
	return n
}

func (g *gen) nodeLabels(labels map[string]string) {
	if g.chance(0.7) {
		labels["tier"] = pick(g, "gold", "silver", "")
	}
	if g.chance(0.7) {
		labels[generation] = pick(g, "1", "5", "07", "9", "10", "x9", "5.5", "9223372036854775807", "")
	}
	if g.chance(0.7) {
		os := pick(g, "linux", "windows")
		labels[corev1.LabelOSStable], labels[betaOS] = os, os
	}
}

func (g *gen) taint(n *corev1.Node) {
	effects := []corev1.TaintEffect{
		corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute,
		corev1.TaintEffectPreferNoSchedule,
	}
	for _, key := range []string{taintA, taintB, corev1.TaintNodeMemoryPressure} {
		for _, effect := range effects {
			if g.chance(0.08) {
				n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Value: pick(g, "", "x", "y"), Effect: effect})
			}
		}
	}
	if n.Spec.Unschedulable = g.chance(0.25); n.Spec.Unschedulable && g.chance(0.6) {
		n.Spec.Taints = append(n.Spec.Taints,
			corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule})
	}
}
