package cluster

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/awslabs/operatorpkg/status"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/internal/kit/clock"
)

var noon = time.Date(2026, 6, 3, 12, 0, 0, 0, time.UTC)

func meta(name string, version int) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: name, UID: types.UID(name + "-uid"), ResourceVersion: strconv.Itoa(version),
		CreationTimestamp: metav1.Time{Time: noon},
	}
}

func list(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{
		"cpu": resource.MustParse(cpu), "memory": resource.MustParse(memory),
		"pods": resource.MustParse("58"),
	}
}

func podOf(name, node, cpu string, version int) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: meta(name, version)}
	p.Namespace, p.Spec.NodeName = "default", node
	p.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse(cpu)}}}}
	return p
}

func nodeOf(name string, version int) *corev1.Node {
	n := &corev1.Node{ObjectMeta: meta(name, version)}
	n.Labels = map[string]string{
		karpv1.NodePoolLabelKey: "p", karpv1.NodeInitializedLabelKey: "true",
		model.LabelInstanceType: "t", model.LabelZone: "z", model.LabelCapacityType: "spot",
	}
	n.Spec.ProviderID = "aws:///z/i-" + name
	n.Status.Capacity, n.Status.Allocatable = list("4", "8Gi"), list("3900m", "7Gi")
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	return n
}

// claimOf returns a claim for a node; launched claims have the node's provider ID.
func claimOf(name, node string, version int) *karpv1.NodeClaim {
	c := &karpv1.NodeClaim{ObjectMeta: meta(name, version)}
	c.Labels = map[string]string{karpv1.NodePoolLabelKey: "p"}
	c.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: "g", Kind: "K", Name: "c"}
	c.Spec.Resources.Requests = list("2", "1Gi")
	if node != "" {
		c.Status.ProviderID = "aws:///z/i-" + node
		c.Status.Capacity, c.Status.Allocatable = list("4", "8Gi"), list("3900m", "7Gi")
	}
	return c
}

func poolOf(name string, version int) *karpv1.NodePool {
	np := &karpv1.NodePool{ObjectMeta: meta(name, version)}
	np.Spec.Template.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: "g", Kind: "K", Name: "c"}
	np.Spec.Disruption.ConsolidateAfter = karpv1.MustParseNillableDuration("0s")
	return np
}

var class = cloud.ClassRef{Group: "g", Kind: "K", Name: "c"}

func types1() []model.InstanceType {
	return []model.InstanceType{{Name: "t", Offerings: []model.Offering{
		{Zone: "z", CapacityType: "spot", Price: 70, Available: true},
		{Zone: "z2", CapacityType: "spot", Price: 80, Available: true},
	}}}
}

func fresh() (*State, *clock.Virtual) {
	c := clock.NewVirtual(noon.Add(time.Minute))
	return New(Options{Clock: c}), c
}

func changed(w *State) bool {
	select {
	case <-w.Changed():
		return true
	default:
		return false
	}
}

func TestAPodWaitsUntilItIsBound(t *testing.T) {
	w, _ := fresh()
	w.Update(podOf("a", "", "1", 1))
	before := w.Snapshot()
	if len(before.Pending) != 1 || before.Shapes[before.Pending[0].Shape].Requests[model.CPU] != 1000 || !changed(w) {
		t.Fatalf("pending: %+v", before.Pending)
	}
	w.Update(nodeOf("n", 2))
	w.Update(podOf("a", "n", "1", 3))
	after := w.Snapshot()
	if len(after.Pending) != 0 || len(after.Nodes) != 1 || after.Nodes[0].Used[model.CPU] != 1000 ||
		len(after.Nodes[0].Pods) != 1 {
		t.Errorf("bound: %+v", after.Nodes)
	}
	if len(before.Pending) != 1 || len(before.Nodes) != 0 {
		t.Error("the first snapshot was changed")
	}
}

// generation sets the pod's generation to 1, as on a pod whose spec has never changed.
func generation(p *corev1.Pod) *corev1.Pod {
	p.Generation = 1
	return p
}

func TestASignOfLifeIsNoChange(t *testing.T) {
	w, _ := fresh()
	w.Update(nodeOf("n", 1))
	w.Update(generation(podOf("a", "n", "1", 2)))
	w.Snapshot()
	changed(w)
	beat := nodeOf("n", 3)
	beat.Status.Conditions[0].LastHeartbeatTime = metav1.Time{Time: noon.Add(time.Hour)}
	w.Update(beat)
	running := generation(podOf("a", "n", "1", 4))
	running.Status.PodIP = "10.0.0.1"
	w.Update(running)
	before := w.Snapshot().Nodes
	if changed(w) {
		t.Error("a heartbeat counts as a change")
	}
	if after := w.Snapshot().Nodes; &after[0] != &before[0] {
		t.Error("an unchanged world was rendered anew")
	}
}

func TestAClaimAndItsNodeAreOneMachine(t *testing.T) {
	w, _ := fresh()
	w.SetCatalog(class, types1(), "")
	w.Update(poolOf("p", 1))
	w.Update(claimOf("c", "", 2))
	if s := w.Snapshot(); len(s.Nodes) != 1 || s.Nodes[0].State != model.InFlight || s.Pools[0].Usage[model.CPU] != 2000 {
		t.Fatalf("in flight: %+v", s.Nodes)
	}
	w.Update(nodeOf("n", 3))
	w.Update(claimOf("c", "n", 4))
	s := w.Snapshot()
	if len(s.Nodes) != 1 || s.Nodes[0].Name != "n" || s.Nodes[0].Claim != "c" ||
		s.Nodes[0].State != model.Initialized || s.Nodes[0].Price != 70 {
		t.Fatalf("joined: %+v", s.Nodes)
	}
	if s.Pools[0].Usage[model.CPU] != 4000 || s.Pools[0].NodeCount != 1 || s.Pools[0].Disruption.AllowedEmpty != 1 {
		t.Errorf("usage: %+v", s.Pools[0])
	}
	w.Delete(claimOf("c", "n", 5))
	if s := w.Snapshot(); len(s.Nodes) != 1 || s.Nodes[0].Claim != "" {
		t.Errorf("the claim is gone: %+v", s.Nodes)
	}
	w.Delete(nodeOf("n", 6))
	if s := w.Snapshot(); len(s.Nodes) != 0 || s.Pools[0].NodeCount != 0 {
		t.Errorf("all gone: %+v", s.Nodes)
	}
}

func TestWhatWeWroteIsKnownAtOnce(t *testing.T) {
	w, c := fresh()
	created := claimOf("c", "", 7)
	w.ObserveClaim(created)
	w.Update(claimOf("c", "", 5)) // a stale event
	if got := w.Claim("c"); got != created {
		t.Fatal("an older event replaced what was written")
	}
	w.ObserveDeletion(created)
	if s := w.Snapshot(); len(s.Nodes) != 1 || !s.Nodes[0].Deleting {
		t.Errorf("deletion was asked for: %+v", s.Nodes)
	}
	w.ForgetClaim(created)
	w.Update(claimOf("c", "", 8))
	if len(w.Snapshot().Nodes) != 0 {
		t.Error("the API said that it does not exist, and it came back")
	}
	other := claimOf("d", "", 9)
	w.ObserveClaim(other)
	if late := w.Unconfirmed(); len(late) > 0 {
		t.Errorf("%d claims are late at once", len(late))
	}
	for range 2 { // whoever asks may get no answer
		c.Advance(unconfirmed)
		if late := w.Unconfirmed(); len(late) != 1 || late[0] != other || len(w.Unconfirmed()) > 0 {
			t.Errorf("the API server must be asked once about a claim that the watch does not show: %v", late)
		}
	}
	if len(w.Snapshot().Nodes) != 1 {
		t.Error("a claim that exists is forgotten because the watch is slow")
	}
	w.Update(other)
	c.Advance(unconfirmed)
	if late := w.Unconfirmed(); len(late) > 0 || len(w.Snapshot().Nodes) != 1 {
		t.Errorf("the watch has shown the claim, and %d are late", len(late))
	}
}

func TestExhaustedOfferingsComeBackLaterAndLater(t *testing.T) {
	w, c := fresh()
	w.SetCatalog(class, types1(), "")
	w.Update(poolOf("p", 1))
	key := model.OfferingKey{Type: "t", Zone: "z", CapacityType: "spot"}
	available := func() bool { return w.Snapshot().Pools[0].Types[0].Offerings[0].Available }
	w.MarkExhausted(cloud.ClassRef{}, []model.OfferingKey{key})
	w.MarkExhausted(cloud.ClassRef{}, []model.OfferingKey{key}) // reported by a second launch at the same time
	if available() || !w.Unavailable(cloud.ClassRef{})[key] || !w.Snapshot().Pools[0].Types[0].Offerings[1].Available {
		t.Fatal("only that offering is exhausted")
	}
	if out := w.Snapshot().Pools[0].Types[0].Offerings[0]; !out.RetryAt.Equal(c.Now().Add(45*time.Second)) ||
		w.BackIn(cloud.ClassRef{}, []model.OfferingKey{key}) != 45*time.Second {
		t.Errorf("it is tried again at %s", out.RetryAt)
	}
	changed(w)
	c.Advance(45 * time.Second)
	if !changed(w) || !available() {
		t.Error("after 45 s it is worth another try, and waiting pods must hear of it")
	}
	w.MarkExhausted(cloud.ClassRef{}, []model.OfferingKey{key})
	c.Advance(46 * time.Second)
	if available() {
		t.Error("the second time it takes longer")
	}
	w.MarkAvailable(cloud.ClassRef{}, key)
	if !available() || len(w.Unavailable(cloud.ClassRef{})) > 0 {
		t.Error("it could be had, and is still kept out")
	}
	w.MarkExhausted(cloud.ClassRef{}, []model.OfferingKey{key})
	c.Advance(45 * time.Second)
	if !available() {
		t.Error("a success starts anew")
	}
}

// An offering for which a placement group has no capacity is exhausted for its class only; one for which EC2 has none
// is exhausted for every class.
func TestAnOfferingMayBeExhaustedForOneClass(t *testing.T) {
	w, c := fresh()
	other := cloud.ClassRef{Group: class.Group, Kind: class.Kind, Name: "other"}
	w.SetCatalog(class, types1(), "")
	w.SetCatalog(other, types1(), "")
	w.Update(poolOf("a", 1))
	second := poolOf("b", 2)
	second.Spec.Template.Spec.NodeClassRef.Name = other.Name
	w.Update(second)
	key := model.OfferingKey{Type: "t", Zone: "z", CapacityType: "spot"}
	available := func() [2]bool {
		pools := w.Snapshot().Pools
		return [2]bool{pools[0].Types[0].Offerings[0].Available, pools[1].Types[0].Offerings[0].Available}
	}
	w.MarkExhausted(other, []model.OfferingKey{key})
	if got := available(); got != [2]bool{true, false} || w.Unavailable(class)[key] || !w.Unavailable(other)[key] ||
		w.BackIn(class, []model.OfferingKey{key}) != 0 || w.BackIn(other, []model.OfferingKey{key}) == 0 {
		t.Errorf("exhausted for the other class, available are %v", got)
	}
	c.Advance(20 * time.Second)
	w.MarkExhausted(cloud.ClassRef{}, []model.OfferingKey{key})
	if got := available(); got != [2]bool{} || w.BackIn(other, []model.OfferingKey{key}) != 45*time.Second {
		t.Errorf("exhausted for all, available are %v", got)
	}
	w.MarkAvailable(other, key)
	if got := available(); got != [2]bool{true, true} {
		t.Errorf("it could be had for the other class, available are %v", got)
	}
}

// Pods may require a partition of a class's placement group or spread over its partitions: the class's pools offer
// them.
func TestPoolsOfferThePartitionsOfTheirClass(t *testing.T) {
	w, _ := fresh()
	w.SetCatalog(class, types1(), "")
	w.Update(poolOf("p", 1))
	const label = "karpenter.k8s.aws/placement-group-partition"
	w.SetPlacement(class, model.Requirements{model.OneOf(label, "1", "2")})
	if r, ok := w.Snapshot().Pools[0].Requirements.Get(label); !ok || !r.Has("2") || r.Has("3") {
		t.Errorf("the pool's requirement is %v", r)
	}
	w.SetPlacement(class, nil)
	if r, ok := w.Snapshot().Pools[0].Requirements.Get(label); ok {
		t.Errorf("the class has left the group, and the pool requires %v", r)
	}
}

func TestNodesThatAreNotReadyUseUpTheirBudget(t *testing.T) {
	w, _ := fresh()
	pool := poolOf("p", 1)
	pool.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: "2"}}
	w.Update(pool)
	for _, name := range []string{"a", "b", "c"} {
		w.Update(nodeOf(name, 2))
		w.Update(claimOf("claim-"+name, name, 3))
	}
	if got := w.Snapshot().Pools[0].Disruption.AllowedUnderused; got != 2 {
		t.Fatalf("%d may go while all are ready", got)
	}
	broken := nodeOf("b", 4)
	broken.Status.Conditions[0].Status = corev1.ConditionFalse
	w.Update(broken)
	if got := w.Snapshot().Pools[0].Disruption.AllowedUnderused; got != 1 {
		t.Errorf("%d may go while one of them is not ready", got)
	}
}

func TestAPoolWhoseReplacementsFailedRests(t *testing.T) {
	w, c := fresh()
	pool := poolOf("p", 1)
	pool.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: "2"}}
	w.Update(pool)
	allowed := func() [3]int {
		d := w.Snapshot().Pools[0].Disruption
		return [3]int{d.AllowedEmpty, d.AllowedDrifted, d.AllowedUnderused}
	}
	w.Rest("p", c.Now().Add(time.Minute))
	if got := allowed(); got != [3]int{2, 0, 0} || !w.Resting("p") {
		t.Errorf("%v may go as empty, drifted and underutilized; empty nodes alone need no replacement", got)
	}
	changed(w)
	c.Advance(time.Minute)
	if got := allowed(); got != [3]int{2, 2, 2} || !changed(w) {
		t.Errorf("after the rest %v may go", got)
	}
}

func TestPodsOfDaemonSetsLeaveWithoutStartingConsolidateAfterAnew(t *testing.T) {
	w, c := fresh()
	w.Update(nodeOf("n", 1))
	isController := true
	agent, web := podOf("agent", "n", "100m", 2), podOf("web", "n", "1", 3)
	agent.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Name: "agent", Controller: &isController}}
	w.Update(agent)
	w.Update(web)
	event := func() time.Time { return w.Snapshot().Nodes[0].LastPodEvent }
	before := event()
	c.Advance(time.Minute)
	if w.Delete(agent); !event().Equal(before) {
		t.Errorf("a DaemonSet's pod left: an event at %s", event())
	}
	if w.Delete(web); !event().Equal(c.Now()) {
		t.Errorf("a pod left at %s, the last event is said to be at %s", c.Now(), event())
	}
}

func TestDaemonsToComeTakeTheirRoom(t *testing.T) {
	w, _ := fresh()
	w.Update(nodeOf("n", 1))
	ds := &appsv1.DaemonSet{ObjectMeta: meta("d", 2)}
	ds.Namespace = "kube-system"
	ds.Spec.Template.Spec = podOf("", "", "100m", 0).Spec
	w.Update(ds)
	if got := w.Snapshot().Nodes[0].Used[model.CPU]; got != 100 {
		t.Errorf("expected: %d", got)
	}
	isController := true
	p := podOf("d-x", "n", "100m", 3)
	p.Namespace = "kube-system"
	p.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Name: "d", Controller: &isController}}
	w.Update(p)
	n := w.Snapshot().Nodes[0]
	if n.Used[model.CPU] != 100 || !n.Pods[0].Daemon {
		t.Errorf("come: %+v", n)
	}
}

func TestAHoldEndsByItself(t *testing.T) {
	w, c := fresh()
	w.Update(nodeOf("n", 1))
	p := podOf("a", "n", "1", 2)
	p.Annotations = map[string]string{karpv1.DoNotDisruptAnnotationKey: "10m"}
	p.Status.StartTime = &metav1.Time{Time: noon}
	w.Update(p)
	if !w.Snapshot().Nodes[0].Pods[0].DoNotDisrupt {
		t.Fatal("not held")
	}
	c.Advance(10 * time.Minute)
	if w.Snapshot().Nodes[0].Pods[0].DoNotDisrupt {
		t.Error("still held")
	}
}

// event is one event of the watch.
type event struct {
	object client.Object
	gone   bool
}

// history returns a random history of a small cluster: the versions of each object, in order.
func history(r *rand.Rand) [][]event {
	var all [][]event
	version := 0
	next := func() int { version++; return version }
	for i := range 6 {
		name := fmt.Sprintf("n%d", i)
		node := []event{{object: nodeOf(name, next())}}
		claim := []event{{object: claimOf("c"+name, "", next())}, {object: claimOf("c"+name, name, next())}}
		if r.IntN(2) == 0 {
			ready := claimOf("c"+name, name, next())
			ready.Status.Conditions = []status.Condition{{
				Type:   karpv1.ConditionTypeInitialized,
				Status: metav1.ConditionTrue, LastTransitionTime: metav1.Time{Time: noon},
			}}
			claim = append(claim, event{object: ready})
		}
		if r.IntN(3) == 0 {
			ending := claimOf("c"+name, name, next())
			ending.DeletionTimestamp = &metav1.Time{Time: noon}
			claim = append(claim, event{object: ending})
		}
		if r.IntN(3) == 0 {
			claim = append(claim, event{object: claimOf("c"+name, name, next()), gone: true})
		}
		if r.IntN(3) == 0 {
			node = append(node, event{object: nodeOf(name, next()), gone: true})
		}
		all = append(all, node, claim)
	}
	for i := range 20 {
		name, cpu := fmt.Sprintf("p%d", i), strconv.Itoa(1+r.IntN(3))
		pod := []event{{object: podOf(name, "", cpu, next())}}
		if r.IntN(2) == 0 {
			bound := podOf(name, fmt.Sprintf("n%d", r.IntN(7)), cpu, next())
			bound.Labels = map[string]string{"app": strconv.Itoa(r.IntN(2))}
			pod = append(pod, event{object: bound})
		}
		if r.IntN(4) == 0 {
			pod = append(pod, event{object: podOf(name, "", cpu, next()), gone: true})
			again := podOf(name, "", "2", next())
			again.UID = types.UID(name + "-second")
			pod = append(pod, event{object: again})
		}
		all = append(all, pod)
	}
	for i := range 3 {
		name, app := fmt.Sprintf("b%d", i), strconv.Itoa(r.IntN(2))
		of := []event{{object: budgetOf(name, next(), app, 1)}, {object: budgetOf(name, next(), app, int32(r.IntN(2)))}}
		if r.IntN(3) == 0 {
			of = append(of, event{object: budgetOf(name, next(), app, 0), gone: true})
		}
		all = append(all, of)
	}
	return append(all, []event{{object: poolOf("p", next())}})
}

// withoutEventTimes clears the only field that depends on the order of events rather than on the objects: when pods
// last left.
func withoutEventTimes(s *model.Snapshot) *model.Snapshot {
	out := *s
	out.Nodes = append([]model.Node(nil), s.Nodes...)
	for i := range out.Nodes {
		out.Nodes[i].LastPodEvent = time.Time{}
	}
	return &out
}

func feed(w *State, e event) {
	if e.gone {
		w.Delete(e.object)
	} else {
		w.Update(e.object)
	}
}

func TestAnyOrderOfEventsEndsInTheSameSnapshot(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		lives := history(r)
		inOrder, _ := fresh()
		var events []event
		for _, life := range lives {
			for _, e := range life {
				feed(inOrder, e)
				events = append(events, e)
				if r.IntN(3) == 0 {
					events = append(events, e)
				}
			}
		}
		want := withoutEventTimes(inOrder.Snapshot())
		r.Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
		mixed, _ := fresh()
		for i, e := range events {
			feed(mixed, e)
			if i%7 == 0 {
				mixed.Snapshot() // intermediate snapshots must not affect the last one
			}
		}
		if got := withoutEventTimes(mixed.Snapshot()); !reflect.DeepEqual(got, want) {
			t.Fatalf("seed %d:\ngot  %+v\nwant %+v", seed, got, want)
		}
	}
}

// large returns a cluster state of 1,000 nodes with 10 pods each, and 1,000 pending pods.
func large() *State {
	w := New(Options{Clock: clock.NewVirtual(noon), Names: translate.NewNames()})
	w.SetCatalog(class, types1(), "")
	w.Update(poolOf("p", 1))
	for i := range 1000 {
		name := fmt.Sprintf("n%04d", i)
		w.Update(claimOf("c-"+name, name, 1))
		w.Update(nodeOf(name, 1))
		for j := range 10 {
			w.Update(podOf(fmt.Sprintf("%s-%d", name, j), name, strconv.Itoa(1+j)+"00m", 1))
		}
		w.Update(podOf(fmt.Sprintf("w%04d", i), "", "1", 1))
	}
	w.Snapshot()
	return w
}

// One pod is bound, then a snapshot of 1,000 nodes and 10,000 pods is taken.
func BenchmarkSnapshotAfterOneChange(b *testing.B) {
	w := large()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		w.Update(podOf(fmt.Sprintf("n%04d-0", i%1000), fmt.Sprintf("n%04d", i%1000), strconv.Itoa(1+i%2)+"00m", i+2))
		w.Snapshot()
	}
}

// A claim is written, then the applier looks up its node, as it does for each node of a command.
func BenchmarkMachineAfterAWrite(b *testing.B) {
	w := large()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		name := fmt.Sprintf("n%04d", i%1000)
		w.Update(claimOf("c-"+name, name, i+2))
		w.NodeOfClaim("c-" + name)
	}
}

// A pod of a new shape is created: every pod's shape index moves.
func BenchmarkSnapshotAfterANewShape(b *testing.B) {
	w := large()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		w.Update(podOf("new", "", strconv.Itoa(1+i%1000)+"m", i+2))
		w.Snapshot()
	}
}

func BenchmarkPodEvent(b *testing.B) {
	w := large()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		w.Update(podOf("one", "", "1", i+1))
		w.Delete(podOf("one", "", "1", i+1))
		w.objects.pods.gone = map[types.UID]time.Time{}
	}
}

// A pool whose launches fail is not ready for a while, longer each time, and is ready again at once when a launch
// succeeds or its specification changes.
func TestAPoolWhoseLaunchesFailBacksOff(t *testing.T) {
	w, c := fresh()
	w.SetCatalog(class, types1(), "")
	w.Update(poolOf("p", 1))
	w.Update(poolOf("other", 1))
	out := func() string {
		t.Helper()
		s := w.Snapshot()
		if s.Pools[0].Name != "other" || s.Pools[0].NotReady != "" {
			t.Errorf("another pool of the class is %s, not ready: %q", s.Pools[0].Name, s.Pools[0].NotReady)
		}
		return s.Pools[1].NotReady
	}
	fail := func() {
		w.LaunchFailed("p", LaunchFailure{Class: class, Reason: "LaunchFailed", Message: "user data is too long"})
	}
	wait := 5 * time.Second
	for range 10 {
		fail()
		fail() // a second launch in flight
		if why := out(); !strings.Contains(why, "user data is too long") ||
			!strings.Contains(why, c.Now().Add(wait).UTC().Format(time.RFC3339)) {
			t.Fatalf("it is out for %q, want %s", why, wait)
		}
		changed(w)
		c.Advance(wait - time.Second)
		if out() == "" {
			t.Fatalf("it is back before %s", wait)
		}
		c.Advance(time.Second)
		if !changed(w) || out() != "" {
			t.Fatalf("after %s it is worth another try, and waiting pods must hear of it: %q", wait, out())
		}
		wait = min(2*wait, 10*time.Minute)
	}
	if _, failed := w.LaunchFailure("p"); !failed {
		t.Error("until a launch succeeds it is known that the last one failed")
	}
	fail()
	w.LaunchesAgain("p")
	if out() != "" {
		t.Error("a success ends the back-off")
	}
	fail()
	if _, failed := w.LaunchFailure("p"); !failed || out() == "" {
		t.Error("a failure after a success begins anew")
	}
	next := poolOf("p", 2)
	next.Generation = 2
	w.Update(next)
	if out() != "" {
		t.Error("another specification deserves another try")
	}
}

// A cluster state that launches nothing itself reads launch failures from the NodePool, where the controller records
// them.
func TestFailingLaunchesAreReadFromTheNodePool(t *testing.T) {
	_, c := fresh()
	w := New(Options{Clock: c, ReadFailures: true})
	w.SetCatalog(class, types1(), "")
	np := poolOf("p", 1)
	translate.SetLaunchFailure(np, "LaunchFailed", "user data is too long", c.Now().Add(time.Minute))
	w.Update(np)
	if why := w.Snapshot().Pools[0].NotReady; !strings.Contains(why,
		"its last launch failed (LaunchFailed: user data is too long)") {
		t.Errorf("it is out for %q", why)
	}
	c.Advance(time.Minute)
	if why := w.Snapshot().Pools[0].NotReady; why != "" {
		t.Errorf("the back-off is over, and it is out for %q", why)
	}
}
