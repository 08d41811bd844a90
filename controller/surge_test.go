package controller_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodeless/nodeless/controller"
	"github.com/nodeless/nodeless/controller/nodeclaim/surge"
	"github.com/nodeless/nodeless/controller/rbac"
	"github.com/nodeless/nodeless/lab/stacktest"
	"github.com/nodeless/nodeless/plane/planetest"
)

// said waits for an event on an object whose message contains the words.
func said(t *testing.T, s *stacktest.Stack, namespace, object, reason string, words string) {
	t.Helper()
	planetest.Eventually(t, object+" hears "+reason, func(ctx context.Context) error {
		var events corev1.EventList
		if err := s.Client.List(ctx, &events, client.InNamespace(namespace)); err != nil {
			return err
		}
		for _, e := range events.Items {
			if e.InvolvedObject.Name == object && e.Reason == reason && strings.Contains(e.Message, words) {
				return nil
			}
		}
		return fmt.Errorf("there is only %s", reasons(events))
	})
}

// The only pod of a Deployment that requests it is never evicted: another pod is ready before it ends. Where RBAC
// forbids that, the pod is evicted, and an event on the Deployment says why.
func TestTheOnlyPodOfADeploymentIsFollowedBeforeItGoes(t *testing.T) {
	s := stacktest.Start(t)
	namespace := planetest.Namespace(t, s.Plane)
	for _, o := range rbac.Objects(namespace, controller.DefaultLease) {
		create(t, s.Client, o)
		t.Cleanup(func() { _ = s.Client.Delete(context.Background(), o) })
	}
	for _, o := range rbac.Objects(namespace, controller.DefaultLease) {
		granted(t, s, namespace, o)
	}
	r := s.Controller(t, func(o *controller.Options) {
		o.REST = rest.CopyConfig(o.REST)
		o.REST.Impersonate = rest.ImpersonationConfig{
			UserName: "system:serviceaccount:" + namespace + ":" + rbac.Name,
			Groups:   []string{"system:serviceaccounts", "system:authenticated"},
		}
	})
	<-r.Leads
	db := deployment(namespace, "db", 1)
	db.Annotations = map[string]string{surge.Annotation: "2m"}
	create(t, s.Client, db)
	running(t, s.Client, db)

	evictAll(t, s)
	said(t, s, namespace, db.Name, "SurgeImpossible", "nodeless rbac --surge")
	running(t, s.Client, db)

	for _, o := range rbac.Objects(namespace, controller.DefaultLease, rbac.SurgeRules()...) {
		if o.GetObjectKind().GroupVersionKind().Kind != "ClusterRole" {
			continue
		}
		if err := s.Client.Update(context.Background(), o); err != nil {
			t.Fatal(err)
		}
		granted(t, s, namespace, o)
	}
	only := podOf(t, s, db)
	evictAll(t, s)
	said(t, s, namespace, db.Name, "Surging", only)
	running(t, s.Client, db)
	if next := podOf(t, s, db); next == only {
		t.Errorf("%s is still there", only)
	}
	if mark := db.Spec.Template.Annotations[surge.Mark]; mark == "" {
		t.Error("the Deployment was not rolled over")
	}
	var events corev1.EventList
	if err := s.Client.List(context.Background(), &events, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	for _, e := range events.Items {
		if e.InvolvedObject.Name == only && e.Reason == "Evicted" {
			t.Errorf("%s was evicted: %s", only, e.Message)
		}
	}
}

// podOf returns the name of the Deployment's only pod.
func podOf(t *testing.T, s *stacktest.Stack, d *appsv1.Deployment) (name string) {
	t.Helper()
	planetest.Eventually(t, d.Name+" has one pod", func(ctx context.Context) error {
		var pods corev1.PodList
		if err := s.Client.List(ctx, &pods, client.InNamespace(d.Namespace),
			client.MatchingLabels(d.Spec.Selector.MatchLabels)); err != nil {
			return err
		}
		if len(pods.Items) != 1 {
			return fmt.Errorf("it has %d", len(pods.Items))
		}
		name = pods.Items[0].Name
		return nil
	})
	return name
}
