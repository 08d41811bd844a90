package apply

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/plane/planetest"
)

// Pods that were promised a claim's node are nominated to its Node. Exceptions are a pod for which kube-scheduler
// preempts others elsewhere, a pod that has since been replaced by another of its name, and a pod that is gone.
func TestPromisedPodsAreNominated(t *testing.T) {
	r := enter(t, "100")
	ctx := context.Background()
	ready := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name:   "ready-" + r.namespace,
		Labels: map[string]string{karpv1.NodeRegisteredLabelKey: "true", karpv1.NodeInitializedLabelKey: "true"},
	}}
	if err := r.client.Create(ctx, ready); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.client.Delete(ctx, ready) })
	promised := map[model.PodKey]string{}
	for _, name := range []string{"web", "preempts", "other"} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: name}, Spec: corev1.PodSpec{
			SchedulerName: "nobody", Containers: []corev1.Container{{Name: "app", Image: "app"}},
		}}
		if err := r.client.Create(ctx, pod); err != nil {
			t.Fatal(err)
		}
		key := model.PodKey{Namespace: r.namespace, Name: name, UID: string(pod.UID)}
		switch name {
		case "preempts":
			pod.Status.NominatedNodeName = ready.Name
			if err := r.client.Status().Update(ctx, pod); err != nil {
				t.Fatal(err)
			}
		case "other":
			key.UID = "another"
		}
		promised[key] = "claim"
	}
	promised[model.PodKey{Namespace: r.namespace, Name: "gone", UID: "u"}] = "claim"
	planetest.Eventually(t, "the world knows them", func(context.Context) error {
		for _, name := range []string{"web", "other", "preempts"} {
			pod := r.state.Pod(client.ObjectKey{Namespace: r.namespace, Name: name})
			if pod == nil || name == "preempts" && pod.Status.NominatedNodeName == "" || r.state.Node(ready.Name) == nil {
				return fmt.Errorf("%s is not known yet", name)
			}
		}
		return nil
	})
	r.state.Nominate(nil, promised)
	r.applier.Nominate(ctx, "claim", "node")
	r.applier.Nominate(ctx, "claim", "node")
	for name, want := range map[string]string{"web": "node", "preempts": ready.Name, "other": ""} {
		pod := &corev1.Pod{}
		if err := r.client.Get(ctx, client.ObjectKey{Namespace: r.namespace, Name: name}, pod); err != nil {
			t.Fatal(err)
		}
		if got := pod.Status.NominatedNodeName; got != want {
			t.Errorf("%s is nominated to %q, want %q", name, got, want)
		}
	}
}
