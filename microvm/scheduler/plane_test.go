package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/controller"
	"github.com/nodeless/nodeless/controller/admission"
	"github.com/nodeless/nodeless/controller/rbac"
	"github.com/nodeless/nodeless/lab/stacktest"
	"github.com/nodeless/nodeless/microvm"
	"github.com/nodeless/nodeless/microvm/fargate"
	"github.com/nodeless/nodeless/plane/planetest"
)

func TestMain(m *testing.M) {
	if err := v1alpha1.AddToScheme(scheme.Scheme); err != nil {
		panic(err)
	}
	planetest.Main(m)
}

// state is a cluster with nodes, a namespace whose pods get microVMs, and hosts for them.
type state struct {
	*stacktest.Stack
	namespace string
	profile   *v1alpha1.FargateProfile
	away      time.Duration // of a silent host until it is lost
}

func start(t *testing.T) *state {
	t.Helper()
	w := &state{Stack: stacktest.Start(t), away: time.Minute}
	w.namespace = planetest.Namespace(t, w.Plane)
	// The controller has only the roles that "nodeless rbac" prints.
	for _, o := range rbac.Objects(w.namespace, controller.DefaultLease) {
		w.create(t, o)
	}
	w.profile = &v1alpha1.FargateProfile{ObjectMeta: metav1.ObjectMeta{Name: "apps"}}
	w.profile.Spec.Selectors = []v1alpha1.FargateProfileSelector{{Namespace: w.namespace}}
	w.create(t, w.profile)
	t.Cleanup(func() {
		if err := admission.Uninstall(context.Background(), w.Client, fargate.MutatingWebhooks); err != nil {
			t.Error(err)
		}
	})
	return w
}

// create creates an object until the test ends. On a busy machine the webhook may not answer the API server in time,
// which then creates nothing.
func (w *state) create(t *testing.T, o client.Object) {
	t.Helper()
	planetest.Eventually(t, "the webhook answers in time", func(ctx context.Context) error {
		err := w.Client.Create(ctx, o)
		if err != nil && !strings.Contains(err.Error(), "failed calling webhook") {
			t.Fatal(err)
		}
		return err
	})
	t.Cleanup(func() { _ = w.Client.Delete(context.Background(), o) })
}

// controller runs a controller with hosts. When it returns, the webhook mutates pods of the profile.
func (w *state) controller(t *testing.T, hosts ...microvm.Host) *stacktest.Replica {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at, err := admission.ParsePlace("https://" + listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	r := w.Controller(t, func(o *controller.Options) {
		o.REST = rest.CopyConfig(o.REST)
		o.REST.Impersonate = rest.ImpersonationConfig{
			UserName: "system:serviceaccount:" + w.namespace + ":" + rbac.Name,
			Groups:   []string{"system:serviceaccounts", "system:authenticated"},
		}
		o.Fargate = &controller.Fargate{
			Hosts: hosts, HostGrace: time.Second, HostAway: w.away, At: at,
			Listener: listener, Namespace: w.namespace,
		}
	})
	<-r.Leads
	planetest.Eventually(t, "pods are changed", func(ctx context.Context) error {
		pod := w.pod("trial", "1m")
		if err := w.Client.Create(ctx, pod, client.DryRunAll); err != nil {
			return err
		}
		if pod.Spec.SchedulerName != fargate.SchedulerName {
			return errors.New("not yet")
		}
		return nil
	})
	return r
}

func (w *state) pod(name, cpu string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}}
	p.Spec.Containers = []corev1.Container{{Name: "c", Image: "i", Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{"cpu": resource.MustParse(cpu)},
	}}}
	return p
}

func (w *state) deployment(name string, replicas int32) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}}
	d.Spec.Replicas, d.Spec.Selector = &replicas, &metav1.LabelSelector{MatchLabels: labels}
	d.Spec.Template.Labels, d.Spec.Template.Spec = labels, w.pod("", "100m").Spec
	return d
}

// pods returns the namespace's pods that are not being deleted, once there are n and all are right.
func (w *state) pods(t *testing.T, what string, n int, right func(*corev1.Pod) error) []corev1.Pod {
	t.Helper()
	var out []corev1.Pod
	planetest.Eventually(t, what, func(ctx context.Context) error {
		var list corev1.PodList
		if err := w.Client.List(ctx, &list, client.InNamespace(w.namespace)); err != nil {
			return err
		}
		out = nil
		for i := range list.Items {
			p := &list.Items[i]
			if p.DeletionTimestamp != nil {
				continue
			}
			if err := right(p); err != nil {
				return fmt.Errorf("%s: %w", p.Name, err)
			}
			out = append(out, *p)
		}
		if len(out) != n {
			return fmt.Errorf("%d pods, want %d", len(out), n)
		}
		return nil
	})
	return out
}

func runs(p *corev1.Pod) error {
	if p.Status.Phase != corev1.PodRunning || p.Status.PodIP == "" {
		return fmt.Errorf("phase %s, address %q, conditions %v", p.Status.Phase, p.Status.PodIP, p.Status.Conditions)
	}
	return nil
}

// waits checks that a pod is not scheduled, for a reason and with a message that contains the text.
func waits(reason, text string) func(*corev1.Pod) error {
	return func(p *corev1.Pod) error {
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == reason &&
				strings.Contains(c.Message, text) {
				return nil
			}
		}
		return fmt.Errorf("conditions %+v; want PodScheduled=False %s %q", p.Status.Conditions, reason, text)
	}
}

// empty waits until nothing of microVMs is left.
func (w *state) empty(t *testing.T, hosts ...*memoryHost) {
	t.Helper()
	planetest.Eventually(t, "nothing is left", func(ctx context.Context) error {
		var claims karpv1.NodeClaimList
		var nodes corev1.NodeList
		if err := errors.Join(w.Client.List(ctx, &claims), w.Client.List(ctx, &nodes)); err != nil {
			return err
		}
		vms := 0
		for _, h := range hosts {
			ids, _ := h.List(ctx)
			vms += len(ids)
		}
		if len(claims.Items)+len(nodes.Items)+vms > 0 {
			return fmt.Errorf("%d NodeClaims, %d Nodes, %d microVMs", len(claims.Items), len(nodes.Items), vms)
		}
		return nil
	})
}

func TestEachPodIsItsOwnNode(t *testing.T) {
	w, h := start(t), newHost("h1", "10.77.0.1")
	w.controller(t, h)
	web := w.deployment("web", 3)
	w.create(t, web)
	names := map[string]bool{}
	for _, p := range w.pods(t, "three pods run", 3, runs) {
		names[p.Spec.NodeName] = true
		if p.Status.HostIP != p.Status.PodIP || p.Spec.PriorityClassName != "system-node-critical" ||
			p.Annotations["CapacityProvisioned"] != "0.25vCPU 0.5GB" {
			t.Errorf("%s: host %s, pod %s, %+v", p.Name, p.Status.HostIP, p.Status.PodIP, p.Annotations)
		}
		node := &corev1.Node{}
		if err := w.Client.Get(t.Context(), client.ObjectKey{Name: p.Spec.NodeName}, node); err != nil {
			t.Fatal(err)
		}
		want := "fargate-ip-" + strings.ReplaceAll(p.Status.PodIP, ".", "-") + ".eu-west-1.compute.internal"
		if node.Name != want || node.Labels["eks.amazonaws.com/compute-type"] != "fargate" ||
			node.Labels["topology.kubernetes.io/zone"] != "eu-west-1a" {
			t.Errorf("Node %s, want %s; labels %v", node.Name, want, node.Labels)
		}
		if node.Labels[corev1.LabelHostname] != strings.TrimPrefix(want, "fargate-") {
			t.Errorf("hostname %s", node.Labels[corev1.LabelHostname])
		}
		if c := node.Status.Capacity; c.Cpu().String() != "1" || c.Memory().String() != "512Mi" || c.Pods().Value() != 1 {
			t.Errorf("capacity %v is not that of its microVM", c)
		}
		planetest.Eventually(t, "nothing but Fargate's taint is left", func(ctx context.Context) error {
			if err := w.Client.Get(ctx, client.ObjectKeyFromObject(node), node); err != nil {
				return err
			}
			if len(node.Spec.Taints) != 1 ||
				node.Spec.Taints[0].ToString() != "eks.amazonaws.com/compute-type=fargate:NoSchedule" {
				return fmt.Errorf("taints %v", node.Spec.Taints)
			}
			return nil
		})
	}
	if len(names) != 3 {
		t.Errorf("%d Nodes for 3 pods", len(names))
	}
	planetest.Eventually(t, "NodeClaims as for every machine, and no other machine", func(ctx context.Context) error {
		var claims karpv1.NodeClaimList
		if err := w.Client.List(ctx, &claims); err != nil {
			return err
		}
		for i := range claims.Items {
			c := &claims.Items[i]
			if !c.StatusConditions().Root().IsTrue() || !names[c.Status.NodeName] ||
				c.Labels[corev1.LabelInstanceTypeStable] != "0.25vCPU-0.5GB" {
				return fmt.Errorf("%s: Node %q, labels %v, conditions %v", c.Name, c.Status.NodeName, c.Labels, c.Status.Conditions)
			}
		}
		if len(claims.Items) != 3 {
			return fmt.Errorf("%d claims", len(claims.Items))
		}
		return nil
	})
	planetest.Eventually(t, "the profile tells of them", func(ctx context.Context) error {
		p := &v1alpha1.FargateProfile{}
		if err := w.Client.Get(ctx, client.ObjectKeyFromObject(w.profile), p); err != nil {
			return err
		}
		if s := p.Status; s.Pods != 3 || s.Pending != 0 || s.Resources.Cpu().String() != "750m" ||
			!apimeta.IsStatusConditionTrue(s.Conditions, v1alpha1.ConditionReady) {
			return fmt.Errorf("status %+v", s)
		}
		return nil
	})
	w.hears(t, "Successfully assigned "+w.namespace+"/web-")
	w.hears(t, `Disabled logging because aws-logging configmap was not found. configmap "aws-logging" not found`)
	if err := w.Client.Delete(t.Context(), web); err != nil {
		t.Fatal(err)
	}
	w.empty(t, h)
}

// hears waits for an event of fargate-scheduler.
func (w *state) hears(t *testing.T, text string) {
	t.Helper()
	planetest.Eventually(t, "event "+text, func(ctx context.Context) error {
		var events corev1.EventList
		if err := w.Client.List(ctx, &events, client.InNamespace(w.namespace)); err != nil {
			return err
		}
		for i := range events.Items {
			if e := &events.Items[i]; e.Source.Component == "fargate-scheduler" && strings.HasPrefix(e.Message, text) {
				return nil
			}
		}
		return fmt.Errorf("not among %d events", len(events.Items))
	})
}

// A pod that names the Node of another pod's microVM is rejected, as by the kubelet of a node that is full or has
// another operating system. The other pod keeps running.
func TestANodeTakesNoSecondPod(t *testing.T) {
	w, h := start(t), newHost("h1", "10.77.9.1")
	w.controller(t, h)
	first := w.pod("first", "100m")
	w.create(t, first)
	node := w.pods(t, "a pod runs", 1, runs)[0].Spec.NodeName
	for name, want := range map[string]string{"second": "OutOfpods", "windows": "PodOSNotSupported"} {
		p := w.pod(name, "100m")
		p.Spec.NodeName = node
		if name == "windows" {
			p.Spec.OS = &corev1.PodOS{Name: corev1.Windows}
		}
		w.create(t, p)
		planetest.Eventually(t, name+" is rejected", func(ctx context.Context) error {
			if err := w.Client.Get(ctx, client.ObjectKeyFromObject(p), p); err != nil {
				return err
			}
			if p.Status.Phase != corev1.PodFailed || p.Status.Reason != want {
				return fmt.Errorf("status %+v", p.Status)
			}
			return nil
		})
		if err := w.Client.Delete(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	w.pods(t, "the first alone is there", 1, runs)
	if err := w.Client.Delete(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	w.empty(t, h)
}

// Deleting a profile deletes its pods, both running and pending ones. Their replacements, created by a Deployment, go
// where the remaining profiles say. A pod that names a profile that never existed stays, and says so.
func TestAProfileThatIsDeletedTakesItsPodsAlong(t *testing.T) {
	w, h := start(t), newHost("h1", "10.77.8.1")
	w.controller(t, h)
	web := w.deployment("web", 2)
	web.Spec.Template.Spec.NodeSelector = map[string]string{"example.com/no": "node"} // microVMs ignore it
	w.create(t, web)
	w.pods(t, "both pods run", 2, runs)
	misled := w.pod("misled", "100m")
	misled.Spec.SchedulerName, misled.Labels = fargate.SchedulerName, map[string]string{fargate.ProfileLabel: "never"}
	misled.Namespace = "default" // where no profile claims it
	w.create(t, misled)
	w.create(t, w.pod("large", "16")) // no host has room for it
	planetest.Eventually(t, "the large pod waits", func(ctx context.Context) error {
		p := &corev1.Pod{}
		if err := w.Client.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: "large"}, p); err != nil {
			return err
		}
		return waits("Unschedulable", "Fargate capacity is unavailable at this time")(p)
	})

	other := w.profile.DeepCopy()
	other.ObjectMeta = metav1.ObjectMeta{Name: "other"}
	w.create(t, other) // the first profile by name had the pods
	if err := w.Client.Delete(t.Context(), w.profile); err != nil {
		t.Fatal(err)
	}
	w.hears(t, "The pod is deleted, since its FargateProfile apps was")
	w.pods(t, "the Deployment's pods run for the other profile, the large one is gone", 2, func(p *corev1.Pod) error {
		if of := p.Labels[fargate.ProfileLabel]; of != "other" {
			return fmt.Errorf("it is of profile %s", of)
		}
		return runs(p)
	})
	if err := w.Client.Get(t.Context(), client.ObjectKeyFromObject(misled), misled); err != nil ||
		misled.DeletionTimestamp != nil || misled.Spec.NodeName != "" {
		t.Errorf("a pod of a profile that never was: %v, %+v", err, misled.Status)
	}

	if err := w.Client.Delete(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	w.empty(t, h)
	w.pods(t, "no profile is left: others place the Deployment's pods", 2, func(p *corev1.Pod) error {
		if p.Spec.SchedulerName != corev1.DefaultSchedulerName {
			return fmt.Errorf("it waits for %s", p.Spec.SchedulerName)
		}
		return nil
	})
}

// Deleting the NodeClaim ends the pod gracefully, as on every node; its owner creates another.
func TestANodeClaimThatIsDeletedTakesItsPodAlong(t *testing.T) {
	w, h := start(t), newHost("h1", "10.77.1.1")
	w.controller(t, h)
	web := w.deployment("web", 1)
	w.create(t, web)
	first := w.pods(t, "a pod runs", 1, runs)[0]
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "fargate-" + string(first.UID)}}
	if err := w.Client.Delete(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	w.pods(t, "another pod runs", 1, func(p *corev1.Pod) error {
		if p.UID == first.UID {
			return errors.New("still the first")
		}
		return runs(p)
	})
	planetest.Eventually(t, "the first claim is gone", func(ctx context.Context) error {
		if err := w.Client.Get(ctx, client.ObjectKeyFromObject(claim), claim); !apierrors.IsNotFound(err) {
			return fmt.Errorf("still there: %w", err)
		}
		return nil
	})
	if err := w.Client.Delete(t.Context(), web); err != nil {
		t.Fatal(err)
	}
	w.empty(t, h)
}

// Fargate checks a pod once; here a rejected pod is checked again when the obstacle may be gone.
func TestWhatIsRefusedIsLookedAtAgain(t *testing.T) {
	w, h := start(t), newHost("h1", "10.77.2.1")
	w.controller(t, h)
	ctx := t.Context()

	none := ""
	size := corev1.ResourceList{"storage": resource.MustParse("1Gi")}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "data"}}
	claim.Spec.StorageClassName, claim.Spec.AccessModes, claim.Spec.Resources.Requests = &none,
		[]corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}, size
	w.create(t, claim)
	stores := w.pod("stores", "100m")
	stores.Spec.Volumes = []corev1.Volume{{
		Name:         "d",
		VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}},
	}}
	w.create(t, stores)
	w.pods(t, "the pod waits for its volume", 1,
		waits("POD_UNSUPPORTED_ON_FARGATE",
			"Pod not supported on Fargate: volumes not supported: d not supported because: PVC data not bound"))
	w.hears(t, "Pod not supported on Fargate: volumes not supported: d not supported because: PVC data not bound")
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "efs-" + w.namespace}}
	volume.Spec.Capacity, volume.Spec.AccessModes = size, claim.Spec.AccessModes
	volume.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: "efs.csi.aws.com", VolumeHandle: "fs-1"}
	w.create(t, volume)
	w.pods(t, "the volume is bound: the pod runs", 1, runs)
	if err := w.Client.Delete(ctx, stores); err != nil {
		t.Fatal(err)
	}
	w.empty(t, h)

	privileged, yes := w.pod("privileged", "100m"), true
	privileged.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: &yes}
	w.create(t, privileged)
	w.pods(t, "Fargate has no privileges", 1,
		waits("POD_UNSUPPORTED_ON_FARGATE", "invalid SecurityContext fields: Privileged"))
	w.edit(t, func(s *v1alpha1.FargateProfileSpec) { s.Sizing = v1alpha1.SizingExact })
	w.pods(t, "the profile allows them: the pod runs", 1, runs)
	if err := w.Client.Delete(ctx, privileged); err != nil {
		t.Fatal(err)
	}
	w.empty(t, h)

	w.create(t, w.pod("large", "3"))
	w.pods(t, "the first runs", 1, runs)
	w.create(t, w.pod("larger", "3500m"))
	planetest.Eventually(t, "the second finds no room", func(ctx context.Context) error {
		p := &corev1.Pod{}
		if err := w.Client.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: "larger"}, p); err != nil {
			return err
		}
		return waits("Unschedulable",
			"Fargate capacity is unavailable at this time. Please try again later or in a different availability zone (h1: it has 1000m of CPU left, the pod needs 3500m)")(p)
	})
	if err := w.Client.Delete(ctx, w.pod("large", "3")); err != nil {
		t.Fatal(err)
	}
	w.pods(t, "there is room: the second runs", 1, runs)

	none32 := int32(1)
	w.edit(t, func(s *v1alpha1.FargateProfileSpec) { s.Limits = &v1alpha1.FargateProfileLimits{Pods: &none32} })
	w.read(t)
	w.create(t, w.pod("third", "100m"))
	planetest.Eventually(t, "the third is beyond the limit", func(ctx context.Context) error {
		p := &corev1.Pod{}
		if err := w.Client.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: "third"}, p); err != nil {
			return err
		}
		return waits("Unschedulable", "FargateProfile apps: its limit of 1 pods would be exceeded")(p)
	})
	w.edit(t, func(s *v1alpha1.FargateProfileSpec) { s.Limits = nil })
	w.pods(t, "the limit is gone: both run", 2, runs)
	for _, name := range []string{"larger", "third"} {
		if err := w.Client.Delete(ctx, w.pod(name, "1")); err != nil {
			t.Fatal(err)
		}
	}
	w.empty(t, h)
}

// read waits until the controller has read the current profile: a pod that is created before is placed by the old
// one.
func (w *state) read(t *testing.T) {
	t.Helper()
	planetest.Eventually(t, "the profile is read", func(ctx context.Context) error {
		if err := w.Client.Get(ctx, client.ObjectKeyFromObject(w.profile), w.profile); err != nil {
			return err
		}
		if !slices.ContainsFunc(w.profile.Status.Conditions,
			func(c metav1.Condition) bool { return c.ObservedGeneration == w.profile.Generation }) {
			return fmt.Errorf("conditions %v, generation %d", w.profile.Status.Conditions, w.profile.Generation)
		}
		return nil
	})
}

func (w *state) edit(t *testing.T, change func(*v1alpha1.FargateProfileSpec)) {
	t.Helper()
	planetest.Eventually(t, "the profile is changed", func(ctx context.Context) error {
		if err := w.Client.Get(ctx, client.ObjectKeyFromObject(w.profile), w.profile); err != nil {
			return err
		}
		change(&w.profile.Spec)
		return w.Client.Update(ctx, w.profile)
	})
}
