package nodesim_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/nodeless/nodeless/controller/crds"
	"github.com/nodeless/nodeless/internal/kit/conditions"
	"github.com/nodeless/nodeless/plane/planetest"
	"github.com/nodeless/nodeless/region/nodesim"
)

// The environment of its aws-node pod configures a node's addresses. While that pod is being replaced, no pod of the
// node gets an address.
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

// The pod of aws-node becomes ready only once its node's pods can get addresses, like by its readiness probe on EKS.
// So a pod that is bound to the node then does not wait.
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

// A node whose VPC CNI is not running yet is not ready, as on EKS: no pod is bound to it that would take a
// DaemonSet's capacity or address.
func TestANodeIsReadyWhenItsCNIRuns(t *testing.T) {
	offerCNI(t, map[string]string{"role": "cold"})
	s := tell(t)
	meanwhile := make(chan *corev1.NodeCondition, 1)
	configuring.Store("i-cold", func() {
		node, err := s.api.CoreV1().Nodes().Get(context.Background(), "cold", metav1.GetOptions{})
		if err != nil {
			t.Error(err)
		}
		meanwhile <- conditions.OfNode(node, corev1.NodeReady)
	})
	s.boot("other") // the DaemonSet does not run there
	s.node("other", ready(corev1.ConditionTrue))
	s.boot("cold")
	c := <-meanwhile
	if c == nil || c.Status != corev1.ConditionFalse || c.Reason != "KubeletNotReady" ||
		!strings.Contains(c.Message, "cni plugin not initialized") {
		t.Errorf("while its CNI starts the node's condition is %+v", c)
	}
	now := conditions.OfNode(s.node("cold", ready(corev1.ConditionTrue)), corev1.NodeReady)
	if !now.LastHeartbeatTime.After(c.LastHeartbeatTime.Time) { // kube-controller-manager would go on to take it for not ready
		t.Errorf("its heartbeat is %v as before", now.LastHeartbeatTime)
	}
	planetest.Eventually(t, "an event of the node", func(ctx context.Context) error {
		list, err := s.api.CoreV1().Events(metav1.NamespaceDefault).List(ctx,
			metav1.ListOptions{FieldSelector: "involvedObject.name=cold,reason=NodeReady"})
		if err == nil && len(list.Items) != 1 {
			err = fmt.Errorf("%d of them", len(list.Items))
		}
		return err
	})
}

// A pod waits for its node's VPC CNI only as long as there is a DaemonSet that may still run it.
func TestAPodDoesNotWaitForADeletedCNI(t *testing.T) {
	offerCNI(t, map[string]string{"role": "bare"}, neverRuns)
	s := tell(t)
	s.boot("bare")
	s.node("bare", ready(corev1.ConditionFalse))
	waiting := s.pod("bare", corev1.PodPending, func(*corev1.Pod) {})
	s.pod("bare", corev1.PodRunning, func(p *corev1.Pod) { p.Spec.HostNetwork = true }) // needs no address
	err := s.api.AppsV1().DaemonSets("kube-system").Delete(t.Context(), "aws-node", metav1.DeleteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	planetest.Eventually(t, "the pod runs", func(ctx context.Context) error {
		p, err := s.api.CoreV1().Pods(s.namespace).Get(ctx, waiting.Name, metav1.GetOptions{})
		if err == nil && p.Status.Phase != corev1.PodRunning {
			err = fmt.Errorf("it is %s", p.Status.Phase)
		}
		return err
	})
}

// Otherwise ordinary pods could take kube-proxy's place on a new node, and one of them would have no address.
func TestTheCNIStartsAfterKubeProxy(t *testing.T) {
	offerCNI(t, map[string]string{"role": "proxied"})
	offerDaemon(t, "kube-proxy", map[string]string{"role": "proxied"}, neverRuns, func(d *appsv1.DaemonSet) {
		d.Spec.UpdateStrategy.Type = appsv1.OnDeleteDaemonSetStrategyType // it adopts the pod by-hand, and leaves it alone
	})
	s := tell(t)
	system := *s
	system.namespace = "kube-system"
	proxies := s.api.CoreV1().Pods("kube-system")
	meanwhile := make(chan corev1.PodPhase, 1)
	configuring.Store("i-proxied", func() {
		proxy, err := proxies.Get(context.Background(), "by-hand", metav1.GetOptions{})
		if err != nil {
			t.Error(err)
		}
		meanwhile <- proxy.Status.Phase
	})
	s.boot("proxied")
	s.node("proxied", ready(corev1.ConditionFalse))
	planetest.Eventually(t, "aws-node is on the node", func(ctx context.Context) error {
		on, err := proxies.List(ctx,
			metav1.ListOptions{LabelSelector: "k8s-app=aws-node", FieldSelector: "spec.nodeName=proxied"})
		if err == nil && len(on.Items) != 1 {
			err = fmt.Errorf("%d of its pods", len(on.Items))
		}
		return err
	})
	proxy := system.pod("proxied", corev1.PodRunning, func(p *corev1.Pod) {
		p.Name, p.Labels["k8s-app"], p.Spec.HostNetwork = "by-hand", "kube-proxy", true
	})
	t.Cleanup(func() {
		_ = proxies.Delete(context.Background(), proxy.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
	})
	s.node("proxied", ready(corev1.ConditionTrue))
	if phase := <-meanwhile; phase != corev1.PodRunning {
		t.Errorf("when the CNI started kube-proxy was %q", phase)
	}
}

// neverRuns keeps the pods of a DaemonSet from being scheduled.
func neverRuns(d *appsv1.DaemonSet) {
	d.Spec.Template.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/never"}}
}

// offerCNI creates the DaemonSet aws-node for nodes with these labels.
func offerCNI(t *testing.T, nodes map[string]string, change ...func(*appsv1.DaemonSet)) {
	t.Helper()
	offerDaemon(t, "aws-node", nodes, change...)
}

func offerDaemon(t *testing.T, name string, nodes map[string]string, change ...func(*appsv1.DaemonSet)) {
	t.Helper()
	api, err := kubernetes.NewForConfig(planetest.Start(t).RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	labels := map[string]string{"k8s-app": name}
	sets := api.AppsV1().DaemonSets("kube-system")
	set := &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				NodeSelector: nodes, HostNetwork: true,
				Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
				Containers:  []corev1.Container{{Name: name, Image: "i"}},
			}},
		},
	}
	for _, f := range change {
		f(set)
	}
	if _, err = sets.Create(t.Context(), set, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sets.Delete(context.Background(), name, metav1.DeleteOptions{}) })
}

// daemon runs a pod of aws-node on a node and waits until it is running.
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

// remove deletes a pod immediately.
func (s *story) remove(pod *corev1.Pod) {
	s.Helper()
	err := s.api.CoreV1().Pods(pod.Namespace).Delete(s.Context(), pod.Name,
		metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
	if err != nil {
		s.Fatal(err)
	}
}

// told waits for an event of a pod whose "COMPONENT: MESSAGE" contains the message.
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

// With custom networking a node whose ENIConfig cannot be used reports that, and tries again when pods start.
func TestANodeWaitsForItsENIConfig(t *testing.T) {
	s := tell(t)
	s.boot("custom")
	s.node("custom", ready(corev1.ConditionTrue))
	s.told(s.daemon("custom", "AWS_VPC_K8S_CNI_CUSTOM_NETWORK_CFG", "true"), "ENIConfigUnusable",
		`ENIConfig "default" does not exist; create it`)
}

// The VPC CNI of an EKS Auto Mode node takes subnets and security groups for pods from its NodeClass. Until it finds
// some, no pod gets an address.
func TestANodeTakesThePodNetworkOfItsNodeClass(t *testing.T) {
	s := tell(t)
	ctx := s.Context()
	kinds := crds.AutoMode()
	if err := crds.Apply(ctx, planetest.Start(t).RESTConfig(), kinds[len(kinds)-2:]); err != nil { // those of EKS
		t.Fatal(err)
	}
	create := func(name, more string) {
		t.Helper()
		body := `{"apiVersion":"eks.amazonaws.com/v1","kind":"NodeClass","metadata":{"name":"` + name + `"},"spec":{` +
			`"role":"r","subnetSelectorTerms":[{"id":"subnet-1"}],"securityGroupSelectorTerms":[{"id":"sg-1"}]` + more + `}}`
		if err := s.api.CoreV1().RESTClient().Post().AbsPath("/apis/eks.amazonaws.com/v1/nodeclasses").
			SetHeader("Content-Type", "application/json").Body([]byte(body)).Do(ctx).Error(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			path := "/apis/eks.amazonaws.com/v1/nodeclasses/" + name
			_ = s.api.CoreV1().RESTClient().Delete().AbsPath(path).Do(context.Background()).Error()
			configured.Delete("i-" + name)
			configured.Delete("i-" + name + "/network")
		})
	}
	create("plain", `,"advancedNetworking":{"ipv4PrefixSize":"32"}`)
	groups := `,"podSecurityGroupSelectorTerms":[{"id":"sg-pods"}]`
	create("isolated", groups+`,"podSubnetSelectorTerms":[{"id":"subnet-pods"}]`)
	create("lost", groups+`,"podSubnetSelectorTerms":[{"tags":{"a":"b"}}]`)
	prefixes := "{PrefixDelegation:true WarmENI:1 WarmIP:0 MinimumIP:0 WarmPrefix:1 MaxENI:0 CustomNetwork:true"
	single := "{PrefixDelegation:false WarmENI:0 WarmIP:1 MinimumIP:0 WarmPrefix:0 MaxENI:0 CustomNetwork:false"
	for id, test := range map[string]struct{ class, cni, network string }{
		"i-plain": {"plain", single, ""}, "i-isolated": {"isolated", prefixes, "subnet-pods true"},
		"i-lost": {"lost", prefixes, ""},
	} {
		m := instance("x")
		m.ID, m.Name, m.ProviderID = id, id, "aws:///a/"+id
		m.UserData = []byte("[settings.kubernetes]\ncluster-name = \"c\"\nmax-pods = 110\nhostname-override-source = " +
			"\"instance-id\"\n[settings.kubernetes.node-labels]\n\"eks.amazonaws.com/nodeclass\" = \"" + test.class + "\"\n")
		s.hall <- nodesim.Event{Kind: nodesim.Booted, Instance: m}
		planetest.Eventually(t, id+" is configured", func(context.Context) error {
			cni, _ := configured.Load(id)
			network, _ := configured.LoadOrStore(id+"/network", "")
			if text, _ := cni.(string); !strings.Contains(text, test.cni) || network != test.network {
				return fmt.Errorf("its CNI is %v in %v", cni, network)
			}
			return nil
		})
	}
}

// A node offers branch interfaces only once its pods can get addresses, so that pods which are bound because of them
// start at once.
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

// With ENABLE_POD_ENI a node offers branch interfaces, as its label says. A pod that requests one gets its address
// from it, in the security groups of the policies that select the pod. What EC2 rejects becomes an event of the pod.
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
