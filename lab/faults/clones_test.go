package faults

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/utils/ptr"

	"github.com/nodeless/nodeless/region"
)

// podsPerNode is how many of an app's pods fill a node of 16 vCPUs: what is left has no room for a pod of any app.
const podsPerNode = 20

// apps are what the cluster runs, by name: CPU in thousandths, memory in MiB.
var apps = map[string][2]int64{
	"app-0": {790, 1100}, "app-1": {785, 1400}, "app-2": {780, 2500}, "app-3": {775, 2600}, "app-4": {770, 5000},
}

// podSpec is as long as the spec of a typical pod.
func podSpec(app string) corev1.PodSpec {
	c := corev1.Container{
		Name: "c", Image: "registry.example.com/team/app:v1.2.3", Args: []string{"serve", "--listen=:8080"},
		Ports:        []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}},
		VolumeMounts: []corev1.VolumeMount{{Name: "token", MountPath: "/var/run/secrets/kubernetes.io/serviceaccount"}},
		ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{
			HTTPGet: &corev1.HTTPGetAction{Path: "/ready", Port: intstr.FromString("http")},
		}},
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU:    *resource.NewMilliQuantity(apps[app][0], resource.DecimalSI),
			corev1.ResourceMemory: *resource.NewQuantity(apps[app][1]<<20, resource.BinarySI),
		}},
	}
	for i := range 12 {
		c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprint("SETTING_", i), Value: "value-of-a-setting"})
	}
	return corev1.PodSpec{
		Containers: []corev1.Container{c}, ServiceAccountName: "app", TerminationGracePeriodSeconds: ptr.To[int64](30),
		Volumes: []corev1.Volume{{Name: "token", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
			Sources: []corev1.VolumeProjection{
				{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}},
			},
		}}}},
	}
}

func labelsOf(app string) map[string]string {
	return map[string]string{
		"app": app, "app.kubernetes.io/name": app, "team": "platform", "pod-template-hash": "5d4f8c7b9d",
	}
}

// pod returns a new pod of a ReplicaSet.
func (w *crowd) pod(set *replicas) *corev1.Pod {
	name := w.nameOf(set)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: fmt.Sprintf("%s-%06d", name, w.serial), Labels: labelsOf(set.app),
			Annotations: map[string]string{"prometheus.io/scrape": "true", "prometheus.io/port": "8080"},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "apps/v1", Kind: "ReplicaSet", Name: name, UID: set.uid,
				Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true),
			}},
		},
		Spec: podSpec(set.app),
	}
}

func (w *crowd) nameOf(set *replicas) string { return set.app + "-" + string(set.uid[len(set.uid)-5:]) }

// newSet adds a ReplicaSet without pods. It runs in the goroutine of work.
func (w *crowd) newSet(app string, wanted int) *replicas {
	w.serial++
	set := &replicas{app: app, uid: types.UID(fmt.Sprintf("00000000-0000-4000-a000-%012d", w.serial)), wanted: wanted}
	w.sets[w.nameOf(set)] = set
	return set
}

// saveSet writes a ReplicaSet, with its desired size, to the API server.
func (s *scale) saveSet(set *replicas) error {
	o := &appsv1.ReplicaSet{
		TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "ReplicaSet"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: s.crowd.nameOf(set), UID: set.uid, CreationTimestamp: metav1.Now(),
		},
	}
	s.crowd.do(func() { o.Spec.Replicas = ptr.To(int32(set.wanted)) }) //nolint:gosec // small
	o.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": set.app}}
	o.Spec.Template.Labels, o.Spec.Template.Spec = labelsOf(set.app), podSpec(set.app)
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	s.c.api.Load(setsGVR, &unstructured.Unstructured{Object: content})
	return err
}

// original is a node that the controller launched, with its claim, instance and pods.
type original struct {
	instance    region.Instance
	claim, node *unstructured.Unstructured
	pods        []*unstructured.Unstructured
}

// originals returns all of them.
func (s *scale) originals() []*original {
	pods := map[string][]*unstructured.Unstructured{}
	for _, p := range s.c.api.Objects(podsGVR) {
		pods[nodeOf(p)] = append(pods[nodeOf(p)], p)
	}
	nodes := map[string]*unstructured.Unstructured{}
	for _, n := range s.c.api.Objects(nodesGVR) {
		nodes[n.GetName()] = n
	}
	instances := map[string]region.Instance{}
	for _, i := range s.c.region.Instances() {
		instances["aws:///"+i.Zone+"/"+i.ID] = i
	}
	var out []*original
	for _, claim := range s.c.api.Objects(claimsGVR) {
		id, _, _ := unstructured.NestedString(claim.Object, "status", "providerID")
		node, _, _ := unstructured.NestedString(claim.Object, "status", "nodeName")
		out = append(out, &original{instance: instances[id], claim: claim, node: nodes[node], pods: pods[node]})
	}
	return out
}

// likened returns a copy of an object with some texts replaced.
func likened(o *unstructured.Unstructured, changed *strings.Replacer) (*unstructured.Unstructured, error) {
	text, err := json.Marshal(o.Object)
	if err != nil {
		return nil, err
	}
	out := &unstructured.Unstructured{}
	return out, utiljson.Unmarshal([]byte(changed.Replace(string(text))), &out.Object)
}

// uid returns a new UID.
func (s *scale) uid() string {
	s.uids++
	return fmt.Sprintf("00000000-0000-4000-9000-%012d", s.uids)
}

// clone adds another node like x, with claim, instance and pods. Each pair of pods belongs to a ReplicaSet that setOf
// returns, which runs in the goroutine of the crowd's work.
func (s *scale) clone(x *original, setOf func(app string, pair int) *replicas) error {
	name, uid := fmt.Sprintf("general-purpose-%06d", s.uids), s.uid()
	tags := maps.Clone(x.instance.Tags)
	tags[tagClaim], tags[tagUID] = name, uid
	got, err := s.c.region.CreateFleet(region.FleetRequest{
		CapacityType: x.instance.CapacityType, Total: 1, InstanceTags: tags,
		Overrides: []region.Override{{
			TemplateID: x.instance.TemplateID, InstanceType: x.instance.Type, SubnetID: x.instance.SubnetID,
			ImageID: x.instance.ImageID,
		}},
	})
	if err != nil {
		return err
	}
	if len(got.Launched) == 0 {
		return fmt.Errorf("no instance like %s: %v", x.instance.ID, got.Errors)
	}
	i, _ := s.c.region.Instance(got.Launched[0].IDs[0])
	changed := strings.NewReplacer(x.claim.GetName(), name, string(x.claim.GetUID()), uid, string(x.node.GetUID()),
		s.uid(), x.instance.ID, i.ID, x.node.GetName(), i.PrivateDNS, `"`+x.instance.PrivateIP.String()+`"`,
		`"`+i.PrivateIP.String()+`"`)
	for resource, o := range map[schema.GroupVersionResource]*unstructured.Unstructured{
		claimsGVR: x.claim, nodesGVR: x.node,
	} {
		other, err := likened(o, changed)
		if err != nil {
			return err
		}
		s.c.api.Load(resource, other)
	}
	s.crowd.do(func() {
		for n, pod := range x.pods {
			set := setOf(pod.GetLabels()["app"], n/2)
			set.wanted++
			s.c.api.Load(podsGVR, s.podLike(pod, set, i.PrivateDNS))
		}
	})
	return nil
}

// podLike returns another pod like the given one, of a ReplicaSet and on a node. The two share what is equal.
func (s *scale) podLike(pod *unstructured.Unstructured, set *replicas, node string) *unstructured.Unstructured {
	out := &unstructured.Unstructured{Object: maps.Clone(pod.Object)}
	for _, part := range []string{"metadata", "spec"} {
		out.Object[part] = maps.Clone(pod.Object[part].(map[string]any))
	}
	_ = unstructured.SetNestedField(out.Object, node, "spec", "nodeName")
	out.SetName(fmt.Sprintf("%s-c%06d", s.crowd.nameOf(set), s.uids))
	out.SetUID(types.UID(s.uid()))
	owner := pod.GetOwnerReferences()[0]
	owner.Name, owner.UID = s.crowd.nameOf(set), set.uid
	out.SetOwnerReferences([]metav1.OwnerReference{owner})
	return out
}
