package ec2api

import (
	"encoding/base64"
	"net/http"
	"strings"

	"github.com/nodeless/nodeless/region"
)

// eksAction is the operation that method and path of an EKS request mean; empty if it is none we serve.
func eksAction(req *http.Request) string {
	if req.Method != http.MethodGet {
		return ""
	}
	name, below := strings.CutPrefix(req.URL.Path, "/clusters/")
	switch {
	case req.URL.Path == "/clusters":
		return "ListClusters"
	case below && name != "" && !strings.Contains(name, "/"):
		return "DescribeCluster"
	}
	return ""
}

// clusterJSON is a cluster as EKS tells it.
type clusterJSON struct {
	Name                    string            `json:"name"`
	ARN                     string            `json:"arn"`
	Version                 string            `json:"version"`
	Endpoint                string            `json:"endpoint"`
	Status                  string            `json:"status"`
	CertificateAuthority    map[string]string `json:"certificateAuthority"` // data: the PEM in base64
	KubernetesNetworkConfig map[string]string `json:"kubernetesNetworkConfig"`
	Tags                    map[string]string `json:"tags"`
}

func describeCluster(c *call) (any, error) {
	k, err := c.region.Cluster(strings.TrimPrefix(c.path, "/clusters/"))
	if err != nil {
		return nil, err
	}
	return map[string]clusterJSON{"cluster": {
		Name: k.Name, ARN: "arn:aws:eks:" + c.region.Name() + ":" + region.AccountID + ":cluster/" + k.Name, Version: k.Version,
		Endpoint: k.Endpoint, Status: "ACTIVE",
		CertificateAuthority:    map[string]string{"data": base64.StdEncoding.EncodeToString([]byte(k.CA))},
		KubernetesNetworkConfig: map[string]string{"serviceIpv4Cidr": k.ServiceCIDR, "ipFamily": "ipv4"},
		Tags:                    map[string]string{},
	}}, nil
}

// listClusters tells them all at once: there is one.
func listClusters(c *call) (any, error) {
	return map[string][]string{"clusters": append([]string{}, c.region.Clusters()...)}, nil
}
