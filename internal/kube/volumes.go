package kube

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/ephemeral"
	storagehelper "k8s.io/component-helpers/storage/volume"

	"github.com/nodeless/nodeless/engine/model"
)

// Storage finds the objects that volumes of pods are about. Each is nil if there is none.
type Storage interface {
	VolumeClaim(namespace, name string) *corev1.PersistentVolumeClaim
	Volume(name string) *corev1.PersistentVolume
	Class(name string) *storagev1.StorageClass
	DefaultClass() *storagev1.StorageClass
}

// VolumeClaimNames are the names of the persistentVolumeClaims that a pod uses, those of its ephemeral volumes included.
func VolumeClaimNames(pod *corev1.Pod) []string {
	var out []string
	for i := range pod.Spec.Volumes {
		if name := claimName(pod, &pod.Spec.Volumes[i]); name != "" {
			out = append(out, name)
		}
	}
	return out
}

func claimName(pod *corev1.Pod, v *corev1.Volume) string {
	switch {
	case v.PersistentVolumeClaim != nil:
		return v.PersistentVolumeClaim.ClaimName
	case v.Ephemeral != nil:
		return ephemeral.VolumeClaimName(pod, v)
	}
	return ""
}

// addVolumes translates the pod's volumes, and says what must happen first if some of them cannot be used yet.
func addVolumes(s *model.Shape, pod *corev1.Pod, storage Storage) {
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if kind := sharedDisk(v); kind != "" {
			s.Unmodelled = append(s.Unmodelled, kind+" without a persistentVolumeClaim")
		}
		name := claimName(pod, v)
		if name == "" {
			continue
		}
		if storage == nil {
			s.Unmodelled = append(s.Unmodelled, "persistentVolumeClaim")
			continue
		}
		a := attachment{storage: storage, pod: pod}
		a.read(name, v)
		s.Blocked = cmp.Or(s.Blocked, a.blocked)
		if a.unmodelled != "" {
			s.Unmodelled = append(s.Unmodelled, a.unmodelled)
		}
		a.addTo(s)
	}
	slices.SortStableFunc(s.Volumes, func(a, b model.Volume) int { return cmp.Compare(a.ID, b.ID) })
	s.Volumes = slices.CompactFunc(s.Volumes, func(a, b model.Volume) bool { return a.ID == b.ID })
}

// addTo adds the volume. To the driver, several claims may be about one volume, as one file system is; each has its own place
// and its own access mode, under the claim's ID.
func (a *attachment) addTo(s *model.Shape) {
	v := a.volume
	if v.ID == "" {
		return
	}
	if v.ID == a.claim {
		s.Volumes = append(s.Volumes, v)
		return
	}
	own := model.Volume{ID: a.claim, Alone: v.Alone}
	v.Alone = false
	if i := slices.IndexFunc(s.Volumes, func(o model.Volume) bool { return o.ID == v.ID }); i < 0 {
		s.Volumes = append(s.Volumes, v)
	} else if !slices.EqualFunc(s.Volumes[i].Topology, v.Topology, sameRequirements) {
		own.Topology = v.Topology
	}
	if own.Alone || len(own.Topology) > 0 {
		s.Volumes = append(s.Volumes, own)
	}
}

func sameRequirements(a, b model.Requirements) bool { return compareRequirements(a, b) == 0 }

// sharedDisk names a kind of inline volume of which kube-scheduler lets only one pod of a node have the same.
func sharedDisk(v *corev1.Volume) string {
	switch {
	case v.AWSElasticBlockStore != nil:
		return "awsElasticBlockStore"
	case v.GCEPersistentDisk != nil:
		return "gcePersistentDisk"
	case v.ISCSI != nil:
		return "iscsi"
	case v.RBD != nil:
		return "rbd"
	}
	return ""
}

// attachment is one volume of a pod while it is translated.
type attachment struct {
	storage Storage
	pod     *corev1.Pod

	volume     model.Volume // without ID if nothing is known of it
	claim      string       // ID of the claim
	blocked    string
	unmodelled string
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

// templated is the claim that will be made for an ephemeral volume.
func templated(pod *corev1.Pod, name string, t *corev1.PersistentVolumeClaimTemplate) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: name, Annotations: t.Annotations}, Spec: t.Spec,
	}
}

// readBound: the volume is where its PV says.
func (a *attachment) readBound(pvc *corev1.PersistentVolumeClaim, v *corev1.Volume) {
	pv := a.storage.Volume(pvc.Spec.VolumeName)
	if pv == nil {
		a.volume.ID, a.volume.Driver = a.claim, a.provisioner(pvc)
		a.block(pvc.Name, "is bound to persistentVolume "+pvc.Spec.VolumeName+", which does not exist: restore it, or delete the claim and make it anew")
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

// claimID names the volume of a claim that is not bound: by the claim.
func claimID(pvc *corev1.PersistentVolumeClaim) string {
	if pvc.UID != "" {
		return "pvc/" + string(pvc.UID)
	}
	return "pvc/" + pvc.Namespace + "/" + pvc.Name
}

// readUnbound: the volume will be made where the pod goes, if the storage class waits for it; else it must be bound first.
func (a *attachment) readUnbound(pvc *corev1.PersistentVolumeClaim) {
	a.volume.ID, a.volume.Driver = a.claim, a.provisioner(pvc)
	if pv := a.storage.Volume(pvc.Spec.VolumeName); pv != nil {
		if driver, handle := driverOf(pv); handle != "" {
			a.volume.ID, a.volume.Driver = driver+"/"+handle, driver
		}
	}
	if pvc.Spec.VolumeName != "" {
		a.block(pvc.Name, "is not bound to persistentVolume "+pvc.Spec.VolumeName+" yet: see that the volume exists and fits the claim")
		return
	}
	name := storagehelper.GetPersistentVolumeClaimClass(pvc)
	if name == "" {
		a.block(pvc.Name, "has no storageClass and is not bound: give it a storageClass, or a persistentVolume that fits")
		return
	}
	class := a.storage.Class(name)
	switch {
	case class == nil:
		a.block(pvc.Name, "asks for storageClass "+name+", which does not exist: create it")
	case class.VolumeBindingMode == nil || *class.VolumeBindingMode != storagev1.VolumeBindingWaitForFirstConsumer:
		a.block(pvc.Name, "is not bound yet, and its storageClass "+name+" does not wait for a pod: see why provisioner "+class.Provisioner+
			" has made no volume, or use volumeBindingMode WaitForFirstConsumer")
	case class.Provisioner == "" || class.Provisioner == storagehelper.NotSupportedProvisioner:
		a.unmodelled = fmt.Sprintf("persistentVolumeClaim %s of storageClass %s, which has no provisioner", pvc.Name, name)
	default:
		a.volume.Topology = allowedTopologies(class.AllowedTopologies)
		if node := pvc.Annotations[storagehelper.AnnSelectedNode]; node != "" {
			a.pin(node)
		}
	}
}

// provisioner is the driver that makes volumes for the claim, "" if that is not known. Volumes that should be there and are
// not count against attach limits too.
func (a *attachment) provisioner(pvc *corev1.PersistentVolumeClaim) string {
	class := a.storage.Class(storagehelper.GetPersistentVolumeClaimClass(pvc))
	if class != nil && class.Provisioner != storagehelper.NotSupportedProvisioner {
		return migrated(class.Provisioner)
	}
	return ""
}

// pin: a volume is being made for this node.
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

// allowedTopologies are the places where a storage class makes volumes. A term without expressions is no place.
func allowedTopologies(terms []corev1.TopologySelectorTerm) []model.Requirements {
	var out []model.Requirements
	for _, t := range terms {
		if len(t.MatchLabelExpressions) == 0 {
			continue
		}
		term := make([]model.Requirement, 0, len(t.MatchLabelExpressions))
		for _, e := range t.MatchLabelExpressions {
			r := model.OneOf(labelKey(e.Key), e.Values...)
			r.Present = len(e.Values) == 0
			term = append(term, r)
		}
		out = append(out, model.NewRequirements(term...))
	}
	return orNowhere(out, len(terms) > 0)
}

// orNowhere: if places were named and none of them can be, there is none.
func orNowhere(terms []model.Requirements, named bool) []model.Requirements {
	if len(terms) == 0 && named {
		return []model.Requirements{{noNode}}
	}
	slices.SortFunc(terms, compareRequirements)
	return slices.CompactFunc(terms, func(a, b model.Requirements) bool { return compareRequirements(a, b) == 0 })
}

// zoneLabels are the labels by which volumes said where they are before they had node affinity.
var zoneLabels = []string{
	corev1.LabelFailureDomainBetaZone, corev1.LabelFailureDomainBetaRegion, corev1.LabelTopologyZone, corev1.LabelTopologyRegion,
}

// whereIs are the places from which a volume can be used. Field terms do not count in the node affinity of volumes, as in
// kube-scheduler; labels count for claims that the pod names itself.
func whereIs(pv *corev1.PersistentVolume, labelsToo bool) []model.Requirements {
	var terms []model.Requirements
	limited := false
	if a := pv.Spec.NodeAffinity; a != nil && a.Required != nil {
		limited = true
		for i := range a.Required.NodeSelectorTerms {
			t := &a.Required.NodeSelectorTerms[i]
			if len(t.MatchExpressions) == 0 && len(t.MatchFields) > 0 {
				terms, limited = nil, false // anywhere
				break
			}
			term, err := nodeTerm(&corev1.NodeSelectorTerm{MatchExpressions: t.MatchExpressions})
			if err == nil && len(term) > 0 {
				terms = append(terms, term)
			}
		}
	}
	terms = orNowhere(terms, limited)
	takenOver := pv.Spec.CSI == nil && named(driverOf(pv))
	zoned := func(t model.Requirements) bool { _, ok := t.Get(model.LabelZone); return ok }
	if labelsToo || takenOver && !slices.ContainsFunc(terms, zoned) {
		terms = inZones(terms, pv.Labels, takenOver)
	}
	return terms
}

// named reports whether there is a driver.
func named(driver, _ string) bool { return driver != "" }

// inZones narrows the places of a volume to the zones and regions that its labels name. Nodes without any such label will do,
// but not for volumes that a CSI driver has taken over: then the labels become node affinity.
func inZones(terms []model.Requirements, labels map[string]string, takenOver bool) []model.Requirements {
	var here model.Requirements
	for _, key := range zoneLabels {
		if value, ok := labels[key]; ok {
			here = here.And(model.Requirements{model.OneOf(labelKey(key), strings.Split(value, "__")...)}) // several are joined so
		}
	}
	if len(here) == 0 {
		return terms
	}
	if len(terms) == 0 {
		terms = []model.Requirements{nil}
	}
	nowhere := model.Requirements{{Key: model.LabelRegion}, {Key: model.LabelZone}}
	var out []model.Requirements
	for _, t := range terms {
		out = append(out, t.And(here))
		if t = t.And(nowhere); !takenOver && !slices.ContainsFunc(t, model.Requirement.Impossible) {
			out = append(out, t)
		}
	}
	return orNowhere(out, true)
}

// inTree are the CSI drivers that have taken over from provisioners built into Kubernetes (k8s.io/csi-translation-lib
// v0.36).
var inTree = map[string]string{
	"kubernetes.io/aws-ebs":         "ebs.csi.aws.com",
	"kubernetes.io/azure-disk":      "disk.csi.azure.com",
	"kubernetes.io/azure-file":      "file.csi.azure.com",
	"kubernetes.io/cinder":          "cinder.csi.openstack.org",
	"kubernetes.io/gce-pd":          "pd.csi.storage.gke.io",
	"kubernetes.io/portworx-volume": "pxd.portworx.com",
	"kubernetes.io/vsphere-volume":  "csi.vsphere.vmware.com",
}

func migrated(provisioner string) string { return cmp.Or(inTree[provisioner], provisioner) }

// driverOf is the CSI driver of a volume and the driver's name for it; "" if none attaches it.
func driverOf(pv *corev1.PersistentVolume) (driver, handle string) {
	s := &pv.Spec.PersistentVolumeSource
	switch {
	case s.CSI != nil:
		return s.CSI.Driver, s.CSI.VolumeHandle
	case s.AWSElasticBlockStore != nil: // "vol-1" or "aws://us-east-1a/vol-1"
		id := s.AWSElasticBlockStore.VolumeID
		return inTree["kubernetes.io/aws-ebs"], id[strings.LastIndexByte(id, '/')+1:]
	case s.GCEPersistentDisk != nil:
		return inTree["kubernetes.io/gce-pd"], s.GCEPersistentDisk.PDName
	case s.AzureDisk != nil:
		return inTree["kubernetes.io/azure-disk"], s.AzureDisk.DataDiskURI
	case s.AzureFile != nil:
		return inTree["kubernetes.io/azure-file"], pv.Name
	case s.Cinder != nil:
		return inTree["kubernetes.io/cinder"], s.Cinder.VolumeID
	case s.VsphereVolume != nil:
		return inTree["kubernetes.io/vsphere-volume"], s.VsphereVolume.VolumePath
	case s.PortworxVolume != nil:
		return inTree["kubernetes.io/portworx-volume"], s.PortworxVolume.VolumeID
	}
	return "", ""
}

// AttachLimits are the most volumes that a node can take, by driver; nil if c is.
func AttachLimits(c *storagev1.CSINode) []model.AttachLimit {
	if c == nil {
		return nil
	}
	var out []model.AttachLimit
	for _, d := range c.Spec.Drivers {
		if d.Allocatable != nil && d.Allocatable.Count != nil {
			out = append(out, model.AttachLimit{Driver: d.Name, Most: int64(*d.Allocatable.Count)})
		}
	}
	slices.SortFunc(out, func(a, b model.AttachLimit) int { return cmp.Compare(a.Driver, b.Driver) })
	return out
}
