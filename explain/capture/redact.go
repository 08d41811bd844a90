package capture

import (
	"strings"

	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodeless/nodeless/api/eksv1"
	"github.com/nodeless/nodeless/controller/translate"
)

// allowedAnnotations are the prefixes of annotations that decisions depend on. All others are removed, since they
// may contain anything.
var allowedAnnotations = []string{
	"karpenter.sh/", "karpenter.k8s.aws/", "eks.amazonaws.com/nodeclass-hash", "nodeless.sh/",
	"controller.kubernetes.io/pod-deletion-cost", translate.AnnotationSafeToEvict, translate.AnnotationScaleDownDisabled,
	"volume.kubernetes.io/selected-node", "storageclass.kubernetes.io/is-default-class",
	"deployment.kubernetes.io/revision", appsv1.DeprecatedTemplateGeneration,
}

// Redacted replaces removed text.
const Redacted = "left out by nodeless capture"

// Redact returns a copy of an object without the fields that may hold secrets and that no decision depends on: other
// annotations, images, commands, environment, names of Secrets and ConfigMaps, user data, storage parameters,
// parameters of devices, addresses and messages.
func Redact(o client.Object) client.Object {
	o = o.DeepCopyObject().(client.Object)
	o.SetManagedFields(nil)
	o.SetAnnotations(keptAnnotations(o.GetAnnotations()))
	switch o := o.(type) {
	case *corev1.Pod:
		redactSpec(&o.Spec)
		redactStatus(o)
	case *appsv1.DaemonSet:
		o.Spec.Template.Annotations = keptAnnotations(o.Spec.Template.Annotations)
		redactSpec(&o.Spec.Template.Spec)
	case *appsv1.Deployment:
		o.Spec.Template.Annotations = keptAnnotations(o.Spec.Template.Annotations)
		redactSpec(&o.Spec.Template.Spec)
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
			left := Redacted
			o.Spec.UserData = &left
		}
	case *eksv1.NodeClass:
		if n := o.Spec.AdvancedNetworking; n != nil && n.HTTPSProxy != "" {
			n.HTTPSProxy = Redacted // it may have a password
		}
	case *storagev1.StorageClass:
		o.Parameters, o.MountOptions = nil, nil
	case *corev1.PersistentVolume:
		redactVolume(&o.Spec)
	default:
		redactDevices(o)
	}
	return o
}

// redactDevices removes what drivers are told and say of devices.
func redactDevices(o client.Object) {
	switch o := o.(type) {
	case *resourcev1.DeviceClass:
		o.Spec.Config = nil
	case *resourcev1.ResourceClaimTemplate:
		o.Spec.Annotations = keptAnnotations(o.Spec.Annotations)
		o.Spec.Spec.Devices.Config = nil
	case *resourcev1.ResourceClaim:
		o.Spec.Devices.Config, o.Status.Devices = nil, nil
		if o.Status.Allocation != nil {
			o.Status.Allocation.Devices.Config = nil
		}
	}
}

func keptAnnotations(annotations map[string]string) map[string]string {
	var out map[string]string
	for key, value := range annotations {
		for _, start := range allowedAnnotations {
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

func redactSpec(spec *corev1.PodSpec) {
	translate.LeanContainers(spec.InitContainers)
	translate.LeanContainers(spec.Containers)
	spec.EphemeralContainers, spec.ImagePullSecrets, spec.HostAliases, spec.DNSConfig, spec.SecurityContext = nil, nil,
		nil, nil, nil
	var volumes []corev1.Volume
	for i := range spec.Volumes {
		v := &spec.Volumes[i]
		if source := redactSource(&v.VolumeSource); source != (corev1.VolumeSource{}) {
			volumes = append(volumes, corev1.Volume{Name: v.Name, VolumeSource: source})
		}
	}
	spec.Volumes = volumes
}

// redactSource keeps what a node is chosen by, or kept for; the zero value if that is nothing.
func redactSource(s *corev1.VolumeSource) corev1.VolumeSource {
	kept := corev1.VolumeSource{
		PersistentVolumeClaim: s.PersistentVolumeClaim,
		AWSElasticBlockStore:  s.AWSElasticBlockStore, EmptyDir: s.EmptyDir, GCEPersistentDisk: s.GCEPersistentDisk,
	}
	if s.Ephemeral != nil && s.Ephemeral.VolumeClaimTemplate != nil {
		kept.Ephemeral = &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{
			Spec: s.Ephemeral.VolumeClaimTemplate.Spec,
		}}
	}
	if s.CSI != nil {
		kept.CSI = &corev1.CSIVolumeSource{Driver: s.CSI.Driver}
	}
	if s.ISCSI != nil {
		kept.ISCSI = &corev1.ISCSIVolumeSource{IQN: s.ISCSI.IQN, ReadOnly: s.ISCSI.ReadOnly}
	}
	if s.RBD != nil {
		kept.RBD = &corev1.RBDVolumeSource{
			CephMonitors: s.RBD.CephMonitors, RBDPool: s.RBD.RBDPool, RBDImage: s.RBD.RBDImage, ReadOnly: s.RBD.ReadOnly,
		}
	}
	return kept
}

// redactStatus keeps the fields that tell whether the pod has a node, is ready or has ended, which claims were made for
// it and, during a resize, which resources it still holds.
func redactStatus(pod *corev1.Pod) {
	was := &pod.Status
	for i := range was.Conditions {
		was.Conditions[i].Message = ""
	}
	now := corev1.PodStatus{
		ObservedGeneration: was.ObservedGeneration, Phase: was.Phase, Conditions: was.Conditions,
		NominatedNodeName: was.NominatedNodeName,
		StartTime:         was.StartTime, QOSClass: was.QOSClass, Resize: was.Resize, Resources: was.Resources,
		AllocatedResources: was.AllocatedResources, ResourceClaimStatuses: was.ResourceClaimStatuses,
	}
	if translate.Resizing(pod) {
		now.ContainerStatuses, now.InitContainerStatuses = was.ContainerStatuses, was.InitContainerStatuses
	}
	pod.Status = now
}

func redactVolume(spec *corev1.PersistentVolumeSpec) {
	source := corev1.PersistentVolumeSource{AWSElasticBlockStore: spec.AWSElasticBlockStore, Local: spec.Local}
	if spec.CSI != nil {
		source.CSI = &corev1.CSIPersistentVolumeSource{Driver: spec.CSI.Driver, VolumeHandle: spec.CSI.VolumeHandle}
	}
	if spec.HostPath != nil {
		source.HostPath = &corev1.HostPathVolumeSource{Path: "/"}
	}
	if source == (corev1.PersistentVolumeSource{}) { // the API requires a source
		source.HostPath = &corev1.HostPathVolumeSource{Path: "/"}
	}
	spec.PersistentVolumeSource, spec.MountOptions = source, nil
}
