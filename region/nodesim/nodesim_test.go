package nodesim

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/nodeless/nodeless/catalog"
	"github.com/nodeless/nodeless/internal/kit/conditions"
)

const userData = `MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="//"

--//
Content-Type: text/x-shellscript; charset="us-ascii"

#!/bin/bash
echo a user's own script

--//
Content-Type: application/node.eks.aws

apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  cluster: {name: prod, apiServerEndpoint: https://127.0.0.1:1}
  kubelet:
    config:
      maxPods: 20
      registerWithTaints: [{key: karpenter.sh/unregistered, effect: NoExecute}]
      kubeReserved: {cpu: 100m, memory: 300Mi}
    flags: ["--node-labels=karpenter.sh/nodepool=general-purpose,team=data"]

--//--
`

func TestAnInstanceRegistersAsItsUserDataSays(t *testing.T) {
	k, err := parseUserData([]byte(userData))
	if err != nil {
		t.Fatal(err)
	}
	m := &Instance{
		ID: "i-1", ProviderID: "aws:///us-west-2a/i-1", Name: "ip-10-0-0-4", Type: typeNamed("m5.large"),
		Zone: "us-west-2a", Region: "us-west-2",
	}
	m.Labels = map[string]string{"eks-node-viewer/instance-price": "0.05"}
	node := newNode(m, k, metav1.Now())
	for key, want := range map[string]string{
		"karpenter.sh/nodepool": "general-purpose", "team": "data", "kubernetes.io/arch": "amd64",
		"node.kubernetes.io/instance-type": "m5.large", "topology.kubernetes.io/zone": "us-west-2a",
		"eks-node-viewer/instance-price": "0.05",
	} {
		if node.Labels[key] != want {
			t.Errorf("label %s is %q, want %q", key, node.Labels[key], want)
		}
	}
	if len(node.Spec.Taints) != 1 || node.Spec.Taints[0].Key != "karpenter.sh/unregistered" ||
		node.Spec.Taints[0].TimeAdded != nil {
		t.Errorf("taints %v, want the one of the user data", node.Spec.Taints)
	}
	if got := node.Status.Allocatable.Pods().Value(); got != 20 {
		t.Errorf("takes %d pods, want 20", got)
	}
	if got := node.Status.Allocatable.Cpu().MilliValue(); got != 1900 {
		t.Errorf("allocatable CPU %dm, want 1900m", got)
	}
	k.RootDisk = 100 << 30
	if got := newNode(m, k, metav1.Now()).Status.Capacity.StorageEphemeral().Value(); got != 100<<30 {
		t.Errorf("a root disk of 100 GiB gives %d bytes of ephemeral storage", got)
	}
	if !conditions.NodeReady(node) || node.Spec.ProviderID != m.ProviderID {
		t.Errorf("node is not ready or has provider id %q", node.Spec.ProviderID)
	}
}

// nodeadm passes flags to the kubelet, for which they override its configuration, in whatever part they are.
func TestFlagsOfTheKubeletOverrideItsConfiguration(t *testing.T) {
	first := `
Content-Type: application/node.eks.aws

kind: NodeConfig
spec:
  kubelet:
    flags:
    - --node-labels="rack=1,tier=a"
    - --max-pods=11
    - --register-with-taints=a=x:NoSchedule,b:NoExecute
    - --kube-reserved cpu=300m
    - --eviction-hard=memory.available<10%
    - --v=4
    - --image-gc-high-threshold
    - "75"

--//`
	k, err := parseUserData([]byte(strings.Replace(userData, "--//", "--//"+first, 1)))
	if err != nil {
		t.Fatal(err)
	}
	node := newNode(&Instance{Name: "ip-10-0-0-4", Type: typeNamed("m5.large")}, k, metav1.Now())
	for key, want := range map[string]string{"rack": "1", "tier": "a", "team": "data"} {
		if node.Labels[key] != want {
			t.Errorf("label %s is %q, want %q", key, node.Labels[key], want)
		}
	}
	want := []corev1.Taint{
		{Key: "a", Value: "x", Effect: corev1.TaintEffectNoSchedule}, {Key: "b", Effect: corev1.TaintEffectNoExecute},
	}
	if !slices.Equal(node.Spec.Taints, want) {
		t.Errorf("taints %v, want %v", node.Spec.Taints, want)
	}
	if a := node.Status.Allocatable; a.Pods().Value() != 11 || a.Cpu().MilliValue() != 1700 {
		t.Errorf("allocatable %v, want 11 pods and 1700m CPU", a)
	}
	if k.EvictionHard["memory.available"] != "10%" {
		t.Errorf("eviction-hard %v", k.EvictionHard)
	}
	_, err = parseUserData([]byte(strings.Replace(userData, "--node-labels=", "--max-pods=", 1)))
	if err == nil || !strings.Contains(err.Error(), "spec.kubelet.flags: --max-pods") {
		t.Errorf("flags that the kubelet refuses: %v", err)
	}
}

func TestABottlerocketInstanceRegistersAsItsSettingsSay(t *testing.T) {
	k, err := parseUserData([]byte(`[settings.ntp]
time-servers = ["x"]

[settings.kubernetes]
api-server = "https://127.0.0.1:1"
cluster-name = "prod"
max-pods = 20

[settings.kubernetes.kube-reserved]
"cpu" = "100m"

[settings.kubernetes.node-labels]
"karpenter.sh/nodepool" = "general-purpose"

[settings.kubernetes.node-taints]
"a" = "x:NoSchedule"
"karpenter.sh/unregistered" = [":NoExecute"]
`))
	if err != nil {
		t.Fatal(err)
	}
	node := newNode(&Instance{Name: "ip-10-0-0-4", Type: typeNamed("m5.large")}, k, metav1.Now())
	want := []corev1.Taint{
		{Key: "a", Value: "x", Effect: corev1.TaintEffectNoSchedule},
		{Key: "karpenter.sh/unregistered", Effect: corev1.TaintEffectNoExecute},
	}
	if !slices.Equal(node.Spec.Taints, want) {
		t.Errorf("taints %v, want %v", node.Spec.Taints, want)
	}
	if node.Labels["karpenter.sh/nodepool"] != "general-purpose" || node.Status.Allocatable.Pods().Value() != 20 ||
		node.Status.Allocatable.Cpu().MilliValue() != 1900 ||
		!strings.HasPrefix(node.Status.NodeInfo.OSImage, "Bottlerocket") {
		t.Errorf("the node is %+v", node)
	}
}

func TestUserDataThatJoinsNoCluster(t *testing.T) {
	for name, data := range map[string]string{
		"empty":           "",
		"a script":        "#!/bin/bash\necho hello\n",
		"no cluster":      "kind: NodeConfig\nspec: {}\n",
		"broken MIME":     "Content-Type: multipart/mixed; boundary=x\n\n--x\nno end",
		"not even a type": "multipart/mixed",
		"other settings":  "[settings.kubernetes]\napi-server = \"x\"\n",
		"a taint":         "[settings.kubernetes]\ncluster-name = \"c\"\n[settings.kubernetes.node-taints]\n\"a\" = \"NoSchedule\"\n",
		"Amazon Linux 2":  "#!/bin/bash\n/etc/eks/bootstrap.sh prod\n",
	} {
		if _, err := parseUserData([]byte(data)); err == nil || !strings.Contains(err.Error(), "user data") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

func pod(mutate func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{Spec: corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever,
		Containers:    []corev1.Container{{Name: "app"}},
	}}
	mutate(p)
	return p
}

func TestHowLongAPodRuns(t *testing.T) {
	for name, tc := range map[string]struct {
		pod  *corev1.Pod
		want time.Duration
		ends bool
	}{
		"a server": {pod(func(p *corev1.Pod) { p.Spec.RestartPolicy = corev1.RestartPolicyAlways }), 0, false},
		"a job":    {pod(func(*corev1.Pod) {}), 2 * time.Second, true},
		"sleep 5": {pod(func(p *corev1.Pod) {
			p.Spec.Containers[0].Command = []string{
				"sh", "-c",
				"echo hi && sleep 5; exit 0",
			}
		}), 5 * time.Second, true},
		"sleep infinity": {
			pod(func(p *corev1.Pod) { p.Spec.Containers[0].Args = []string{"sleep", "infinity"} }),
			forever, true,
		},
		"annotation": {
			pod(func(p *corev1.Pod) { p.Annotations = map[string]string{AnnotationRunFor: "90s"} }),
			90 * time.Second, true,
		},
		"annotation wrong": {
			pod(func(p *corev1.Pod) { p.Annotations = map[string]string{AnnotationRunFor: "soon"} }),
			2 * time.Second, true,
		},
	} {
		if got, ends := runTime(tc.pod); got != tc.want || ends != tc.ends {
			t.Errorf("%s: %s %t, want %s %t", name, got, ends, tc.want, tc.ends)
		}
	}
	stops := pod(func(p *corev1.Pod) {
		p.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 7}}}
	})
	if got := stopTime(stops); got != 7*time.Second {
		t.Errorf("a preStop sleep of 7 s takes %s", got)
	}
}

func TestStatusOfAPod(t *testing.T) {
	now := metav1.Now()
	p := pod(func(p *corev1.Pod) {
		p.Spec.InitContainers = []corev1.Container{
			{Name: "setup"},
			{Name: "sidecar", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)},
		}
		p.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "example.com/ready"}}
	})
	p.Status = runningStatus(p, "10.0.0.4", "10.0.0.9", now)
	if p.Status.Phase != corev1.PodRunning || p.Status.PodIP != "10.0.0.9" || len(p.Status.ContainerStatuses) != 1 {
		t.Errorf("status %+v", p.Status)
	}
	if s := p.Status.InitContainerStatuses; s[0].State.Terminated == nil || s[1].State.Running == nil {
		t.Errorf("init containers %+v, want the first ended and the sidecar running", s)
	}
	if conditions.PodReady(p) {
		t.Error("ready with a closed readiness gate")
	}
	p.Status.Conditions = append(p.Status.Conditions,
		corev1.PodCondition{Type: "example.com/ready", Status: corev1.ConditionTrue})
	p.Status.Conditions = setReady(p, p.Status.Conditions, now)
	if !conditions.PodReady(p) {
		t.Error("not ready with an open readiness gate")
	}
	if after := endedStatus(p, now); after.Phase != corev1.PodSucceeded ||
		after.ContainerStatuses[0].State.Terminated == nil {
		t.Errorf("ended status %+v", after)
	}
}

func typeNamed(name string) *catalog.Type {
	t, _ := catalog.Lookup(name)
	return t
}

// A Node that no controller adopts is ready in the end, as a kubelet's is.
func TestANodeDoesNotAwaitItsAdoptionForEver(t *testing.T) {
	registered := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	node := &corev1.Node{}
	node.Status.Conditions = kubeletConditions(metav1.NewTime(registered), true)
	if awaitsAdoption(node, registered) {
		t.Error("a Node without the taint waits")
	}
	node.Spec.Taints = []corev1.Taint{{Key: "karpenter.sh/unregistered", Effect: corev1.TaintEffectNoExecute}}
	if !awaitsAdoption(node, registered.Add(adoptionTime-1)) || awaitsAdoption(node, registered.Add(adoptionTime)) {
		t.Error("a Node with the taint waits for another time than adoptionTime")
	}
}
