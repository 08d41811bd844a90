package eksv1

import (
	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NodeClass configures the instances of EKS Auto Mode. Settings without a field, such as the image, are fixed: nodes
// boot Bottlerocket, have the instance ID as their name and run at most 110 pods.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=nodeclasses,scope=Cluster
// +kubebuilder:printcolumn:name="Role",type=string,JSONPath=`.spec.role`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type NodeClass struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec NodeClassSpec `json:"spec"`
	// Status shows what the spec resolves to. Images and their requirements are Nodeless's addition; EKS does not show
	// them.
	Status ec2v1.EC2NodeClassStatus `json:"status,omitempty"`
}

// NodeClassList is a list of node classes.
//
// +kubebuilder:object:root=true
type NodeClassList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NodeClass `json:"items"`
}

// NodeClassSpec configures instances.
//
// +kubebuilder:validation:XValidation:rule="has(self.role) != has(self.instanceProfile)",message="must specify exactly one of ['role', 'instanceProfile']"
// +kubebuilder:validation:XValidation:rule="has(self.podSubnetSelectorTerms) == has(self.podSecurityGroupSelectorTerms)",message="must specify both or neither of ['podSubnetSelectorTerms', 'podSecurityGroupSelectorTerms']"
type NodeClassSpec struct {
	// Role is the name or ARN of the nodes' IAM role.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	// +optional
	Role string `json:"role,omitempty"`

	// InstanceProfile is the name of an instance profile with the nodes' role.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +optional
	InstanceProfile *string `json:"instanceProfile,omitempty"`

	// SubnetSelectorTerms select the subnets of nodes and, unless there are podSubnetSelectorTerms, of pods; the terms are
	// ORed.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=30
	// +required
	SubnetSelectorTerms []SubnetSelectorTerm `json:"subnetSelectorTerms"`

	// SecurityGroupSelectorTerms select the security groups of nodes and, unless there are podSecurityGroupSelectorTerms,
	// of pods; the terms are ORed.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=30
	// +required
	SecurityGroupSelectorTerms []SecurityGroupSelectorTerm `json:"securityGroupSelectorTerms"`

	// PodSubnetSelectorTerms select the subnets in which pods get addresses; the terms are ORed. A node's first network
	// interface, which is in a subnet of the node, then has no addresses for pods.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=30
	// +optional
	PodSubnetSelectorTerms []SubnetSelectorTerm `json:"podSubnetSelectorTerms,omitempty"`

	// PodSecurityGroupSelectorTerms select the security groups of pods; the terms are ORed.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=30
	// +optional
	PodSecurityGroupSelectorTerms []PodSecurityGroupSelectorTerm `json:"podSecurityGroupSelectorTerms,omitempty"`

	// CapacityReservationSelectorTerms select the capacity reservations that nodes use first; the terms are ORed.
	//
	// +kubebuilder:validation:MaxItems=30
	// +optional
	CapacityReservationSelectorTerms []CapacityReservationSelectorTerm `json:"capacityReservationSelectorTerms,omitempty"`

	// PlacementGroupSelector selects the EC2 placement group of the nodes.
	//
	// +optional
	PlacementGroupSelector *PlacementGroupSelector `json:"placementGroupSelector,omitempty"`

	// SNATPolicy determines how the source port of traffic that leaves the VPC is chosen. It is accepted for
	// compatibility with EKS and has no effect: Nodeless does not configure the VPC CNI.
	//
	// +kubebuilder:validation:Enum=Random;Disabled
	// +kubebuilder:default=Random
	// +optional
	SNATPolicy string `json:"snatPolicy,omitempty"`

	// NetworkPolicy is the policy for pods that no NetworkPolicy selects. Like snatPolicy, it has no effect.
	//
	// +kubebuilder:validation:Enum=DefaultAllow;DefaultDeny
	// +kubebuilder:default=DefaultAllow
	// +optional
	NetworkPolicy string `json:"networkPolicy,omitempty"`

	// NetworkPolicyEventLogs enables the logs of network policies. Like snatPolicy, it has no effect.
	//
	// +kubebuilder:validation:Enum=Enabled;Disabled
	// +kubebuilder:default=Disabled
	// +optional
	NetworkPolicyEventLogs string `json:"networkPolicyEventLogs,omitempty"`

	// EphemeralStorage is the volume that holds containers, images and logs.
	//
	// +kubebuilder:default={}
	// +optional
	EphemeralStorage *EphemeralStorage `json:"ephemeralStorage,omitempty"`

	// AdvancedNetworking has further network settings.
	//
	// +optional
	AdvancedNetworking *AdvancedNetworking `json:"advancedNetworking,omitempty"`

	// AdvancedSecurity has security settings of the nodes' operating system.
	//
	// +optional
	AdvancedSecurity *AdvancedSecurity `json:"advancedSecurity,omitempty"`

	// CertificateBundles are certificates that nodes trust.
	//
	// +kubebuilder:validation:MaxItems=10
	// +listType=map
	// +listMapKey=name
	// +optional
	CertificateBundles []CertificateBundle `json:"certificateBundles,omitempty"`

	// Tags are put on the instances, their volumes and network interfaces.
	//
	// +kubebuilder:validation:MaxProperties=50
	// +kubebuilder:validation:XValidation:rule="self.all(k, size(k) > 0)",message="empty tag keys are not allowed"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('kubernetes.io/cluster/') && !(k in ['eks:eks-cluster-name', 'karpenter.sh/provisioner-name', 'karpenter.sh/nodepool', 'karpenter.sh/nodeclaim', 'karpenter.sh/managed-by', 'eks.amazonaws.com/nodeclass', 'karpenter.k8s.aws/ec2nodeclass']))",message="tag contains a restricted key: it is set by the controller"
	// +optional
	Tags map[string]string `json:"tags,omitempty"`
}

// SubnetSelectorTerm selects subnets by their tags, all of which must match, or by ID.
//
// +kubebuilder:validation:XValidation:rule="has(self.tags) != has(self.id)",message="expected exactly one of ['tags', 'id']"
type SubnetSelectorTerm struct {
	// Tags of the subnet; * matches any value.
	//
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=20
	// +optional
	Tags map[string]string `json:"tags,omitempty"`
	// ID of the subnet.
	//
	// +kubebuilder:validation:Pattern=`^subnet-[0-9a-z]+$`
	// +optional
	ID string `json:"id,omitempty"`
}

// SecurityGroupSelectorTerm selects security groups by their tags, all of which must match, by ID or by name.
//
// +kubebuilder:validation:XValidation:rule="[has(self.tags), has(self.id), has(self.name)].filter(x, x).size() == 1",message="expected exactly one of ['tags', 'id', 'name']"
type SecurityGroupSelectorTerm struct {
	// Tags of the security group; * matches any value.
	//
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=20
	// +optional
	Tags map[string]string `json:"tags,omitempty"`
	// ID of the security group.
	//
	// +kubebuilder:validation:Pattern=`^sg-[0-9a-z]+$`
	// +optional
	ID string `json:"id,omitempty"`
	// Name of the security group. This is not its tag Name.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	// +optional
	Name string `json:"name,omitempty"`
}

// PodSecurityGroupSelectorTerm selects security groups by their tags, all of which must match, or by ID.
//
// +kubebuilder:validation:XValidation:rule="has(self.tags) != has(self.id)",message="expected exactly one of ['tags', 'id']"
type PodSecurityGroupSelectorTerm struct {
	// Tags of the security group; * matches any value.
	//
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=20
	// +optional
	Tags map[string]string `json:"tags,omitempty"`
	// ID of the security group.
	//
	// +kubebuilder:validation:Pattern=`^sg-[0-9a-z]+$`
	// +optional
	ID string `json:"id,omitempty"`
}

// CapacityReservationSelectorTerm selects on-demand capacity reservations and capacity blocks by ID, or by their tags,
// all of which must match.
//
// +kubebuilder:validation:XValidation:rule="has(self.tags) != has(self.id)",message="expected exactly one of ['tags', 'id']"
// +kubebuilder:validation:XValidation:rule="!(has(self.id) && has(self.owner))",message="'id' is mutually exclusive with 'owner'"
type CapacityReservationSelectorTerm struct {
	// ID of the reservation.
	//
	// +kubebuilder:validation:Pattern=`^cr-[0-9a-z]+$`
	// +optional
	ID string `json:"id,omitempty"`
	// Owner is the account that owns the reservation; any by default.
	//
	// +kubebuilder:validation:Pattern=`^[0-9]{12}$`
	// +optional
	Owner string `json:"owner,omitempty"`
	// Tags of the reservation; * matches any value.
	//
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=20
	// +optional
	Tags map[string]string `json:"tags,omitempty"`
}

// PlacementGroupSelector selects a placement group by name or ID.
//
// +kubebuilder:validation:XValidation:rule="has(self.name) != has(self.id)",message="expected exactly one of ['name', 'id']"
type PlacementGroupSelector struct {
	// Name of the placement group.
	//
	// +kubebuilder:validation:MinLength=1
	// +optional
	Name *string `json:"name,omitempty"`
	// ID of the placement group.
	//
	// +kubebuilder:validation:Pattern=`^pg-[0-9a-z]+$`
	// +optional
	ID *string `json:"id,omitempty"`
}

// EphemeralStorage is a gp3 volume.
type EphemeralStorage struct {
	// Size of the volume.
	//
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern=`^((?:[1-9][0-9]{0,3}|[1-4][0-9]{4}|5[0-8][0-9]{3}|59000)Gi|(?:[1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-3][0-9]{3}|64000)G|([1-9]|[1-4][0-9]|5[0-8])Ti|([1-9]|[1-5][0-9]|6[0-3]|64)T)$`
	// +kubebuilder:default="80Gi"
	// +optional
	Size *resource.Quantity `json:"size,omitempty"`
	// IOPS of the volume.
	//
	// +kubebuilder:validation:Minimum=3000
	// +kubebuilder:validation:Maximum=16000
	// +kubebuilder:default=3000
	// +optional
	IOPS *int64 `json:"iops,omitempty"`
	// Throughput of the volume in MiB per second.
	//
	// +kubebuilder:validation:Minimum=125
	// +kubebuilder:validation:Maximum=1000
	// +kubebuilder:default=125
	// +optional
	Throughput *int64 `json:"throughput,omitempty"`
	// KMSKeyID is the ID, alias or ARN of the KMS key that encrypts the volumes; the default is AWS's own key.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	// +optional
	KMSKeyID *string `json:"kmsKeyID,omitempty"`
}

// AdvancedNetworking has further network settings.
type AdvancedNetworking struct {
	// AssociatePublicIPAddress determines whether nodes get a public IPv4 address; by default their subnet decides.
	//
	// +optional
	AssociatePublicIPAddress *bool `json:"associatePublicIPAddress,omitempty"`
	// IPv4PrefixSize determines how pods get addresses. Auto: in prefixes of 16 addresses, for up to 110 pods per node.
	// 32: one by one, with one to spare, so that the network interfaces of the instance type limit the number of pods.
	//
	// +kubebuilder:validation:Enum=Auto;"32"
	// +kubebuilder:default=Auto
	// +optional
	IPv4PrefixSize string `json:"ipv4PrefixSize,omitempty"`
	// EnableV4Egress determines whether pods of IPv6 clusters reach IPv4 addresses. It is accepted for compatibility with
	// EKS and has no effect: Nodeless does not support IPv6 clusters.
	//
	// +optional
	EnableV4Egress *bool `json:"enableV4Egress,omitempty"`
	// HTTPSProxy is the URL of a forward proxy for the node's own traffic.
	//
	// +kubebuilder:validation:Pattern=`^https?://[^"\\\s]+$`
	// +kubebuilder:validation:MaxLength=255
	// +optional
	HTTPSProxy string `json:"httpsProxy,omitempty"`
	// NoProxy are the hosts, domains and addresses that the node reaches without the proxy.
	//
	// +kubebuilder:validation:MaxItems=50
	// +kubebuilder:validation:items:MaxLength=255
	// +optional
	NoProxy []string `json:"noProxy,omitempty"`
}

// AdvancedSecurity has security settings of the nodes' operating system.
type AdvancedSecurity struct {
	// FIPS makes nodes boot images whose cryptographic modules are FIPS-validated. EKS has them in the regions of US
	// East, US West, GovCloud (US) and Canada.
	//
	// +optional
	FIPS bool `json:"fips,omitempty"`
	// KernelLockdown is the mode of the Linux kernel's lockdown module. integrity: nothing can modify the running
	// kernel or load unsigned modules into it. none: no lockdown. The image decides by default.
	//
	// +kubebuilder:validation:Enum=integrity;none;Integrity;None
	// +optional
	KernelLockdown string `json:"kernelLockdown,omitempty"`
}

// CertificateBundle is a bundle of certificates that nodes trust.
type CertificateBundle struct {
	// Name of the bundle.
	//
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`
	// +kubebuilder:validation:MaxLength=64
	// +required
	Name string `json:"name"`
	// Data are PEM certificates in base64.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=65536
	// +required
	Data []byte `json:"data"`
}
