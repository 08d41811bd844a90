package translate

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/nodeless/nodeless/engine/model"
)

// allowedTopologies returns where a storage class creates volumes. A term without expressions matches nothing.
func allowedTopologies(terms []corev1.TopologySelectorTerm) []model.Requirements {
	var out []model.Requirements
	for _, t := range terms {
		if len(t.MatchLabelExpressions) == 0 {
			continue
		}
		term := make([]model.Requirement, 0, len(t.MatchLabelExpressions))
		for _, e := range t.MatchLabelExpressions {
			r := model.OneOf(LabelKey(e.Key), e.Values...)
			r.Present = len(e.Values) == 0
			term = append(term, r)
		}
		out = append(out, model.NewRequirements(term...))
	}
	return orNowhere(out, len(terms) > 0)
}

// orNowhere returns the terms, sorted and without duplicates; noNode if places were named and none is possible.
func orNowhere(terms []model.Requirements, named bool) []model.Requirements {
	if len(terms) == 0 && named {
		return []model.Requirements{{noNode}}
	}
	slices.SortFunc(terms, compareRequirements)
	return slices.CompactFunc(terms, func(a, b model.Requirements) bool { return compareRequirements(a, b) == 0 })
}

// zoneLabels are the labels that said where volumes are before volumes had node affinity.
var zoneLabels = []string{
	corev1.LabelFailureDomainBetaZone, corev1.LabelFailureDomainBetaRegion, corev1.LabelTopologyZone,
	corev1.LabelTopologyRegion,
}

// whereIs returns where a volume can be used. Field terms do not count in the node affinity of volumes, as in
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

// named reports whether driver is not empty.
func named(driver, _ string) bool { return driver != "" }

// inZones narrows the places of a volume to the zones and regions in its labels. Nodes without any such label are
// suitable, too, except for volumes that a CSI driver has taken over, whose labels become node affinity.
func inZones(terms []model.Requirements, labels map[string]string, takenOver bool) []model.Requirements {
	var here model.Requirements
	for _, key := range zoneLabels {
		if value, ok := labels[key]; ok {
			// Several values are joined by two underscores.
			here = here.And(model.Requirements{model.OneOf(LabelKey(key), strings.Split(value, "__")...)})
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

// driverOf returns the CSI driver of a volume and the driver's handle for it; "" if no driver attaches it.
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

// AttachLimits returns how many volumes a node can attach, by driver; nil if c is.
func AttachLimits(c *storagev1.CSINode) []model.AttachLimit {
	if c == nil {
		return nil
	}
	var out []model.AttachLimit
	for _, d := range c.Spec.Drivers {
		if d.Allocatable != nil && d.Allocatable.Count != nil {
			out = append(out, model.AttachLimit{Driver: d.Name, Max: int64(*d.Allocatable.Count)})
		}
	}
	slices.SortFunc(out, func(a, b model.AttachLimit) int { return cmp.Compare(a.Driver, b.Driver) })
	return out
}
