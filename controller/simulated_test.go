package controller_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/catalog"
	"github.com/nodeless/nodeless/controller"
	"github.com/nodeless/nodeless/controller/cycle"
	"github.com/nodeless/nodeless/controller/gates"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/lab/sim"
	"github.com/nodeless/nodeless/lab/sim/trace"
	"github.com/nodeless/nodeless/lab/stacktest"
	"github.com/nodeless/nodeless/plane/planetest"
)

// shopTypes has one type for each shape of shopPods, which the pods of that shape fill and which is too small for any
// other shape, even with the 7.5 % of memory that real nodes have beyond the estimate: the order in which nodes
// become ready and kube-scheduler binds pods does not matter. A smaller type fits a single db pod, and one type is
// too expensive.
var shopTypes = &catalog.Own{Zones: []string{"lab-a", "lab-b"}, Types: []catalog.OwnType{
	{Name: "for.api", VCPU: 2, MemoryMiB: 64 << 10, OnDemand: 0.20},
	{Name: "for.batch", VCPU: 4, MemoryMiB: 27 << 10, OnDemand: 0.22},
	{Name: "for.cache", VCPU: 8, MemoryMiB: 12 << 10, OnDemand: 0.35},
	{Name: "for.db", VCPU: 48, MemoryMiB: 5888, OnDemand: 1.00},
	{Name: "for.one-db", VCPU: 9, MemoryMiB: 5888, OnDemand: 0.18},
	{Name: "too.dear", VCPU: 4, MemoryMiB: 128 << 10, OnDemand: 0.45},
}}

// shopPods are 40 pods of four shapes, with the numbers of pods that the scale-down leaves in total and on each node.
var shopPods = []struct {
	name               string
	milliCPU, mib      int64
	pods, after, onOne int32
}{
	{"api", 900, 26 << 10, 14, 7, 1},
	{"batch", 1950, 11 << 10, 12, 0, 0},
	{"cache", 3950, 4608, 8, 8, 2},
	{"db", 7940, 600, 6, 1, 1},
}

// journal counts what a controller decided and did, in words that do not depend on names.
type journal struct {
	mu      sync.Mutex
	types   []model.InstanceType
	typeOf  map[string]string // by node
	done    map[string]int
	batches [][]model.PodKey // pods by launch
	nodes   int              // launched, less those removed
	bound   int              // pods on nodes to which no others are nominated, in the latest snapshot
}

func newJournal() *journal { return &journal{typeOf: map[string]string{}, done: map[string]int{}} }

func (j *journal) note(d cycle.Decision) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if s := d.Snapshot; s != nil && len(s.Pools) > 0 && len(s.Pools[0].Types) > 0 {
		j.types, j.bound = s.Pools[0].Types, 0
		for i := range s.Nodes {
			n := &s.Nodes[i]
			j.typeOf[n.Name] = n.Type
			if !n.NominatedUntil.After(s.Now) {
				j.bound += len(n.Pods)
			}
		}
	}
	for _, l := range d.Plan.Launches {
		if slices.Contains(d.Result.Created, d.Result.Claims[l.ID]) {
			j.done[fmt.Sprintf("launch %v for %d pods", l.Chosen.OfferingKey, len(l.Pods))]++
			j.batches = append(j.batches, l.Pods)
			j.nodes++
		}
	}
	for _, r := range d.Plan.Removals {
		if slices.Contains(d.Result.Removed, r.Claim) {
			j.remove(r)
		}
	}
	for _, c := range d.Plan.Commands {
		if !slices.Contains(d.Result.Begun, c.ID) {
			continue
		}
		for _, r := range c.Removals { // names decide which of several equal nodes one command removes
			j.remove(r)
		}
		for _, l := range c.Launches {
			j.done[fmt.Sprintf("replace by %v for %d pods", l.Chosen.OfferingKey, len(l.Pods))]++
			j.nodes++
		}
	}
}

func (j *journal) remove(r model.Removal) {
	j.done[fmt.Sprintf("remove %s: %s", j.typeOf[r.Node], r.Method)]++
	j.nodes--
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	var out strings.Builder
	for _, what := range slices.Sorted(maps.Keys(j.done)) {
		fmt.Fprintf(&out, "%d × %s\n", j.done[what], what)
	}
	return out.String()
}

// pods returns how many pods are on nodes that may be removed.
func (j *journal) pods() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.bound
}

// forget clears the journal.
func (j *journal) forget() {
	j.mu.Lock()
	defer j.mu.Unlock()
	clear(j.done)
}

// The controller on a control plane and a simulated region, and the simulator on a trace, share only the driver: the
// same pods get the same nodes, and after the same scale-down the same nodes are removed and replaced.
func TestTheSimulatorDecidesAsTheController(t *testing.T) {
	s := stacktest.StartWith(t, shopTypes)
	namespace := planetest.Namespace(t, s.Plane)
	sweep(t, s)
	t.Cleanup(func() { sweep(t, s) })
	openShop(t, s)
	var all []*appsv1.Deployment
	for _, p := range shopPods {
		d := deployment(namespace, p.name, p.pods)
		d.Spec.Template.Spec.Containers[0].Resources.Requests = corev1.ResourceList{
			corev1.ResourceCPU:    *resource.NewMilliQuantity(p.milliCPU, resource.DecimalSI),
			corev1.ResourceMemory: *resource.NewQuantity(p.mib<<20, resource.BinarySI),
		}
		create(t, s.Client, d)
		all = append(all, d)
	}
	marker := deployment(planetest.Namespace(t, s.Plane), "marker", 1)
	marker.Spec.Template.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "test.nodeless.sh/never"}}
	create(t, s.Client, marker)
	planetest.Eventually(t, "all pods wait", func(ctx context.Context) error {
		var pods corev1.PodList
		if err := s.Client.List(ctx, &pods, client.InNamespace(namespace)); err != nil || len(pods.Items) != 40 {
			return fmt.Errorf("%d pods", len(pods.Items))
		}
		return nil
	})
	real := newJournal()
	r := s.Controller(t, func(o *controller.Options) { o.Gates, o.OnDecision = gates.Default(), real.note })
	<-r.Leads
	for _, d := range all {
		running(t, s.Client, d)
	}
	simulated := simulateShop(t, real.types)
	if launched := real.String(); launched != simulated.launched {
		t.Fatalf("the controller:\n%sthe simulator:\n%s", launched, simulated.launched)
	}
	real.forget()

	for i, d := range all {
		scaleShop(t, s, d, marker, shopPods[i].after, shopPods[i].onOne)
	}
	planetest.Eventually(t, "the controller sees which pods are left", func(context.Context) error {
		if n := real.pods(); n != 16 {
			return fmt.Errorf("%d pods", n)
		}
		return nil
	})
	wish(t, s, func(np *karpv1.NodePool) { np.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: "100%"}} })
	planetest.Eventually(t, "the nodes are consolidated", func(context.Context) error {
		if n, removed := len(claims(t, s)), real.String(); n != simulated.nodes || removed != simulated.removed {
			return fmt.Errorf("the controller has %d NodeClaims:\n%sthe simulator %d:\n%s", n, removed, simulated.nodes,
				simulated.removed)
		}
		return nil
	})
	r.Stop()
	if removed := real.String(); removed != simulated.removed {
		t.Errorf("afterwards the controller decided:\n%s", removed)
	}
}

// sweep deletes all Deployments and pods: the nodes of the next stack reuse the names of the last one's.
func sweep(t *testing.T, s *stacktest.Stack) {
	planetest.Eventually(t, "there are no pods", func(ctx context.Context) error {
		var deployments appsv1.DeploymentList
		var pods corev1.PodList
		if err := errors.Join(s.Client.List(ctx, &deployments), s.Client.List(ctx, &pods)); err != nil {
			return err
		}
		for i := range deployments.Items {
			_ = s.Client.Delete(ctx, &deployments.Items[i])
		}
		for i := range pods.Items {
			_ = s.Client.Delete(ctx, &pods.Items[i], client.GracePeriodSeconds(0))
		}
		if n := len(deployments.Items) + len(pods.Items); n > 0 {
			return fmt.Errorf("%d Deployments and pods are left", n)
		}
		return nil
	})
}

// openShop creates a NodePool of all types whose nodes are not disrupted for now.
func openShop(t *testing.T, s *stacktest.Stack) {
	class := &ec2v1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	tags := map[string]string{"karpenter.sh/discovery": "nodeless"}
	class.Spec.Role = "nodeless-node"
	class.Spec.AMISelectorTerms = []ec2v1.AMISelectorTerm{{Alias: "al2023@latest"}}
	class.Spec.SubnetSelectorTerms = []ec2v1.SubnetSelectorTerm{{Tags: tags}}
	class.Spec.SecurityGroupSelectorTerms = []ec2v1.SecurityGroupSelectorTerm{{Tags: tags}}
	pool := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
	pool.Spec.Template.Spec.NodeClassRef = &karpv1.NodeClassReference{
		Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: class.Name,
	}
	pool.Spec.Template.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{{
		Key: karpv1.CapacityTypeLabelKey, Operator: corev1.NodeSelectorOpIn, Values: []string{"on-demand"},
	}}
	pool.Spec.Disruption.ConsolidationPolicy = karpv1.ConsolidationPolicyWhenEmptyOrUnderutilized
	pool.Spec.Disruption.ConsolidateAfter = karpv1.MustParseNillableDuration("0s")
	pool.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: "0"}}
	create(t, s.Client, class)
	create(t, s.Client, pool)
}

// scaleShop scales a Deployment down so that onOne pods are left on each of its nodes.
func scaleShop(t *testing.T, s *stacktest.Stack, d, marker *appsv1.Deployment, after, onOne int32) {
	t.Helper()
	ctx := context.Background()
	var pods corev1.PodList
	its := []client.ListOption{client.InNamespace(d.Namespace), client.MatchingLabels(d.Spec.Selector.MatchLabels)}
	if err := s.Client.List(ctx, &pods, its...); err != nil {
		t.Fatal(err)
	}
	on := map[string]int32{}
	for i := range pods.Items {
		p := &pods.Items[i]
		if on[p.Spec.NodeName]++; on[p.Spec.NodeName] > onOne { // the ReplicaSet deletes it first
			before := p.DeepCopy()
			metav1.SetMetaDataAnnotation(&p.ObjectMeta, corev1.PodDeletionCost, "-100")
			if err := s.Client.Patch(ctx, p, client.MergeFrom(before)); err != nil {
				t.Fatal(err)
			}
		}
	}
	// The ReplicaSet controller has seen these changes once it replaces a pod that is deleted after them.
	last := podOf(t, s, marker)
	if err := s.Client.Delete(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: marker.Namespace, Name: last},
	}); err != nil {
		t.Fatal(err)
	}
	planetest.Eventually(t, "the marker has another pod", func(context.Context) error {
		if podOf(t, s, marker) == last {
			return errors.New(last + " is there")
		}
		return nil
	})
	planetest.Eventually(t, d.Name+" is scaled down", func(ctx context.Context) error {
		before := d.DeepCopy()
		d.Spec.Replicas = &after
		if err := s.Client.Patch(ctx, d, client.MergeFrom(before)); err != nil {
			return err
		}
		if err := s.Client.List(ctx, &pods, its...); err != nil || len(pods.Items) != int(after) {
			return fmt.Errorf("%d pods", len(pods.Items))
		}
		return nil
	})
}

// simulated is what the simulator decides.
type simulated struct {
	launched, removed string
	nodes             int // at the end
}

// simulateShop simulates the shop twice: first to learn which pods share a node, then with the scale-down.
func simulateShop(t *testing.T, types []model.InstanceType) simulated {
	t.Helper()
	const scaleDown, end = 100 * time.Second, 1000 * time.Second
	tr := &trace.Trace{Name: "shop"}
	var shapes []int // by pod
	for i, p := range shopPods {
		for range p.pods {
			tr.Pods = append(tr.Pods, trace.Pod{CPU: p.milliCPU, Memory: p.mib << 20, Life: end})
			shapes = append(shapes, i)
		}
	}
	// run returns the first decision, and the decisions from then on until the pods end.
	run := func() (first, rest *journal) {
		first, rest = newJournal(), newJournal()
		decider := sim.Nodeless(model.Policy{})
		decider.Promise = true
		var start time.Time
		_, err := sim.Run(context.Background(), sim.Config{
			Trace: tr, Types: types, Decider: decider, Daemons: []model.Resources{}, Budget: 1, Spread: -1, CheckEvery: 1,
			OnDecision: func(d cycle.Decision) {
				switch {
				case start.IsZero():
					start = d.At
					first.note(d)
				case d.At.Sub(start) < end-time.Minute:
					rest.note(d)
				}
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		return first, rest
	}
	first, rest := run()
	for _, pods := range first.batches {
		for i, key := range pods {
			n, err := strconv.Atoi(strings.TrimPrefix(key.Name, "pod-"))
			if err != nil {
				t.Fatal(err)
			}
			if i >= int(shopPods[shapes[n]].onOne) {
				tr.Pods[n].Life = scaleDown
			}
		}
	}
	if early := rest.String(); early != "" {
		t.Fatalf("before the scale-down the simulator decides:\n%s", early)
	}
	first, rest = run()
	return simulated{launched: first.String(), removed: rest.String(), nodes: first.nodes + rest.nodes}
}
