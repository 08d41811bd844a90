package oracle

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
)

// spreading is the configuration of a kube-scheduler that spreads pods without constraints.
const spreading = `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  pluginConfig:
  - name: PodTopologySpread
    args:
      defaultingType: List
      defaultConstraints:
      - {maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule}
      - {maxSkew: 2, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: DoNotSchedule}
      - {maxSkew: 1, topologyKey: example.com/rack, whenUnsatisfiable: ScheduleAnyway}
`

// served returns a case whose pods are selected by none, one or several Services. Most pending pods have no
// constraints of their own.
func served(seed, number uint64) *Case {
	c := generate(seed, number)
	g := &gen{Rand: rand.New(rand.NewPCG(number, seed)), c: c}
	for i := range g.IntN(4) {
		s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("s%d", i), Namespace: pick(g, c.Pod.Namespace, c.Pod.Namespace, "green"),
		}}
		s.Spec.Selector = pick(g, map[string]string{"app": "web"}, map[string]string{"app": "web"},
			map[string]string{"track": "1"}, map[string]string{"app": "db"}, nil)
		c.Services = append(c.Services, s)
	}
	if g.chance(0.8) {
		c.Pod.Spec.TopologySpreadConstraints = nil
	}
	return c
}

// A pod without constraints gets those of the scheduler's configuration, which count the pods of its Services.
func TestDefaultSpreadAgreesWithKubeScheduler(t *testing.T) {
	truth := newTruthWith(t, spreading)
	by := map[verdict]int{}
	for number := range uint64(600) {
		c := served(1, number)
		if f, failed := truth.try(c, nil); failed {
			small := shrink(c, func(c *Case) bool {
				again, failed := truth.try(c, nil)
				return failed && again.kind == f.kind
			})
			t.Fatalf("case %d: %s\n%s", number, f.text, small.YAML())
		}
		if len(c.Pod.Spec.TopologySpreadConstraints) > 0 {
			continue
		}
		for _, j := range truth.judge(c) {
			by[j[slices.Index(judges, names.PodTopologySpread)]]++
		}
	}
	if by[accepts] < 100 || by[rejects] < 100 {
		t.Errorf("by default, nodes are accepted %d times and rejected %d times: the cases say too little", by[accepts],
			by[rejects])
	}
}
