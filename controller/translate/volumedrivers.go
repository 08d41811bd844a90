package translate

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/nodeless/nodeless/engine/model"
)

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
			out = append(out, model.AttachLimit{Driver: d.Name, Max: int64(*d.Allocatable.Count)})
		}
	}
	slices.SortFunc(out, func(a, b model.AttachLimit) int { return cmp.Compare(a.Driver, b.Driver) })
	return out
}
