package translate

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/ephemeral"
	storagehelper "k8s.io/component-helpers/storage/volume"

	"github.com/nodeless/nodeless/engine/model"
)

// attachment translates one volume of a pod.
type attachment struct {
	storage Storage
	pod     *corev1.Pod

	volume  model.Volume // without ID if nothing is known about it
	claim   string       // ID of the claim
	blocked string
	static  *corev1.PersistentVolumeClaim // the claim, if its volumes are not provisioned: volume lacks its Topology
}

// read judges a volume as kube-scheduler's volume plugins do.
func (a *attachment) read(name string, v *corev1.Volume) {
	pvc := a.storage.VolumeClaim(a.pod.Namespace, name)
	switch {
	case pvc == nil && v.Ephemeral != nil && v.Ephemeral.VolumeClaimTemplate != nil:
		pvc = templated(a.pod, name, v.Ephemeral.VolumeClaimTemplate)
		if pvc.Spec.StorageClassName == nil {
			if class := a.storage.DefaultClass(); class != nil {
				pvc.Spec.StorageClassName = &class.Name
			}
		}
	case pvc == nil:
		a.block(name, "does not exist: create it")
		return
	case v.Ephemeral != nil && ephemeral.VolumeIsForPod(a.pod, pvc) != nil:
		a.block(name, "is in the way of the ephemeral volume "+v.Name+", which needs one of this name: delete it")
		return
	}
	switch {
	case pvc.Status.Phase == corev1.ClaimLost:
		a.block(name, "has lost its volume "+pvc.Spec.VolumeName+": restore the volume, or delete the claim and make it anew")
	case pvc.DeletionTimestamp != nil:
		a.block(name, "is being deleted: make it anew when it is gone")
	}
	a.claim = claimID(pvc)
	a.volume.Alone = slices.Contains(pvc.Spec.AccessModes, corev1.ReadWriteOncePod)
	if pvc.Spec.VolumeName != "" && metav1.HasAnnotation(pvc.ObjectMeta, storagehelper.AnnBindCompleted) {
		a.readBound(pvc, v)
	} else {
		a.readUnbound(pvc)
	}
}

func (a *attachment) block(claim, why string) {
	a.blocked = cmp.Or(a.blocked, "persistentVolumeClaim "+claim+" "+why)
}

// templated returns the claim that will be created for an ephemeral volume.
func templated(pod *corev1.Pod, name string, t *corev1.PersistentVolumeClaimTemplate) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: name, Annotations: t.Annotations}, Spec: t.Spec,
	}
}

// readBound reads a volume whose claim is bound: its PersistentVolume says where it is.
func (a *attachment) readBound(pvc *corev1.PersistentVolumeClaim, v *corev1.Volume) {
	pv := a.storage.Volume(pvc.Spec.VolumeName)
	if pv == nil {
		a.volume.ID, a.volume.Driver = a.claim, a.provisioner(pvc)
		a.block(pvc.Name, "is bound to persistentVolume "+pvc.Spec.VolumeName+
			", which does not exist: restore it, or delete the claim and make it anew")
		return
	}
	var handle string
	if a.volume.Driver, handle = driverOf(pv); handle != "" {
		a.volume.ID = a.volume.Driver + "/" + handle
	} else {
		a.volume.ID = "pv/" + pv.Name
	}
	a.volume.Topology = whereIs(pv, v.PersistentVolumeClaim != nil)
}

// claimID names the volume of an unbound claim by the claim, as pods refer to it.
func claimID(pvc *corev1.PersistentVolumeClaim) string {
	return "pvc/" + pvc.Namespace + "/" + pvc.Name
}

// readUnbound reads a volume whose claim is not bound: it will be created where the pod runs if the storage class waits
// for the pod; otherwise the claim must be bound first.
func (a *attachment) readUnbound(pvc *corev1.PersistentVolumeClaim) {
	a.volume.ID, a.volume.Driver = a.claim, a.provisioner(pvc)
	if pv := a.storage.Volume(pvc.Spec.VolumeName); pv != nil {
		if driver, handle := driverOf(pv); handle != "" {
			a.volume.ID, a.volume.Driver = driver+"/"+handle, driver
		}
	}
	if pvc.Spec.VolumeName != "" {
		a.block(pvc.Name, "is not bound to persistentVolume "+pvc.Spec.VolumeName+
			" yet: see that the volume exists and fits the claim")
		return
	}
	name := storagehelper.GetPersistentVolumeClaimClass(pvc)
	if name == "" {
		a.block(pvc.Name, "has no storageClass and is not bound: give it a storageClass, or a persistentVolume that fits")
		return
	}
	class := a.storage.Class(name)
	if class == nil {
		a.block(pvc.Name, "asks for storageClass "+name+", which does not exist: create it")
		return
	}
	waits := class.VolumeBindingMode != nil && *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
	switch static := class.Provisioner == storagehelper.NotSupportedProvisioner; {
	case !waits && static:
		a.block(pvc.Name, "is not bound, and its storageClass "+name+
			" has no provisioner: create a persistentVolume that fits")
	case !waits:
		a.block(pvc.Name, "is not bound yet, and its storageClass "+name+" does not wait for a pod: see why provisioner "+
			class.Provisioner+" has made no volume, or use volumeBindingMode WaitForFirstConsumer")
	case static && pvc.Annotations[storagehelper.AnnSelectedNode] != "": // kube-scheduler no longer looks for volumes
		a.block(pvc.Name, "waits until a volume is made for node "+pvc.Annotations[storagehelper.AnnSelectedNode]+
			", and its storageClass "+name+" has no provisioner: delete the claim and make it anew")
	case static:
		a.static = pvc
	default:
		a.volume.Topology = allowedTopologies(class.AllowedTopologies)
		a.limitToCapacity(pvc, class)
		if node := pvc.Annotations[storagehelper.AnnSelectedNode]; node != "" {
			a.pin(node)
		}
	}
}

// provisioner returns the driver that creates volumes for the claim, "" if unknown. Missing volumes count against
// attach limits, too.
func (a *attachment) provisioner(pvc *corev1.PersistentVolumeClaim) string {
	class := a.storage.Class(storagehelper.GetPersistentVolumeClaimClass(pvc))
	if class != nil && class.Provisioner != storagehelper.NotSupportedProvisioner {
		return migrated(class.Provisioner)
	}
	return ""
}

// pin restricts the volume to the node for which it is being created.
func (a *attachment) pin(node string) {
	here := model.Requirements{model.OneOf(model.NodeNameField, node)}
	if len(a.volume.Topology) == 0 {
		a.volume.Topology = []model.Requirements{here}
		return
	}
	for i, t := range a.volume.Topology {
		a.volume.Topology[i] = t.And(here)
	}
}
