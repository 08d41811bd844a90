package awsapi

import (
	"fmt"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/nodeless/nodeless/region"
)

// account is a region with one administrator, and a clock for checking signatures.
type account struct {
	place
	now time.Time
}

var root = aws.Credentials{AccessKeyID: "AKIAROOT", SecretAccessKey: "the administrator's"}

func newAccount(t *testing.T) *account {
	t.Helper()
	a := &account{place: newPlace(t), now: time.Now()}
	s := httptest.NewServer(New(a.region, Options{Credentials: root, Now: func() time.Time { return a.now }}))
	t.Cleanup(s.Close)
	a.url = s.URL
	return a
}

// as returns a client configuration with these credentials.
func (a *account) as(k aws.Credentials) aws.Config {
	c := configFor(a.url, "us-west-2")
	c.Credentials = credentials.StaticCredentialsProvider{Value: k}
	return c
}

// user creates a user with a policy that holds the given statements, and an access key.
func (a *account) user(t *testing.T, name, statement string) aws.Config {
	t.Helper()
	client := iam.NewFromConfig(a.as(root))
	_, err := client.CreateUser(t.Context(), &iam.CreateUserInput{UserName: &name})
	if err != nil {
		t.Fatal(err)
	}
	if statement != "" {
		_, err = client.PutUserPolicy(t.Context(), &iam.PutUserPolicyInput{
			UserName: &name, PolicyName: aws.String("own"),
			PolicyDocument: aws.String(`{"Version": "2012-10-17", "Statement": ` + statement + `}`),
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	k, err := client.CreateAccessKey(t.Context(), &iam.CreateAccessKeyInput{UserName: &name})
	if err != nil {
		t.Fatal(err)
	}
	return a.as(aws.Credentials{AccessKeyID: *k.AccessKey.AccessKeyId, SecretAccessKey: *k.AccessKey.SecretAccessKey})
}

// calls makes one call to a service of each protocol.
func calls(t *testing.T, c aws.Config) map[string]error {
	errs := map[string]error{}
	_, errs["ec2"] = ec2.NewFromConfig(c).DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{})
	_, errs["sts"] = sts.NewFromConfig(c).GetCallerIdentity(t.Context(), &sts.GetCallerIdentityInput{})
	_, errs["ssm"] = ssm.NewFromConfig(c).GetParametersByPath(t.Context(), &ssm.GetParametersByPathInput{
		Path: aws.String("/aws/service/eks"), Recursive: aws.Bool(true),
	})
	_, errs["eks"] = eks.NewFromConfig(c).ListClusters(t.Context(), &eks.ListClustersInput{})
	_, errs["sqs"] = sqs.NewFromConfig(c).GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: aws.String("nodeless")})
	return errs
}

func TestForeignKeysAreRefusedInEachServicesWords(t *testing.T) {
	a := newAccount(t)
	for name, err := range calls(t, a.as(root)) {
		if err != nil {
			t.Errorf("the administrator: %s: %v", name, err)
		}
	}
	const json, query = "UnrecognizedClientException", "InvalidClientTokenId"
	for what, c := range map[string]struct {
		key   aws.Credentials
		late  time.Duration
		codes map[string]string
	}{
		"an unknown key": {aws.Credentials{AccessKeyID: "AKIAFOREIGN", SecretAccessKey: "x"}, 0, map[string]string{
			"ec2": "AuthFailure", "sts": query, "ssm": json, "eks": json, "sqs": json,
		}},
		"a wrong secret": {aws.Credentials{AccessKeyID: root.AccessKeyID, SecretAccessKey: "x"}, 0, map[string]string{
			"ec2": "AuthFailure", "sts": "SignatureDoesNotMatch", "ssm": "InvalidSignatureException",
			"eks": "InvalidSignatureException", "sqs": "InvalidSignatureException",
		}},
		"a slow clock": {root, 16 * time.Minute, map[string]string{
			"ec2": "RequestExpired", "sts": "SignatureDoesNotMatch", "ssm": "InvalidSignatureException",
			"eks": "InvalidSignatureException", "sqs": "InvalidSignatureException",
		}},
		"a fast clock": {root, -16 * time.Minute, map[string]string{"ec2": "RequestExpired", "sts": "SignatureDoesNotMatch"}},
		"a token too many": {
			aws.Credentials{AccessKeyID: root.AccessKeyID, SecretAccessKey: root.SecretAccessKey, SessionToken: "x"},
			0,
			map[string]string{"ec2": "AuthFailure", "sts": query},
		},
	} {
		a.now = time.Now().Add(c.late)
		errs := calls(t, a.as(c.key))
		for service, code := range c.codes {
			t.Run(what+" at "+service, func(t *testing.T) { wantCode(t, errs[service], code) })
		}
	}
}

// A user with a key from IAM may do what the user's policies allow. Errors say who was denied and why.
func TestAUserMayDoWhatHisPoliciesSay(t *testing.T) {
	a := newAccount(t)
	ann := a.user(t, "ann", `{"Effect": "Allow", "Action": ["ec2:Describe*", "sqs:*"], "Resource": "*"}`)
	errs := calls(t, ann)
	for _, service := range []string{"ec2", "sts", "sqs"} {
		if errs[service] != nil {
			t.Errorf("%s: %v", service, errs[service])
		}
	}
	wantCode(t, errs["ssm"], "AccessDeniedException")
	wantCode(t, errs["eks"], "AccessDeniedException")
	who, err := sts.NewFromConfig(ann).GetCallerIdentity(t.Context(), &sts.GetCallerIdentityInput{})
	if err != nil || *who.Arn != "arn:aws:iam::123456789012:user/ann" {
		t.Errorf("ann is %+v, %v", who, err)
	}
	_, err = iam.NewFromConfig(ann).CreateUser(t.Context(), &iam.CreateUserInput{UserName: aws.String("eve")})
	wantCode(t, err, "AccessDenied")
	const sentence = "User: arn:aws:iam::123456789012:user/ann is not authorized to perform: iam:CreateUser on resource: " +
		"arn:aws:iam::123456789012:user/eve because no identity-based policy allows the iam:CreateUser action"
	if !strings.Contains(err.Error(), sentence) {
		t.Errorf("the refusal is %v", err)
	}
	_, err = ec2.NewFromConfig(ann).TerminateInstances(t.Context(),
		&ec2.TerminateInstancesInput{InstanceIds: []string{"i-1"}, DryRun: aws.Bool(true)})
	wantCode(t, err, "UnauthorizedOperation")
}

// A launch needs permission for every resource that it creates and uses, and for the tags.
func TestALaunchNeedsAllItsResources(t *testing.T) {
	a := newAccount(t)
	image := a.region.Images()[0].ID
	run := func(c aws.Config, tags ...ec2types.TagSpecification) error {
		_, err := ec2.NewFromConfig(c).RunInstances(t.Context(), &ec2.RunInstancesInput{
			ImageId: &image, InstanceType: "m5.large", MinCount: aws.Int32(1), MaxCount: aws.Int32(1),
			SubnetId: aws.String(a.region.Subnets()[0].ID), TagSpecifications: tags, DryRun: aws.Bool(true),
		})
		return err
	}
	tagged := ec2types.TagSpecification{
		ResourceType: "instance", Tags: []ec2types.Tag{{Key: aws.String("team"), Value: aws.String("a")}},
	}
	const resources = `"arn:aws:ec2:us-west-2:123456789012:instance/*", "arn:aws:ec2:us-west-2:123456789012:volume/*",
		"arn:aws:ec2:us-west-2:123456789012:network-interface/*", "arn:aws:ec2:us-west-2::image/*"`
	launch := `{"Effect": "Allow", "Action": "ec2:RunInstances", "Resource": [%s, "arn:aws:ec2:us-west-2:123456789012:subnet/%s"]}`
	for name, c := range map[string]struct {
		statement, code string
		tags            []ec2types.TagSpecification
	}{
		"all":            {fmt.Sprintf(launch, resources, "*"), "DryRunOperation", nil},
		"another subnet": {fmt.Sprintf(launch, resources, "subnet-1"), "UnauthorizedOperation", nil},
		"tags":           {fmt.Sprintf(launch, resources, "*"), "UnauthorizedOperation", []ec2types.TagSpecification{tagged}},
		"tags on creation": {
			"[" + fmt.Sprintf(launch, resources, "*") + `, {"Effect": "Allow", "Action": "ec2:CreateTags", "Resource": "*",
				"Condition": {"StringEquals": {"ec2:CreateAction": "RunInstances", "aws:RequestTag/team": "a"}}}]`,
			"DryRunOperation",
			[]ec2types.TagSpecification{tagged},
		},
		"denied by type of tag": {
			"[" + fmt.Sprintf(launch, resources, "*") + `, {"Effect": "Deny", "Action": "ec2:RunInstances", "Resource": "*",
				"Condition": {"Null": {"aws:RequestTag/team": "true"}}}]`, "UnauthorizedOperation", nil,
		},
	} {
		wantCode(t, run(a.user(t, strings.ReplaceAll(name, " ", "-"), c.statement), c.tags...), c.code)
	}
}

// Who launches an instance with a profile needs permission to pass its role, also if the call names the profile by its
// ARN or beside a launch template with another one.
func TestALaunchPassesTheRoleOfItsProfile(t *testing.T) {
	a := newAccount(t)
	for _, name := range []string{"plain", "admin"} {
		_, err := a.region.CreateInstanceProfile(name, "/", nil)
		if err == nil {
			err = a.region.AddRoleToInstanceProfile(name, name)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	image := a.region.Images()[0].ID
	_, err := a.region.CreateLaunchTemplate("web", region.TemplateData{
		ImageID: image, InstanceType: "m5.large", InstanceProfile: "plain",
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	ann := ec2.NewFromConfig(a.user(t, "ann", `[{"Effect": "Allow", "Action": "ec2:*", "Resource": "*"},
		{"Effect": "Allow", "Action": "iam:PassRole", "Resource": "arn:aws:iam::123456789012:role/plain"}]`))
	profile := func(name, arn string) *ec2types.IamInstanceProfileSpecification {
		p := &ec2types.IamInstanceProfileSpecification{}
		if name != "" {
			p.Name = &name
		} else {
			p.Arn = aws.String("arn:aws:iam::123456789012:instance-profile/" + arn)
		}
		return p
	}
	for what, c := range map[string]struct {
		profile  *ec2types.IamInstanceProfileSpecification
		template bool
		code     string
	}{
		"a role that she may pass":        {profile("plain", ""), false, "DryRunOperation"},
		"another":                         {profile("admin", ""), false, "UnauthorizedOperation"},
		"by ARN":                          {profile("", "plain"), false, "DryRunOperation"},
		"another by ARN":                  {profile("", "admin"), false, "UnauthorizedOperation"},
		"the template's":                  {nil, true, "DryRunOperation"},
		"another beside the template":     {profile("admin", ""), true, "UnauthorizedOperation"},
		"another by ARN and beside it":    {profile("", "admin"), true, "UnauthorizedOperation"},
		"the template's, given once more": {profile("plain", ""), true, "DryRunOperation"},
	} {
		t.Run(what, func(t *testing.T) {
			in := &ec2.RunInstancesInput{
				IamInstanceProfile: c.profile, MinCount: aws.Int32(1), MaxCount: aws.Int32(1), DryRun: aws.Bool(true),
			}
			if c.template {
				in.LaunchTemplate = &ec2types.LaunchTemplateSpecification{LaunchTemplateName: aws.String("web")}
			} else {
				in.ImageId, in.InstanceType = &image, "m5.large"
			}
			_, err := ann.RunInstances(t.Context(), in)
			wantCode(t, err, c.code)
		})
	}
}

// A role can be assumed by the principals it trusts. Its session expires.
func TestASessionOfARole(t *testing.T) {
	a := newAccount(t)
	client := iam.NewFromConfig(a.as(root))
	const trust = `{"Statement": {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"AWS": "arn:aws:iam::123456789012:user/ann"}}}`
	_, err := client.CreateRole(t.Context(), &iam.CreateRoleInput{
		RoleName: aws.String("reader"), AssumeRolePolicyDocument: aws.String(trust),
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.PutRolePolicy(t.Context(), &iam.PutRolePolicyInput{
		RoleName: aws.String("reader"), PolicyName: aws.String("read"),
		PolicyDocument: aws.String(`{"Statement": {"Effect": "Allow", "Action": "ec2:Describe*", "Resource": "*"}}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	assume := func(c aws.Config) (*sts.AssumeRoleOutput, error) {
		return sts.NewFromConfig(c).AssumeRole(t.Context(), &sts.AssumeRoleInput{
			RoleArn: aws.String("arn:aws:iam::123456789012:role/reader"), RoleSessionName: aws.String("monday"),
		})
	}
	_, err = assume(a.user(t, "bob", `{"Effect": "Allow", "Action": "sts:AssumeRole", "Resource": "*"}`))
	wantCode(t, err, "AccessDenied")
	got, err := assume(a.user(t, "ann", ""))
	if err != nil {
		t.Fatal(err)
	}
	session := a.as(aws.Credentials{
		AccessKeyID: *got.Credentials.AccessKeyId, SecretAccessKey: *got.Credentials.SecretAccessKey,
		SessionToken: *got.Credentials.SessionToken,
	})
	who, err := sts.NewFromConfig(session).GetCallerIdentity(t.Context(), &sts.GetCallerIdentityInput{})
	if err != nil || *who.Arn != "arn:aws:sts::123456789012:assumed-role/reader/monday" {
		t.Errorf("the session is %+v, %v", who, err)
	}
	if errs := calls(t, session); errs["ec2"] != nil {
		t.Error(errs["ec2"])
	}
	a.clock.Advance(2 * time.Hour)
	wantCode(t, calls(t, session)["sts"], "ExpiredToken")
	wantCode(t, calls(t, session)["ssm"], "ExpiredTokenException")
}

// If a role trusts the account, its users need a policy that allows them to assume the role.
func TestWhoTheAccountTrustsNeedsAPolicy(t *testing.T) {
	a := newAccount(t)
	_, err := iam.NewFromConfig(a.as(root)).CreateRole(t.Context(), &iam.CreateRoleInput{
		RoleName: aws.String("shared"), AssumeRolePolicyDocument: aws.String(
			`{"Statement": [{"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"AWS": "123456789012"}},
				{"Effect": "Deny", "Action": "sts:AssumeRole", "Principal": {"AWS": "arn:aws:iam::123456789012:user/eve"}}]}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ statement, code string }{
		"without": {"", "AccessDenied"},
		"with":    {`{"Effect": "Allow", "Action": "sts:AssumeRole", "Resource": "arn:aws:iam::123456789012:role/shared"}`, ""},
		"denied": {`[{"Effect": "Allow", "Action": "*", "Resource": "*"},
			{"Effect": "Deny", "Action": "sts:AssumeRole", "Resource": "*"}]`, "AccessDenied"},
		"eve": {`{"Effect": "Allow", "Action": "sts:AssumeRole", "Resource": "*"}`, "AccessDenied"},
	} {
		_, err := sts.NewFromConfig(a.user(t, name, c.statement)).AssumeRole(t.Context(), &sts.AssumeRoleInput{
			RoleArn: aws.String("arn:aws:iam::123456789012:role/shared"), RoleSessionName: aws.String("session"),
		})
		if c.code == "" && err != nil {
			t.Errorf("%s: %v", name, err)
		} else if c.code != "" {
			wantCode(t, err, c.code)
		}
	}
}

// A principal's policies can be simulated without a call.
func TestPoliciesAreSimulated(t *testing.T) {
	a := newAccount(t)
	a.user(t, "ann", `{"Effect": "Allow", "Action": "ec2:Describe*", "Resource": "*",
		"Condition": {"StringEquals": {"aws:RequestedRegion": "us-west-2"}}}`)
	out, err := iam.NewFromConfig(a.as(root)).SimulatePrincipalPolicy(t.Context(), &iam.SimulatePrincipalPolicyInput{
		PolicySourceArn: aws.String("arn:aws:iam::123456789012:user/ann"),
		ActionNames:     []string{"ec2:DescribeSubnets", "ec2:RunInstances"},
		ContextEntries: []iamtypes.ContextEntry{{
			ContextKeyName: aws.String("aws:RequestedRegion"), ContextKeyType: "string", ContextKeyValues: []string{"us-west-2"},
		}},
	})
	if err != nil || len(out.EvaluationResults) != 2 || out.EvaluationResults[0].EvalDecision != "allowed" ||
		out.EvaluationResults[1].EvalDecision != "implicitDeny" {
		t.Errorf("%+v, %v", out, err)
	}
}

// Users, policies and keys survive a restart, and must be deleted in the order that IAM requires.
func TestPrincipalsAreKeptAndDeleted(t *testing.T) {
	dir := t.TempDir()
	r, err := region.Open(region.Config{Name: "us-west-2", Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if _, err = r.CreatePrincipal(region.UserPrincipal, "ann", "", "", nil); err != nil {
		t.Fatal(err)
	}
	const allowAll = `{"Statement": {"Effect": "Allow", "Action": "*", "Resource": "*"}}`
	if err = r.PutPolicy(region.UserPrincipal, "ann", "all", allowAll); err != nil {
		t.Fatal(err)
	}
	k, err := r.CreateAccessKey("ann")
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if r, err = region.Open(region.Config{Name: "us-west-2", Dir: dir}); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	if again, ok := r.AccessKey(k.ID); !ok || again.Secret != k.Secret {
		t.Errorf("the key is %+v after a restart", again)
	}
	wantRegionCode := func(err error, code string) {
		t.Helper()
		if e, _ := asAPIError(err); err == nil || e.Code != code {
			t.Errorf("got %v, want %s", err, code)
		}
	}
	wantRegionCode(r.PutPolicy(region.UserPrincipal, "ann", "long",
		strings.Replace(allowAll, `"Allow"`, `"Allow", "Sid": "`+strings.Repeat("x", 2048)+`"`, 1)), "LimitExceeded")
	wantRegionCode(r.PutPolicy(region.UserPrincipal, "ann", "bad", "{}"), "MalformedPolicyDocument")
	wantRegionCode(r.DeletePrincipal(region.UserPrincipal, "ann"), "DeleteConflict")
	if err := r.DeletePolicy(region.UserPrincipal, "ann", "all"); err != nil {
		t.Error(err)
	}
	wantRegionCode(r.DeletePrincipal(region.UserPrincipal, "ann"), "DeleteConflict")
	if err := r.DeleteAccessKey("ann", k.ID); err != nil {
		t.Error(err)
	}
	if err := r.DeletePrincipal(region.UserPrincipal, "ann"); err != nil {
		t.Error(err)
	}
	wantRegionCode(r.DeletePrincipal(region.UserPrincipal, "ann"), "NoSuchEntity")
}

// The AWS CLI, an independent client, creates a user and a key, and is denied with other keys.
func TestTheAWSCLIWithKeysOfIAM(t *testing.T) {
	cli := debianAWS
	if exec.CommandContext(t.Context(), cli, "--version").Run() != nil {
		var err error
		if cli, err = exec.LookPath("aws"); err != nil {
			requireClients(t, "the AWS CLI is absent, so this client was not tried: apt-get install -y awscli")
		}
	}
	a := newAccount(t)
	story := exec.CommandContext(t.Context(), "testdata/awscli_iam.sh", cli, a.url)
	story.Env = append(story.Environ(), "AWS_ACCESS_KEY_ID="+root.AccessKeyID, "AWS_SECRET_ACCESS_KEY="+root.SecretAccessKey)
	if out, err := story.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
