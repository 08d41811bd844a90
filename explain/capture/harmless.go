package capture

import (
	"strings"

	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodeless/nodeless/controller/translate"
)

// harmless are the annotations that decisions depend on, by what they begin with. All others are left out: anything
// may be in them.
var harmless = []string{
	"karpenter.sh/", "karpenter.k8s.aws/", "nodeless.sh/", "controller.kubernetes.io/pod-deletion-cost",
	"volume.kubernetes.io/selected-node", "storageclass.kubernetes.io/is-default-class",
	"deployment.kubernetes.io/revision",
}

// LeftOut stands for what a capture does not tell.
const LeftOut = "left out by nodeless capture"

// Harmless is a copy of an object without what may be secret and decides nothing: annotations of others, images,
// commands, environment, the names of secrets and configurations, user data, parameters of storage, addresses and
// messages.
func Harmless(o client.Object) client.Object {
	o = o.DeepCopyObject().(client.Object)
	o.SetManagedFields(nil)
	o.SetAnnotations(harmlessOf(o.GetAnnotations()))
	switch o := o.(type) {
	case *corev1.Pod:
		harmlessSpec(&o.Spec)
		harmlessStatus(o)
	case *appsv1.DaemonSet:
		o.Spec.Template.Annotations = harmlessOf(o.Spec.Template.Annotations)
		harmlessSpec(&o.Spec.Template.Spec)
	case *appsv1.Deployment:
		o.Spec.Template.Annotations = harmlessOf(o.Spec.Template.Annotations)
		harmlessSpec(&o.Spec.Template.Spec)
		for i := range o.Status.Conditions {
			o.Status.Conditions[i].Message = ""
		}
	case *corev1.Node:
		o.Status.Images, o.Status.Addresses, o.Status.VolumesInUse, o.Status.VolumesAttached = nil, nil, nil, nil
		for i := range o.Status.Conditions {
			o.Status.Conditions[i].Message = ""
		}
	case *ec2v1.EC2NodeClass:
		if o.Spec.UserData != nil {
			left := LeftOut
			o.Spec.UserData = &left
		}
	case *storagev1.StorageClass:
		o.Parameters, o.MountOptions = nil, nil
	case *corev1.PersistentVolume:
		harmlessVolume(&o.Spec)
	}
	return o
}

func harmlessOf(annotations map[string]string) map[string]string {
	var out map[string]string
	for key, value := range annotations {
		for _, start := range harmless {
			if strings.HasPrefix(key, start) {
				if out == nil {
					out = map[string]string{}
				}
				out[key] = value
			}
		}
	}
	return out
}

func harmlessSpec(spec *corev1.PodSpec) {
	translate.LeanContainers(spec.InitContainers)
	translate.LeanContainers(spec.Containers)
	spec.EphemeralContainers, spec.ImagePullSecrets, spec.HostAliases, spec.DNSConfig, spec.SecurityContext = nil, nil,
		nil, nil, nil
	var volumes []corev1.Volume
	for _, v := range spec.Volumes {
		s := v.VolumeSource
		if s.PersistentVolumeClaim == nil && s.Ephemeral == nil && s.AWSElasticBlockStore == nil && s.CSI == nil &&
			s.EmptyDir == nil {
			continue
		}
		if v.CSI != nil {
			v.CSI = &corev1.CSIVolumeSource{Driver: v.CSI.Driver}
		}
		volumes = append(volumes, v)
	}
	spec.Volumes = volumes
}

// harmlessStatus leaves what tells that the pod has its place, is ready or over, and what it still holds while it is
// resized.
func harmlessStatus(pod *corev1.Pod) {
	was := &pod.Status
	for i := range was.Conditions {
		was.Conditions[i].Message = ""
	}
	now := corev1.PodStatus{
		ObservedGeneration: was.ObservedGeneration, Phase: was.Phase, Conditions: was.Conditions,
		NominatedNodeName: was.NominatedNodeName,
		StartTime:         was.StartTime, QOSClass: was.QOSClass, Resize: was.Resize, Resources: was.Resources,
		AllocatedResources: was.AllocatedResources,
	}
	if translate.Resizing(pod) {
		now.ContainerStatuses, now.InitContainerStatuses = was.ContainerStatuses, was.InitContainerStatuses
	}
	pod.Status = now
}

func harmlessVolume(spec *corev1.PersistentVolumeSpec) {
	source := corev1.PersistentVolumeSource{AWSElasticBlockStore: spec.AWSElasticBlockStore, Local: spec.Local}
	if spec.CSI != nil {
		source.CSI = &corev1.CSIPersistentVolumeSource{Driver: spec.CSI.Driver, VolumeHandle: spec.CSI.VolumeHandle}
	}
	if spec.HostPath != nil {
		source.HostPath = &corev1.HostPathVolumeSource{Path: "/"}
	}
	if source == (corev1.PersistentVolumeSource{}) { // one has to be there
		source.HostPath = &corev1.HostPathVolumeSource{Path: "/"}
	}
	spec.PersistentVolumeSource, spec.MountOptions = source, nil
}
