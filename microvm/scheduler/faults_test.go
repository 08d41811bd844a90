package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/internal/kit/conditions"
	"github.com/nodeless/nodeless/microvm"
	"github.com/nodeless/nodeless/microvm/fargate"
	"github.com/nodeless/nodeless/plane/planetest"
)

func TestPodsOfALostHostGoElsewhere(t *testing.T) {
	w, first, second := start(t), newHost("h1", "10.77.3.1"), newHost("h2", "10.77.4.1")
	second.d.Ready, second.d.Message = false, "not yet there"
	w.controller(t, first, second)
	web := w.deployment("web", 2)
	w.create(t, web)
	before := w.pods(t, "both run on the first host", 2, runs)
	planetest.Eventually(t, "their Nodes' leases are kept", func(ctx context.Context) error {
		lease := &coordinationv1.Lease{}
		return w.Client.Get(ctx, client.ObjectKey{Namespace: "kube-node-lease", Name: before[0].Spec.NodeName}, lease)
	})
	second.change(func() { second.d.Ready = true })
	first.change(func() { first.d.Ready, first.d.Message = false, "no answer" })
	w.pods(t, "others run on the second", 2, func(p *corev1.Pod) error {
		if slices.ContainsFunc(before, func(b corev1.Pod) bool { return b.UID == p.UID }) {
			return errors.New("on the lost host")
		}
		return runs(p)
	})
	if ids, _ := second.List(t.Context()); len(ids) != 2 {
		t.Errorf("the second host has %v", ids)
	}
	w.hears(t, "The pod is deleted: host h1 is lost: no answer")
	if err := w.Client.Delete(t.Context(), web); err != nil {
		t.Fatal(err)
	}
	w.empty(t, first, second)
}

// A process continues what another one has begun: microVMs are started once, and pods created or deleted meanwhile
// are noticed.
func TestAnotherProcessTakesOver(t *testing.T) {
	w, h := start(t), newHost("h1", "10.77.5.1")
	one := w.controller(t, h)
	stays, goes := w.pod("stays", "100m"), w.pod("goes", "100m")
	w.create(t, stays)
	w.create(t, goes)
	w.pods(t, "both run", 2, runs)
	one.Stop()
	if err := w.Client.Delete(t.Context(), goes); err != nil { // it ends once a controller runs
		t.Fatal(err)
	}
	node := w.nodeOf(t, stays)
	ready := node.DeepCopy()
	conditions.OfNode(node, corev1.NodeReady).Status = corev1.ConditionUnknown
	conditions.OfNode(node, corev1.NodeReady).Reason = "HostLost"
	// The first process ended before the host was back.
	if err := w.Client.Status().Patch(t.Context(), node, client.StrategicMergeFrom(ready)); err != nil {
		t.Fatal(err)
	}
	starts := h.starts
	w.controller(t, h)
	w.create(t, w.pod("comes", "100m"))
	planetest.Eventually(t, "the Node of the pod that stays is ready", func(context.Context) error {
		if c := conditions.OfNode(w.nodeOf(t, stays), corev1.NodeReady); c.Status != corev1.ConditionTrue {
			return fmt.Errorf("it is %s: %s", c.Status, c.Reason)
		}
		return nil
	})
	for _, p := range w.pods(t, "one stayed, one came", 2, runs) {
		if p.Name == "goes" {
			t.Error("the pod that was deleted is there")
		}
	}
	planetest.Eventually(t, "two microVMs are left", func(ctx context.Context) error {
		if ids, _ := h.List(ctx); len(ids) != 2 {
			return fmt.Errorf("%v", ids)
		}
		return nil
	})
	if h.starts != starts+1 {
		t.Errorf("%d starts, want 1 for the pod that came", h.starts-starts)
	}
	for _, name := range []string{"stays", "comes"} {
		if err := w.Client.Delete(t.Context(), w.pod(name, "1")); err != nil {
			t.Fatal(err)
		}
	}
	w.empty(t, h)
}

// nodeOf returns the Node of a pod that runs.
func (w *state) nodeOf(t *testing.T, pod *corev1.Pod) *corev1.Node {
	t.Helper()
	node := &corev1.Node{}
	if err := w.Client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil {
		t.Fatal(err)
	}
	if err := w.Client.Get(t.Context(), client.ObjectKey{Name: pod.Spec.NodeName}, node); err != nil {
		t.Fatal(err)
	}
	return node
}

func TestHowPodsEnd(t *testing.T) {
	w, h := start(t), newHost("h1", "10.77.6.1")
	h.d.Capacity = fargate.Size{MilliCPU: 250, MemoryBytes: 1 << 30} // one pod at a time
	h.broken = errors.New("no kernel")
	w.controller(t, h)

	job := w.pod("job", "100m")
	job.Spec.RestartPolicy = corev1.RestartPolicyNever
	grace := int64(7)
	job.Spec.TerminationGracePeriodSeconds = &grace
	w.create(t, job)
	w.hears(t, "Pod provisioning failed (will retry) for pod: "+w.namespace+"/job: no kernel")
	h.change(func() { h.broken = nil })
	running := w.pods(t, "it is tried again and runs", 1, runs)[0]
	id := "microvm-" + string(running.UID)

	h.exit(id, corev1.PodSucceeded)
	done := w.pods(t, "it has succeeded", 1, func(p *corev1.Pod) error {
		if p.Status.Phase != corev1.PodSucceeded {
			return fmt.Errorf("phase %s", p.Status.Phase)
		}
		return nil
	})[0]
	if err := w.Client.Get(t.Context(), client.ObjectKey{Name: done.Spec.NodeName}, &corev1.Node{}); err != nil {
		t.Errorf("its Node stays until the pod is deleted, so that its logs can be read: %v", err)
	}
	next := w.pod("next", "100m")
	w.create(t, next)
	w.pods(t, "the host has room for another pod", 2, func(p *corev1.Pod) error {
		if p.Name == job.Name {
			return nil
		}
		return runs(p)
	})
	for _, pod := range []*corev1.Pod{job, next} {
		if err := w.Client.Delete(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
	}
	w.empty(t, h)

	slow := w.pod("slow", "100m")
	slow.Spec.TerminationGracePeriodSeconds = &grace
	w.create(t, slow)
	running = w.pods(t, "it runs", 1, runs)[0]
	id = "microvm-" + string(running.UID)
	h.mu.Lock()
	vm := h.vms[id]
	vm.stuck = true
	h.mu.Unlock()
	if err := w.Client.Delete(t.Context(), slow); err != nil {
		t.Fatal(err)
	}
	planetest.Eventually(t, "the host was told to stop it, with its grace", func(context.Context) error {
		h.mu.Lock()
		defer h.mu.Unlock()
		if vm.grace != grace {
			return fmt.Errorf("grace %d", vm.grace)
		}
		return nil
	})
	if err := w.Client.Get(t.Context(), client.ObjectKeyFromObject(slow), slow); err != nil {
		t.Errorf("it stays until nothing of it runs: %v", err)
	}
	h.exit(id, corev1.PodFailed)
	w.empty(t, h)

	late, second := w.pod("late", "100m"), int64(1)
	late.Spec.ActiveDeadlineSeconds, late.Spec.TerminationGracePeriodSeconds = &second, &grace
	w.create(t, late)
	w.pods(t, "its time is over: it was stopped and has failed, and says why", 1, func(p *corev1.Pod) error {
		if p.Status.Phase != corev1.PodFailed || p.Status.Reason != "DeadlineExceeded" ||
			p.Status.Message != "Pod was active on the node longer than the specified deadline" {
			return fmt.Errorf("phase %s, %s: %s", p.Status.Phase, p.Status.Reason, p.Status.Message)
		}
		return nil
	})
	if err := w.Client.Delete(t.Context(), late); err != nil {
		t.Fatal(err)
	}
	w.empty(t, h)

	lost := w.pod("lost", "100m")
	w.create(t, lost)
	running = w.pods(t, "it runs", 1, runs)[0]
	if err := h.Remove(t.Context(), "microvm-"+string(running.UID)); err != nil {
		t.Fatal(err)
	}
	h.changed("microvm-" + string(running.UID))
	w.pods(t, "its microVM is gone: it has failed, and says so", 1, func(p *corev1.Pod) error {
		if p.Status.Phase != corev1.PodFailed || p.Status.Reason != "MicroVMLost" {
			return fmt.Errorf("phase %s, reason %s", p.Status.Phase, p.Status.Reason)
		}
		return nil
	})
	if err := w.Client.Delete(t.Context(), lost); err != nil {
		t.Fatal(err)
	}
	w.empty(t, h)
}

func TestWithoutHostsEverythingSaysSo(t *testing.T) {
	w := start(t)
	var none []microvm.Host
	w.controller(t, none...)
	waiting := w.pod("waits", "100m")
	w.create(t, waiting)
	w.pods(t, "the pod says why it waits", 1, waits("Unschedulable", "no microVM host is registered with the cluster"))
	planetest.Eventually(t, "the profile does too", func(ctx context.Context) error {
		p := &v1alpha1.FargateProfile{}
		if err := w.Client.Get(ctx, client.ObjectKeyFromObject(w.profile), p); err != nil {
			return err
		}
		c := apimeta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionReady)
		if c == nil || c.Status != metav1.ConditionFalse || c.Reason != v1alpha1.ReasonNoHost || p.Status.Pending != 1 {
			return fmt.Errorf("status %+v", p.Status)
		}
		return nil
	})
	if err := w.Client.Delete(t.Context(), waiting); err != nil {
		t.Fatal(err)
	}
	w.empty(t)
}
