package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/nodeless/nodeless/lab/process"
)

// furnish sets the cluster up as the suites expect it: Karpenter's own CRDs, no pools, and one tainted node with the
// controller's pod.
func (c *cluster) furnish(ctx context.Context) error {
	cfg, err := c.config()
	if err != nil {
		return err
	}
	typed, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return err
	}
	objects, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return err
	}
	if err := c.define(ctx, objects); err != nil {
		return err
	}
	if err := empty(ctx, objects); err != nil {
		return err
	}
	return c.seat(ctx, typed)
}

// define replaces the CRDs with those of the module that the suites belong to.
func (c *cluster) define(ctx context.Context, objects dynamic.Interface) error {
	list := exec.CommandContext(ctx, "go", "list", "-C", filepath.Join(c.o.Root, "lab", "conformance"), "-m", "-f",
		"{{.Dir}}", "sigs.k8s.io/karpenter")
	out, err := list.Output()
	if err != nil {
		return fmt.Errorf("find Karpenter's definitions: %w", err)
	}
	module := strings.TrimSpace(string(out))
	var files []string
	for _, dir := range []string{"kwok/charts/crds", "kwok/apis/crds"} {
		found, err := filepath.Glob(filepath.Join(module, dir, "*.yaml"))
		if err != nil || len(found) == 0 {
			return fmt.Errorf("no definitions in %s: %w", filepath.Join(module, dir), errors.Join(err, os.ErrNotExist))
		}
		files = append(files, found...)
	}
	crds := objects.Resource(schema.GroupVersionResource{
		Group: "apiextensions.k8s.io", Version: "v1",
		Resource: "customresourcedefinitions",
	})
	for _, f := range files {
		want := &unstructured.Unstructured{}
		if err := readYAML(f, want); err != nil {
			return err
		}
		if err := replace(ctx, crds, want); err != nil {
			return fmt.Errorf("definition %s: %w", want.GetName(), err)
		}
		if err := c.served(ctx, objects, want); err != nil {
			return err
		}
	}
	return nil
}

// served waits until the API server serves the resources of a CRD: a controller that starts earlier would not watch
// them.
func (c *cluster) served(ctx context.Context, objects dynamic.Interface, definition *unstructured.Unstructured) error {
	group, _, _ := unstructured.NestedString(definition.Object, "spec", "group")
	plural, _, _ := unstructured.NestedString(definition.Object, "spec", "names", "plural")
	versions, _, _ := unstructured.NestedSlice(definition.Object, "spec", "versions")
	for _, v := range versions {
		version, _ := v.(map[string]any)
		if on, _ := version["served"].(bool); !on {
			continue
		}
		name, _ := version["name"].(string)
		kind := objects.Resource(schema.GroupVersionResource{Group: group, Version: name, Resource: plural})
		err := process.Await(ctx, plural+" to be served", c.up, func(ctx context.Context) error {
			_, err := kind.List(ctx, metav1.ListOptions{Limit: 1})
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func readYAML(path string, into *unstructured.Unstructured) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := yaml.Unmarshal(raw, &into.Object); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// replace creates an object or replaces the existing one.
func replace(ctx context.Context, kind dynamic.ResourceInterface, want *unstructured.Unstructured) error {
	have, err := kind.Get(ctx, want.GetName(), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		_, err = kind.Create(ctx, want, metav1.CreateOptions{})
	case err == nil:
		want.SetResourceVersion(have.GetResourceVersion())
		_, err = kind.Update(ctx, want, metav1.UpdateOptions{})
	}
	return err
}

// empty deletes the default pools and classes that `nodeless up` creates.
func empty(ctx context.Context, objects dynamic.Interface) error {
	for _, kind := range []schema.GroupVersionResource{
		{Group: "karpenter.sh", Version: "v1", Resource: "nodepools"},
		{Group: "karpenter.k8s.aws", Version: "v1", Resource: "ec2nodeclasses"},
	} {
		err := objects.Resource(kind).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
		if err != nil {
			return fmt.Errorf("delete %s: %w", kind.Resource, err)
		}
	}
	return nil
}

// seat creates the node system-0 with the controller's pod, and keeps renewing the node's lease.
func (c *cluster) seat(ctx context.Context, client kubernetes.Interface) error {
	if _, err := client.CoreV1().Nodes().Create(ctx, systemNode(), metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("node %s: %w", systemNodeName, err)
	}
	var pod *corev1.Pod
	// the ServiceAccount may not exist yet
	err := process.Await(ctx, "pod "+podName, c.up, func(ctx context.Context) (err error) {
		pod, err = client.CoreV1().Pods(metav1.NamespaceSystem).Create(ctx, controllerPod(), metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return err
	}
	pod.Status = runningStatus()
	if _, err := client.CoreV1().Pods(metav1.NamespaceSystem).UpdateStatus(ctx, pod, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("pod %s: %w", podName, err)
	}
	if err := beat(ctx, client); err != nil {
		return err
	}
	go func() {
		for range time.Tick(10 * time.Second) {
			_ = beat(context.Background(), client) // the next one may succeed
		}
	}()
	return nil
}

// beat renews the node's lease, without which the control plane would consider the node lost after 50 s.
func beat(ctx context.Context, client kubernetes.Interface) error {
	leases := client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	now := metav1.NewMicroTime(time.Now())
	lease, err := leases.Get(ctx, systemNodeName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = leases.Create(ctx, &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: systemNodeName},
			Spec: coordinationv1.LeaseSpec{
				HolderIdentity:       ptr.To(systemNodeName),
				LeaseDurationSeconds: ptr.To[int32](40), RenewTime: &now,
			},
		}, metav1.CreateOptions{})
		return err
	}
	if err != nil {
		return err
	}
	lease.Spec.RenewTime = &now
	_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
	return err
}

const systemNodeName = "system-0"

// systemNode has the taint of the only node in Karpenter's CI.
func systemNode() *corev1.Node {
	now := metav1.Now()
	amounts := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("32Gi"),
		corev1.ResourcePods: resource.MustParse("110"),
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: systemNodeName, Labels: map[string]string{
			corev1.LabelHostname: systemNodeName, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64",
		}},
		Spec: corev1.NodeSpec{Taints: []corev1.Taint{{
			Key: "CriticalAddonsOnly", Value: "true",
			Effect: corev1.TaintEffectNoSchedule,
		}}},
		Status: corev1.NodeStatus{
			Capacity: amounts, Allocatable: amounts,
			Conditions: []corev1.NodeCondition{{
				Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", LastHeartbeatTime: now,
				LastTransitionTime: now,
			}},
			Addresses:       []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: controllerIP.String()}},
			DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: kubeletPort}},
		},
	}
}

func controllerPod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: podName, Labels: map[string]string{
			"app.kubernetes.io/instance": "karpenter", "app.kubernetes.io/name": "karpenter",
		}},
		Spec: corev1.PodSpec{
			NodeName: systemNodeName, HostNetwork: true, PriorityClassName: "system-cluster-critical",
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			Containers:  []corev1.Container{{Name: "controller", Image: "nodeless"}},
		},
	}
}

func runningStatus() corev1.PodStatus {
	now := metav1.Now()
	status := corev1.PodStatus{
		Phase: corev1.PodRunning, HostIP: controllerIP.String(), PodIP: controllerIP.String(),
		PodIPs: []corev1.PodIP{{IP: controllerIP.String()}}, StartTime: &now,
		ContainerStatuses: []corev1.ContainerStatus{{
			Name: "controller", Image: "nodeless", Ready: true, Started: ptr.To(true),
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
		}},
	}
	for _, t := range []corev1.PodConditionType{
		corev1.PodScheduled, corev1.PodInitialized, corev1.ContainersReady,
		corev1.PodReady,
	} {
		status.Conditions = append(status.Conditions,
			corev1.PodCondition{Type: t, Status: corev1.ConditionTrue, LastTransitionTime: now})
	}
	return status
}
