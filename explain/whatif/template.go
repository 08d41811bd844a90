package whatif

import (
	"cmp"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/explain/capture"
)

// sameTemplate reports whether the pods of two templates may run on the same nodes and be evicted alike.
func sameTemplate(a, b *corev1.PodTemplateSpec) bool {
	return equality.Semantic.DeepEqual(deciding(a), deciding(b))
}

// deciding returns the part of a template that decides where its pods may run and when they may be evicted, as a
// capture has it. It fills in what the API server would, so that a manifest equals what is stored of it.
func deciding(t *corev1.PodTemplateSpec) corev1.PodTemplateSpec {
	d := capture.Redact(&appsv1.Deployment{Spec: appsv1.DeploymentSpec{Template: *t}}).(*appsv1.Deployment)
	t = &d.Spec.Template
	spec := translate.AsCreated(&t.Spec, nil)
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: t.Labels, Annotations: t.Annotations},
		Spec: corev1.PodSpec{
			InitContainers: decidingContainers(spec.InitContainers),
			Containers:     decidingContainers(spec.Containers),
			Volumes:        decidingVolumes(spec.Volumes),
			Resources:      spec.Resources, ResourceClaims: spec.ResourceClaims,
			NodeSelector: spec.NodeSelector, OS: spec.OS, Affinity: spec.Affinity, Tolerations: spec.Tolerations,
			TopologySpreadConstraints: spec.TopologySpreadConstraints,
			HostNetwork:               spec.HostNetwork, RuntimeClassName: spec.RuntimeClassName,
			PriorityClassName: spec.PriorityClassName, SchedulingGates: spec.SchedulingGates,
			SchedulerName: cmp.Or(spec.SchedulerName, corev1.DefaultSchedulerName),
		},
	}
}

// decidingContainers keeps requests, ports of the host and what tells sidecars from other init containers.
func decidingContainers(containers []corev1.Container) []corev1.Container {
	var out []corev1.Container
	for i := range containers {
		c := &containers[i]
		kept := corev1.Container{RestartPolicy: c.RestartPolicy}
		kept.Resources.Requests, kept.Resources.Claims = c.Resources.Requests, c.Resources.Claims
		for _, p := range c.Ports {
			if p.HostPort != 0 {
				kept.Ports = append(kept.Ports, corev1.ContainerPort{
					HostIP: p.HostIP, HostPort: p.HostPort, Protocol: cmp.Or(p.Protocol, corev1.ProtocolTCP),
				})
			}
		}
		out = append(out, kept)
	}
	return out
}

// decidingVolumes keeps the volumes that are attached to nodes, without their names.
func decidingVolumes(volumes []corev1.Volume) []corev1.Volume {
	var out []corev1.Volume
	for i := range volumes {
		v, kept := &volumes[i], corev1.Volume{}
		switch {
		case v.PersistentVolumeClaim != nil:
			kept.PersistentVolumeClaim = &corev1.PersistentVolumeClaimVolumeSource{
				ClaimName: v.PersistentVolumeClaim.ClaimName,
			}
		case v.Ephemeral != nil && v.Ephemeral.VolumeClaimTemplate != nil:
			claim := v.Ephemeral.VolumeClaimTemplate.Spec
			claim.DataSource, claim.DataSourceRef = nil, nil
			claim.VolumeMode = ptr.To(ptr.Deref(claim.VolumeMode, corev1.PersistentVolumeFilesystem))
			kept.Ephemeral = &corev1.EphemeralVolumeSource{
				VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{Spec: claim},
			}
		case v.AWSElasticBlockStore != nil:
			kept.AWSElasticBlockStore = &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: v.AWSElasticBlockStore.VolumeID}
		case v.CSI != nil:
			kept.CSI = &corev1.CSIVolumeSource{Driver: v.CSI.Driver}
		case v.GCEPersistentDisk != nil:
			kept.GCEPersistentDisk = &corev1.GCEPersistentDiskVolumeSource{
				PDName: v.GCEPersistentDisk.PDName, ReadOnly: v.GCEPersistentDisk.ReadOnly,
			}
		case v.ISCSI != nil:
			kept.ISCSI = v.ISCSI
		case v.RBD != nil:
			kept.RBD = v.RBD
			kept.RBD.RBDPool = cmp.Or(kept.RBD.RBDPool, "rbd")
		default:
			continue
		}
		out = append(out, kept)
	}
	return out
}
