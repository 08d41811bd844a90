package stories

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	ststypes "github.com/aws/aws-sdk-go-v2/service/sts/types"
	"github.com/aws/smithy-go"
)

// administrator makes the story's clients sign with the account's own keys.
func (c *cluster) administrator() {
	c.t.Helper()
	out, err := c.run("env", "-o", "json")
	var env map[string]string
	if err = errors.Join(err, json.Unmarshal([]byte(out), &env)); err != nil {
		c.t.Fatal(err)
	}
	c.aws.Credentials = credentials.NewStaticCredentialsProvider(env["AWS_ACCESS_KEY_ID"], env["AWS_SECRET_ACCESS_KEY"], "")
	c.ec2 = ec2.NewFromConfig(c.aws)
}

// assume creates a role with a policy, and returns the keys of a session of that role.
func (c *cluster) assume(role, policy string) *ststypes.Credentials {
	c.t.Helper()
	ctx, client := context.Background(), iam.NewFromConfig(c.aws)
	made, err := client.CreateRole(ctx, &iam.CreateRoleInput{RoleName: &role, AssumeRolePolicyDocument: aws.String(
		`{"Statement": {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"AWS": "123456789012"}}}`)})
	if err != nil {
		c.t.Fatal(err)
	}
	c.put(role, policy)
	got, err := sts.NewFromConfig(c.aws).AssumeRole(ctx, &sts.AssumeRoleInput{
		RoleArn: made.Role.Arn, RoleSessionName: aws.String("story"),
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return got.Credentials
}

// put sets the policy of a role.
func (c *cluster) put(role, policy string) {
	c.t.Helper()
	_, err := iam.NewFromConfig(c.aws).PutRolePolicy(context.Background(), &iam.PutRolePolicyInput{
		RoleName: &role, PolicyName: aws.String("nodeless"), PolicyDocument: &policy,
	})
	if err != nil {
		c.t.Fatal(err)
	}
}

// denied counts the calls that were denied for lack of permission.
func (c *cluster) denied() int {
	c.t.Helper()
	var all []call
	if err := c.admin("GET", "/_nodeless/calls", nil, &all); err != nil {
		c.t.Fatal(err)
	}
	n := 0
	for _, x := range all {
		if strings.HasPrefix(x.Error, "AccessDenied") || x.Error == "UnauthorizedOperation" {
			n++
		}
	}
	return n
}

// The controller's binary runs with the policy that `nodeless iam` prints and nothing more. When a permission is
// removed, the NodeClaim says which one, few calls are wasted, and the pods run once it is restored.
func TestTheControllerRunsUnderItsOwnPolicy(t *testing.T) {
	c := up(t, "--controller=false", "--microvms=false", "--page", "", "--boot-time", "1s", "--enforce-iam")
	_, err := c.ec2.DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{}) // signed with the key "test"
	if e, ok := errors.AsType[smithy.APIError](err); !ok || e.ErrorCode() != "AuthFailure" {
		t.Errorf("a foreign key: %v", err)
	}
	c.administrator()
	policy, err := c.run("iam", "controller-policy", "--cluster-name", "nodeless", "--region", "us-west-2",
		"--account", "123456789012", "--node-role", "nodeless-node")
	if err != nil {
		t.Fatalf("%v\n%s", err, policy)
	}
	k := c.assume("controller", policy)
	r := c.newReplica("a")
	r.env = append(r.env, "AWS_ACCESS_KEY_ID="+*k.AccessKeyId, "AWS_SECRET_ACCESS_KEY="+*k.SecretAccessKey,
		"AWS_SESSION_TOKEN="+*k.SessionToken)
	r.begin()
	c.kubectl("create", "deployment", "web", "--image=nginx", "--replicas=5")
	c.wantPods(2*time.Minute, "default", "web", 5)
	c.kubectl("scale", "deployment", "web", "--replicas=0")
	c.eventually(3*time.Minute, c.nothingLeft)
	if n := c.denied(); n > 0 {
		t.Errorf("%d calls were denied", n)
	}

	c.put("controller", strings.Replace(policy, `"ec2:CreateFleet",`, "", 1)) // the statement on images and subnets
	c.kubectl("scale", "deployment", "web", "--replicas=1")
	c.wantEvents("involvedObject.kind=NodeClaim", "ec2:CreateFleet")
	c.eventually(time.Minute, func() error {
		for _, claim := range c.claims() {
			for _, condition := range claim.Status.Conditions {
				if condition.Type == "Launched" && strings.Contains(condition.Message, "is not authorized to perform: ec2:CreateFleet") {
					return nil
				}
			}
		}
		return errors.New("no NodeClaim says that CreateFleet is denied")
	})
	before := c.denied()
	time.Sleep(10 * time.Second) // the test is about calls that are not made
	if n := c.denied() - before; n > 10 {
		t.Errorf("%d calls in vain in 10 s", n)
	}
	c.put("controller", policy)
	c.wantPods(3*time.Minute, "default", "web", 1)
}
