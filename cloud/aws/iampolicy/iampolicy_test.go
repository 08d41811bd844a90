package iampolicy

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclparse"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
)

func prod(t *testing.T, change func(*Scope)) Scope {
	t.Helper()
	s := Scope{Cluster: "prod", Region: "us-west-2", Account: "123456789012", NodeGroups: true}
	change(&s)
	s, err := s.Complete()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// plain returns a value as decoded from its JSON.
func plain(t *testing.T, v any) any {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return parsed(t, string(text))
}

func parsed(t *testing.T, text string) any {
	t.Helper()
	var out any
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return out
}

// Statements that change or pass something are limited to the cluster: by its tags or by a name.
func TestWhatChangesAnythingIsTiedToTheCluster(t *testing.T) {
	for _, s := range prod(t, func(*Scope) {}).Controller().Statement {
		tied := strings.Contains(strings.Join(s.Resource, " "), "prod")
		for _, keys := range s.Condition {
			for key := range keys {
				tied = tied || strings.Contains(key, "prod") || key == "aws:ResourceTag/aws:autoscaling:groupName"
			}
		}
		reads := strings.HasPrefix(s.Sid, "Read") || s.Sid == "LaunchWithWhatIsThere"
		if !tied && !reads {
			t.Errorf("statement %s acts on what is not the cluster's: %+v", s.Sid, s)
		}
		for _, r := range s.Resource {
			if r == "*" && !strings.HasPrefix(s.Sid, "Read") {
				t.Errorf("statement %s is for all resources", s.Sid)
			}
		}
	}
}

// Subnets, and security groups, may be another account's that shares them (VPC user guide, "Share your VPC subnets with
// other accounts" and "Share security groups with AWS Organizations").
func TestLaunchesMayUseWhatOtherAccountsShare(t *testing.T) {
	shared := map[string]bool{}
	for _, s := range prod(t, func(*Scope) {}).Controller().Statement {
		for _, r := range s.Resource {
			if s.Sid == "LaunchWithWhatIsThere" && strings.HasPrefix(r, "arn:aws:ec2:us-west-2:*:") {
				shared[strings.TrimPrefix(r, "arn:aws:ec2:us-west-2:*:")] = true
			}
		}
	}
	for _, want := range []string{"subnet/*", "security-group/*", "capacity-reservation/*", "placement-group/*"} {
		if !shared[want] {
			t.Errorf("%s of other accounts may not be used", want)
		}
	}
}

// IAM allows 10,240 characters of inline policies for a role, without white space (IAM user guide, "IAM and STS
// quotas").
func TestThePolicyFitsIntoARole(t *testing.T) {
	s := prod(t, func(s *Scope) {
		s.Cluster = strings.Repeat("x", 80)
		s.NodeRole, s.ControllerRole = "node", "controller"
	})
	text, err := json.Marshal(s.Controller())
	if err != nil || len(text) > 10240 {
		t.Errorf("%d characters, %v", len(text), err)
	}
}

func TestPartitions(t *testing.T) {
	china := prod(t, func(s *Scope) { s.Region = "cn-north-1" })
	if got := china.NodeTrust().Statement[0].Principal["Service"]; got != "ec2.amazonaws.com.cn" {
		t.Errorf("nodes in China are trusted as %s", got)
	}
	for region, want := range map[string]string{
		"us-gov-west-1": "arn:aws-us-gov:", "eu-central-1": "arn:aws:", "eusc-de-east-1": "arn:aws-eusc:",
		"us-iso-east-1": "arn:aws-iso:", "us-isob-east-1": "arn:aws-iso-b:", "us-isof-south-1": "arn:aws-iso-f:",
		"eu-isoe-west-1": "arn:aws-iso-e:",
	} {
		s := prod(t, func(s *Scope) { s.Region = region })
		if got := s.NodePolicies()[0]; !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s", region, got)
		}
	}
}

func TestIRSATrustsOneServiceAccount(t *testing.T) {
	const id = "oidc.eks.us-west-2.amazonaws.com/id/0123456789ABCDEF"
	s := prod(t, func(s *Scope) {
		s.OIDCIssuer, s.Namespace, s.ServiceAccount = "https://"+id+"/", "karpenter", "karpenter"
	})
	got := s.ControllerTrust().Statement[1]
	if got.Principal["Federated"] != "arn:aws:iam::123456789012:oidc-provider/"+id ||
		!reflect.DeepEqual(got.Condition["StringEquals"], map[string][]string{
			id + ":aud": {"sts.amazonaws.com"}, id + ":sub": {"system:serviceaccount:karpenter:karpenter"},
		}) {
		t.Errorf("%+v", got)
	}
}

func TestBadScopesNameTheFlag(t *testing.T) {
	for want, change := range map[string]func(*Scope){
		`--cluster-name ""`:              func(s *Scope) { s.Cluster = "" },
		`--cluster-name "a b"`:           func(s *Scope) { s.Cluster = "a b" },
		`--region "west"`:                func(s *Scope) { s.Region = "west" },
		`--account "123"`:                func(s *Scope) { s.Account = "123" },
		`--node-role "arn:aws:iam::1:r"`: func(s *Scope) { s.NodeRole = "arn:aws:iam::1:r" },
		`--controller-role "Nodeless`:    func(s *Scope) { s.Cluster = strings.Repeat("x", 60); s.NodeRole = "n" },
		`--interruption-queue "q.fifo"`:  func(s *Scope) { s.Queue = "q.fifo" },
		`--oidc-issuer "a b"`:            func(s *Scope) { s.OIDCIssuer = "a b" },
		`--service-account "xxx`:         func(s *Scope) { s.ServiceAccount = strings.Repeat("x", 254) },
		`--service-account "a_b"`:        func(s *Scope) { s.Namespace = "a_b" },
	} {
		s := Scope{Cluster: "prod", Region: "us-west-2", Account: "123456789012"}
		change(&s)
		if _, err := s.Complete(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want an error with %s", err, want)
		}
	}
}

func TestCloudFormationHasTheSameDocuments(t *testing.T) {
	s := prod(t, func(*Scope) {})
	text, err := s.CloudFormation()
	if err != nil {
		t.Fatal(err)
	}
	var template struct {
		Resources map[string]struct {
			Type       string
			Properties struct {
				AssumeRolePolicyDocument, PolicyDocument, EventPattern any
				Policies                                               []struct{ PolicyDocument any }
			}
		}
	}
	if err := json.Unmarshal(text, &template); err != nil {
		t.Fatal(err)
	}
	at := template.Resources
	for name, pair := range map[string][2]any{
		"policy":       {at["ControllerRole"].Properties.Policies[0].PolicyDocument, s.Controller()},
		"trust":        {at["ControllerRole"].Properties.AssumeRolePolicyDocument, s.ControllerTrust()},
		"node trust":   {at["NodeRole"].Properties.AssumeRolePolicyDocument, s.NodeTrust()},
		"queue policy": {at["InterruptionQueuePolicy"].Properties.PolicyDocument, s.QueuePolicy()},
		"rule":         {at["SpotInterruptionRule"].Properties.EventPattern, s.Rules()[1].Pattern},
	} {
		if !reflect.DeepEqual(pair[0], plain(t, pair[1])) {
			t.Errorf("%s is %v", name, pair[0])
		}
	}
	if at["PodIdentityAssociation"].Type == "" {
		t.Error("the service account has no Pod Identity association")
	}
}

// Without an access entry, nodes cannot join a cluster whose authentication mode is API; in the mode CONFIG_MAP, EKS
// refuses one.
func TestCloudFormationLetsNodesJoin(t *testing.T) {
	text, err := prod(t, func(*Scope) {}).CloudFormation()
	if err != nil {
		t.Fatal(err)
	}
	var template struct {
		Parameters map[string]struct {
			Default       string
			AllowedValues []string
		}
		Conditions map[string]any
		Resources  map[string]struct {
			Type, Condition string
			Properties      any
		}
	}
	if err := json.Unmarshal(text, &template); err != nil {
		t.Fatal(err)
	}
	entry, parameter := template.Resources["NodeAccessEntry"], template.Parameters["CreateNodeAccessEntry"]
	if want := parsed(t, `{"ClusterName": "prod", "PrincipalArn": {"Fn::GetAtt": ["NodeRole", "Arn"]},
		"Type": "EC2_LINUX"}`); entry.Type != "AWS::EKS::AccessEntry" || !reflect.DeepEqual(entry.Properties, want) {
		t.Errorf("the entry is %+v", entry)
	}
	if want := parsed(t, `{"Fn::Equals": [{"Ref": "CreateNodeAccessEntry"}, "true"]}`); !reflect.DeepEqual(
		template.Conditions[entry.Condition], want) || parameter.Default != "true" ||
		!slices.Contains(parameter.AllowedValues, "false") {
		t.Errorf("condition %s of %v, parameter %+v", entry.Condition, template.Conditions, parameter)
	}
}

func TestTerraformLetsNodesJoin(t *testing.T) {
	text, err := prod(t, func(*Scope) {}).Terraform()
	if err != nil {
		t.Fatal(err)
	}
	file, problems := hclparse.NewParser().ParseHCL(text, "nodeless.tf")
	if problems.HasErrors() {
		t.Fatal(problems)
	}
	for _, wanted := range []bool{true, false} {
		ctx := &hcl.EvalContext{Variables: map[string]cty.Value{"var": cty.ObjectVal(map[string]cty.Value{
			"node_access_entry": cty.BoolVal(wanted),
		})}}
		entries, variable := int64(-1), false
		for _, b := range file.Body.(*hclsyntax.Body).Blocks {
			switch strings.Join(b.Labels, ".") {
			case "aws_eks_access_entry.nodes":
				count, problems := b.Body.Attributes["count"].Expr.Value(ctx)
				if problems.HasErrors() {
					t.Fatal(problems)
				}
				entries, _ = count.AsBigFloat().Int64()
			case "node_access_entry":
				value, _ := b.Body.Attributes["default"].Expr.Value(nil)
				variable = value.True()
			}
		}
		if (entries == 1) != wanted || !variable {
			t.Errorf("%d entries, want one: %v; the variable has a default: %v", entries, wanted, variable)
		}
	}
}

// documentsOf returns the strings in blocks, by type.name.attribute.
func documentsOf(blocks []*hclsyntax.Block, ctx *hcl.EvalContext) map[string]string {
	documents := map[string]string{}
	for _, block := range blocks {
		for name, attribute := range block.Body.Attributes {
			value, problems := attribute.Expr.Value(ctx)
			// A reference to another resource has no value here.
			if !problems.HasErrors() && value.Type() == cty.String && !value.IsNull() {
				documents[strings.Join(append(block.Labels, name), ".")] = value.AsString()
			}
		}
	}
	return documents
}

// HashiCorp's own parser reads the configuration, and its jsonencode gives the same documents.
func TestTerraformHasTheSameDocuments(t *testing.T) {
	s := prod(t, func(*Scope) {})
	text, err := s.Terraform()
	if err != nil {
		t.Fatal(err)
	}
	file, problems := hclparse.NewParser().ParseHCL(text, "nodeless.tf")
	if problems.HasErrors() {
		t.Fatalf("%v\n%s", problems, text)
	}
	documents := documentsOf(file.Body.(*hclsyntax.Body).Blocks,
		&hcl.EvalContext{Functions: map[string]function.Function{"jsonencode": stdlib.JSONEncodeFunc}})
	for name, want := range map[string]any{
		"aws_iam_role_policy.controller.policy":                    s.Controller(),
		"aws_iam_role.controller.assume_role_policy":               s.ControllerTrust(),
		"aws_iam_role.node.assume_role_policy":                     s.NodeTrust(),
		"aws_sqs_queue_policy.interruption.policy":                 s.QueuePolicy(),
		"aws_cloudwatch_event_rule.SpotInterruption.event_pattern": s.Rules()[1].Pattern,
	} {
		if got := documents[name]; got == "" || !reflect.DeepEqual(parsed(t, got), plain(t, want)) {
			t.Errorf("%s is %s", name, got)
		}
	}
	if got := documents["aws_sqs_queue.interruption.name"]; got != "prod" {
		t.Errorf("the queue is %q", got)
	}
}
