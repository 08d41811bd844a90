package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/aws/smithy-go"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/cloud/aws"
	"github.com/nodeless/nodeless/cloud/aws/iampolicy"
	"github.com/nodeless/nodeless/internal/kit/clock"
)

// AWS is the account to check.
type AWS struct {
	Config awssdk.Config
	// Scope is the cluster's. Its account is replaced by the caller's.
	Scope iampolicy.Scope
	// Queue is the interruption queue; "" means none.
	Queue string
	// Role is the ARN of the role or user whose permissions are checked; "" means the caller.
	Role string
	// Clock is this machine's clock.
	Clock clock.Clock

	free map[string]int64 // free addresses by subnet, from preview
}

// preview resolves a class as AWS would now, and counts the free addresses of its subnets.
func (a *AWS) preview(ctx context.Context, class *ec2v1.EC2NodeClass, version string) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	// aws.New wants major.minor.
	version = strings.Join(strings.Split(strings.TrimPrefix(version, "v"), ".")[:2], ".")
	p, err := aws.New(ctx, aws.Options{
		AWS: a.Config, ClusterName: a.Scope.Cluster, KubernetesVersion: version, Clock: a.Clock,
		Classes: func(cloud.ClassRef) *ec2v1.EC2NodeClass { return class },
	})
	if err != nil {
		return err
	}
	if err := p.Preview(ctx, class); err != nil {
		return err
	}
	return a.countFree(ctx, class.Status.Subnets)
}

// countFree queries the free addresses of subnets.
func (a *AWS) countFree(ctx context.Context, subnets []ec2v1.Subnet) error {
	if len(subnets) == 0 {
		return nil // EC2 would return all subnets
	}
	in := &ec2.DescribeSubnetsInput{}
	for _, s := range subnets {
		in.SubnetIds = append(in.SubnetIds, s.ID)
	}
	out, err := ec2.NewFromConfig(a.Config).DescribeSubnets(ctx, in)
	if err != nil {
		return fmt.Errorf("describe subnets: %w", brief(err))
	}
	if a.free == nil {
		a.free = map[string]int64{}
	}
	for _, s := range out.Subnets {
		a.free[awssdk.ToString(s.SubnetId)] = int64(awssdk.ToInt32(s.AvailableIpAddressCount))
	}
	return nil
}

// examine runs the checks of an account.
func (a *AWS) examine(ctx context.Context, ahead time.Duration, classes []ec2v1.EC2NodeClass) []Finding {
	out := []Finding{a.addresses()}
	sent := a.Clock.Now()
	who, err := sts.NewFromConfig(a.Config).GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	if err != nil {
		remedy := "give credentials as for every AWS tool: environment, profile, role of the pod"
		return append(out, clocks("the API server's", ahead), failed("AWS credentials", remedy, "%v", err))
	}
	clockFinding := clocks("the API server's", ahead)
	if at, ok := awsmiddleware.GetServerTime(who.ResultMetadata); ok && clockFinding.Status == OK {
		if clockFinding = clocks("AWS's", at.Sub(sent)); clockFinding.Status == OK {
			clockFinding = fine("clocks", "AWS, the API server and this machine agree")
		}
	}
	out = append(out, clockFinding, a.queue(ctx))
	return append(out, a.permissions(ctx, awssdk.ToString(who.Account), awssdk.ToString(who.Arn), classes))
}

// few is the number of free addresses below which a subnet causes a warning: an instance takes one, and each pod
// another.
const few = 64

func (a *AWS) addresses() Finding {
	const check = "addresses"
	if len(a.free) == 0 {
		return Finding{
			Check: check, Status: Unknown, Says: "no EC2NodeClass resolves to subnets",
			Remedy: "create an EC2NodeClass, or correct its subnetSelectorTerms",
		}
	}
	var short []string
	sum := int64(0)
	for id, n := range a.free {
		sum += n
		if n < few {
			short = append(short, fmt.Sprintf("%s has %d", id, n))
		}
	}
	if len(short) > 0 {
		slices.Sort(short)
		return Finding{
			Check: check, Status: Warning, Says: "few free addresses: " + some(short),
			Remedy: "add subnets, or a secondary CIDR block of the VPC for pods (custom networking)",
		}
	}
	return fine(check, "%d are free in %d subnets", sum, len(a.free))
}

func (a *AWS) queue(ctx context.Context) Finding {
	const check = "interruption queue"
	if a.Queue == "" {
		return Finding{
			Check: check, Status: Warning, Says: "none: spot instances end without being drained",
			Remedy: "nodeless iam -o cloudformation makes one; name it with --interruption-queue",
		}
	}
	_, err := sqs.NewFromConfig(a.Config).GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: &a.Queue})
	if err != nil {
		return failed(check, "create it (nodeless iam -o cloudformation), or correct its name", "%s: %v", a.Queue, brief(err))
	}
	return fine(check, "%s is there", a.Queue)
}

// brief reduces an AWS error to its code and message.
func brief(err error) error {
	if e, ok := errors.AsType[smithy.APIError](err); ok {
		return fmt.Errorf("%s: %s", e.ErrorCode(), e.ErrorMessage())
	}
	return err
}

// permissions simulates each statement of the controller's policy for the principal.
func (a *AWS) permissions(ctx context.Context, account, caller string, classes []ec2v1.EC2NodeClass) Finding {
	const check = "AWS permissions"
	principal := a.Role
	if principal == "" {
		principal = roleOf(caller)
	}
	if strings.HasSuffix(principal, ":root") {
		return fine(check, "the account's root may do everything")
	}
	s := a.Scope
	s.Account, s.Queue = account, a.Queue
	for _, class := range classes {
		if class.Spec.Role != "" {
			s.NodeRole = class.Spec.Role
		}
	}
	s, err := s.Complete()
	if err != nil {
		return unknown(check, err)
	}
	client := iam.NewFromConfig(a.Config)
	var missing []string
	tried := 0
	for _, statement := range s.Controller().Statement {
		if statement.Sid == "ReadInterruptionQueue" && a.Queue == "" {
			continue
		}
		lacks, n, err := simulate(ctx, client, principal, statement)
		if err != nil {
			return Finding{
				Check: check, Status: Unknown, Says: fmt.Sprintf("cannot be simulated for %s: %v", principal, brief(err)),
				Remedy: "allow iam:SimulatePrincipalPolicy for the user or role of these credentials, or name the controller's " +
					"role with --role",
			}
		}
		missing, tried = append(missing, lacks...), tried+n
	}
	if len(missing) > 0 {
		return failed(check, "nodeless iam controller-policy; aws iam put-role-policy", "%s lacks %s", principal,
			strings.Join(missing, ", "))
	}
	return fine(check, "%s has all %d", principal, tried)
}

// roleOf returns the role of an assumed-role session, and any other ARN unchanged. A role with a path must be given
// as Role.
func roleOf(arn string) string {
	parts := strings.Split(arn, ":")
	if len(parts) == 6 && parts[2] == "sts" {
		if session := strings.Split(parts[5], "/"); session[0] == "assumed-role" && len(session) > 1 {
			return "arn:" + parts[1] + ":iam::" + parts[4] + ":role/" + session[1]
		}
	}
	return arn
}

// simulate asks IAM whether the actions of a statement are allowed on each of its resources, under conditions that
// meet the statement's own. It returns the actions that are denied on any of them, and the number of actions.
func simulate(ctx context.Context, client *iam.Client, principal string, s iampolicy.Statement) ([]string, int, error) {
	in := &iam.SimulatePrincipalPolicyInput{PolicySourceArn: &principal, ActionNames: s.Action}
	for _, r := range s.Resource {
		if r != "*" {
			r = strings.ReplaceAll(r, "*", "doctor")
		}
		in.ResourceArns = append(in.ResourceArns, r)
	}
	for _, keys := range s.Condition {
		for key, values := range keys {
			in.ContextEntries = append(in.ContextEntries, iamtypes.ContextEntry{
				ContextKeyName: &key, ContextKeyType: iamtypes.ContextKeyTypeEnumString,
				ContextKeyValues: []string{strings.ReplaceAll(values[0], "*", "doctor")},
			})
		}
	}
	denied := map[string]bool{}
	for pages := iam.NewSimulatePrincipalPolicyPaginator(client, in); pages.HasMorePages(); {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, 0, err
		}
		for _, r := range page.EvaluationResults {
			if r.EvalDecision != iamtypes.PolicyEvaluationDecisionTypeAllowed {
				denied[awssdk.ToString(r.EvalActionName)] = true
			}
		}
	}
	var out []string
	for _, action := range s.Action {
		if denied[action] {
			out = append(out, action+" ("+s.Sid+")")
		}
	}
	return out, len(s.Action), nil
}
