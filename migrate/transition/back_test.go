package transition

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"sigs.k8s.io/controller-runtime/pkg/client"
	clientfake "sigs.k8s.io/controller-runtime/pkg/client/fake"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/internal/kit/clock"
)

// web responds as EC2 Auto Scaling does where the only group is "web", with instances i-0, i-1 and so on.
type web struct {
	desired int      // the number of its instances
	kind    string   // its DesiredCapacityType
	weight  string   // of each instance; "" = none
	gone    bool     // it is deleted
	calls   []string // that changed something

	eks    http.HandlerFunc  // responds as EKS does
	extras map[string]string // what other calls return, by action

	tag       string   // the key of its tag; "" = it has none
	protected bool     // its instances, from scale-in
	suspended []string // processes
}

func (g *web) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/clusters/") {
		g.eks(w, r)
		return
	}
	_ = r.ParseForm()
	action := r.Form.Get("Action")
	if !strings.HasPrefix(action, "Describe") {
		g.calls = append(g.calls, strings.TrimSpace(action+" "+r.Form.Get("ScalingProcesses.member.1")))
		if g.gone && action != "CreateAutoScalingGroup" {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = fmt.Fprint(w, "<ErrorResponse><Error><Code>ValidationError</Code>"+
				"<Message>AutoScalingGroup name not found</Message></Error></ErrorResponse>")
			return
		}
		g.change(action, r.Form)
	}
	groups := ""
	if !g.gone {
		for i := range g.desired {
			groups += fmt.Sprintf("<member><InstanceId>i-%d</InstanceId><LifecycleState>InService</LifecycleState>"+
				"<ProtectedFromScaleIn>%t</ProtectedFromScaleIn>", i, g.protected)
			if g.weight != "" {
				groups += "<WeightedCapacity>" + g.weight + "</WeightedCapacity>"
			}
			groups += "</member>"
		}
		groups = fmt.Sprintf("<member><AutoScalingGroupName>web</AutoScalingGroupName><MinSize>0</MinSize>"+
			"<MaxSize>9</MaxSize><DesiredCapacity>%d</DesiredCapacity><DesiredCapacityType>%s</DesiredCapacityType>"+
			"<Tags><member><Key>%s</Key></member></Tags><Instances>%s</Instances>%s</member>",
			g.desired, g.kind, g.tag, groups, g.extras[""])
	}
	_, _ = fmt.Fprintf(w, "<Response><%sResult><AutoScalingGroups>%s</AutoScalingGroups>%s</%[1]sResult></Response>",
		action, groups, g.extras[action])
}

// change carries out a call. Protected instances do not end, and none is launched while Launch is suspended.
func (g *web) change(action string, form url.Values) {
	var processes []string
	for i := 1; form.Has(fmt.Sprint("ScalingProcesses.member.", i)); i++ {
		processes = append(processes, form.Get(fmt.Sprint("ScalingProcesses.member.", i)))
	}
	g.suspended = slices.DeleteFunc(g.suspended, func(p string) bool { return slices.Contains(processes, p) })
	if action == "SuspendProcesses" {
		g.suspended = append(g.suspended, processes...)
	}
	g.protected = g.protected && form.Get("ProtectedFromScaleIn") != "false"
	g.gone = g.gone && action != "CreateAutoScalingGroup" || action == "DeleteAutoScalingGroup"
	size := g.desired
	_, _ = fmt.Sscan(form.Get("DesiredCapacity"), &size)
	if size < g.desired && !g.protected || size > g.desired && !slices.Contains(g.suspended, "Launch") {
		g.desired = size
	}
}

// place is a cluster in the middle of a migration of the group "web" to the pool "general".
type place struct {
	*Transition
	t          *testing.T
	stop       context.CancelFunc
	clock      *clock.Virtual
	group      web
	kubernetes *fake.Clientset
	forecast   Forecast // of the cluster without the group's nodes
	said       []string
}

var noon = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// newPlace returns a place with nodes of the instances i-0 to i-8, node "new" of the pool, and Cluster Autoscaler
// scaled to 0.
func newPlace(t *testing.T, s *State, objects ...runtime.Object) *place {
	t.Helper()
	p := &place{t: t, clock: clock.NewVirtual(noon)}
	server := httptest.NewServer(&p.group)
	t.Cleanup(server.Close)
	for i := range 9 {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("node-", i)}}
		n.Spec.ProviderID = fmt.Sprint("aws:///us-west-2a/i-", i)
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		objects = append(objects, n)
	}
	p.kubernetes = fake.NewClientset(objects...)
	scheme := karpenterScheme()
	_, _ = appsv1.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "new", CreationTimestamp: metav1.NewTime(noon)}}
	claim.StatusConditions().SetTrue(karpv1.ConditionTypeInitialized)
	p.Transition = &Transition{
		Config: Config{
			Cluster: "prod", Clock: p.clock, Lease: "leader",
			Forecast: func(context.Context, []string) (*Forecast, error) { return &p.forecast, nil },
			Say: func(format string, args ...any) {
				p.said = append(p.said, fmt.Sprintf(format, args...))
				if strings.HasPrefix(format, "waiting for the") {
					p.stop()
				}
			},
		},
		kubernetes: p.kubernetes,
		client: clientfake.NewClientBuilder().WithScheme(scheme).WithObjects(
			claim, &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "general"}},
			&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "autoscaler"}},
		).Build(),
		groups: newGroups(aws.Config{
			Region: "us-west-2", BaseEndpoint: &server.URL, RetryMaxAttempts: 1,
			Credentials: credentials.NewStaticCredentialsProvider("id", "secret", ""),
		}, "prod"),
	}
	if err := p.save(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	return p
}

// untilItWaits returns a context that ends once the migration waits for anything: time stands still.
func (p *place) untilItWaits() context.Context {
	ctx, stop := context.WithCancel(p.t.Context())
	p.stop = stop
	return ctx
}

// state returns a state of the migration in which the group had a number of nodes.
func state(step Step, desired int32) *State {
	return &State{
		Step: step, Closing: step >= Closed, Pools: []Pool{{Name: "general"}},
		Groups:     []Group{{Name: "web", Max: 9, Desired: desired, Suspend: slices.Clone(stopped)}},
		Autoscaler: &Autoscaler{Namespace: "kube-system", Name: "autoscaler", Replicas: 2},
	}
}

// replicas returns those of Cluster Autoscaler.
func (p *place) replicas() int32 {
	p.t.Helper()
	d := &appsv1.Deployment{}
	err := p.client.Get(p.t.Context(), client.ObjectKey{Namespace: "kube-system", Name: "autoscaler"}, d)
	if err != nil {
		p.t.Fatal(err)
	}
	return aws.ToInt32(d.Spec.Replicas)
}

// Cluster Autoscaler may have changed the groups' sizes since they were recorded, and the pools may have launched
// nodes: none of that is the migration's.
func TestBackBeforeTheGroupsAreClosedChangesNoGroups(t *testing.T) {
	p := newPlace(t, state(Observed, 2))
	p.group.desired = 5
	s, err := p.Back(p.untilItWaits())
	if err != nil {
		t.Fatalf("%v; %q", err, p.said)
	}
	if len(p.group.calls) > 0 || p.replicas() != 0 {
		t.Errorf("it calls %q, and scales Cluster Autoscaler to %d", p.group.calls, p.replicas())
	}
	if err := p.client.Get(t.Context(), client.ObjectKey{Name: "new"}, &karpv1.NodeClaim{}); err != nil {
		t.Errorf("the pool's node: %v", err)
	}
	pool := &karpv1.NodePool{}
	err = p.client.Get(t.Context(), client.ObjectKey{Name: "general"}, pool)
	if cpu, limited := pool.Spec.Limits[corev1.ResourceCPU]; err != nil || !limited || !cpu.IsZero() {
		t.Errorf("the pool's limits are %v, %v", pool.Spec.Limits, err)
	}
	if s.Step != NotBegun || len(s.Groups) > 0 || s.Back {
		t.Errorf("the state is %+v", s)
	}
}

// Pods that leave the pools can need nodes that only Cluster Autoscaler adds. What it has added stays if the command
// is interrupted and goes on.
func TestBackStartsClusterAutoscalerBeforePodsMove(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: "big", Namespace: "default", CreationTimestamp: metav1.NewTime(noon),
	}}
	pod.Status.Phase = corev1.PodPending
	p := newPlace(t, state(Drained, 2), pod)
	p.group.desired = 2
	_, err := p.Back(p.untilItWaits())
	if err == nil || !strings.Contains(err.Error(), "replacements of the evicted pods") {
		t.Fatalf("the pod has no node: %v; %q", err, p.said)
	}
	if n := p.replicas(); n != 2 {
		t.Errorf("as the pod waits, Cluster Autoscaler has %d replicas", n)
	}
	p.group.desired = 3
	if err := p.kubernetes.CoreV1().Pods("default").Delete(t.Context(), "big", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Back(p.untilItWaits()); err != nil || p.group.desired != 3 {
		t.Errorf("the group has %d nodes after it went on, %v; %q", p.group.desired, err, p.said)
	}
}

// A group that is created again does not run the processes that somebody had suspended before the migration.
func TestBackSuspendsWhatWasSuspendedBefore(t *testing.T) {
	s := state(Removed, 2)
	s.Groups[0].Suspend = []string{"Launch", "ReplaceUnhealthy"}
	s.Groups[0].Definition = json.RawMessage(
		`{"AutoScalingGroupName": "web", "MinSize": 0, "MaxSize": 9, "DesiredCapacity": 2}`)
	p := newPlace(t, s)
	p.group.gone = true
	if _, err := p.Back(p.untilItWaits()); err != nil {
		t.Fatalf("%v; %q", err, p.said)
	}
	want := []string{
		"CreateAutoScalingGroup", "ResumeProcesses Launch", "UpdateAutoScalingGroup", "SuspendProcesses AZRebalance",
	}
	if !slices.Equal(p.group.calls, want) {
		t.Errorf("it calls %q, want %q", p.group.calls, want)
	}
}

// A group whose Launch was suspended before the migration gets its nodes back, and does not launch afterwards.
func TestBackLaunchesNodesThoughLaunchWasSuspendedBefore(t *testing.T) {
	s := state(Emptied, 2)
	s.Groups[0].Suspend = []string{"AZRebalance", "ReplaceUnhealthy"}
	p := newPlace(t, s)
	p.group.suspended = slices.Clone(stopped)
	if _, err := p.Back(p.untilItWaits()); err != nil {
		t.Fatalf("%v; %q", err, p.said)
	}
	if p.group.desired != 2 || !slices.Equal(p.group.suspended, []string{"Launch"}) {
		t.Errorf("the group has %d nodes and suspends %q", p.group.desired, p.group.suspended)
	}
}

// MicroVMs and the instances of NodeGroups launch during a migration for reasons of their own.
func TestBackRemovesOnlyTheNodesOfItsPools(t *testing.T) {
	p := newPlace(t, state(Drained, 2))
	p.group.desired = 2
	kinds := []string{"FargateProfile", v1alpha1.NodeGroupKind}
	for _, kind := range kinds {
		if err := p.client.Create(t.Context(), claimOf(kind)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := p.Back(p.untilItWaits()); err != nil {
		t.Fatalf("%v; %q", err, p.said)
	}
	for _, kind := range kinds {
		key := client.ObjectKeyFromObject(claimOf(kind))
		if err := p.client.Get(t.Context(), key, &karpv1.NodeClaim{}); err != nil {
			t.Error(err)
		}
	}
	if err := p.client.Get(t.Context(), client.ObjectKey{Name: "new"}, &karpv1.NodeClaim{}); err == nil {
		t.Error("the pool's node is still there")
	}
}

// claimOf returns a NodeClaim whose node class is of one of Nodeless's kinds.
func claimOf(kind string) *karpv1.NodeClaim {
	c := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: strings.ToLower(kind)}}
	c.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: v1alpha1.GroupVersion.Group, Kind: kind, Name: "kept"}
	return c
}

// Of a group whose size is in vCPUs, each instance needs a Ready node, however many vCPUs one has.
func TestAGroupSizedInCPUsIsRestoredWithAllItsInstances(t *testing.T) {
	s := state(Removed, 64)
	p := newPlace(t, s)
	p.group.desired, p.group.kind, p.group.weight = 4, "vcpu", "16"
	missing := func(want string) {
		t.Helper()
		if got, err := p.nodesMissing(t.Context(), s); err != nil || got != want {
			t.Errorf("missing: %q, %v, want %q", got, err, want)
		}
	}
	missing("")
	nodes := p.kubernetes.CoreV1().Nodes()
	for i := 1; i < 4; i++ {
		if err := nodes.Delete(t.Context(), fmt.Sprint("node-", i), metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	missing("1 of 4 are ready")
	p.group.kind = "units"
	missing("16 of 64 are ready")
}
