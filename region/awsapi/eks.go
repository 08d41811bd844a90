package awsapi

import (
	"encoding/base64"
	"net/http"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/nodeless/nodeless/region"
)

// eksKinds maps the names in paths below a cluster to EKS's kinds (EKS API reference 2017-11-01).
var eksKinds = map[string]string{
	"": "Cluster", "access-entries": "AccessEntry", "addons": "Addon", "fargate-profiles": "FargateProfile",
	"identity-provider-configs": "IdentityProviderConfig", "insights": "Insight", "node-groups": "Nodegroup",
	"pod-identity-associations": "PodIdentityAssociation", "updates": "Update",
}

// eksAction returns the operation of an EKS request by method and path, served or not; "" if the path is not EKS's.
func eksAction(req *http.Request) string {
	path := strings.Split(strings.Trim(req.URL.Path, "/"), "/") // clusters[/NAME[/KIND[/NAME]]]
	if path[0] != "clusters" || len(path) > 4 {
		return ""
	}
	kind := ""
	if len(path) > 2 {
		kind = path[2]
	}
	noun, one := eksKinds[kind], len(path)%2 == 0
	switch {
	case noun == "":
		return ""
	case req.Method == http.MethodGet && one:
		return "Describe" + noun
	case req.Method == http.MethodGet:
		return "List" + strings.TrimSuffix(noun, "y") + map[bool]string{true: "ies", false: "s"}[strings.HasSuffix(noun, "y")]
	case req.Method == http.MethodPost && !one:
		return "Create" + noun
	case req.Method == http.MethodPost:
		return "Update" + noun
	case req.Method == http.MethodDelete && one:
		return "Delete" + noun
	}
	return ""
}

func describeCluster(c *call, _ *eks.DescribeClusterInput) (*eks.DescribeClusterOutput, error) {
	k, err := c.region.Cluster(strings.TrimPrefix(c.path, "/clusters/"))
	if err != nil {
		return nil, err
	}
	subnets := []string{}
	for _, s := range c.region.Subnets() {
		subnets = append(subnets, s.ID)
	}
	return &eks.DescribeClusterOutput{Cluster: &types.Cluster{
		Name: &k.Name, Arn: new("arn:aws:eks:" + c.region.Name() + ":" + region.AccountID + ":cluster/" + k.Name),
		Version: &k.Version, Endpoint: &k.Endpoint, Status: types.ClusterStatusActive,
		CertificateAuthority: &types.Certificate{Data: new(base64.StdEncoding.EncodeToString([]byte(k.CA)))},
		KubernetesNetworkConfig: &types.KubernetesNetworkConfigResponse{
			ServiceIpv4Cidr: &k.ServiceCIDR, IpFamily: types.IpFamilyIpv4,
		},
		ResourcesVpcConfig: &types.VpcConfigResponse{
			VpcId: new(region.VPCID), SubnetIds: subnets, SecurityGroupIds: []string{},
			ClusterSecurityGroupId: new(c.region.ClusterSecurityGroup()),
			EndpointPublicAccess:   true, PublicAccessCidrs: []string{"127.0.0.0/8"},
		},
		RoleArn:      new(iamARN("role", "/", k.Name+"-cluster")),
		AccessConfig: &types.AccessConfigResponse{AuthenticationMode: types.AuthenticationModeApi},
		Tags:         map[string]string{},
	}}, nil
}

// listClusters has one page: there is one cluster at most.
func listClusters(c *call, _ *eks.ListClustersInput) (*eks.ListClustersOutput, error) {
	return &eks.ListClustersOutput{Clusters: append([]string{}, c.region.Clusters()...)}, nil
}
