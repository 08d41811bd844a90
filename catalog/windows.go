package catalog

// WindowsBuilds are the versions of Windows Server for which EKS has images, by year, and their builds, which Nodes
// carry in the label node.kubernetes.io/windows-build (Microsoft, "Windows Server release information").
var WindowsBuilds = map[string]string{"2019": "10.0.17763", "2022": "10.0.20348", "2025": "10.0.26100"}

// WindowsImage returns the public SSM parameter of EKS's newest image of Windows Server of a year, which is for
// x86_64 (Amazon EKS user guide, "Retrieve recommended Microsoft Windows AMI IDs"). edition is Core or Full.
func WindowsImage(year, edition, kubernetes string) string {
	return "/aws/service/ami-windows-latest/Windows_Server-" + year + "-English-" + edition + "-EKS_Optimized-" +
		kubernetes + "/image_id"
}

// A Windows node accepts windowsPods pods, whatever its interfaces allow, and the root volume of its image has
// windowsRoot bytes (github.com/aws/karpenter-provider-aws v1.14.1, pkg/providers/instancetype/types.go and
// pkg/providers/amifamily/windows.go).
const (
	windowsPods = 110
	windowsRoot = 50 * gib
)

// WindowsIPAMMap is the ConfigMap of kube-system whose key WindowsIPAMKey is "true" if the VPC resource controller
// assigns addresses to Windows pods (Amazon EKS user guide, "Enable Windows support").
const (
	WindowsIPAMMap = "amazon-vpc-cni"
	WindowsIPAMKey = "enable-windows-ipam"
)

// WindowsAddresses returns how many pods of a Windows node can have addresses: those that the first interface of the
// type holds besides its own (github.com/aws/amazon-vpc-resource-controller-k8s, pkg/provider/ip).
func (t *Type) WindowsAddresses() int { return max(t.IPv4PerENI-1, 0) }

// OnWindows returns the type as the VPC CNI's formulas must see it on Windows: aws-node does not run there, so a node
// takes an address when a pod starts, and keeps none to spare.
func (t *Type) OnWindows() *Type {
	out := *t
	out.Pods = max(t.WindowsAddresses(), 1)
	return &out
}
