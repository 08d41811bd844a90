package nodegroup

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/controller/cluster"
	"github.com/nodeless/nodeless/controller/translate"
)

// The flag is Cluster Autoscaler's, which ignores the values of tags.
func TestTheDiscoveryFlag(t *testing.T) {
	for spec, want := range map[string][]string{
		"asg:tag=k8s.io/cluster-autoscaler/enabled,k8s.io/cluster-autoscaler/prod": {
			"k8s.io/cluster-autoscaler/enabled", "k8s.io/cluster-autoscaler/prod",
		},
		"asg:tag=team=web": {"team"},
		"asg:tag=":         nil, "asg:tag=a,,b": nil, "mig:namePrefix=x": nil, "k8s.io/x": nil,
	} {
		got, err := ParseDiscovery(spec)
		if (err != nil) != (want == nil) || want != nil && !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v", spec, got, err)
		}
		if err != nil && !strings.Contains(err.Error(), "asg:tag=KEY,KEY") {
			t.Errorf("%s: the error does not say what to write: %v", spec, err)
		}
	}
}

// Group names may contain characters that object names may not. Different groups have different objects.
func TestNamesOfNodeGroups(t *testing.T) {
	long := strings.Repeat("a", 200)
	valid, seen := regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`), map[string]string{}
	for _, group := range []string{"web", "Web", "web_", "web.nodes", "web nodes", long, long + "b", "日本", "-"} {
		name := objectName(group)
		if !valid.MatchString(name) || len(name) > 40 || seen[name] != "" {
			t.Errorf("%q is %q, as is %q", group, name, seen[name])
		}
		seen[name] = group
	}
	if objectName("web") != "web" {
		t.Error("a name that is one already has become another")
	}
}

// The NodePool of a group has the labels from its tags, except labels that others set.
func TestTheNodePoolOfAGroup(t *testing.T) {
	group := &v1alpha1.NodeGroup{}
	group.Name = "web"
	group.Status.Labels = map[string]string{"team": "a", "kubernetes.io/arch": "amd64", "karpenter.sh/x": "y"}
	p := newPool(group)
	if len(p.Spec.Template.Labels) != 1 || p.Spec.Template.Labels["team"] != "a" {
		t.Errorf("labels %v", p.Spec.Template.Labels)
	}
	if ref := p.Spec.Template.Spec.NodeClassRef; ref.Group != "nodeless.sh" || ref.Kind != "NodeGroup" || ref.Name != "web" {
		t.Errorf("class %+v", ref)
	}
}

// busyCloud is a cloud on which another client writes to a Node while its instance is released.
type busyCloud struct {
	Cloud
	write func() error
}

func (c *busyCloud) ReleaseInstance(context.Context, string) error { return c.write() }

// A Node without its NodeGroup takes pods again, unless its instance is about to end: nothing would open it later.
func TestAReleasedNodeTakesPods(t *testing.T) {
	dedicated := corev1.Taint{Key: "team", Value: "a", Effect: corev1.TaintEffectNoSchedule}
	pressure := corev1.Taint{Key: corev1.TaintNodeMemoryPressure, Effect: corev1.TaintEffectNoSchedule}
	for name, c := range map[string]struct {
		notes map[string]string
		want  []corev1.Taint
	}{
		"it was to be removed": {nil, []corev1.Taint{dedicated, pressure}},
		"its instance is interrupted": {
			map[string]string{translate.AnnotationInterrupted: "spot_interrupted 2026-11-22T01:16:15Z"},
			[]corev1.Taint{dedicated, karpv1.DisruptedNoScheduleTaint, pressure},
		},
	} {
		claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "web-1", UID: "c", Annotations: c.notes}}
		claim.Status.ProviderID = "aws:///a/i-1"
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
			Name: "n", UID: "n", Labels: map[string]string{karpv1.NodeRegisteredLabelKey: "true", "team": "a"},
		}}
		node.Spec.ProviderID, node.Spec.Taints = "aws:///a/i-1", []corev1.Taint{dedicated, karpv1.DisruptedNoScheduleTaint}
		translate.Reserve(node)
		api := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(claim, node).Build()
		state := cluster.New(cluster.Options{})
		read := func(o client.Object) {
			if err := api.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
				t.Fatal(err)
			}
		}
		for _, o := range []client.Object{claim, node} {
			read(o)
			state.Update(o.DeepCopyObject().(client.Object))
		}
		away := &busyCloud{write: func() error { // kube-controller-manager
			read(node)
			node.Spec.Taints = append(node.Spec.Taints, pressure)
			return api.Update(t.Context(), node)
		}}
		if err := (&Controller{o: Options{Cloud: away, Client: api, Cluster: state}}).letGo(t.Context(), claim); err != nil {
			t.Fatal(err)
		}
		read(node)
		if !slices.Equal(node.Spec.Taints, c.want) {
			t.Errorf("%s: its taints are %v, want %v", name, node.Spec.Taints, c.want)
		}
		if node.Spec.Unschedulable || translate.Reserved(node) || len(node.Labels) != 1 {
			t.Errorf("%s: cordoned %v, labels %v, annotations %v", name, node.Spec.Unschedulable, node.Labels, node.Annotations)
		}
	}
}

// releasing is a cloud that records which instances are released.
type releasing struct {
	Cloud
	ids []string
}

func (c *releasing) ReleaseInstance(_ context.Context, id string) error {
	c.ids = append(c.ids, id)
	return nil
}

// A launch may be giving an instance of the group to a claim while the NodeGroup is deleted. It would terminate the
// instance of a claim that is gone, so the claim and its pool stay until the claim has the instance.
func TestAnInstanceBeingAdoptedOutlivesItsNodeGroup(t *testing.T) {
	group := &v1alpha1.NodeGroup{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
	pool := newPool(group)
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{
		Name: "web-i-1", UID: "c", Finalizers: []string{karpv1.TerminationFinalizer},
		Annotations: map[string]string{v1alpha1.AnnotationInstance: "i-1"},
	}}
	claim.Spec.NodeClassRef = pool.Spec.Template.Spec.NodeClassRef
	api := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(claim, pool).Build()
	away, state := &releasing{}, cluster.New(cluster.Options{})
	left := func() (names []string) {
		t.Helper()
		c := &Controller{o: Options{Cloud: away, Client: api, Cluster: state}}
		if err := c.release(t.Context(), group); err != nil {
			t.Fatal(err)
		}
		for _, o := range []client.Object{claim, pool} {
			if api.Get(t.Context(), client.ObjectKeyFromObject(o), o.DeepCopyObject().(client.Object)) == nil {
				names = append(names, o.GetName())
			}
		}
		return names
	}
	state.Update(claim)
	state.Update(pool)
	if got := left(); !slices.Equal(got, []string{"web-i-1", "web"}) || !slices.Equal(away.ids, []string{"i-1"}) {
		t.Errorf("during the launch %v are left and the instances %v are released", got, away.ids)
	}
	launched := &karpv1.NodeClaim{}
	if err := api.Get(t.Context(), client.ObjectKeyFromObject(claim), launched); err != nil {
		t.Fatal(err)
	}
	launched.Status.ProviderID = "aws:///a/i-1"
	if err := api.Update(t.Context(), launched); err != nil {
		t.Fatal(err)
	}
	state.Update(launched)
	if got := left(); len(got) > 0 || !slices.Equal(away.ids, []string{"i-1", "i-1"}) {
		t.Errorf("after the launch %v are left and the instances %v are released", got, away.ids)
	}
}

// gone is a cache without NodeGroups.
type gone struct{ cache.Cache }

func (gone) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return apierrors.NewNotFound(schema.GroupResource{Resource: "nodegroups"}, "web")
}

// A process that ends right after it has removed a claim leaves its Node closed. The next one opens it, also when the
// NodeGroup has gone in the meantime. A Node whose claim is there stays as it is.
func TestANodeLeftByAnInterruptedReleaseTakesPods(t *testing.T) {
	group := &v1alpha1.NodeGroup{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
	for name, finish := range map[string]func(*Controller) error{
		"being deleted": func(c *Controller) error { return c.release(t.Context(), group) },
		"gone":          func(c *Controller) error { _, err := c.reconcile(t.Context(), group.Name); return err },
	} {
		claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{
			Name: "web-1", DeletionTimestamp: &metav1.Time{Time: time.Unix(1, 0)}, Finalizers: []string{"f"},
		}}
		claim.Status.ProviderID = "aws:///a/drains"
		state, api := cluster.New(cluster.Options{}), fake.NewClientBuilder().WithScheme(scheme.Scheme).Build()
		state.Update(claim)
		for _, name := range []string{"left", "drains"} {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
				Name: name, Labels: map[string]string{"nodeless.sh/nodegroup": "web", karpv1.NodePoolLabelKey: "web"},
			}}
			node.Spec.ProviderID, node.Spec.Taints = "aws:///a/"+name, []corev1.Taint{karpv1.DisruptedNoScheduleTaint}
			translate.Reserve(node)
			if err := api.Create(t.Context(), node); err != nil {
				t.Fatal(err)
			}
		}
		if err := finish(&Controller{o: Options{Client: api, Cluster: state, Cache: gone{}}}); err != nil {
			t.Fatal(err)
		}
		for node, want := range map[string]bool{"left": false, "drains": true} {
			got := &corev1.Node{}
			if err := api.Get(t.Context(), client.ObjectKey{Name: node}, got); err != nil {
				t.Fatal(err)
			}
			if closed := got.Spec.Unschedulable || len(got.Spec.Taints)+len(got.Labels) > 0; closed != want {
				t.Errorf("%s, %s: cordoned %v, taints %v, labels %v", name, node, got.Spec.Unschedulable, got.Spec.Taints,
					got.Labels)
			}
		}
	}
}

// A Node that registers while its claim is removed is released like those that were there before.
func TestANodeThatComesDuringTheReleaseIsReleased(t *testing.T) {
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "web-1", UID: "c"}}
	claim.Status.ProviderID = "aws:///a/i-1"
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: "n", UID: "n", Labels: map[string]string{karpv1.NodeRegisteredLabelKey: "true"},
		Finalizers:      []string{karpv1.TerminationFinalizer},
		OwnerReferences: []metav1.OwnerReference{{Kind: "NodeClaim", Name: claim.Name, UID: claim.UID}},
	}}
	node.Spec.ProviderID = claim.Status.ProviderID
	api := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(claim).Build()
	state := cluster.New(cluster.Options{})
	comes := &busyCloud{write: func() error {
		defer func() { state.Update(node.DeepCopy()) }()
		return api.Create(t.Context(), node)
	}}
	if err := (&Controller{o: Options{Cloud: comes, Client: api, Cluster: state}}).letGo(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	if err := api.Get(t.Context(), client.ObjectKeyFromObject(node), node); err != nil {
		t.Fatal(err)
	}
	if len(node.Labels)+len(node.Finalizers)+len(node.OwnerReferences) > 0 {
		t.Errorf("labels %v, finalizers %v, owners %v", node.Labels, node.Finalizers, node.OwnerReferences)
	}
}
