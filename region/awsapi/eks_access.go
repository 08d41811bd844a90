package awsapi

import (
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/nodeless/nodeless/region"
)

// accountRoot is the ARN of the cluster's creator.
const accountRoot = "arn:aws:iam::" + region.AccountID + ":root"

// clusterAdmin is the access policy of a cluster's creator (EKS User Guide, Review access policy permissions).
const clusterAdmin = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"

// NodeRole is an IAM role whose sessions are nodes, either instances or those of a Fargate profile.
type NodeRole struct {
	ARN, Username string
	Groups        []string // in Kubernetes
	Fargate       bool
}

func instanceRole(arn string) NodeRole {
	return NodeRole{ARN: arn, Username: "system:node:{{EC2PrivateDNSName}}", Groups: []string{"system:nodes"}}
}

// fargateRole returns the NodeRole of a pod execution role. kube-proxy in a microVM runs as its node.
func fargateRole(arn string) NodeRole {
	return NodeRole{
		ARN: arn, Username: "system:node:{{SessionName}}", Fargate: true,
		Groups: []string{"system:node-proxier", "system:nodes"},
	}
}

// accessEntries returns the access entries of a cluster, as its API server knows them: its creator, the roles of
// instance profiles, whose nodes join, and the pod execution roles of Fargate profiles, for which EKS adds entries
// itself.
func (c *call) accessEntries(cluster *string) ([]types.AccessEntry, error) {
	if _, err := c.region.Cluster(aws.ToString(cluster)); err != nil {
		return nil, err
	}
	entries := []types.AccessEntry{c.accessEntry(*cluster, accountRoot, "STANDARD", accountRoot)}
	seen := map[string]bool{}
	add := func(kind string, r NodeRole) {
		if !seen[r.ARN] {
			seen[r.ARN] = true
			entries = append(entries, c.accessEntry(*cluster, r.ARN, kind, r.Username, r.Groups...))
		}
	}
	for _, p := range c.region.InstanceProfiles("") {
		for _, role := range p.Roles {
			add("EC2_LINUX", instanceRole(iamARN("role", "/", role)))
		}
	}
	if c.kubernetes.Kubernetes == nil {
		return entries, nil
	}
	profiles, err := c.kubernetes.FargateProfiles(c.ctx)
	if err != nil {
		return nil, fmt.Errorf("list FargateProfiles: %w", err)
	}
	for i := range profiles {
		p := c.completeProfile(&profiles[i], *cluster)
		add("FARGATE_LINUX", fargateRole(*p.PodExecutionRoleArn))
	}
	return entries, nil
}

func (c *call) accessEntry(cluster, principal, kind, username string, groups ...string) types.AccessEntry {
	// user/NAME and role/NAME of an account, or its root
	name := strings.Split(principal[strings.LastIndex(principal, ":")+1:], "/")
	return types.AccessEntry{
		AccessEntryArn: c.eksARN("access-entry", append([]string{cluster}, name...)...), ClusterName: &cluster,
		PrincipalArn: &principal, Type: &kind, Username: &username, KubernetesGroups: append([]string{}, groups...),
		Tags: map[string]string{},
	}
}

func listAccessEntries(c *call, in *eks.ListAccessEntriesInput) (*eks.ListAccessEntriesOutput, error) {
	entries, err := c.accessEntries(in.ClusterName)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if policy := aws.ToString(in.AssociatedPolicyArn); policy == "" || slices.Contains(policiesOf(&e), policy) {
			names = append(names, *e.PrincipalArn)
		}
	}
	names, next, err := eksPage(names, in.MaxResults, in.NextToken)
	return &eks.ListAccessEntriesOutput{AccessEntries: names, NextToken: next}, err
}

func (c *call) findEntry(cluster, principal *string) (*types.AccessEntry, error) {
	entries, err := c.accessEntries(cluster)
	if err != nil {
		return nil, err
	}
	for i := range entries {
		if *entries[i].PrincipalArn == aws.ToString(principal) {
			return &entries[i], nil
		}
	}
	return nil, failure(404, "ResourceNotFoundException", "The specified principalArn could not be found. "+
		"You can view your available access entries with 'list-access-entries'.")
}

func describeAccessEntry(c *call, in *eks.DescribeAccessEntryInput) (*eks.DescribeAccessEntryOutput, error) {
	e, err := c.findEntry(in.ClusterName, in.PrincipalArn)
	return &eks.DescribeAccessEntryOutput{AccessEntry: e}, err
}

// policiesOf returns the access policies of an entry.
func policiesOf(e *types.AccessEntry) []string {
	if *e.PrincipalArn == accountRoot {
		return []string{clusterAdmin}
	}
	return nil
}

func listAssociatedAccessPolicies(
	c *call, in *eks.ListAssociatedAccessPoliciesInput,
) (*eks.ListAssociatedAccessPoliciesOutput, error) {
	e, err := c.findEntry(in.ClusterName, in.PrincipalArn)
	if err != nil {
		return nil, err
	}
	out := &eks.ListAssociatedAccessPoliciesOutput{
		ClusterName: in.ClusterName, PrincipalArn: in.PrincipalArn,
		AssociatedAccessPolicies: []types.AssociatedAccessPolicy{},
	}
	for _, policy := range policiesOf(e) {
		out.AssociatedAccessPolicies = append(out.AssociatedAccessPolicies, types.AssociatedAccessPolicy{
			PolicyArn: &policy, AccessScope: &types.AccessScope{Type: types.AccessScopeTypeCluster, Namespaces: []string{}},
		})
	}
	return out, nil
}
