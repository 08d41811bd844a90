package awsapi

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/iam/types"

	"github.com/nodeless/nodeless/region"
)

func createdUser(p region.Principal) types.User {
	return types.User{
		Path: &p.Path, UserName: &p.Name, UserId: &p.ID, Arn: new(p.ARN()), CreateDate: &p.CreatedAt,
		Tags: copyOf[[]types.Tag](tagsOf(p.Tags)),
	}
}

func createdRole(p region.Principal) types.Role {
	return types.Role{
		Path: &p.Path, RoleName: &p.Name, RoleId: &p.ID, Arn: new(p.ARN()), CreateDate: &p.CreatedAt,
		AssumeRolePolicyDocument: encodedPolicy(p.Trust), MaxSessionDuration: seconds32(maxSession(p)),
		Tags: copyOf[[]types.Tag](tagsOf(p.Tags)),
	}
}

// maxSession returns how long sessions of a role may last.
func maxSession(role region.Principal) time.Duration { return cmp.Or(role.MaxSession, time.Hour) }

func createUser(c *call, in *iam.CreateUserInput) (*iam.CreateUserOutput, error) {
	p, err := c.region.CreatePrincipal(region.UserPrincipal, *in.UserName, aws.ToString(in.Path), "",
		tagMap(copyOf[[]ec2types.Tag](in.Tags)))
	return &iam.CreateUserOutput{User: new(createdUser(p))}, err
}

func createRole(c *call, in *iam.CreateRoleInput) (*iam.CreateRoleOutput, error) {
	p, err := c.region.CreatePrincipal(region.RolePrincipal, *in.RoleName, aws.ToString(in.Path),
		*in.AssumeRolePolicyDocument, tagMap(copyOf[[]ec2types.Tag](in.Tags)))
	if setSeconds(&p.MaxSession, in.MaxSessionDuration); err == nil && p.MaxSession > 0 {
		err = c.region.SetMaxSession(p.Name, p.MaxSession)
	}
	return &iam.CreateRoleOutput{Role: new(createdRole(p))}, err
}

// getUser returns the caller if the call names no user.
func getUser(c *call, in *iam.GetUserInput) (*iam.GetUserOutput, error) {
	name := aws.ToString(in.UserName)
	if name == "" {
		if p := c.caller.Principal; p == nil || p.Kind != region.UserPrincipal {
			return nil, failure(400, "ValidationError", "Must specify userName when calling with non-User credentials")
		}
		name = c.caller.Principal.Name
	}
	p, err := c.region.Principal(region.UserPrincipal, name)
	return &iam.GetUserOutput{User: new(createdUser(p))}, err
}

// principalPage returns the requested page of users or roles.
func principalPage(c *call, kind region.PrincipalKind, path, marker *string, items *int32,
) ([]region.Principal, *string, error) {
	return page(c.region.Principals(kind, aws.ToString(path)), items, defaultItems, marker,
		func(p region.Principal) string { return p.Name })
}

func listUsers(c *call, in *iam.ListUsersInput) (*iam.ListUsersOutput, error) {
	list, next, err := principalPage(c, region.UserPrincipal, in.PathPrefix, in.Marker, in.MaxItems)
	out := &iam.ListUsersOutput{Users: []types.User{}, IsTruncated: next != nil, Marker: next}
	for _, p := range list {
		out.Users = append(out.Users, createdUser(p))
	}
	return out, err
}

// listRoles lists the roles that were created.
func listRoles(c *call, in *iam.ListRolesInput) (*iam.ListRolesOutput, error) {
	list, next, err := principalPage(c, region.RolePrincipal, in.PathPrefix, in.Marker, in.MaxItems)
	out := &iam.ListRolesOutput{Roles: []types.Role{}, IsTruncated: next != nil, Marker: next}
	for _, p := range list {
		out.Roles = append(out.Roles, createdRole(p))
	}
	return out, err
}

func deleteUser(c *call, in *iam.DeleteUserInput) (*iam.DeleteUserOutput, error) {
	return &iam.DeleteUserOutput{}, c.region.DeletePrincipal(region.UserPrincipal, *in.UserName)
}

func deleteRole(c *call, in *iam.DeleteRoleInput) (*iam.DeleteRoleOutput, error) {
	return &iam.DeleteRoleOutput{}, c.region.DeletePrincipal(region.RolePrincipal, *in.RoleName)
}

func updateAssumeRolePolicy(
	c *call, in *iam.UpdateAssumeRolePolicyInput,
) (*iam.UpdateAssumeRolePolicyOutput, error) {
	return &iam.UpdateAssumeRolePolicyOutput{}, c.region.SetTrust(*in.RoleName, *in.PolicyDocument)
}

func putUserPolicy(c *call, in *iam.PutUserPolicyInput) (*iam.PutUserPolicyOutput, error) {
	return &iam.PutUserPolicyOutput{},
		c.region.PutPolicy(region.UserPrincipal, *in.UserName, *in.PolicyName, *in.PolicyDocument)
}

func putRolePolicy(c *call, in *iam.PutRolePolicyInput) (*iam.PutRolePolicyOutput, error) {
	return &iam.PutRolePolicyOutput{},
		c.region.PutPolicy(region.RolePrincipal, *in.RoleName, *in.PolicyName, *in.PolicyDocument)
}

// inlinePolicy returns an inline policy, encoded as IAM sends it.
func inlinePolicy(c *call, kind region.PrincipalKind, name, policy string) (*string, error) {
	p, err := c.region.Principal(kind, name)
	if err != nil {
		return nil, err
	}
	text, ok := p.Policies[policy]
	if !ok {
		return nil, region.NoPolicy(kind, policy)
	}
	return encodedPolicy(text), nil
}

func getUserPolicy(c *call, in *iam.GetUserPolicyInput) (*iam.GetUserPolicyOutput, error) {
	text, err := inlinePolicy(c, region.UserPrincipal, *in.UserName, *in.PolicyName)
	return &iam.GetUserPolicyOutput{UserName: in.UserName, PolicyName: in.PolicyName, PolicyDocument: text}, err
}

func getRolePolicy(c *call, in *iam.GetRolePolicyInput) (*iam.GetRolePolicyOutput, error) {
	text, err := inlinePolicy(c, region.RolePrincipal, *in.RoleName, *in.PolicyName)
	return &iam.GetRolePolicyOutput{RoleName: in.RoleName, PolicyName: in.PolicyName, PolicyDocument: text}, err
}

// listUserPolicies returns a single page, as the total size of a user's policies is limited.
func listUserPolicies(c *call, in *iam.ListUserPoliciesInput) (*iam.ListUserPoliciesOutput, error) {
	p, err := c.region.Principal(region.UserPrincipal, *in.UserName)
	return &iam.ListUserPoliciesOutput{PolicyNames: sortedNames(p.Policies)}, err
}

// listRolePolicies returns a single page too.
func listRolePolicies(c *call, in *iam.ListRolePoliciesInput) (*iam.ListRolePoliciesOutput, error) {
	p, err := c.region.Principal(region.RolePrincipal, *in.RoleName)
	return &iam.ListRolePoliciesOutput{PolicyNames: sortedNames(p.Policies)}, err
}

func sortedNames(m map[string]string) []string {
	return append([]string{}, slices.Sorted(maps.Keys(m))...)
}

func deleteUserPolicy(c *call, in *iam.DeleteUserPolicyInput) (*iam.DeleteUserPolicyOutput, error) {
	return &iam.DeleteUserPolicyOutput{}, c.region.DeletePolicy(region.UserPrincipal, *in.UserName, *in.PolicyName)
}

func deleteRolePolicy(c *call, in *iam.DeleteRolePolicyInput) (*iam.DeleteRolePolicyOutput, error) {
	return &iam.DeleteRolePolicyOutput{}, c.region.DeletePolicy(region.RolePrincipal, *in.RoleName, *in.PolicyName)
}

// keyOwner returns the user that a call about access keys names, by default the caller.
func keyOwner(c *call, name *string) string {
	if name == nil && c.caller.Principal != nil {
		return c.caller.Principal.Name
	}
	return aws.ToString(name)
}

func createAccessKey(c *call, in *iam.CreateAccessKeyInput) (*iam.CreateAccessKeyOutput, error) {
	k, err := c.region.CreateAccessKey(keyOwner(c, in.UserName))
	return &iam.CreateAccessKeyOutput{AccessKey: &types.AccessKey{
		UserName: &k.Name, AccessKeyId: &k.ID, SecretAccessKey: &k.Secret, Status: types.StatusTypeActive,
		CreateDate: &k.CreatedAt,
	}}, err
}

func listAccessKeys(c *call, in *iam.ListAccessKeysInput) (*iam.ListAccessKeysOutput, error) {
	keys, err := c.region.AccessKeys(keyOwner(c, in.UserName))
	out := &iam.ListAccessKeysOutput{AccessKeyMetadata: []types.AccessKeyMetadata{}}
	for _, k := range keys {
		out.AccessKeyMetadata = append(out.AccessKeyMetadata, types.AccessKeyMetadata{
			UserName: &k.Name, AccessKeyId: &k.ID, Status: types.StatusTypeActive, CreateDate: &k.CreatedAt,
		})
	}
	return out, err
}

func deleteAccessKey(c *call, in *iam.DeleteAccessKeyInput) (*iam.DeleteAccessKeyOutput, error) {
	return &iam.DeleteAccessKeyOutput{}, c.region.DeleteAccessKey(keyOwner(c, in.UserName), *in.AccessKeyId)
}
