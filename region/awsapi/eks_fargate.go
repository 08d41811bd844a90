package awsapi

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"
)

// ErrExists is the error of Kubernetes.CreateFargateProfile if an object with the profile's name exists.
var ErrExists = errors.New("the object exists")

// EKS's quotas of Fargate (EKS User Guide, View and manage Amazon EKS and Fargate service quotas).
const (
	maxFargateProfiles = 10
	maxSelectors       = 5
	maxSelectorLabels  = 5
	maxTags            = 50
)

// profileName matches a profile's name. It becomes a label value, hence at most 63 characters.
var profileName = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z_-]{0,62}$`)

// roleARN matches an IAM role's ARN.
var roleARN = regexp.MustCompile(`^arn:aws[a-z-]*:iam::[0-9]*:role/(.+)$`)

// createFargateProfile is EKS's CreateFargateProfile. Its messages were observed on EKS: those for names, selectors
// and labels by moto's authors (moto/eks/models.py: "obtained through cURL responses from the actual APIs"), the one
// for a profile in CREATING in terraform-aws-modules/terraform-aws-eks #866.
func createFargateProfile(c *call, in *eks.CreateFargateProfileInput) (*eks.CreateFargateProfileOutput, error) {
	k, err := c.inCluster(in.ClusterName)
	if err != nil {
		return nil, err
	}
	if err := c.checkProfile(in); err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	existing, err := k.FargateProfiles(c.ctx)
	if err != nil {
		return nil, fmt.Errorf("list FargateProfiles: %w", err)
	}
	name, kind := aws.ToString(in.FargateProfileName), "fargateprofile/"+*in.ClusterName+"/"
	token := aws.ToString(in.ClientRequestToken)
	arn, err := c.region.Created(kind, token, in)
	if err != nil {
		return nil, tokenReused(err)
	}
	if p := findProfile(existing, name); p != nil {
		if made := c.completeProfile(p, *in.ClusterName); *made.FargateProfileArn == arn {
			return &eks.CreateFargateProfileOutput{FargateProfile: made}, nil
		}
		return nil, profileExists()
	}
	if err := notWhileChanging(existing, "create", name, aws.ToString(in.ClusterName)); err != nil {
		return nil, err
	}
	if len(existing) >= maxFargateProfiles {
		return nil, failure(400, "ResourceLimitExceededException", fmt.Sprintf(
			"Fargate Profile limit exceeded for cluster %s: at most %d", *in.ClusterName, maxFargateProfiles))
	}
	p := types.FargateProfile{
		FargateProfileName: &name, PodExecutionRoleArn: in.PodExecutionRoleArn, Selectors: in.Selectors,
		Subnets: in.Subnets, Tags: in.Tags,
	}
	switch err := k.CreateFargateProfile(c.ctx, p); {
	case errors.Is(err, ErrExists):
		return nil, profileExists()
	case err != nil:
		return nil, fmt.Errorf("create FargateProfile %s: %w", name, err)
	}
	if err := k.MapRole(c.ctx, fargateRole(*in.PodExecutionRoleArn)); err != nil {
		return nil, err
	}
	made, err := c.fargateProfile(in.ClusterName, &name)
	if err != nil {
		return nil, err
	}
	if err := c.region.RememberCreated(kind, token, in, *made.FargateProfileArn); err != nil {
		return nil, err
	}
	return &eks.CreateFargateProfileOutput{FargateProfile: made}, nil
}

func profileExists() error {
	return failure(409, "ResourceInUseException", "A Fargate Profile already exists with this name in this cluster.")
}

// notWhileChanging returns an error if a profile of the cluster is being created or deleted.
func notWhileChanging(profiles []FargateProfile, verb, name, cluster string) error {
	for _, p := range profiles {
		if p.Status == types.FargateProfileStatusActive || verb == "delete" && *p.FargateProfileName == name {
			continue
		}
		return failure(409, "ResourceInUseException", fmt.Sprintf(
			"Cannot %s Fargate Profile %s because cluster %s currently has Fargate profile %s in status %s",
			verb, name, cluster, *p.FargateProfileName, p.Status))
	}
	return nil
}

// checkProfile validates a profile on its own.
func (c *call) checkProfile(in *eks.CreateFargateProfileInput) error {
	invalid := func(format string, args ...any) error {
		return failure(400, "InvalidParameterException", fmt.Sprintf(format, args...))
	}
	name := aws.ToString(in.FargateProfileName)
	role := roleARN.FindStringSubmatch(aws.ToString(in.PodExecutionRoleArn))
	switch {
	case !profileName.MatchString(name):
		return invalid("fargateProfileName %q is invalid: 1 to 63 letters, digits, hyphens and underscores that begin "+
			"with a letter or digit", name)
	case strings.HasPrefix(name, "eks-"):
		return invalid("fargateProfileName %q starts with the reserved prefix: 'eks-'", name)
	case role == nil:
		return invalid("podExecutionRoleArn %q is not the ARN of an IAM role", aws.ToString(in.PodExecutionRoleArn))
	case strings.Contains(role[1], "/"):
		return invalid("podExecutionRoleArn %s has a path other than /: remove it from the ARN", *in.PodExecutionRoleArn)
	}
	if !c.hasRole(role[1]) {
		return invalid("Role with arn: %s, could not be assumed because it does not exist or the trusted entity is not "+
			"correct", *in.PodExecutionRoleArn)
	}
	if err := checkSelectors(in.Selectors); err != nil {
		return err
	}
	return cmp.Or(c.checkSubnets(in.Subnets), checkTags(in.Tags))
}

// checkSubnets returns an error if one of the subnets does not exist.
func (c *call) checkSubnets(ids []string) error {
	known := c.subnetIDs()
	for _, id := range ids {
		if !slices.Contains(known, id) {
			return failure(400, "InvalidParameterException", fmt.Sprintf("The subnet ID '%s' does not exist", id))
		}
	}
	return nil
}

func checkSelectors(selectors []types.FargateProfileSelector) error {
	invalid := func(text string) error { return failure(400, "InvalidParameterException", text) }
	switch {
	case len(selectors) == 0:
		return invalid("Fargate Profile requires at least one selector.")
	case len(selectors) > maxSelectors:
		return invalid(fmt.Sprintf("Fargate Profile may not have more than %d selectors, has %d", maxSelectors,
			len(selectors)))
	}
	for _, s := range selectors {
		switch {
		case aws.ToString(s.Namespace) == "":
			return invalid("Fargate Profile must have at least one selector with at least one namespace value.")
		case len(s.Labels) > maxSelectorLabels:
			return invalid("Request contains Selector with more than 5 Label pairs")
		}
	}
	return nil
}

func checkTags(tags map[string]string) error {
	if len(tags) > maxTags {
		return failure(400, "InvalidParameterException",
			fmt.Sprintf("at most %d tags are allowed, not %d", maxTags, len(tags)))
	}
	for key, value := range tags {
		if n := len([]rune(key)); n < 1 || n > 128 || strings.HasPrefix(key, "aws:") || len([]rune(value)) > 256 {
			return failure(400, "InvalidParameterException", fmt.Sprintf("tag %q: keys have 1 to 128 characters and do not "+
				"begin with aws:, values have at most 256", key))
		}
	}
	return nil
}

func findProfile(profiles []FargateProfile, name string) *FargateProfile {
	for i := range profiles {
		if *profiles[i].FargateProfileName == name {
			return &profiles[i]
		}
	}
	return nil
}

// fargateProfile returns a profile in EKS's type.
func (c *call) fargateProfile(cluster, name *string) (*types.FargateProfile, error) {
	k, err := c.inCluster(cluster)
	if err != nil {
		return nil, err
	}
	all, err := k.FargateProfiles(c.ctx)
	if err != nil {
		return nil, fmt.Errorf("list FargateProfiles: %w", err)
	}
	p := findProfile(all, aws.ToString(name))
	if p == nil {
		return nil, failure(404, "ResourceNotFoundException",
			"No Fargate Profile found with name: "+aws.ToString(name)+".")
	}
	return c.completeProfile(p, *cluster), nil
}

// completeProfile adds what the cluster does not store. A profile created by kubectl gets the subnets of the cluster
// and a role of the account.
func (c *call) completeProfile(p *FargateProfile, cluster string) *types.FargateProfile {
	out := p.FargateProfile
	out.ClusterName = &cluster
	out.FargateProfileArn = c.eksARN("fargateprofile", cluster, *p.FargateProfileName, p.UID)
	if out.PodExecutionRoleArn == nil {
		out.PodExecutionRoleArn = new(iamARN("role", "/", cluster+"-fargate-pods"))
	}
	if len(out.Subnets) == 0 {
		out.Subnets = c.subnetIDs()
	}
	out.Tags = mapOf(out.Tags)
	return &out
}

func mapOf(tags map[string]string) map[string]string {
	if tags == nil {
		return map[string]string{}
	}
	return tags
}

func describeFargateProfile(
	c *call, in *eks.DescribeFargateProfileInput,
) (*eks.DescribeFargateProfileOutput, error) {
	p, err := c.fargateProfile(in.ClusterName, in.FargateProfileName)
	return &eks.DescribeFargateProfileOutput{FargateProfile: p}, err
}

func listFargateProfiles(c *call, in *eks.ListFargateProfilesInput) (*eks.ListFargateProfilesOutput, error) {
	k, err := c.inCluster(in.ClusterName)
	if err != nil {
		return nil, err
	}
	all, err := k.FargateProfiles(c.ctx)
	if err != nil {
		return nil, fmt.Errorf("list FargateProfiles: %w", err)
	}
	var names []string
	for _, p := range all {
		names = append(names, *p.FargateProfileName)
	}
	names, next, err := eksPage(names, in.MaxResults, in.NextToken)
	return &eks.ListFargateProfilesOutput{FargateProfileNames: names, NextToken: next}, err
}

func deleteFargateProfile(c *call, in *eks.DeleteFargateProfileInput) (*eks.DeleteFargateProfileOutput, error) {
	k, err := c.inCluster(in.ClusterName)
	if err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	p, err := c.fargateProfile(in.ClusterName, in.FargateProfileName)
	if err != nil {
		return nil, err
	}
	all, err := k.FargateProfiles(c.ctx)
	if err != nil {
		return nil, fmt.Errorf("list FargateProfiles: %w", err)
	}
	name := *in.FargateProfileName
	if err := notWhileChanging(all, "delete", name, *in.ClusterName); err != nil {
		return nil, err
	}
	if p.Status != types.FargateProfileStatusDeleting {
		if err := k.DeleteFargateProfile(c.ctx, name); err != nil {
			return nil, fmt.Errorf("delete FargateProfile %s: %w", name, err)
		}
		if role := findProfile(all, name).PodExecutionRoleArn; role != nil { // profiles created by kubectl have none
			if err := k.UnmapRole(c.ctx, fargateRole(*role)); err != nil {
				return nil, err
			}
		}
	}
	p.Status = types.FargateProfileStatusDeleting
	return &eks.DeleteFargateProfileOutput{FargateProfile: p}, nil
}

// taggedProfile returns the profile with the given ARN.
func (c *call) taggedProfile(arn *string) (*kubernetes, *types.FargateProfile, error) {
	prefix := *c.eksARN("fargateprofile") + "/"
	names, ok := strings.CutPrefix(aws.ToString(arn), prefix)
	part := strings.Split(names, "/")
	if !ok || len(part) != 3 {
		return nil, nil, failure(400, "BadRequestException", fmt.Sprintf(
			"The simulated region has tags of Fargate profiles alone: %q does not begin with %s", aws.ToString(arn), prefix))
	}
	p, err := c.fargateProfile(&part[0], &part[1])
	if err != nil {
		return nil, nil, failure(404, "NotFoundException", err.Error())
	}
	return c.kubernetes, p, nil
}

func listTagsForResource(c *call, in *eks.ListTagsForResourceInput) (*eks.ListTagsForResourceOutput, error) {
	_, p, err := c.taggedProfile(in.ResourceArn)
	if err != nil {
		return nil, err
	}
	return &eks.ListTagsForResourceOutput{Tags: p.Tags}, nil
}

func tagResource(c *call, in *eks.TagResourceInput) (*eks.TagResourceOutput, error) {
	k, p, err := c.taggedProfile(in.ResourceArn)
	if err != nil {
		return nil, err
	}
	tags := maps.Clone(p.Tags)
	maps.Copy(tags, in.Tags)
	if err := checkTags(tags); err != nil {
		return nil, err
	}
	return &eks.TagResourceOutput{}, k.TagFargateProfile(c.ctx, *p.FargateProfileName, tags)
}

func untagResource(c *call, in *eks.UntagResourceInput) (*eks.UntagResourceOutput, error) {
	k, p, err := c.taggedProfile(in.ResourceArn)
	if err != nil {
		return nil, err
	}
	tags := maps.Clone(p.Tags)
	maps.DeleteFunc(tags, func(key, _ string) bool { return slices.Contains(in.TagKeys, key) })
	return &eks.UntagResourceOutput{}, k.TagFargateProfile(c.ctx, *p.FargateProfileName, tags)
}
