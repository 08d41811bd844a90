package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/controller/rbac"
	"github.com/nodeless/nodeless/internal/kit/conditions"
	"github.com/nodeless/nodeless/microvm"
	"github.com/nodeless/nodeless/microvm/agent"
	"github.com/nodeless/nodeless/plane/planetest"
)

// takesHosts returns a cluster whose controller has the permissions of "nodeless rbac --hosts".
func takesHosts(t *testing.T) *state {
	t.Helper()
	w := start(t)
	meta := metav1.ObjectMeta{Name: w.namespace + "-hosts"}
	w.create(t, &rbacv1.ClusterRole{ObjectMeta: meta, Rules: rbac.HostRules()})
	w.create(t, &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: rbac.Name, Namespace: w.namespace}},
	})
	return w
}

// remote is a joined host: its microVMs are in memory, but everything between it and the controller is real.
type remote struct {
	*memoryHost
	t     *testing.T
	w     *state
	id    *agent.Identity
	token string
	pods  string
	stop  func()
}

// joins makes a machine of this name join as a host with addresses for pods.
func (w *state) joins(t *testing.T, name, first, pods string) *remote {
	t.Helper()
	r := &remote{memoryHost: newHost(name, first), t: t, w: w, pods: pods}
	var err error
	r.token, err = agent.Enrol(t.Context(), w.Plane.RESTConfig(),
		agent.Enrolment{Host: name, PodCIDR: pods, TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.forget(t, name) })
	if r.id, err = agent.Join(t.Context(), r.joinConfig(), t.TempDir(), time.Now()); err != nil {
		t.Fatal(err)
	}
	r.id.REST.QPS, r.id.REST.Burst = 100, 200
	r.run()
	return r
}

func (r *remote) joinConfig() *rest.Config {
	return &rest.Config{
		Host: r.w.Plane.RESTConfig().Host, BearerToken: r.token,
		TLSClientConfig: rest.TLSClientConfig{CAData: r.w.Plane.CABundle()},
	}
}

// as returns a client of the host that impersonates a Node.
func (r *remote) as(node string) kubernetes.Interface {
	cfg := rest.CopyConfig(r.id.REST)
	cfg.Impersonate = rest.ImpersonationConfig{UserName: rbac.NodeUser + node, Groups: []string{rbac.NodeGroup}}
	return kubernetes.NewForConfigOrDie(cfg)
}

// run runs the host's process.
func (r *remote) run() {
	r.t.Helper()
	a, err := agent.New(agent.Options{
		REST: r.id.REST, Name: r.id.Host, Host: r.memoryHost,
		Every: 200 * time.Millisecond, Kubelets: microvm.KubeletEndpoints{
			Host: netip.MustParseAddr("192.0.2.7"), FirstPort: 20000, Pods: netip.MustParsePrefix(r.pods),
		},
	})
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	stopped := false
	r.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ended; err != nil && !apierrors.IsNotFound(err) && !apierrors.IsUnauthorized(err) {
			r.t.Error(err)
		}
	}
	r.t.Cleanup(func() { r.stop() })
	planetest.Eventually(r.t, "the host is ready", func(ctx context.Context) error {
		h, err := agent.GetHost(ctx, r.id.REST, r.id.Host)
		if err == nil && !h.Status.Ready {
			err = fmt.Errorf("status %+v", h.Status)
		}
		return err
	})
}

// forget removes a host from the cluster, as an administrator does.
func (w *state) forget(t *testing.T, name string) {
	t.Helper()
	namespace := rbac.HostNamespace(name)
	if err := w.Client.Delete(context.Background(), namespace); client.IgnoreNotFound(err) != nil {
		t.Error(err)
	}
}

// rejected waits until the controller knows hosts and that they are ready: each is named with the reason why it cannot
// take a pod of another zone. The pod leaves nothing behind, as it never had a place.
func (w *state) rejected(t *testing.T, hosts ...string) {
	t.Helper()
	why := make([]string, len(hosts))
	for i, host := range hosts {
		why[i] = host + `: the pod requires another zone than "eu-west-1a"`
	}
	pod := w.pod("nowhere", "100m")
	pod.Spec.NodeSelector = map[string]string{corev1.LabelTopologyZone: "elsewhere"}
	w.create(t, pod)
	w.pods(t, "no host takes the pod", 1, waits("Unschedulable", "("+strings.Join(why, "; ")+")"))
	if err := w.Client.Delete(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
}

// Two hosts join with tokens. Pods are spread over them by free capacity, run, stop with their grace period, and move
// to the other host when one is stopped. A host that returns removes microVMs that it no longer has orders for.
func TestMachinesThatJoinRunPods(t *testing.T) {
	w := takesHosts(t)
	w.away = 45 * time.Second
	w.controller(t)
	one, two := w.joins(t, "one", "10.77.0.1", "10.77.0.0/20"), w.joins(t, "two", "10.77.16.1", "10.77.16.0/20")
	w.rejected(t, "one", "two")
	web := w.deployment("web", 4)
	w.create(t, web)
	before := map[string]bool{}
	for _, p := range w.pods(t, "four pods run", 4, runs) {
		before[string(p.UID)] = true
		node := &corev1.Node{}
		if err := w.Client.Get(t.Context(), client.ObjectKey{Name: p.Spec.NodeName}, node); err != nil {
			t.Fatal(err)
		}
		port := 20000 + int32(netip.MustParseAddr(p.Status.PodIP).As4()[3])
		if a := node.Status.Addresses; len(a) == 0 || a[0].Type != corev1.NodeInternalIP || a[0].Address != "192.0.2.7" ||
			node.Status.DaemonEndpoints.KubeletEndpoint.Port != port {
			t.Errorf("pod %s: the API server looks for its kubelet at %v, port %d", p.Status.PodIP, a,
				node.Status.DaemonEndpoints.KubeletEndpoint.Port)
		}
	}
	first, _ := one.List(t.Context())
	second, _ := two.List(t.Context())
	if len(first) != 2 || len(second) != 2 {
		t.Errorf("%d and %d pods on equal hosts", len(first), len(second))
	}
	two.stop()
	w.pods(t, "all run on the first", 4, func(p *corev1.Pod) error {
		if !strings.HasPrefix(p.Status.PodIP, "10.77.0.") {
			return errors.New("not on the first host: " + p.Status.PodIP)
		}
		return runs(p)
	})
	w.hears(t, "The pod is deleted: host two is lost: ")
	two.run()
	planetest.Eventually(t, "the second host is empty", func(ctx context.Context) error {
		if ids, _ := two.List(ctx); len(ids) > 0 {
			return fmt.Errorf("it has %v", ids)
		}
		return nil
	})
	if err := w.Client.Delete(t.Context(), web); err != nil {
		t.Fatal(err)
	}
	w.empty(t, one.memoryHost, two.memoryHost)
}

// A host can read what its pods refer to, as their Nodes, and nothing else, and cannot write as them; the controller
// can read none of it. The host's first token works once.
func TestAHostMayOnlyWhatItsPodsNeed(t *testing.T) {
	w := takesHosts(t)
	w.controller(t)
	h := w.joins(t, "three", "10.77.32.1", "10.77.32.0/20")
	for _, name := range []string{"its", "others"} {
		w.create(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}})
	}
	pod := w.pod("reads", "100m")
	pod.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "its"}}}}
	w.create(t, pod)
	pods := w.pods(t, "the pod runs", 1, runs)
	other := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "elsewhere"},
		Spec:       w.pod("", "1m").Spec,
	}
	other.Spec.NodeName = "not-a-host"
	// Pods of a Node that does not exist are deleted after 40 s.
	elsewhere := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: other.Spec.NodeName}}
	w.create(t, elsewhere)
	w.create(t, other)

	kube, node := kubernetes.NewForConfigOrDie(h.id.REST), h.as(pods[0].Spec.NodeName)
	get := func(kube kubernetes.Interface, name string) error {
		_, err := kube.CoreV1().Secrets(w.namespace).Get(t.Context(), name, metav1.GetOptions{})
		return err
	}
	token := func(kube kubernetes.Interface, bound *authenticationv1.BoundObjectReference) error {
		_, err := kube.CoreV1().ServiceAccounts(w.namespace).CreateToken(t.Context(), "default",
			&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{BoundObjectRef: bound}},
			metav1.CreateOptions{})
		return err
	}
	boundTo := func(pod *corev1.Pod) *authenticationv1.BoundObjectReference {
		return &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}
	}
	planetest.Eventually(t, "the host gets what the pod refers to", func(context.Context) error {
		return errors.Join(get(node, "its"), token(node, boundTo(&pods[0])))
	})
	controller := rest.CopyConfig(w.Plane.RESTConfig())
	controller.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + w.namespace + ":" +
		rbac.Name, Groups: []string{"system:serviceaccounts", "system:authenticated"}}
	for who, kube := range map[string]kubernetes.Interface{
		"the host, not as a Node": kube,
		"the controller":          kubernetes.NewForConfigOrDie(controller),
	} {
		if err := get(kube, "its"); !apierrors.IsForbidden(err) {
			t.Errorf("%s reads a Secret: %v", who, err)
		}
		if err := token(kube, boundTo(&pods[0])); !apierrors.IsForbidden(err) {
			t.Errorf("%s gets a token of a service account: %v", who, err)
		}
	}
	for what, err := range map[string]error{
		"another secret": get(node, "others"),
		"all secrets": func() error {
			_, err := node.CoreV1().Secrets(w.namespace).List(t.Context(), metav1.ListOptions{})
			return err
		}(),
		"a token that does not end with a pod": token(node, nil),
		"a token of a pod elsewhere":           token(node, boundTo(other)),
		"a Secret as a Node of another host":   get(h.as("fargate-ip-10-77-0-1"), "its"),
		"a Secret as an administrator": func() error {
			cfg := rest.CopyConfig(h.id.REST)
			cfg.Impersonate = rest.ImpersonationConfig{
				UserName: rbac.NodeUser + pods[0].Spec.NodeName,
				Groups:   []string{"system:masters"},
			}
			return get(kubernetes.NewForConfigOrDie(cfg), "others")
		}(),
		"a Node of its own making": func() error {
			_, err := h.as("fargate-ip-10-77-32-99").CoreV1().Nodes().Create(t.Context(),
				&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "fargate-ip-10-77-32-99"}}, metav1.CreateOptions{})
			return err
		}(),
		"its Node's labels": func() error {
			_, err := node.CoreV1().Nodes().Patch(t.Context(), pods[0].Spec.NodeName, types.MergePatchType,
				[]byte(`{"metadata": {"labels": {"a": "b"}}}`), metav1.PatchOptions{})
			return err
		}(),
		"its pod's status": func() error {
			_, err := node.CoreV1().Pods(w.namespace).Patch(t.Context(), "reads", types.MergePatchType,
				[]byte(`{"status": {"reason": "x"}}`), metav1.PatchOptions{}, "status")
			return err
		}(),
		"its pod's end": node.CoreV1().Pods(w.namespace).Delete(t.Context(), "reads", metav1.DeleteOptions{}),
		"pods": func() error {
			_, err := kube.CoreV1().Pods(w.namespace).List(t.Context(), metav1.ListOptions{})
			return err
		}(),
		"nodes": func() error { _, err := kube.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); return err }(),
		"what another host says": kube.CoreV1().RESTClient().Patch(types.MergePatchType).Body([]byte(
			`{"status": {"address": "10.0.0.66"}}`)).
			AbsPath("/apis/nodeless.sh/v1alpha1/namespaces", v1alpha1.HostNamespace("one"),
				"microvmhosts/one/status").Do(t.Context()).Error(),
		"the end of a host": kube.CoreV1().Namespaces().Delete(t.Context(), v1alpha1.HostNamespace("three"),
			metav1.DeleteOptions{}),
	} {
		if !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v; want that it is forbidden", what, err)
		}
	}
	if err := errors.Join(w.Client.Delete(t.Context(), other, client.GracePeriodSeconds(0)),
		w.Client.Delete(t.Context(), elsewhere)); err != nil {
		t.Error(err)
	}
	_, err := agent.Join(t.Context(), h.joinConfig(), t.TempDir(), time.Now())
	if err = agent.Explain(err, "https://here", "three", time.Now()); err == nil ||
		!strings.Contains(err.Error(), "was used before") {
		t.Errorf("joining twice: %v", err)
	}

	w.forget(t, "three")
	planetest.Eventually(t, "the rights end with the host", func(context.Context) error {
		if err := get(node, "its"); !apierrors.IsUnauthorized(err) && !apierrors.IsForbidden(err) {
			return fmt.Errorf("reading a secret: %w", err)
		}
		return nil
	})
	w.pods(t, "the pod is given up", 0, runs)
	w.empty(t)
}

// A joined host gets the changes of its pods: ephemeral containers, and what others report for readiness gates.
func TestAJoinedHostFollowsItsPods(t *testing.T) {
	const gate = "example.com/gate"
	w := takesHosts(t)
	w.controller(t)
	h := w.joins(t, "four", "10.77.48.1", "10.77.48.0/20")
	pod := w.pod("changes", "100m")
	pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: gate}}
	w.create(t, pod)
	*pod = w.pods(t, "the pod runs", 1, runs)[0]
	plain := pod.DeepCopy()
	pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{{
		EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debugger", Image: "i"},
	}}
	if err := w.Client.SubResource("ephemeralcontainers").Patch(t.Context(), pod,
		client.StrategicMergeFrom(plain)); err != nil {
		t.Fatal(err)
	}
	source, err := agent.Pods(h.id.REST, "four")
	if err != nil {
		t.Fatal(err)
	}
	for _, status := range []corev1.ConditionStatus{corev1.ConditionFalse, corev1.ConditionTrue} {
		before := pod.DeepCopy()
		pod.Status.Conditions = []corev1.PodCondition{{Type: gate, Status: status}}
		if err := w.Client.Status().Patch(t.Context(), pod, client.StrategicMergeFrom(before)); err != nil {
			t.Fatal(err)
		}
		planetest.Eventually(t, "the host knows both", func(ctx context.Context) error {
			list, err := toolscache.ToListerWatcherWithContext(source).ListWithContext(ctx, metav1.ListOptions{})
			if err != nil {
				return err
			}
			seen := list.(*corev1.PodList).Items[0]
			is, ready := conditions.OfPod(&seen, gate), conditions.OfPod(&seen, corev1.PodReady)
			if len(seen.Spec.EphemeralContainers) != 1 || is == nil || is.Status != status || ready == nil {
				return fmt.Errorf("it knows %+v, conditions %+v", seen.Spec.EphemeralContainers, seen.Status.Conditions)
			}
			return nil
		})
	}
	if err := w.Client.Delete(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	w.empty(t, h.memoryHost)
}
