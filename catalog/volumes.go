package catalog

import "strings"

// EBSVolumes returns the maximum number of EBS volumes that EC2 attaches to an instance of the type, and whether
// network interfaces count against it; the first interface is included. Local disks count as one, since the table
// does not say how many there are: such types may take fewer. Source: EC2 User Guide, "Amazon EBS volume limits for
// Amazon EC2 instances" (2026), as DescribeInstanceTypes reports it.
func EBSVolumes(t *Type) (most int, shared bool) {
	switch {
	case t.Hypervisor == "xen":
		return 40, true
	case hasOwnVolumeLimit(t):
		return ownVolumeLimit(t), false
	case t.BareMetal:
		return 31, true
	case t.Accelerator.Count > 4 && t.Family != "inf1":
		return 28, true
	}
	most = 27 - t.GPU.Count - t.Accelerator.Count
	if t.LocalNVMeGB > 0 {
		most--
	}
	return max(most, 0), true
}

// hasOwnVolumeLimit reports whether volumes have a separate limit from interfaces: on Intel and AMD instances since
// the seventh generation, on all since the eighth, and on some accelerated ones.
func hasOwnVolumeLimit(t *Type) bool {
	switch t.Category {
	case "g", "gr":
		return t.Generation >= 6
	case "p":
		return t.Generation >= 4
	case "f", "trn":
		return t.Generation >= 2
	case "inf", "dl", "vt", "hpc":
		return false
	}
	return t.Generation >= 8 || t.Generation == 7 && t.Arch == "amd64"
}

// ownVolumeLimit returns the separate limit, which depends on the size.
func ownVolumeLimit(t *Type) int {
	switch {
	case strings.HasPrefix(t.Family, "p4"):
		return 28
	case t.BareMetal && t.VCPU <= 96, t.BareMetal && strings.HasSuffix(t.Family, "gn"):
		return 39
	case t.BareMetal:
		return 79
	case t.VCPU >= 192 && (t.Category == "p" || t.Category == "trn" || strings.HasSuffix(t.Family, "gn")):
		return 64
	case t.VCPU >= 192:
		return 128
	case t.VCPU >= 128:
		return 88
	case t.VCPU >= 96:
		return 64
	case t.VCPU >= 64:
		return 48
	}
	return 32
}
