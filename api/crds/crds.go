// Package crds holds the custom resource definitions of the kinds in api. `make generate-api` makes them from the
// Go types.
package crds

import _ "embed" // for the YAML files below

// FargateProfile is the definition of fargateprofiles.nodeless.sh, in YAML.
//
//go:embed nodeless.sh_fargateprofiles.yaml
var FargateProfile []byte

// DecisionLog is the definition of decisionlogs.nodeless.sh, in YAML.
//
//go:embed nodeless.sh_decisionlogs.yaml
var DecisionLog []byte

// MicroVMHost is the definition of microvmhosts.nodeless.sh, in YAML.
//
//go:embed nodeless.sh_microvmhosts.yaml
var MicroVMHost []byte

// MicroVM is the definition of microvms.nodeless.sh, in YAML.
//
//go:embed nodeless.sh_microvms.yaml
var MicroVM []byte

// NodeGroup is the definition of nodegroups.nodeless.sh, in YAML.
//
//go:embed nodeless.sh_nodegroups.yaml
var NodeGroup []byte

// NodeClass is the definition of nodeclasses.eks.amazonaws.com, in YAML.
//
//go:embed eks.amazonaws.com_nodeclasses.yaml
var NodeClass []byte

// CNINode is the definition of cninodes.eks.amazonaws.com, in YAML.
//
//go:embed eks.amazonaws.com_cninodes.yaml
var CNINode []byte

// ENIConfig is the definition of eniconfigs.crd.k8s.amazonaws.com, in YAML.
//
//go:embed crd.k8s.amazonaws.com_eniconfigs.yaml
var ENIConfig []byte

// SecurityGroupPolicy is the definition of securitygrouppolicies.vpcresources.k8s.aws, in YAML.
//
//go:embed vpcresources.k8s.aws_securitygrouppolicies.yaml
var SecurityGroupPolicy []byte

// VPCNode is the definition of cninodes.vpcresources.k8s.aws, in YAML.
//
//go:embed vpcresources.k8s.aws_cninodes.yaml
var VPCNode []byte
