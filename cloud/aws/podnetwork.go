package aws

import (
	"context"
	"encoding/json"

	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"

	"github.com/nodeless/nodeless/api/eksv1"
	"github.com/nodeless/nodeless/cloud"
)

// podNetwork selects the subnets and security groups of the network interfaces that hold the addresses of pods.
type podNetwork struct {
	Subnets        []ec2v1.SubnetSelectorTerm
	SecurityGroups []ec2v1.SecurityGroupSelectorTerm
}

// podNetworkKey is an annotation of a class that represents a NodeClass: its podNetwork as JSON, for which EC2NodeClass
// has no field. It is never written to the cluster.
const podNetworkKey = "nodeless.sh/pod-network"

// setPodNetwork sets the pod network of a class that represents a NodeClass.
func setPodNetwork(class *ec2v1.EC2NodeClass, n *eksv1.NodeClassSpec) {
	delete(class.Annotations, podNetworkKey)
	if len(n.PodSubnetSelectorTerms) == 0 {
		return
	}
	var network podNetwork
	for _, t := range n.PodSubnetSelectorTerms {
		network.Subnets = append(network.Subnets, ec2v1.SubnetSelectorTerm{Tags: t.Tags, ID: t.ID})
	}
	for _, t := range n.PodSecurityGroupSelectorTerms {
		network.SecurityGroups = append(network.SecurityGroups, ec2v1.SecurityGroupSelectorTerm{Tags: t.Tags, ID: t.ID})
	}
	text, _ := json.Marshal(network) // of strings only
	if class.Annotations == nil {
		class.Annotations = map[string]string{}
	}
	class.Annotations[podNetworkKey] = string(text)
}

// podNetworkOf returns the pod network of a class; nil if its pods are in the network of their nodes.
func podNetworkOf(class *ec2v1.EC2NodeClass) *podNetwork {
	text := class.Annotations[podNetworkKey]
	if text == "" || !isAuto(class) {
		return nil
	}
	network := &podNetwork{}
	_ = json.Unmarshal([]byte(text), network) // written by setPodNetwork
	return network
}

// PodNetwork returns how a NodeClass of EKS Auto Mode determines the addresses of pods. Other classes do not.
func (p *Provider) PodNetwork(ctx context.Context, ref cloud.ClassRef) (_ cloud.PodNetwork, err error) {
	if ref.Group != eksv1.GroupVersion.Group || ref.Kind != eksv1.Kind {
		return cloud.PodNetwork{}, nil
	}
	defer p.called("PodNetwork", p.now(), &err)
	class, err := p.readyClass(ref)
	if err != nil {
		return cloud.PodNetwork{}, err
	}
	out := cloud.PodNetwork{Single: class.Spec.Kubelet == nil}
	if network := podNetworkOf(class); network != nil {
		found, err := p.subnets.selected(ctx, network.Subnets)
		if err != nil {
			return cloud.PodNetwork{}, err
		}
		out.Custom, out.Subnets = true, p.subnets.observed(found)
	}
	return out, nil
}
