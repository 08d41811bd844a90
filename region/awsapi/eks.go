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

// Kubernetes is what EKS keeps in the cluster itself: its Fargate profiles are objects there, and its add-ons run
// there. Objects have a UID and lack what EKS adds, the cluster's name and the ARN.
type Kubernetes interface {
	// FargateProfiles returns all profiles, by whichever API they were created.
	FargateProfiles(context.Context) ([]FargateProfile, error)
	// CreateFargateProfile creates a profile. ErrExists if there is one whose object has the name.
	CreateFargateProfile(context.Context, types.FargateProfile) error
	// DeleteFargateProfile begins to delete a profile, which is DELETING until its pods are gone.
	DeleteFargateProfile(ctx context.Context, name string) error
	// TagFargateProfile replaces a profile's tags.
	TagFargateProfile(ctx context.Context, name string, tags map[string]string) error
	// MapRole lets the nodes of a role join, in the cluster's ConfigMap aws-auth; UnmapRole takes that back.
	MapRole(context.Context, NodeRole) error
	UnmapRole(context.Context, NodeRole) error
	// Addons returns the add-ons that are installed.
	Addons(context.Context) ([]Addon, error)
}

// FargateProfile is a profile as the cluster holds it.
type FargateProfile struct {
	types.FargateProfile
	UID string
}

// Addon is an add-on as the cluster runs it.
type Addon struct {
	types.Addon
	UID string
}

// kubernetes is the EKS of a server.
type kubernetes struct {
	Kubernetes
	mu sync.Mutex // held while a profile is created or deleted: the cluster is looked at before
}

// inCluster returns the Kubernetes of a cluster.
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

// eksARN returns the ARN of something of a cluster, such as an add-on.
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
	// EKS Auto Mode is compute, load balancing and block storage, on or off together.
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

// listClusters has one page: there is one cluster at most.
func listClusters(c *call, _ *eks.ListClustersInput) (*eks.ListClustersOutput, error) {
	return &eks.ListClustersOutput{Clusters: append([]string{}, c.region.Clusters()...)}, nil
}

// eksPage returns a page of names; EKS's pages have at most 100.
func eksPage(names []string, size *int32, token *string) ([]string, *string, error) {
	names, next, err := page(names, int(aws.ToInt32(size)), 100, aws.ToString(token), func(s string) string { return s })
	if names == nil {
		names = []string{}
	}
	return names, optional(next), err
}
