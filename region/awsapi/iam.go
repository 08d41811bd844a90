package awsapi

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/iam/types"

	"github.com/nodeless/nodeless/region"
)

// rolesCreated is the creation date of every role that CreateRole did not create.
var rolesCreated = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// nodeTrust is the trust policy of those roles.
const nodeTrust = `{"Version":"2012-10-17","Statement":[{"Effect":"Allow",` +
	`"Principal":{"Service":"ec2.amazonaws.com"},"Action":"sts:AssumeRole"}]}`

func iamARN(kind, path, name string) string {
	return "arn:aws:iam::" + region.AccountID + ":" + kind + path + name
}

func roleOf(name string) types.Role {
	sum := sha256.Sum256([]byte(name))
	return types.Role{
		Path: new("/"), RoleName: &name, RoleId: new("AROA" + strings.ToUpper(hex.EncodeToString(sum[:8]))),
		Arn: new(iamARN("role", "/", name)), CreateDate: &rolesCreated,
		AssumeRolePolicyDocument: encodedPolicy(nodeTrust),
	}
}

// encodedPolicy encodes a policy as IAM sends it: URL-encoded (RFC 3986).
func encodedPolicy(document string) *string {
	return new(strings.ReplaceAll(url.QueryEscape(document), "+", "%20"))
}

// profileOf converts a profile to IAM's type.
func profileOf(p region.InstanceProfile) *types.InstanceProfile {
	x := &types.InstanceProfile{
		Path: &p.Path, InstanceProfileName: &p.Name, InstanceProfileId: &p.ID,
		Arn: new(iamARN("instance-profile", p.Path, p.Name)), CreateDate: &p.CreatedAt,
		Roles: []types.Role{}, Tags: copyOf[[]types.Tag](tagsOf(p.Tags)),
	}
	for _, role := range p.Roles {
		x.Roles = append(x.Roles, roleOf(role))
	}
	return x
}

func getInstanceProfile(c *call, in *iam.GetInstanceProfileInput) (*iam.GetInstanceProfileOutput, error) {
	p, err := c.region.InstanceProfile(*in.InstanceProfileName)
	return &iam.GetInstanceProfileOutput{InstanceProfile: profileOf(p)}, err
}

func createInstanceProfile(
	c *call, in *iam.CreateInstanceProfileInput,
) (*iam.CreateInstanceProfileOutput, error) {
	p, err := c.region.CreateInstanceProfile(*in.InstanceProfileName, aws.ToString(in.Path),
		tagMap(copyOf[[]ec2types.Tag](in.Tags)))
	return &iam.CreateInstanceProfileOutput{InstanceProfile: profileOf(p)}, err
}

func deleteInstanceProfile(
	c *call, in *iam.DeleteInstanceProfileInput,
) (*iam.DeleteInstanceProfileOutput, error) {
	return &iam.DeleteInstanceProfileOutput{}, c.region.DeleteInstanceProfile(*in.InstanceProfileName)
}

func tagInstanceProfile(c *call, in *iam.TagInstanceProfileInput) (*iam.TagInstanceProfileOutput, error) {
	return &iam.TagInstanceProfileOutput{},
		c.region.TagInstanceProfile(*in.InstanceProfileName, tagMap(copyOf[[]ec2types.Tag](in.Tags)))
}

// defaultItems is IAM's default page size.
const defaultItems = 100

// listInstanceProfiles omits the tags, as IAM does.
func listInstanceProfiles(c *call, in *iam.ListInstanceProfilesInput) (*iam.ListInstanceProfilesOutput, error) {
	list, next, err := page(c.region.InstanceProfiles(aws.ToString(in.PathPrefix)), in.MaxItems, defaultItems, in.Marker,
		func(p region.InstanceProfile) string { return p.Name })
	out := &iam.ListInstanceProfilesOutput{
		InstanceProfiles: []types.InstanceProfile{}, IsTruncated: next != nil, Marker: next,
	}
	for _, p := range list {
		p.Tags = nil
		out.InstanceProfiles = append(out.InstanceProfiles, *profileOf(p))
	}
	return out, err
}

func addRoleToInstanceProfile(
	c *call, in *iam.AddRoleToInstanceProfileInput,
) (*iam.AddRoleToInstanceProfileOutput, error) {
	return &iam.AddRoleToInstanceProfileOutput{},
		c.region.AddRoleToInstanceProfile(*in.InstanceProfileName, *in.RoleName)
}

func removeRoleFromInstanceProfile(
	c *call, in *iam.RemoveRoleFromInstanceProfileInput,
) (*iam.RemoveRoleFromInstanceProfileOutput, error) {
	return &iam.RemoveRoleFromInstanceProfileOutput{},
		c.region.RemoveRoleFromInstanceProfile(*in.InstanceProfileName, *in.RoleName)
}

func getRole(c *call, in *iam.GetRoleInput) (*iam.GetRoleOutput, error) {
	if p, err := c.region.Principal(region.RolePrincipal, *in.RoleName); err == nil {
		return &iam.GetRoleOutput{Role: new(createdRole(p))}, nil
	}
	role, err := c.region.Role(*in.RoleName)
	return &iam.GetRoleOutput{Role: new(roleOf(role.Name))}, err
}
