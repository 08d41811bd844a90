package main

import (
	"fmt"
	"math/rand"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const namespace = "default"

// workload creates pods with the requests, labels and order of draws of Karpenter's scheduling_benchmark_test.go,
// whose seed is 42.
type workload struct {
	random *rand.Rand
	uids   *rand.Rand // separate: UIDs break ties in Karpenter's queue and must not correlate with the kinds of pods
	pods   []*corev1.Pod
}

func newWorkload() *workload {
	return &workload{random: rand.New(rand.NewSource(42)), uids: rand.New(rand.NewSource(7))}
}

// diverse returns Karpenter's mix: a fifth each without constraints, spread over zones, spread over hosts, with zone
// affinity to their own kind, and with host anti-affinity to their own kind.
func diverse(n int) []*corev1.Pod {
	w := newWorkload()
	for _, k := range kinds {
		for range n / len(kinds) {
			w.add(k, nil)
		}
	}
	for len(w.pods) < n {
		w.add(generic, nil)
	}
	return w.pods
}

// preferring returns pods that prefer a zone and prefer to be apart from each other; one of these preferences cannot
// be satisfied.
func preferring(n int, zone string) []*corev1.Pod {
	w := newWorkload()
	labels := map[string]string{"app": "nginx"}
	first := w.requests() // as in Karpenter's benchmark, all pods have the same
	for range n {
		p := w.pod(labels, first)
		away := func(weight int32, key string) corev1.WeightedPodAffinityTerm {
			return corev1.WeightedPodAffinityTerm{Weight: weight, PodAffinityTerm: term(labels, key)}
		}
		p.Spec.Affinity = &corev1.Affinity{
			NodeAffinity: &corev1.NodeAffinity{
				PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{
					Weight: 1, Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
						{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{zone}},
					}},
				}},
			},
			PodAntiAffinity: &corev1.PodAntiAffinity{
				PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{
					away(10, corev1.LabelTopologyZone), away(1, corev1.LabelHostname),
				},
			},
		}
		w.pods = append(w.pods, p)
	}
	return w.pods
}

// kind is one of the five kinds of pods in the mix.
type kind int

const (
	generic kind = iota
	zoneSpread
	hostSpread
	zoneAffinity
	hostAntiAffinity
)

var kinds = []kind{generic, zoneSpread, hostSpread, zoneAffinity, hostAntiAffinity}

// add creates a pod of the kind, with the given requests or, if there are none, with random ones.
func (w *workload) add(k kind, requests corev1.ResourceList) {
	var labels, selected map[string]string
	switch k {
	case zoneAffinity:
		labels = w.label("my-affininity")
	case hostAntiAffinity:
		labels = map[string]string{"app": "nginx"}
	case zoneSpread, hostSpread:
		labels = w.label("my-label")
		selected = w.label("my-label")
	default:
		labels = w.label("my-label")
	}
	if requests == nil {
		requests = w.requests()
	}
	p := w.pod(labels, requests)
	switch k {
	case zoneSpread:
		p.Spec.TopologySpreadConstraints = spread(selected, corev1.LabelTopologyZone)
	case hostSpread:
		p.Spec.TopologySpreadConstraints = spread(selected, corev1.LabelHostname)
	case zoneAffinity:
		p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term(labels, corev1.LabelTopologyZone)},
		}}
	case hostAntiAffinity:
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term(labels, corev1.LabelHostname)},
		}}
	}
	w.pods = append(w.pods, p)
}

func spread(selected map[string]string, key string) []corev1.TopologySpreadConstraint {
	return []corev1.TopologySpreadConstraint{{
		MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: corev1.DoNotSchedule,
		LabelSelector: &metav1.LabelSelector{MatchLabels: selected},
	}}
}

func term(selected map[string]string, key string) corev1.PodAffinityTerm {
	return corev1.PodAffinityTerm{LabelSelector: &metav1.LabelSelector{MatchLabels: selected}, TopologyKey: key}
}

func (w *workload) label(key string) map[string]string {
	return map[string]string{key: string("abcdefg"[w.random.Intn(7)])}
}

func (w *workload) requests() corev1.ResourceList {
	cpu := []int64{100, 250, 500, 1000, 1500}[w.random.Intn(5)]
	memory := []int64{100, 256, 512, 1024, 2048, 4096}[w.random.Intn(6)]
	return amounts(cpu, memory<<20, 0)
}

// amounts returns requests of millicores, bytes and GPUs.
func amounts(cpu, memory, gpus int64) corev1.ResourceList {
	list := corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(cpu, resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(memory, resource.BinarySI),
	}
	if gpus > 0 {
		list["nvidia.com/gpu"] = *resource.NewQuantity(gpus, resource.DecimalSI)
	}
	return list
}

func (w *workload) pod(labels map[string]string, requests corev1.ResourceList) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: fmt.Sprintf("pod-%07d", len(w.pods)), Labels: labels,
			UID: types.UID(fmt.Sprintf("%016x%016x", w.uids.Uint64(), w.uids.Uint64())),
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "main", Image: "example.com/main", Resources: corev1.ResourceRequirements{Requests: requests},
		}}},
	}
}
