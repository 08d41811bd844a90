package capture_test

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodeless/nodeless/engine"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/explain/capture"
)

// listed is an example of what `kubectl get nodes,pods,nodepools,ec2nodeclasses,secrets -o yaml` writes.
const listed = `apiVersion: v1
items:
- apiVersion: karpenter.sh/v1
  kind: NodePool
  metadata: {name: general, uid: p, creationTimestamp: "2026-11-01T10:00:00Z"}
  spec:
    disruption: {consolidateAfter: 0s}
    template:
      spec:
        nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
        requirements: []
- apiVersion: karpenter.k8s.aws/v1
  kind: EC2NodeClass
  metadata: {name: default, uid: c}
  spec:
    role: nodes
    amiSelectorTerms: [{alias: al2023@latest}]
    subnetSelectorTerms: [{tags: {a: b}}]
    securityGroupSelectorTerms: [{tags: {a: b}}]
- apiVersion: v1
  kind: Node
  metadata: {name: n1, uid: n-1, labels: {topology.kubernetes.io/zone: eu-west-1a, node.kubernetes.io/instance-type: m5.large}}
  status:
    allocatable: {cpu: "2", memory: 8Gi, pods: "29"}
    conditions: [{type: Ready, status: "True", lastTransitionTime: "2026-11-02T10:00:00Z", lastHeartbeatTime: "2026-11-03T10:00:00Z"}]
- apiVersion: v1
  kind: Pod
  metadata: {name: web, namespace: shop, uid: w}
  spec:
    containers:
    - {name: c, image: i, resources: {requests: {cpu: "4"}}, env: [{name: PASSWORD, value: hunter2}]}
- apiVersion: v1
  kind: Secret
  metadata: {name: key, namespace: shop}
  data: {key: aHVudGVyMg==}
- apiVersion: example.com/v1
  kind: Widget
  metadata: {name: w}
kind: List
metadata: {}
`

func TestADumpOfKubectlIsACluster(t *testing.T) {
	c, err := capture.Load(t.Context(), strings.NewReader(listed), "cluster.yaml", capture.Options{Keep: true})
	if err != nil {
		t.Fatal(err)
	}
	s := c.Snapshot()
	if got := s.Now.UTC().Format("2006-01-02"); got != "2026-11-03" {
		t.Errorf("the dump is taken to be of %s", got)
	}
	if len(s.Pools) != 1 || len(s.Pools[0].Types) < 500 || len(s.Nodes) != 1 || len(s.Pending) != 1 {
		t.Fatalf("%d pools, %d nodes, %d pods wait", len(s.Pools), len(s.Nodes), len(s.Pending))
	}
	if plan := engine.Provision(s, model.Policy{}); len(plan.Launches) != 1 {
		t.Errorf("the plan is %+v", plan)
	}
	if said := c.Skipped(); !strings.Contains(said, "1 Secret") || !strings.Contains(said, "1 Widget") {
		t.Errorf("it says of what was passed over: %q", said)
	}
	for _, o := range c.Objects() {
		if text, _ := json.Marshal(o); strings.Contains(string(text), "hunter2") {
			t.Errorf("a password is kept: %s", text)
		}
	}
	if _, err := c.Events(t.Context(), "shop", "web"); err == nil {
		t.Error("a dump tells events")
	}
}

func TestADumpThatIsNotWholeIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		listed[:strings.Index(listed,
			"kind: List")]: "cluster.yaml: line 38: the file ends in the middle",
		"apiVersion: nodeless.sh/v1alpha1\nkind: Capture\n---\napiVersion: v1\nkind: Node\nmetadata: {name: a}\n":                                                          "not written to its end",
		"apiVersion: nodeless.sh/v1alpha1\nkind: Capture\n---\napiVersion: nodeless.sh/v1alpha1\nkind: CaptureEnd\nobjects: 3\n":                                           "says that it holds 3 objects, and there are 0",
		"apiVersion: v1\nkind: Secret\nmetadata: {name: a}\n":                                                                                                              "1 Secret",
		"apiVersion: v1\nkind: Node\nmetadata: {}\n":                                                                                                                       "line 1: Node without metadata.name",
		"apiVersion: v1\nkind: Node\nmetadata: {name: a}\nspec: {unschedulable: maybe}\n":                                                                                  "line 1: Node a:",
		"apiVersion: nodeless.sh/v1alpha1\nkind: Capture\n---\napiVersion: nodeless.sh/v1alpha1\nkind: CaptureEnd\n---\napiVersion: v1\nkind: Node\nmetadata: {name: a}\n": "line 7: Node a stands below the end",
	} {
		if _, err := capture.Load(t.Context(), strings.NewReader(text), "cluster.yaml", capture.Options{}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q for\n%s", err, want, text)
		}
	}
}

// A capture contains nothing confidential, and everything that decisions depend on.
func TestACaptureHoldsNoSecrets(t *testing.T) {
	data := "token=s3cr3t"
	spec := corev1.PodSpec{
		Containers: []corev1.Container{{
			Name: "c", Image: "s3cr3t", Args: []string{data},
			Env: []corev1.EnvVar{{Name: "A", Value: data}},
		}},
		Volumes: []corev1.Volume{
			{Name: "s", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s3cr3t"}}},
			{Name: "d", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}},
			{Name: "i", VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{
				Driver:           "ebs",
				VolumeAttributes: map[string]string{"a": data},
			}}},
			{Name: "e", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{
				VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{
					ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"team/token": data}},
					Spec:       corev1.PersistentVolumeClaimSpec{StorageClassName: new("fast-ssd")},
				},
			}}},
		},
		ImagePullSecrets: []corev1.LocalObjectReference{{Name: "s3cr3t"}},
		NodeSelector:     map[string]string{"disk": "fast"},
	}
	opaque := resourcev1.DeviceConfiguration{Opaque: &resourcev1.OpaqueDeviceConfiguration{
		Driver: "gpu", Parameters: runtime.RawExtension{Raw: []byte(`{"token":"s3cr3t"}`)},
	}}
	claim := resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{
		Config: []resourcev1.DeviceClaimConfiguration{{DeviceConfiguration: opaque}},
	}}
	secret := map[string]string{
		"kubectl.kubernetes.io/last-applied-configuration": data,
		"karpenter.sh/do-not-disrupt":                      "true", "team/token": data,
	}
	for name, o := range map[string]client.Object{
		"pod": &corev1.Pod{
			Spec:   spec,
			Status: corev1.PodStatus{Phase: corev1.PodRunning, Message: data, PodIP: "s3cr3t"},
		},
		"daemonset": &appsv1.DaemonSet{Spec: appsv1.DaemonSetSpec{Template: corev1.PodTemplateSpec{Spec: spec}}},
		"class":     &ec2v1.EC2NodeClass{Spec: ec2v1.EC2NodeClassSpec{UserData: &data}},
		"storage":   &storagev1.StorageClass{Parameters: map[string]string{"key": data}},
		"volume": &corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: corev1.PersistentVolumeSource{
			CSI: &corev1.CSIPersistentVolumeSource{
				Driver: "ebs", VolumeHandle: "vol-1",
				VolumeAttributes: map[string]string{"a": data},
			},
		}}},
		"deviceclass": &resourcev1.DeviceClass{Spec: resourcev1.DeviceClassSpec{
			Config: []resourcev1.DeviceClassConfiguration{{DeviceConfiguration: opaque}},
		}},
		"template": &resourcev1.ResourceClaimTemplate{Spec: resourcev1.ResourceClaimTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"team/token": data}}, Spec: claim,
		}},
		"claim": &resourcev1.ResourceClaim{Spec: claim, Status: resourcev1.ResourceClaimStatus{
			Allocation: &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{
				Config: []resourcev1.DeviceAllocationConfiguration{{DeviceConfiguration: opaque}},
			}},
			Devices: []resourcev1.AllocatedDeviceStatus{{
				Conditions: []metav1.Condition{{Type: "Ready", Message: data}}, Data: &opaque.Opaque.Parameters,
				NetworkData: &resourcev1.NetworkDeviceData{HardwareAddress: "s3cr3t"},
			}},
		}},
	} {
		o.SetAnnotations(secret)
		text, err := json.Marshal(capture.Redact(o))
		if err != nil || strings.Contains(string(text), "s3cr3t") || !strings.Contains(string(text), "do-not-disrupt") {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
		if before, _ := json.Marshal(o); !strings.Contains(string(before), "s3cr3t") {
			t.Errorf("%s itself was changed", name)
		}
		if name == "pod" && (!strings.Contains(string(text), `"claimName":"data"`) ||
			!strings.Contains(string(text), `"fast-ssd"`) ||
			!strings.Contains(string(text), `"disk":"fast"`)) {
			t.Errorf("what decides is missing: %s", text)
		}
	}
}

// A dump is read only up to the limit of what is kept in memory, even if it is endless.
func TestADumpIsTakenInUpToALimit(t *testing.T) {
	pod := "- apiVersion: v1\n  kind: Pod\n  metadata: {name: NAME, namespace: shop, annotations: {note: " +
		strings.Repeat("x", 4<<10) + "}}\n  spec: {containers: [{name: c, image: i}]}\n"
	in := &pods{text: pod, now: strings.NewReader("apiVersion: v1\nitems:\n")}
	_, err := capture.Load(t.Context(), in, "cluster.yaml", capture.Options{MaxDump: 1 << 20})
	if err == nil || !strings.Contains(err.Error(), "more than 1 MiB of objects that decisions depend on") ||
		!strings.Contains(err.Error(), "nodeless capture") {
		t.Error(err)
	}
	if in.given > 300 {
		t.Errorf("%d pods of 4 KiB were read", in.given)
	}
}

// pods is an endless list of pods.
type pods struct {
	text  string
	given int
	now   *strings.Reader
}

func (p *pods) Read(into []byte) (int, error) {
	n, err := p.now.Read(into)
	if n > 0 || err == nil {
		return n, nil
	}
	p.given++
	p.now.Reset(strings.Replace(p.text, "NAME", "p"+strconv.Itoa(p.given), 1))
	return p.now.Read(into)
}
