package fargate

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Storage looks up the claims and volumes that pods refer to. It returns nil for an object that does not exist.
type Storage interface {
	Claim(namespace, name string) *corev1.PersistentVolumeClaim
	Volume(name string) *corev1.PersistentVolume
}

// Kinds of volumes, named like their fields in a pod's volume.
const (
	EmptyDir    = "emptyDir"
	ConfigMap   = "configMap"
	Secret      = "secret"
	Projected   = "projected"
	DownwardAPI = "downwardAPI"
	HostPath    = "hostPath"
	NFS         = "nfs"
	ImageVolume = "image"
	PVC         = "persistentVolumeClaim"
	EFS         = efsDriver // a PersistentVolumeClaim whose volume has this CSI driver
	otherKind   = "other"
)

// efsDriver is the only CSI driver whose volumes Fargate mounts (EKS User Guide, efs-csi).
const efsDriver = "efs.csi.aws.com"

// Abilities are what the available microVMs can do.
type Abilities struct {
	Volumes       []string // kinds of volumes they mount
	GuestOverhead int64    // bytes of memory that the guest itself needs
	LogRouter     bool     // they route logs as the ConfigMap aws-logging says
	CloudWatch    bool     // they can send logs to CloudWatch Logs
}

// DefaultAbilities returns the abilities of Nodeless's own microVMs.
func DefaultAbilities() Abilities {
	return Abilities{
		Volumes:       []string{EmptyDir, ConfigMap, Secret, Projected, DownwardAPI, ImageVolume},
		GuestOverhead: GuestOverhead, LogRouter: true,
	}
}

// onFargate are the kinds of volumes that Fargate always mounts (EKS User Guide, fargate-pod-configuration), and
// those that Kubernetes has added since and that need nothing from the node.
var onFargate = []string{EmptyDir, ConfigMap, Secret, Projected, DownwardAPI, NFS, ImageVolume}

func kindOf(v *corev1.Volume) string {
	switch {
	case v.EmptyDir != nil:
		return EmptyDir
	case v.ConfigMap != nil:
		return ConfigMap
	case v.Secret != nil:
		return Secret
	case v.Projected != nil:
		return Projected
	case v.DownwardAPI != nil:
		return DownwardAPI
	case v.HostPath != nil:
		return HostPath
	case v.NFS != nil:
		return NFS
	case v.Image != nil:
		return ImageVolume
	case v.PersistentVolumeClaim != nil, v.Ephemeral != nil:
		return PVC
	}
	return otherKind
}

// unsupportedVolumes returns an entry for each volume that cannot be mounted, in the pod's order.
func unsupportedVolumes(pod *corev1.Pod, storage Storage, able Abilities, restricted bool) []string {
	var out []string
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		switch kind := kindOf(v); {
		case kind == PVC:
			if why := unsupportedClaim(pod, v, storage, able, restricted); why != "" {
				out = append(out, v.Name+" not supported because: "+why)
			}
		case restricted && !slices.Contains(onFargate, kind), !slices.Contains(able.Volumes, kind):
			out = append(out, v.Name+" is of an unsupported volume Type")
		case kind == Projected:
			if source := unsupportedSource(v.Projected); source != "" {
				out = append(out, v.Name+" not supported because: microVMs cannot mount its source "+source)
			}
		}
	}
	return out
}

// unsupportedSource returns the first source of a projected volume that microVMs cannot mount, "" if there is none.
func unsupportedSource(v *corev1.ProjectedVolumeSource) string {
	for _, s := range v.Sources {
		switch {
		case s.ClusterTrustBundle != nil:
			return "clusterTrustBundle"
		case s.PodCertificate != nil:
			return "podCertificate"
		}
	}
	return ""
}

// unsupportedClaim returns why the volume of a PersistentVolumeClaim cannot be mounted, "" if it can.
func unsupportedClaim(pod *corev1.Pod, v *corev1.Volume, storage Storage, able Abilities, restricted bool) string {
	name := pod.Name + "-" + v.Name // of the claim created for a generic ephemeral volume
	if v.PersistentVolumeClaim != nil {
		name = v.PersistentVolumeClaim.ClaimName
	}
	claim := storage.Claim(pod.Namespace, name)
	if claim == nil || claim.Spec.VolumeName == "" || claim.Status.Phase != corev1.ClaimBound {
		return fmt.Sprintf("PVC %s not bound", name)
	}
	pv := storage.Volume(claim.Spec.VolumeName)
	if pv == nil {
		return fmt.Sprintf("PVC %s bound to PV %s, which does not exist", name, claim.Spec.VolumeName)
	}
	if pv.Spec.CSI == nil {
		return fmt.Sprintf("PVC %s bound to invalid PV %s without CSI Driver", name, pv.Name)
	}
	driver := pv.Spec.CSI.Driver
	switch {
	case restricted && driver != efsDriver:
		return fmt.Sprintf("PVC %s bound to invalid PV %s with CSI Driver: %s", name, pv.Name, driver)
	case !slices.Contains(able.Volumes, driver):
		return fmt.Sprintf("PVC %s bound to PV %s with CSI Driver: %s, which the microVMs here cannot mount", name,
			pv.Name, driver)
	}
	return ""
}
