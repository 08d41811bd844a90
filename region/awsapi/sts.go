package awsapi

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/aws-sdk-go-v2/service/sts/types"

	"github.com/nodeless/nodeless/region"
	evaluate "github.com/nodeless/nodeless/region/iam"
)

func getCallerIdentity(c *call, _ *sts.GetCallerIdentityInput) (*sts.GetCallerIdentityOutput, error) {
	return &sts.GetCallerIdentityOutput{
		Arn: &c.caller.ARN, UserId: &c.caller.UserID, Account: new(region.AccountID),
	}, nil
}

// assumeRole returns the keys of a role session.
func assumeRole(c *call, in *sts.AssumeRoleInput) (*sts.AssumeRoleOutput, error) {
	path := strings.TrimPrefix(*in.RoleArn, "arn:aws:iam::"+region.AccountID+":role/")
	role, err := c.region.Principal(region.RolePrincipal, path[strings.LastIndex(path, "/")+1:])
	if err != nil || role.ARN() != *in.RoleArn || !(authorizer{c}).mayAssume(role) {
		return nil, failure(http.StatusForbidden, "AccessDenied", fmt.Sprintf(
			"User: %s is not authorized to perform: sts:AssumeRole on resource: %s", c.caller.ARN, *in.RoleArn))
	}
	lifetime := time.Hour
	if setSeconds(&lifetime, in.DurationSeconds); lifetime > maxSession(role) {
		return nil, failure(http.StatusBadRequest, "ValidationError",
			"The requested DurationSeconds exceeds the MaxSessionDuration set for this role.")
	}
	k, err := c.region.AssumeRole(role.Name, *in.RoleSessionName, lifetime)
	if err != nil {
		return nil, err
	}
	return &sts.AssumeRoleOutput{
		AssumedRoleUser: &types.AssumedRoleUser{
			Arn:           new(sessionARN(role.Name, k.Session)),
			AssumedRoleId: new(role.ID + ":" + k.Session),
		},
		Credentials: &types.Credentials{
			AccessKeyId: &k.ID, SecretAccessKey: &k.Secret, SessionToken: &k.Token, Expiration: &k.ExpiresAt,
		},
	}, nil
}

// mayAssume reports whether the caller may assume a role. The role must trust either the caller or the account; if it
// trusts the account, the caller's own policies must allow the call too (IAM user guide, "Methods to assume a role"). A
// deny of either in the trust policy wins.
func (c authorizer) mayAssume(role region.Principal) bool {
	trust, err := evaluate.ParseTrust(role.Trust)
	if err != nil {
		return false
	}
	decide := func(names ...string) evaluate.Decision {
		r := c.request(access{action: "sts:AssumeRole", tags: role.Tags})
		r.Principals = names
		return evaluate.Evaluate(r, trust)
	}
	account := decide(region.AccountID, accountRoot) == evaluate.Allowed
	if c.caller.Principal == nil {
		return account
	}
	own := []string{c.caller.ARN, c.caller.Principal.ARN()}
	if decide(append(own, region.AccountID, accountRoot)...) == evaluate.ExplicitDeny {
		return false
	}
	policies, err := c.caller.policies()
	if err != nil {
		return false
	}
	switch evaluate.Evaluate(c.request(access{
		action: "sts:AssumeRole", resource: role.ARN(), tags: role.Tags,
	}), policies...) {
	case evaluate.ExplicitDeny:
		return false
	case evaluate.Allowed:
		if account {
			return true
		}
	}
	return decide(own...) == evaluate.Allowed
}

// simulatePrincipalPolicy evaluates the policies of a user or role for given actions and resources, as if the user or
// role made the calls.
func simulatePrincipalPolicy(
	c *call, in *iam.SimulatePrincipalPolicyInput,
) (*iam.SimulatePrincipalPolicyOutput, error) {
	who, err := principalByARN(c, *in.PolicySourceArn)
	if err != nil {
		return nil, err
	}
	policies, err := Caller{ARN: who.ARN(), Principal: &who}.policies()
	if err != nil {
		return nil, err
	}
	resources := in.ResourceArns
	if len(resources) == 0 {
		resources = []string{"*"}
	}
	names := map[evaluate.Decision]iamtypes.PolicyEvaluationDecisionType{
		evaluate.Allowed:      iamtypes.PolicyEvaluationDecisionTypeAllowed,
		evaluate.ExplicitDeny: iamtypes.PolicyEvaluationDecisionTypeExplicitDeny,
		evaluate.ImplicitDeny: iamtypes.PolicyEvaluationDecisionTypeImplicitDeny,
	}
	out := &iam.SimulatePrincipalPolicyOutput{EvaluationResults: []iamtypes.EvaluationResult{}}
	for _, action := range in.ActionNames {
		for _, resource := range resources {
			r := evaluate.Request{Action: action, Resource: resource, Context: evaluate.Context{}}
			for _, e := range in.ContextEntries {
				r.Context.Set(aws.ToString(e.ContextKeyName), e.ContextKeyValues...)
			}
			out.EvaluationResults = append(out.EvaluationResults, iamtypes.EvaluationResult{
				EvalActionName: &action, EvalResourceName: &resource,
				EvalDecision: names[evaluate.Evaluate(r, policies...)],
			})
		}
	}
	return out, nil
}

// principalByARN finds a user or role.
func principalByARN(c *call, arn string) (region.Principal, error) {
	for _, kind := range []region.PrincipalKind{region.UserPrincipal, region.RolePrincipal} {
		p, err := c.region.Principal(kind, arn[strings.LastIndex(arn, "/")+1:])
		if err == nil && p.ARN() == arn {
			return p, nil
		}
	}
	return region.Principal{}, failure(http.StatusNotFound, "NoSuchEntity", "The principal "+arn+" cannot be found.")
}
