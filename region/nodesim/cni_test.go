package nodesim_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodeless/nodeless/plane/planetest"
)

// A node's addresses are as the environment of its pod of aws-node says. While that pod is being replaced, no pod of
// the node gets an address.
func TestTheEnvironmentOfAWSNodeConfiguresItsNode(t *testing.T) {
	s := tell(t)
	s.boot("cni")
	s.node("cni", ready(corev1.ConditionTrue))
	s.namespace = "kube-system"
	t.Cleanup(func() {
		_ = s.api.CoreV1().Pods("kube-system").DeleteCollection(context.Background(), metav1.DeleteOptions{},
			metav1.ListOptions{})
	})
	daemon := func(value string) *corev1.Pod {
		return s.pod("cni", corev1.PodRunning, func(p *corev1.Pod) {
			p.Labels["k8s-app"] = "aws-node"
			p.Spec.HostNetwork = true
			p.Spec.Containers[0].Name = "aws-node"
			p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "WARM_IP_TARGET", Value: value}}
		})
	}
	told := func(want string) {
		t.Helper()
		planetest.Eventually(t, "the CNI is told "+want, func(context.Context) error {
			if got, _ := configured.Load("i-cni"); got == nil || !strings.Contains(got.(string), want) {
				return fmt.Errorf("it was told %v", got)
			}
			return nil
		})
	}
	old := daemon("2")
	told("WarmIP:2")
	told("for 29 pods")

	pods := s.api.CoreV1().Pods("kube-system")
	now := int64(0)
	if err := pods.Delete(t.Context(), old.Name, metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
		t.Fatal(err)
	}
	waiting := s.pod("cni", corev1.PodPending, func(*corev1.Pod) {})
	planetest.Eventually(t, "the pod says why it waits", func(ctx context.Context) error {
		list, err := s.api.CoreV1().Events("kube-system").List(ctx,
			metav1.ListOptions{FieldSelector: "involvedObject.name=" + waiting.Name})
		if err != nil {
			return err
		}
		for _, e := range list.Items {
			if e.Reason == "FailedCreatePodSandBox" && strings.Contains(e.Message, "connection refused") {
				return nil
			}
		}
		return fmt.Errorf("%d events", len(list.Items))
	})
	daemon("7")
	told("WarmIP:7")
	planetest.Eventually(t, "the pod runs", func(ctx context.Context) error {
		p, err := pods.Get(ctx, waiting.Name, metav1.GetOptions{})
		if err == nil && p.Status.Phase != corev1.PodRunning {
			err = fmt.Errorf("it is %s", p.Status.Phase)
		}
		return err
	})
}

// Under custom networking a node whose ENIConfig cannot be used says so, and looks again when pods start.
func TestANodeWaitsForItsENIConfig(t *testing.T) {
	s := tell(t)
	s.boot("custom")
	s.node("custom", ready(corev1.ConditionTrue))
	s.namespace = "kube-system"
	t.Cleanup(func() {
		_ = s.api.CoreV1().Pods("kube-system").DeleteCollection(context.Background(), metav1.DeleteOptions{},
			metav1.ListOptions{})
	})
	daemon := s.pod("custom", corev1.PodRunning, func(p *corev1.Pod) {
		p.Labels["k8s-app"] = "aws-node"
		p.Spec.HostNetwork = true
		p.Spec.Containers[0].Name = "aws-node"
		p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "AWS_VPC_K8S_CNI_CUSTOM_NETWORK_CFG", Value: "true"}}
	})
	planetest.Eventually(t, "an event says what is missing", func(ctx context.Context) error {
		list, err := s.api.CoreV1().Events("kube-system").List(ctx,
			metav1.ListOptions{FieldSelector: "involvedObject.name=" + daemon.Name})
		if err != nil {
			return err
		}
		for _, e := range list.Items {
			if e.Reason == "ENIConfigUnusable" && strings.Contains(e.Message, `ENIConfig "default" does not exist; create it`) {
				return nil
			}
		}
		return fmt.Errorf("%d events", len(list.Items))
	})
}
