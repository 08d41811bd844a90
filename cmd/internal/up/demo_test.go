//go:build !noplane

package up

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// The demo is done when all pods that its Deployment wants run, not when all pods that exist so far do.
func TestTheDemoWaitsForAllItsPods(t *testing.T) {
	for what, c := range map[string]struct {
		n    counts
		done bool
	}{
		"no pod yet":             {counts{}, false},
		"63 pods exist and run":  {counts{PodsRunning: 63, ClaimsReady: 2}, false},
		"a pod waits":            {counts{PodsRunning: 100, PodsPending: 1, ClaimsReady: 2}, false},
		"a node is launching":    {counts{PodsRunning: 100, ClaimsReady: 2, ClaimsOpen: 1}, false},
		"all run on ready nodes": {counts{PodsRunning: 100, ClaimsReady: 2}, true},
	} {
		if done := c.n.settled(100); done != c.done {
			t.Errorf("%s: done is %t", what, done)
		}
	}
}

func TestHowManyPodsTheDemoWants(t *testing.T) {
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: demoName},
		Spec:       appsv1.DeploymentSpec{Replicas: ptr.To[int32](100)},
	}
	cl := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(d).Build()
	if n, err := replicas(t.Context(), cl); err != nil || n != 100 {
		t.Errorf("%d pods, %v", n, err)
	}
	if err := cl.Delete(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	if n, err := replicas(t.Context(), cl); err != nil || n != 0 {
		t.Errorf("without the Deployment: %d pods, %v", n, err)
	}
}
