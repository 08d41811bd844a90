package nodesim_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodeless/nodeless/controller/crds"
	"github.com/nodeless/nodeless/plane/planetest"
)

// A node's addresses are as the environment of its pod of aws-node says. While that pod is being replaced, no pod of
// the node gets an address.
func TestTheEnvironmentOfAWSNodeConfiguresItsNode(t *testing.T) {
	s := tell(t)
	s.boot("cni")
	s.node("cni", ready(corev1.ConditionTrue))
	told := func(want string) {
		t.Helper()
		planetest.Eventually(t, "the CNI is told "+want, func(context.Context) error {
			if got, _ := configured.Load("i-cni"); got == nil || !strings.Contains(got.(string), want) {
				return fmt.Errorf("it was told %v", got)
			}
			return nil
		})
	}
	old := s.daemon("cni", "WARM_IP_TARGET", "2")
	told("WarmIP:2")
	told("for 29 pods")

	s.remove(old)
	waiting := s.pod("cni", corev1.PodPending, func(*corev1.Pod) {})
	s.told(waiting, "FailedCreatePodSandBox", "connection refused")
	s.daemon("cni", "WARM_IP_TARGET", "7")
	told("WarmIP:7")
	planetest.Eventually(t, "the pod runs", func(ctx context.Context) error {
		p, err := s.api.CoreV1().Pods(s.namespace).Get(ctx, waiting.Name, metav1.GetOptions{})
		if err == nil && p.Status.Phase != corev1.PodRunning {
			err = fmt.Errorf("it is %s", p.Status.Phase)
		}
		return err
	})
}

// The pod of aws-node is ready when its node's pods get addresses and not before, as by its readiness probe on EKS: a
// pod that comes to the node then does not wait.
func TestAWSNodeIsReadyWhenThereAreAddresses(t *testing.T) {
	s := tell(t)
	s.boot("probe")
	s.node("probe", ready(corev1.ConditionTrue))
	early := make(chan string, 1)
	configuring.Store("i-probe", func() {
		list, err := s.api.CoreV1().Pods("kube-system").List(context.Background(), metav1.ListOptions{
			FieldSelector: "spec.nodeName=probe",
		})
		if err != nil || len(list.Items) != 1 {
			early <- fmt.Sprint(list, err)
			return
		}
		early <- string(list.Items[0].Status.Phase)
	})
	s.daemon("probe", "WARM_IP_TARGET", "2")
	if phase := <-early; phase != string(corev1.PodPending) {
		t.Errorf("while the CNI is configured its pod is %s, want Pending", phase)
	}
}

// daemon puts a pod of aws-node on a node and waits until it runs.
func (s *story) daemon(node, variable, value string) *corev1.Pod {
	s.Helper()
	system := *s
	system.namespace = "kube-system"
	s.Cleanup(func() {
		_ = s.api.CoreV1().Pods("kube-system").DeleteCollection(context.Background(), metav1.DeleteOptions{},
			metav1.ListOptions{})
	})
	return system.pod(node, corev1.PodRunning, func(p *corev1.Pod) {
		p.Labels["k8s-app"] = "aws-node"
		p.Spec.HostNetwork = true
		p.Spec.Containers[0].Name = "aws-node"
		p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: variable, Value: value}}
	})
}

// remove deletes a pod at once.
func (s *story) remove(pod *corev1.Pod) {
	s.Helper()
	err := s.api.CoreV1().Pods(pod.Namespace).Delete(s.Context(), pod.Name,
		metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
	if err != nil {
		s.Fatal(err)
	}
}

// told waits for an event of a pod, as "COMPONENT: MESSAGE" has it.
func (s *story) told(pod *corev1.Pod, reason, message string) {
	s.Helper()
	planetest.Eventually(s.T, "an event "+reason, func(ctx context.Context) error {
		list, err := s.api.CoreV1().Events(pod.Namespace).List(ctx,
			metav1.ListOptions{FieldSelector: "involvedObject.name=" + pod.Name})
		if err != nil {
			return err
		}
		for _, e := range list.Items {
			if e.Reason == reason && strings.Contains(e.Source.Component+": "+e.Message, message) {
				return nil
			}
		}
		return fmt.Errorf("%d events", len(list.Items))
	})
}

// Under custom networking a node whose ENIConfig cannot be used says so, and looks again when pods start.
func TestANodeWaitsForItsENIConfig(t *testing.T) {
	s := tell(t)
	s.boot("custom")
	s.node("custom", ready(corev1.ConditionTrue))
	s.told(s.daemon("custom", "AWS_VPC_K8S_CNI_CUSTOM_NETWORK_CFG", "true"), "ENIConfigUnusable",
		`ENIConfig "default" does not exist; create it`)
}

// A node offers branch interfaces only when its pods get addresses: the pods that this brings start at once.
func TestATrunkComesAfterTheAddresses(t *testing.T) {
	s := tell(t)
	s.boot("late")
	s.node("late", ready(corev1.ConditionTrue))
	s.remove(s.daemon("late", "ENABLE_POD_ENI", "false"))
	s.told(s.pod("late", corev1.PodPending, func(*corev1.Pod) {}), "FailedCreatePodSandBox", "connection refused")
	brought := make(chan *corev1.Pod, 1)
	attaching.Store("i-late", func() {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "brought", Namespace: s.namespace},
			Spec:       corev1.PodSpec{NodeName: "late", Containers: []corev1.Container{{Name: "c", Image: "i"}}},
		}
		pods := s.api.CoreV1().Pods(s.namespace)
		_, err := pods.Create(context.Background(), pod, metav1.CreateOptions{})
		for err == nil && len(pod.Status.ContainerStatuses) == 0 {
			pod, err = pods.Get(context.Background(), pod.Name, metav1.GetOptions{})
		}
		if err != nil {
			t.Error(err)
		}
		brought <- pod
	})
	s.daemon("late", "ENABLE_POD_ENI", "true")
	if pod := <-brought; pod.Status.Phase != corev1.PodRunning {
		t.Errorf("the pod waits: %+v", pod.Status.ContainerStatuses)
	}
}

// With ENABLE_POD_ENI a node offers branch interfaces, as its label says, and a pod that asks for one has its address
// from it, in the security groups of the policies that select it. What EC2 refuses is an event of the pod.
func TestPodsHaveInterfacesOfTheirOwn(t *testing.T) {
	s := tell(t)
	if err := crds.Apply(t.Context(), planetest.Start(t).RESTConfig(), crds.VPCCNI()); err != nil {
		t.Fatal(err)
	}
	policy := func(name, app, group string) {
		t.Helper()
		err := s.api.CoreV1().RESTClient().Post().
			AbsPath("/apis/vpcresources.k8s.aws/v1beta1/namespaces/"+s.namespace+"/securitygrouppolicies").
			SetHeader("Content-Type", "application/json").SetHeader("Accept", "application/json").
			Body(fmt.Appendf(nil, `{"apiVersion": "vpcresources.k8s.aws/v1beta1", "kind": "SecurityGroupPolicy", "metadata": {"name": %q},
				"spec": {"podSelector": {"matchLabels": {"app": %q}}, "securityGroups": {"groupIds": [%q]}}}`, name, app, group)).
			Do(t.Context()).Error()
		if err != nil {
			t.Fatal(err)
		}
	}
	policy("web", "web", "sg-web")
	policy("lost", "lost", "sg-missing")
	s.boot("trunk")
	node := s.node("trunk", ready(corev1.ConditionTrue))
	if q := node.Status.Allocatable["vpc.amazonaws.com/pod-eni"]; !q.IsZero() {
		t.Errorf("without a trunk the node offers %s branch interfaces", &q)
	}
	s.daemon("trunk", "ENABLE_POD_ENI", "true")
	s.node("trunk", func(n *corev1.Node) error {
		q := n.Status.Allocatable["vpc.amazonaws.com/pod-eni"]
		if q.Value() != 9 || n.Labels["vpc.amazonaws.com/has-trunk-attached"] != "true" {
			return fmt.Errorf("it offers %s branch interfaces, labels %v", &q, n.Labels)
		}
		return nil
	})
	raw, err := s.api.CoreV1().RESTClient().Get().AbsPath("/apis/vpcresources.k8s.aws/v1alpha1/cninodes/trunk").
		SetHeader("Accept", "application/json").DoRaw(t.Context())
	if err != nil || !strings.Contains(string(raw), `"features":[{"name":"SecurityGroupsForPods"}]`) {
		t.Errorf("CNINode %s, %v", raw, err)
	}
	one := corev1.ResourceList{"vpc.amazonaws.com/pod-eni": resource.MustParse("1")}
	asks := func(app string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Labels["app"] = app
			p.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: one, Limits: one}
		}
	}
	web := s.pod("trunk", corev1.PodRunning, asks("web"))
	if web.Status.PodIP != "10.1.2.2" || !strings.Contains(web.Annotations["vpc.amazonaws.com/pod-eni"],
		`[{"eniId":"eni-1","ifAddress":"","privateIp":"10.1.2.2"`) {
		t.Errorf("pod at %s, annotations %v", web.Status.PodIP, web.Annotations)
	}
	s.told(web, "SecurityGroupRequested", "vpc-resource-controller: Pod will get the following Security Groups [sg-web]")
	s.told(web, "ResourceAllocated", `vpc-resource-controller: Allocated [{"eniId":"eni-1"`)
	s.told(s.pod("trunk", corev1.PodPending, asks("lost")), "BranchAllocationFailed", "'sg-missing' does not exist")
}
