package apisim

import (
	"errors"
	"fmt"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	defaults "k8s.io/kubernetes/pkg/apis/core/v1"
	"k8s.io/utils/ptr"
)

var budgets = schema.GroupVersionResource{Group: "policy", Version: "v1", Resource: "poddisruptionbudgets"}

// newPod returns the pod, pending, with the API server's own defaults.
func newPod(o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	var pod corev1.Pod
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &pod); err != nil {
		return nil, badRequest("pod: %v", err)
	}
	defaults.SetObjectDefaults_Pod(&pod)
	pod.Status = corev1.PodStatus{Phase: corev1.PodPending}
	return podObject(&pod)
}

func podObject(pod *corev1.Pod) (*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(pod)
	if err != nil {
		return nil, badRequest("pod: %v", err)
	}
	o := &unstructured.Unstructured{Object: content}
	o.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	return o, nil
}

func readPod(o *unstructured.Unstructured) (*corev1.Pod, error) {
	pod := &corev1.Pod{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, pod); err != nil {
		return nil, badRequest("pod: %v", err)
	}
	return pod, nil
}

// podGrace returns the grace period of a pod's deletion in seconds: 0 if the pod has no node or its processes have
// ended.
func podGrace(o *unstructured.Unstructured, asked *int64) int64 {
	node, _, _ := unstructured.NestedString(o.Object, "spec", "nodeName")
	phase, _, _ := unstructured.NestedString(o.Object, "status", "phase")
	if node == "" || phase == string(corev1.PodFailed) || phase == string(corev1.PodSucceeded) {
		return 0
	}
	own, _, _ := unstructured.NestedInt64(o.Object, "spec", "terminationGracePeriodSeconds")
	return max(ptr.Deref(asked, own), 0)
}

// bind binds a pod to its node.
func (s *Server) bind(r *request) (int, any, error) {
	was, err := s.find(r)
	if err != nil {
		return 0, nil, err
	}
	wanted, err := decode(r)
	if err != nil {
		return 0, nil, err
	}
	node, _, _ := unstructured.NestedString(wanted.Object, "target", "name")
	pod, err := readPod(was.object)
	switch {
	case err != nil:
		return 0, nil, err
	case pod.DeletionTimestamp != nil:
		return 0, nil, conflict(r, "pod %s is being deleted, cannot be assigned to a host", pod.Name)
	case pod.Spec.NodeName != "":
		return 0, nil, conflict(r, "pod %s is already assigned to node %q", pod.Name, pod.Spec.NodeName)
	}
	pod.Spec.NodeName = node
	setCondition(pod, corev1.PodCondition{
		Type: corev1.PodScheduled, Status: corev1.ConditionTrue,
		LastTransitionTime: metav1.Now(),
	})
	is, err := podObject(pod)
	if err != nil {
		return 0, nil, err
	}
	s.put(s.table(r.kind), was, is, r.UserAgent())
	return http.StatusCreated, map[string]string{"kind": "Status", "apiVersion": "v1", "status": "Success"}, nil
}

func setCondition(pod *corev1.Pod, c corev1.PodCondition) {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == c.Type {
			pod.Status.Conditions[i] = c
			return
		}
	}
	pod.Status.Conditions = append(pod.Status.Conditions, c)
}

// evict deletes a pod if its PodDisruptionBudget allows it (Kubernetes 1.36,
// pkg/registry/core/pod/storage/eviction.go).
func (s *Server) evict(r *request) (int, any, error) {
	was, err := s.find(r)
	if err != nil {
		return 0, nil, err
	}
	asked, err := decode(r)
	if err != nil {
		return 0, nil, err
	}
	var e policyv1.Eviction
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(asked.Object, &e); err != nil {
		return 0, nil, badRequest("Eviction: %v", err)
	}
	options := ptr.Deref(e.DeleteOptions, metav1.DeleteOptions{})
	if p := options.Preconditions; p != nil && p.UID != nil && *p.UID != was.object.GetUID() {
		return 0, nil, conflict(r, "the UID in the precondition (%s) does not match the UID in record (%s)", *p.UID,
			was.object.GetUID())
	}
	pod, err := readPod(was.object)
	if err != nil {
		return 0, nil, err
	}
	if ends := pod.Status.Phase; pod.DeletionTimestamp == nil && ends != corev1.PodSucceeded &&
		ends != corev1.PodFailed && ends != corev1.PodPending {
		if err := s.spend(r, pod); err != nil {
			return 0, nil, err
		}
	}
	setCondition(pod, corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "EvictionByEvictionAPI",
		Message: "Eviction API: evicting", LastTransitionTime: metav1.Now(),
	})
	marked, err := podObject(pod)
	if err != nil {
		return 0, nil, err
	}
	s.remove(r, s.put(s.table(r.kind), was, marked, r.UserAgent()), options.GracePeriodSeconds)
	return http.StatusCreated, map[string]string{"kind": "Status", "apiVersion": "v1", "status": "Success"}, nil
}

// spend deducts one disruption from the pod's budget.
func (s *Server) spend(r *request, pod *corev1.Pod) error {
	t := s.table(kinds()[budgets])
	var held *record
	var budget policyv1.PodDisruptionBudget
	for _, x := range sorted(t.items) {
		var b policyv1.PodDisruptionBudget
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(x.object.Object, &b); err != nil {
			return badRequest("PodDisruptionBudget: %v", err)
		}
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err != nil || b.Namespace != pod.Namespace || !selector.Matches(labels.Set(pod.Labels)) {
			continue
		}
		if held != nil {
			return refusal(http.StatusInternalServerError, metav1.StatusReasonInternalError, r,
				"This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.")
		}
		held, budget = x, b
	}
	if held == nil {
		return nil
	}
	st := &budget.Status
	if !ready(pod) && (ptr.Deref(budget.Spec.UnhealthyPodEvictionPolicy, "") == policyv1.AlwaysAllow ||
		st.CurrentHealthy >= st.DesiredHealthy && st.DesiredHealthy > 0) {
		return nil
	}
	if st.ObservedGeneration < budget.Generation || len(st.DisruptedPods) > 2000 {
		return tooMany(r, "The disruption budget %s is still being processed by the server.", budget.Name)
	}
	if st.DisruptionsAllowed <= 0 {
		return tooMany(r, "The disruption budget %s needs %d healthy pods and has %d currently", budget.Name,
			st.DesiredHealthy, st.CurrentHealthy)
	}
	st.DisruptionsAllowed--
	if st.DisruptedPods == nil {
		st.DisruptedPods = map[string]metav1.Time{}
	}
	st.DisruptedPods[pod.Name] = metav1.Now()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&budget)
	if err != nil {
		return badRequest("PodDisruptionBudget: %v", err)
	}
	s.put(t, held, &unstructured.Unstructured{Object: content}, r.UserAgent())
	return nil
}

func ready(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

func tooMany(r *request, format string, args ...any) error {
	err := refusal(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, r,
		"Cannot evict pod as it would violate the pod's disruption budget.")
	var status *apierrors.StatusError
	if errors.As(err, &status) {
		status.ErrStatus.Details.Causes = []metav1.StatusCause{{
			Type:    policyv1.DisruptionBudgetCause,
			Message: fmt.Sprintf(format, args...),
		}}
	}
	return err
}
