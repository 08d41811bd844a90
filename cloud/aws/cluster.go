package aws

import (
	"context"
	"encoding/base64"
	"fmt"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
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
