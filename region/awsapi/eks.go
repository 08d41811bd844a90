package awsapi

import (
	"context"
	"encoding/base64"
	"fmt"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/nodeless/nodeless/region"
)

// Kubernetes gives access to what EKS keeps in the cluster itself: Fargate profiles are objects there, and add-ons
// run there. The returned objects have a UID but lack what EKS adds: the cluster's name and the ARN.
type Kubernetes interface {
	// FargateProfiles returns all profiles, whether created through EKS or Kubernetes.
	FargateProfiles(context.Context) ([]FargateProfile, error)
	// CreateFargateProfile creates a profile. It returns ErrExists if an object with the profile's name exists.
	CreateFargateProfile(context.Context, types.FargateProfile) error
	// DeleteFargateProfile starts deleting a profile, which is DELETING until its pods are gone.
	DeleteFargateProfile(ctx context.Context, name string) error
	// TagFargateProfile replaces a profile's tags.
	TagFargateProfile(ctx context.Context, name string, tags map[string]string) error
	// MapRole adds a role to the cluster's ConfigMap aws-auth, so that its nodes may join; UnmapRole removes it.
	MapRole(context.Context, NodeRole) error
	UnmapRole(context.Context, NodeRole) error
	// Addons returns the installed add-ons.
	Addons(context.Context) ([]Addon, error)
}

// FargateProfile is a profile as stored in the cluster.
type FargateProfile struct {
	types.FargateProfile
	UID string
}

// Addon is an add-on as run by the cluster.
type Addon struct {
	types.Addon
	UID string
}

// kubernetes is the cluster behind a server's EKS.
type kubernetes struct {
	Kubernetes
	mu sync.Mutex // held while a profile is created or deleted, from the checks on
}

// inCluster returns the Kubernetes behind a cluster.
func (c *call) inCluster(cluster *string) (*kubernetes, error) {
	if _, err := c.region.Cluster(aws.ToString(cluster)); err != nil {
		return nil, err
	}
	if c.kubernetes.Kubernetes == nil {
		return nil, failure(400, "InvalidRequestException", fmt.Sprintf(
			"The simulated region does not serve %s: no cluster runs behind its EKS; use nodeless up", c.action))
	}
	return c.kubernetes, nil
}

// eksARN returns the ARN of an EKS resource, such as an add-on.
func (c *call) eksARN(kind string, names ...string) *string {
	arn := "arn:aws:eks:" + c.region.Name() + ":" + region.AccountID + ":" + kind
	for _, name := range names {
		arn += "/" + name
	}
	return &arn
}

func describeCluster(c *call, in *eks.DescribeClusterInput) (*eks.DescribeClusterOutput, error) {
	k, err := c.region.Cluster(aws.ToString(in.Name))
	if err != nil {
		return nil, err
	}
	// EKS Auto Mode is compute, load balancing and block storage, all on or all off.
	auto := new(k.AutoMode != nil)
	compute := &types.ComputeConfigResponse{Enabled: auto}
	if k.AutoMode != nil {
		compute.NodePools, compute.NodeRoleArn = k.AutoMode.NodePools, new(iamARN("role", "/", k.AutoMode.NodeRole))
	}
	return &eks.DescribeClusterOutput{Cluster: &types.Cluster{
		Name: &k.Name, Arn: c.eksARN("cluster", k.Name), CreatedAt: &k.CreatedAt, PlatformVersion: new("eks.1"),
		Version: &k.Version, Endpoint: &k.Endpoint, Status: types.ClusterStatusActive,
		CertificateAuthority: &types.Certificate{Data: new(base64.StdEncoding.EncodeToString([]byte(k.CA)))},
		Identity:             &types.Identity{Oidc: &types.OIDC{Issuer: optional(k.Issuer)}},
		ComputeConfig:        compute,
		StorageConfig:        &types.StorageConfigResponse{BlockStorage: &types.BlockStorage{Enabled: auto}},
		KubernetesNetworkConfig: &types.KubernetesNetworkConfigResponse{
			ServiceIpv4Cidr: &k.ServiceCIDR, IpFamily: types.IpFamilyIpv4,
			ElasticLoadBalancing: &types.ElasticLoadBalancing{Enabled: auto},
		},
		ResourcesVpcConfig: &types.VpcConfigResponse{
			VpcId: new(region.VPCID), SubnetIds: c.subnetIDs(), SecurityGroupIds: []string{},
			ClusterSecurityGroupId: new(c.region.ClusterSecurityGroup()),
			EndpointPublicAccess:   true, PublicAccessCidrs: []string{"127.0.0.0/8"},
		},
		RoleArn:      new(iamARN("role", "/", k.Name+"-cluster")),
		AccessConfig: &types.AccessConfigResponse{AuthenticationMode: types.AuthenticationModeApiAndConfigMap},
		Tags:         map[string]string{},
	}}, nil
}

func (c *call) subnetIDs() []string {
	ids := []string{}
	for _, s := range c.region.Subnets() {
		ids = append(ids, s.ID)
	}
	return ids
}

// listClusters returns a single page: there is at most one cluster.
func listClusters(c *call, _ *eks.ListClustersInput) (*eks.ListClustersOutput, error) {
	return &eks.ListClustersOutput{Clusters: append([]string{}, c.region.Clusters()...)}, nil
}

// eksPage returns a page of names, of 100 if the call does not say.
func eksPage(names []string, size *int32, token *string) ([]string, *string, error) {
	return page(names, size, 100, token, func(s string) string { return s })
}
