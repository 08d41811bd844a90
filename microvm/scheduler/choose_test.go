package scheduler

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/microvm"
	"github.com/nodeless/nodeless/microvm/fargate"
)

const gib = 1 << 30

func host(name string, cpus, memory int64, change func(*candidate)) candidate {
	c := candidate{Description: microvm.Description{
		Name: name, Zone: "z1", Arch: "amd64", Engine: "KVM", Ready: true, MaxPods: 10,
		Capacity: fargate.Size{MilliCPU: cpus * 1000, MemoryBytes: memory * gib},
	}}
	if change != nil {
		change(&c)
	}
	return c
}

func TestWhereAPodGoes(t *testing.T) {
	small := fargate.Size{MilliCPU: 1000, MemoryBytes: 2 * gib}
	used := func(cpus, memory int64) func(*candidate) {
		return func(c *candidate) { c.used = fargate.Size{MilliCPU: cpus * 1000, MemoryBytes: memory * gib} }
	}
	zoned := func(zone string) *corev1.Pod {
		return &corev1.Pod{Spec: corev1.PodSpec{NodeSelector: map[string]string{corev1.LabelTopologyZone: zone}}}
	}
	affine := func(op corev1.NodeSelectorOperator, zone string) *corev1.Pod {
		return &corev1.Pod{Spec: corev1.PodSpec{Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
				{Key: "disktype", Operator: corev1.NodeSelectorOpIn, Values: []string{"ssd"}},
				{Key: corev1.LabelTopologyZone, Operator: op, Values: []string{zone}},
			}}},
		}}}}}
	}
	inZone := func(zone string) func(*candidate) { return func(c *candidate) { c.Zone = zone } }
	engine := func(name string) func(*candidate) { return func(c *candidate) { c.Engine = name } }
	for name, c := range map[string]struct {
		hosts []candidate
		spec  v1alpha1.FargateProfileSpec
		pod   *corev1.Pod
		want  string
		why   string
	}{
		"no hosts": {nil, v1alpha1.FargateProfileSpec{}, nil, "", "no microVM host is registered"},
		"the emptier one": {
			[]candidate{host("a", 4, 8, used(1, 2)), host("b", 4, 8, nil)},
			v1alpha1.FargateProfileSpec{},
			nil, "b", "",
		},
		"the larger one of two empty": {
			[]candidate{host("a", 4, 8, nil), host("b", 8, 16, nil)},
			v1alpha1.FargateProfileSpec{},
			nil, "b", "",
		},
		"equals by name": {
			[]candidate{host("b", 4, 8, nil), host("a", 4, 8, nil)},
			v1alpha1.FargateProfileSpec{},
			nil, "a", "",
		},
		"exactly what is left": {
			[]candidate{host("a", 4, 8, used(3, 6))},
			v1alpha1.FargateProfileSpec{},
			nil,
			"a", "",
		},
		"no CPU": {
			[]candidate{host("a", 4, 8, used(4, 0))},
			v1alpha1.FargateProfileSpec{},
			nil,
			"", noCapacity + " (a: it has 0m of CPU left, the pod needs 1000m)",
		},
		"no memory": {
			[]candidate{host("a", 4, 8, used(0, 7))},
			v1alpha1.FargateProfileSpec{},
			nil,
			"", "a: it has 1024Mi of memory left, the pod needs 2048Mi",
		},
		"as many pods as it may have": {
			[]candidate{host("a", 4, 8, func(c *candidate) { c.pods = 10 })},
			v1alpha1.FargateProfileSpec{},
			nil, "", "it already has 10 pods, its maximum",
		},
		"a host that is lost": {
			[]candidate{host("a", 4, 8,
				func(c *candidate) { c.Ready, c.Message = false, "no answer" })},
			v1alpha1.FargateProfileSpec{},
			nil, "",
			"it is not ready: no answer",
		},
		"the zone of a nodeSelector": {
			[]candidate{host("a", 4, 8, nil), host("b", 4, 8, inZone("z2"))},
			v1alpha1.FargateProfileSpec{},
			zoned("z2"), "b", "",
		},
		"no host in the zone": {
			[]candidate{host("a", 4, 8, nil)},
			v1alpha1.FargateProfileSpec{},
			zoned("z2"),
			"", `the pod requires another zone than "z1"`,
		},
		"the zone of an affinity alone": {
			[]candidate{host("a", 4, 8, nil), host("b", 4, 8, inZone("z2"))},
			v1alpha1.FargateProfileSpec{},
			affine(corev1.NodeSelectorOpIn, "z2"), "b", "",
		},
		"not in a zone": {
			[]candidate{host("a", 4, 8, nil), host("b", 4, 8, inZone("z2"))},
			v1alpha1.FargateProfileSpec{},
			affine(corev1.NodeSelectorOpNotIn, "z1"), "b", "",
		},
		"emulation if that is all": {
			[]candidate{host("a", 4, 8, engine("TCG"))},
			v1alpha1.FargateProfileSpec{Engine: v1alpha1.EngineAuto},
			nil, "a", "",
		},
		"namespaces only for who asks": {
			[]candidate{host("a", 4, 8, engine("Namespace"))},
			v1alpha1.FargateProfileSpec{Engine: v1alpha1.EngineAuto},
			nil, "", "it has no virtual machines",
		},
		"namespaces for who asks": {
			[]candidate{host("a", 4, 8, engine("Namespace"))},
			v1alpha1.FargateProfileSpec{Engine: v1alpha1.EngineNamespace},
			nil, "a", "",
		},
		"KVM where it has to be": {
			[]candidate{host("a", 4, 8, engine("TCG"))},
			v1alpha1.FargateProfileSpec{Engine: v1alpha1.EngineKVM},
			nil, "", "its engine is TCG, the profile requests KVM",
		},
		"many hosts are not all listed": {
			[]candidate{
				host("a", 0, 1, nil), host("b", 0, 1, nil), host("c", 0, 1, nil),
				host("d", 0, 1, nil), host("e", 0, 1, nil), host("f", 0, 1, nil),
			},
			v1alpha1.FargateProfileSpec{},
			nil, "",
			"1 more hosts",
		},
		"another architecture is wanted": {
			[]candidate{host("a", 4, 8, nil)},
			v1alpha1.FargateProfileSpec{},
			&corev1.Pod{Spec: corev1.PodSpec{NodeSelector: map[string]string{corev1.LabelArchStable: "arm64"}}}, "",
			"another architecture than amd64",
		},
	} {
		t.Run(name, func(t *testing.T) {
			pod := c.pod
			if pod == nil {
				pod = &corev1.Pod{}
			}
			got, why := choose(c.hosts, &c.spec, pod, small)
			if got != c.want || (why == "") != (c.why == "") || !strings.Contains(why, c.why) {
				t.Errorf("got %q %q, want %q %q", got, why, c.want, c.why)
			}
		})
	}
}
