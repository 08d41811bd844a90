package awsapi

import (
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"
)

// addons converts a cluster's add-ons to EKS's type.
func (c *call) addons(cluster *string) ([]types.Addon, error) {
	k, err := c.inCluster(cluster)
	if err != nil {
		return nil, err
	}
	all, err := k.Addons(c.ctx)
	if err != nil {
		return nil, fmt.Errorf("list add-ons: %w", err)
	}
	var out []types.Addon
	for _, a := range all {
		x := a.Addon
		x.ClusterName, x.AddonArn = cluster, c.eksARN("addon", *cluster, *a.AddonName, a.UID)
		x.Tags = map[string]string{}
		out = append(out, x)
	}
	return out, nil
}

func listAddons(c *call, in *eks.ListAddonsInput) (*eks.ListAddonsOutput, error) {
	all, err := c.addons(in.ClusterName)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, a := range all {
		names = append(names, *a.AddonName)
	}
	names, next, err := eksPage(names, in.MaxResults, in.NextToken)
	return &eks.ListAddonsOutput{Addons: names, NextToken: next}, err
}

func describeAddon(c *call, in *eks.DescribeAddonInput) (*eks.DescribeAddonOutput, error) {
	all, err := c.addons(in.ClusterName)
	if err != nil {
		return nil, err
	}
	for i := range all {
		if *all[i].AddonName == aws.ToString(in.AddonName) {
			return &eks.DescribeAddonOutput{Addon: &all[i]}, nil
		}
	}
	return nil, failure(404, "ResourceNotFoundException",
		"No addon: "+aws.ToString(in.AddonName)+" found in cluster: "+aws.ToString(in.ClusterName))
}

// describeAddonVersions returns the add-on versions of the region: those that the cluster runs, for its Kubernetes
// version.
func describeAddonVersions(c *call, in *eks.DescribeAddonVersionsInput) (*eks.DescribeAddonVersionsOutput, error) {
	out := &eks.DescribeAddonVersionsOutput{Addons: []types.AddonInfo{}}
	for _, cluster := range c.region.Clusters() {
		k, err := c.region.Cluster(cluster)
		if err != nil {
			return nil, err
		}
		all, err := c.addons(&cluster)
		if err != nil {
			return nil, err
		}
		for _, a := range all {
			if wanted(in.AddonName, *a.AddonName) && wanted(in.KubernetesVersion, k.Version) {
				out.Addons = append(out.Addons, types.AddonInfo{
					AddonName: a.AddonName, Owner: a.Owner, Publisher: a.Publisher,
					AddonVersions: []types.AddonVersionInfo{{
						AddonVersion: a.AddonVersion, Architecture: []string{"amd64", "arm64"},
						Compatibilities: []types.Compatibility{{ClusterVersion: &k.Version, DefaultVersion: true}},
					}},
				})
			}
		}
	}
	return out, nil
}

// wanted reports whether value matches an optional parameter.
func wanted(parameter *string, value string) bool { return parameter == nil || *parameter == value }
