package main

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/log"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/events"
	"sigs.k8s.io/karpenter/pkg/operator/injection"
	"sigs.k8s.io/karpenter/pkg/operator/options"
	karpscheduling "sigs.k8s.io/karpenter/pkg/scheduling"

	"github.com/nodeless/nodeless/engine/model"
)

// karpenter runs Karpenter's scheduler on the pods. As in Karpenter's own benchmark, only Solve is measured, with
// five workers; building the scheduler and its topology is not.
func karpenter(c *catalogue, pods []*corev1.Pod, opts ...scheduling.Options) (outcome, error) {
	log.SetLogger(logr.Discard())
	ctx := options.ToContext(injection.WithControllerName(context.Background(), "provisioner"),
		&options.Options{BatchMaxDuration: 10 * time.Second})
	opts = append(opts, scheduling.NumConcurrentReconciles(5))
	scheduler, err := newScheduler(ctx, c, pods, opts)
	if err != nil {
		return outcome{}, err
	}
	var results scheduling.Results
	out := outcome{who: "karpenter"}
	out.usage = measure(func() { results, err = scheduler.Solve(ctx, pods) })
	if err != nil {
		return outcome{}, fmt.Errorf("karpenter: solve for %d pods: %w", len(pods), err)
	}
	out.unplaced = len(results.PodErrors)
	for _, claim := range results.NewNodeClaims {
		m := machine{
			zones:         oneOf(claim.Requirements, corev1.LabelTopologyZone),
			capacityTypes: oneOf(claim.Requirements, karpv1.CapacityTypeLabelKey),
		}
		for _, p := range claim.Pods {
			m.pods = append(m.pods, p.Name)
		}
		out.machines = append(out.machines, m)
	}
	return out, nil
}

func newScheduler(ctx context.Context, c *catalogue, pods []*corev1.Pod,
	opts []scheduling.Options,
) (*scheduling.Scheduler, error) {
	pool := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	pool.Spec.Template.Spec.NodeClassRef = &karpv1.NodeClassReference{
		Group: "example.com", Kind: "NodeClass",
		Name: "default",
	}
	pool.Spec.Limits = karpv1.Limits{
		corev1.ResourceCPU:    resource.MustParse("10000000"),
		corev1.ResourceMemory: resource.MustParse("10000000Gi"),
	}
	offered := map[string][]*cloudprovider.InstanceType{pool.Name: c.forKarpenter()}
	pools := []*karpv1.NodePool{pool}
	client, now := fake.NewClientBuilder().Build(), clock.RealClock{}
	cluster := state.NewCluster(now, client, noCloud{})
	topology, err := scheduling.NewTopology(ctx, client, cluster, nil, pools, offered, pods, opts...)
	if err != nil {
		return nil, fmt.Errorf("karpenter: topology: %w", err)
	}
	return scheduling.NewScheduler(ctx, client, pools, cluster, nil, topology, offered, c.daemonPods(),
		events.NewRecorder(&record.FakeRecorder{}), now, nil, nil, opts...), nil
}

// noCloud is never called: there are no nodes.
type noCloud struct{ cloudprovider.CloudProvider }

// oneOf returns the values to which a label is limited, or nil if it is not limited.
func oneOf(rs karpscheduling.Requirements, key string) []string {
	if r := rs.Get(key); r.Operator() == corev1.NodeSelectorOpIn {
		return r.Values()
	}
	return nil
}

// forKarpenter returns the catalogue in Karpenter's types.
func (c *catalogue) forKarpenter() []*cloudprovider.InstanceType {
	out := make([]*cloudprovider.InstanceType, len(c.types))
	for i := range c.types {
		t := &c.types[i]
		it := &cloudprovider.InstanceType{
			Name: t.Name, Requirements: karpscheduling.NewRequirements(), Capacity: list(t.Capacity),
			Overhead: &cloudprovider.InstanceTypeOverhead{KubeReserved: list(t.Capacity.Minus(t.Allocatable))},
		}
		add := func(key string, values ...string) {
			it.Requirements.Add(karpscheduling.NewRequirement(key, corev1.NodeSelectorOpIn, values...))
		}
		for _, r := range t.Requirements {
			add(r.Key, r.Values...)
		}
		var zones, capacityTypes []string
		for _, o := range t.Offerings {
			zones, capacityTypes = append(zones, o.Zone), append(capacityTypes, o.CapacityType)
			it.Offerings = append(it.Offerings, &cloudprovider.Offering{
				Available: o.Available, Price: o.Price.Dollars(),
				Requirements: karpscheduling.NewLabelRequirements(map[string]string{
					corev1.LabelTopologyZone: o.Zone, karpv1.CapacityTypeLabelKey: o.CapacityType,
				}),
			})
		}
		add(corev1.LabelTopologyZone, zones...)
		add(karpv1.CapacityTypeLabelKey, capacityTypes...)
		out[i] = it
	}
	return out
}

func list(r model.Resources) corev1.ResourceList {
	out := corev1.ResourceList{}
	for i, name := range model.WellKnownResources {
		switch {
		case r[i] == 0:
		case i == model.CPU:
			out[corev1.ResourceName(name)] = *resource.NewMilliQuantity(r[i], resource.DecimalSI)
		default:
			out[corev1.ResourceName(name)] = *resource.NewQuantity(r[i], resource.BinarySI)
		}
	}
	return out
}

func (c *catalogue) daemonPods() []*corev1.Pod {
	var out []*corev1.Pod
	for i, d := range c.daemons {
		requests := list(d)
		delete(requests, corev1.ResourcePods)
		out = append(out, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: fmt.Sprintf("agent-%d", i)},
			Spec: corev1.PodSpec{
				Containers:  []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Requests: requests}}},
				Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			},
		})
	}
	return out
}
