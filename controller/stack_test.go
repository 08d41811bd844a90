package controller_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/controller"
	"github.com/nodeless/nodeless/controller/gates"
	"github.com/nodeless/nodeless/controller/rbac"
	"github.com/nodeless/nodeless/lab/stacktest"
	"github.com/nodeless/nodeless/plane/planetest"
)

// deployment returns a Deployment with pods of one CPU each.
func deployment(namespace, name string, replicas int32) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	d.Spec.Replicas, d.Spec.Selector = &replicas, &metav1.LabelSelector{MatchLabels: labels}
	d.Spec.Template.Labels = labels
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "c", Image: "i", Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{"cpu": resource.MustParse("1")},
	}}}
	return d
}

// running waits until all pods of a Deployment are ready.
func running(t *testing.T, c client.Client, d *appsv1.Deployment) {
	t.Helper()
	planetest.Eventually(t, d.Name+" runs", func(ctx context.Context) error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(d), d); err != nil {
			return err
		}
		if d.Status.ReadyReplicas != *d.Spec.Replicas {
			return fmt.Errorf("%d of %d pods are ready", d.Status.ReadyReplicas, *d.Spec.Replicas)
		}
		return nil
	})
}

// buffer is a log that can be read while it is written.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// The rules that `nodeless rbac` prints are enough for a node's whole life.
func TestTheRolesAreEnough(t *testing.T) {
	controller.PatientLeases(t)
	s := stacktest.Start(t)
	namespace := planetest.Namespace(t, s.Plane)
	for _, o := range rbac.Objects(namespace, controller.DefaultLease) {
		create(t, s.Client, o)
		t.Cleanup(func() { _ = s.Client.Delete(context.Background(), o) })
	}
	for _, o := range rbac.Objects(namespace, controller.DefaultLease) {
		granted(t, s, namespace, o)
	}
	var log buffer
	r := s.Controller(t, func(o *controller.Options) {
		o.REST = rest.CopyConfig(o.REST)
		o.REST.Impersonate = rest.ImpersonationConfig{
			UserName: "system:serviceaccount:" + namespace + ":" + rbac.Name,
			Groups:   []string{"system:serviceaccounts", "system:authenticated"},
		}
		o.LeaderElection, o.LeaderNamespace, o.Identity = true, namespace, "test"
		o.Service = client.ObjectKey{Namespace: namespace, Name: rbac.Name}
		o.Gates = gates.Gates{
			NodeRepair: true, SpotToSpotConsolidation: true, NodeOverlay: true, StaticCapacity: true,
			CapacityBuffer: true, Nominations: true,
		}
		o.Log = slog.New(slog.NewTextHandler(&log, nil))
	})
	<-r.Leads
	limit(t, s)
	web := deployment(namespace, "web", 2)
	create(t, s.Client, web)
	running(t, s.Client, web)
	roomIsKept := keepRoom(t, s, namespace, web.Name)
	evictAll(t, s)
	running(t, s.Client, web)
	replaceAll(t, s)
	running(t, s.Client, web)
	roomIsKept()
	if err := s.Client.Delete(context.Background(), web); err != nil {
		t.Fatal(err)
	}
	gone(t, s)
	r.Stop()
	for line := range strings.Lines(log.String()) {
		if strings.Contains(line, "forbidden") {
			t.Errorf("not allowed: %s", line)
		}
	}
	var events corev1.EventList
	if err := s.Client.List(context.Background(), &events, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(reasons(events), "Nominated") || !strings.Contains(reasons(events), "Evicted") {
		t.Errorf("events tell of %s; want Nominated and Evicted", reasons(events))
	}
}

// granted waits until the API server's authorizer knows a role of the controller by the role's last rule. Other
// objects are ignored.
func granted(t *testing.T, s *stacktest.Stack, namespace string, role client.Object) {
	t.Helper()
	var rules []rbacv1.PolicyRule
	switch r := role.(type) {
	case *rbacv1.ClusterRole:
		rules = r.Rules
	case *rbacv1.Role:
		rules = r.Rules
	default:
		return
	}
	last := rules[len(rules)-1]
	asked := authorizationv1.ResourceAttributes{
		Namespace: role.GetNamespace(), Verb: last.Verbs[0], Group: last.APIGroups[0], Resource: last.Resources[0],
	}
	if len(last.ResourceNames) > 0 {
		asked.Name = last.ResourceNames[0]
	}
	planetest.Eventually(t, fmt.Sprintf("the API server knows role %s/%s", role.GetNamespace(), role.GetName()),
		func(ctx context.Context) error {
			review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
				User: "system:serviceaccount:" + namespace + ":" + rbac.Name, ResourceAttributes: &asked,
			}}
			err := s.Client.Create(ctx, review)
			if err == nil && !review.Status.Allowed {
				err = errors.New(review.Status.Reason)
			}
			return err
		})
}

// evictAll deletes every claim while pods run on its node, so that every node is replaced.
func evictAll(t *testing.T, s *stacktest.Stack) {
	t.Helper()
	var claims karpv1.NodeClaimList
	if err := s.Client.List(context.Background(), &claims); err != nil {
		t.Fatal(err)
	}
	for i := range claims.Items {
		// A claim whose node has become empty meanwhile may be gone already.
		if err := s.Client.Delete(context.Background(), &claims.Items[i]); client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		}
		planetest.Eventually(t, "the drained machine is gone", func(ctx context.Context) error {
			if err := s.Client.Get(ctx, client.ObjectKeyFromObject(&claims.Items[i]), &claims.Items[i]); err != nil {
				return client.IgnoreNotFound(err)
			}
			return errors.New("still there")
		})
	}
}

func reasons(events corev1.EventList) string {
	var all []string
	for i := range events.Items {
		all = append(all, events.Items[i].Reason)
	}
	return strings.Join(all, " ")
}

// Two replicas: the standby is ready and knows the cluster. When the leader stops while pods are pending, the standby
// takes over at once, and no pod gets two nodes.
func TestTheStandbyTakesOverUnderLoad(t *testing.T) {
	controller.PatientLeases(t)
	s := stacktest.Start(t)
	namespace := planetest.Namespace(t, s.Plane)
	probes, metrics := address(t), address(t)
	as := func(identity string, more func(*controller.Options)) *stacktest.Replica {
		return s.Controller(t, func(o *controller.Options) {
			o.LeaderElection, o.LeaderNamespace, o.Identity = true, namespace, identity
			more(o)
		})
	}
	first := as("first", func(*controller.Options) {})
	<-first.Leads
	second := as("second", func(o *controller.Options) { o.HealthAddress, o.MetricsAddress = probes, metrics })
	planetest.Eventually(t, "the standby is ready", func(context.Context) error {
		resp, err := http.Get("http://" + probes + "/readyz")
		if err != nil {
			return err
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("/readyz: %s", resp.Status)
		}
		return nil
	})
	if _, told := scrape(t, metrics)["karpenter_pods_state"]; told {
		t.Error("the standby tells of pods: sums over replicas count them twice")
	}
	if holder := holder(t, s, namespace); !strings.HasPrefix(holder, "first_") {
		t.Errorf("%q holds the lease, want first_<uuid>", holder)
	}
	web := deployment(namespace, "web", 20)
	create(t, s.Client, web)
	first.Stop()
	<-second.Leads
	if holder := holder(t, s, namespace); !strings.HasPrefix(holder, "second_") {
		t.Errorf("%q holds the lease, want second_<uuid>", holder)
	}
	running(t, s.Client, web)
	var claims karpv1.NodeClaimList
	if err := s.Client.List(context.Background(), &claims); err != nil {
		t.Fatal(err)
	}
	var cpus int64
	for i := range claims.Items {
		cpus += claims.Items[i].Status.Capacity.Cpu().Value()
	}
	if cpus >= 40 {
		t.Errorf("machines of %d CPUs run for 20 pods of one CPU: some were launched twice", cpus)
	}
}

func holder(t *testing.T, s *stacktest.Stack, namespace string) string {
	t.Helper()
	var lease coordinationv1.Lease
	if err := s.Client.Get(context.Background(), client.ObjectKey{Namespace: namespace, Name: controller.DefaultLease},
		&lease); err != nil {
		t.Fatal(err)
	}
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}
