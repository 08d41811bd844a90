package awsapi

import (
	"encoding/base64"
	"net/http"
	"strings"

	"github.com/nodeless/nodeless/region"
)

// eksKinds are what EKS has below a cluster, by the path's name for it (EKS API reference 2017-11-01).
var eksKinds = map[string]string{
	"": "Cluster", "access-entries": "AccessEntry", "addons": "Addon", "fargate-profiles": "FargateProfile",
	"identity-provider-configs": "IdentityProviderConfig", "insights": "Insight", "node-groups": "Nodegroup",
	"pod-identity-associations": "PodIdentityAssociation", "updates": "Update",
}

// eksAction is the operation that method and path of an EKS request mean, served or not; empty if the path is none of
// EKS.
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

// clusterJSON is a cluster in EKS's form.
type clusterJSON struct {
	Name                    string            `json:"name"`
	ARN                     string            `json:"arn"`
	Version                 string            `json:"version"`
	Endpoint                string            `json:"endpoint"`
	Status                  string            `json:"status"`
	CertificateAuthority    map[string]string `json:"certificateAuthority"` // data: the PEM in base64
	KubernetesNetworkConfig map[string]string `json:"kubernetesNetworkConfig"`
	ResourcesVPCConfig      vpcConfigJSON     `json:"resourcesVpcConfig"`
	RoleARN                 string            `json:"roleArn"`
	AccessConfig            map[string]string `json:"accessConfig"`
	Tags                    map[string]string `json:"tags"`
}

type vpcConfigJSON struct {
	VPCID                  string   `json:"vpcId"`
	SubnetIDs              []string `json:"subnetIds"`
	SecurityGroupIDs       []string `json:"securityGroupIds"`
	ClusterSecurityGroupID string   `json:"clusterSecurityGroupId"`
	EndpointPublicAccess   bool     `json:"endpointPublicAccess"`
	EndpointPrivateAccess  bool     `json:"endpointPrivateAccess"`
	PublicAccessCIDRs      []string `json:"publicAccessCidrs"`
}

func describeCluster(c *call) (any, error) {
	k, err := c.region.Cluster(strings.TrimPrefix(c.path, "/clusters/"))
	if err != nil {
		return nil, err
	}
	subnets := []string{}
	for _, s := range c.region.Subnets() {
		subnets = append(subnets, s.ID)
	}
	return map[string]clusterJSON{"cluster": {
		Name: k.Name, ARN: "arn:aws:eks:" + c.region.Name() + ":" + region.AccountID + ":cluster/" + k.Name,
		Version:  k.Version,
		Endpoint: k.Endpoint, Status: "ACTIVE",
		CertificateAuthority:    map[string]string{"data": base64.StdEncoding.EncodeToString([]byte(k.CA))},
		KubernetesNetworkConfig: map[string]string{"serviceIpv4Cidr": k.ServiceCIDR, "ipFamily": "ipv4"},
		ResourcesVPCConfig: vpcConfigJSON{
			VPCID: region.VPCID, SubnetIDs: subnets, SecurityGroupIDs: []string{},
			ClusterSecurityGroupID: c.region.ClusterSecurityGroup(),
			EndpointPublicAccess:   true, PublicAccessCIDRs: []string{"127.0.0.0/8"},
		},
		RoleARN: iamARN("role", "/", k.Name+"-cluster"), AccessConfig: map[string]string{"authenticationMode": "API"},
		Tags: map[string]string{},
	}}, nil
}

// listClusters has one page: there is one cluster at most.
func listClusters(c *call) (any, error) {
	return map[string][]string{"clusters": append([]string{}, c.region.Clusters()...)}, nil
}
