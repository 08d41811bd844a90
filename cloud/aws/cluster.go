package aws

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"

	"github.com/nodeless/nodeless/cloud"
)

// Cluster says how instances reach the control plane of a cluster.
type Cluster struct {
	ARN         string
	Endpoint    string
	CA          []byte // PEM
	ServiceCIDR string
}

// FindCluster reads a cluster from EKS.
func FindCluster(ctx context.Context, cfg awssdk.Config, name string) (Cluster, error) {
	out, err := eks.NewFromConfig(cfg).DescribeCluster(ctx, &eks.DescribeClusterInput{Name: &name})
	if err != nil {
		return Cluster{}, wrap("ask EKS for cluster "+name, "eks:DescribeCluster", err)
	}
	if out.Cluster == nil || out.Cluster.Endpoint == nil || out.Cluster.CertificateAuthority == nil {
		return Cluster{}, fmt.Errorf("EKS cluster %s has no endpoint yet; wait until it is ACTIVE", name)
	}
	c := Cluster{ARN: awssdk.ToString(out.Cluster.Arn), Endpoint: *out.Cluster.Endpoint}
	if c.CA, err = base64.StdEncoding.DecodeString(awssdk.ToString(out.Cluster.CertificateAuthority.Data)); err != nil {
		return Cluster{}, fmt.Errorf("certificates of EKS cluster %s: %w", name, err)
	}
	if n := out.Cluster.KubernetesNetworkConfig; n != nil {
		c.ServiceCIDR = awssdk.ToString(n.ServiceIpv4Cidr)
		if c.ServiceCIDR == "" {
			c.ServiceCIDR = awssdk.ToString(n.ServiceIpv6Cidr)
		}
	}
	return c, nil
}

// serviceCIDR returns the range of the cluster's Services; "" if it is not known.
func (a *account) serviceCIDR() string {
	if found := a.services.Load(); found != nil {
		return *found
	}
	return a.o.ServiceCIDR
}

// lacksServiceCIDR reports whether nodes of a class need the range of Services to join, and it is not known: nodeadm
// refuses a NodeConfig without it (github.com/awslabs/amazon-eks-ami, nodeadm). Those of NodeGroups have their own.
func (a *account) lacksServiceCIDR(class *ec2v1.EC2NodeClass) bool {
	return !isNodeGroup(class) && class.AMIFamily() == ec2v1.AMIFamilyAL2023 && a.serviceCIDR() == ""
}

// resolveSpec validates a class. It asks EKS for the range of Services if the class lacks it.
func (a *account) resolveSpec(ctx context.Context, class *ec2v1.EC2NodeClass) (verdict, error) {
	v, err := resolveValidation(ctx, class)
	if v.reason != "" || err != nil || !a.lacksServiceCIDR(class) {
		return v, err
	}
	found, err := FindCluster(ctx, a.o.AWS, a.o.ClusterName)
	switch {
	case errors.Is(err, cloud.ErrThrottled), serverCodes[code(err)], ctx.Err() != nil:
		return verdict{}, err
	case found.ServiceCIDR == "":
		if err == nil {
			err = errors.New("EKS does not know it either")
		}
		return unready(v.condition, "ClusterCIDRResolutionFailed", "spec.amiFamily: nodes of AL2023 need the range of the "+
			"cluster's Services to join, which is not known; allow the controller eks:DescribeCluster if the control plane "+
			"is EKS, else to get the ServiceCIDR \"kubernetes\" (nodeless rbac), and start it again: %v", steady(err)), nil
	}
	a.services.Store(&found.ServiceCIDR)
	return v, nil
}
