package iampolicy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Bundle is everything that the controller needs in an AWS account.
type Bundle struct {
	ControllerRole    Role  `json:"controllerRole"`
	NodeRole          Role  `json:"nodeRole"`
	InterruptionQueue Queue `json:"interruptionQueue"`
}

// Role is an IAM role.
type Role struct {
	Name            string    `json:"name"`
	Trust           Document  `json:"trust"`
	Policy          *Document `json:"policy,omitempty"` // inline
	ManagedPolicies []string  `json:"managedPolicies,omitempty"`
}

// Queue is an SQS queue and the rules that feed it.
type Queue struct {
	Name   string   `json:"name"`
	Policy Document `json:"policy"`
	Rules  []Rule   `json:"rules"`
}

// retention is how long the queue keeps a message, in seconds: older notices are useless.
const retention = 300

// Bundle returns everything that the controller of a complete scope needs.
func (s Scope) Bundle() Bundle {
	return Bundle{
		ControllerRole:    Role{Name: s.ControllerRole, Trust: s.ControllerTrust(), Policy: new(s.Controller())},
		NodeRole:          Role{Name: s.NodeRole, Trust: s.NodeTrust(), ManagedPolicies: s.NodePolicies()},
		InterruptionQueue: Queue{Name: s.Queue, Policy: s.QueuePolicy(), Rules: s.Rules()},
	}
}

// JSON formats a document or a bundle for people to read.
func JSON(v any) ([]byte, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("print IAM policies: %w", err)
	}
	return out.Bytes(), nil
}

// resource is a resource of a CloudFormation template.
type resource struct {
	Type       string
	Condition  string `json:",omitempty"`
	Properties map[string]any
}

// withoutEntry says when there must be no access entry: EKS refuses it in the authentication mode CONFIG_MAP (EKS user
// guide, "Grant IAM users access to Kubernetes with EKS access entries").
const withoutEntry = "Create the access entry that lets nodes join. If the cluster's authentication mode is " +
	"CONFIG_MAP, set this to false and map the role in aws-auth. Set it to false, too, if the role already has an entry."

// CloudFormation returns the bundle as a template for `aws cloudformation deploy`, which must be called with
// --capabilities CAPABILITY_NAMED_IAM.
func (s Scope) CloudFormation() ([]byte, error) {
	b := s.Bundle()
	queueARN := map[string]any{"Fn::GetAtt": []string{"InterruptionQueue", "Arn"}}
	roleARN := map[string]any{"Fn::GetAtt": []string{"ControllerRole", "Arn"}}
	resources := map[string]resource{
		"ControllerRole": {Type: "AWS::IAM::Role", Properties: map[string]any{
			"RoleName": b.ControllerRole.Name, "AssumeRolePolicyDocument": b.ControllerRole.Trust,
			"Policies": []map[string]any{{"PolicyName": "nodeless", "PolicyDocument": b.ControllerRole.Policy}},
		}},
		"NodeRole": {Type: "AWS::IAM::Role", Properties: map[string]any{
			"RoleName": b.NodeRole.Name, "AssumeRolePolicyDocument": b.NodeRole.Trust,
			"ManagedPolicyArns": b.NodeRole.ManagedPolicies,
		}},
		"NodeAccessEntry": {Type: "AWS::EKS::AccessEntry", Condition: "HasNodeAccessEntry", Properties: map[string]any{
			"ClusterName": s.Cluster, "PrincipalArn": map[string]any{"Fn::GetAtt": []string{"NodeRole", "Arn"}},
			"Type": "EC2_LINUX",
		}},
		"InterruptionQueue": {Type: "AWS::SQS::Queue", Properties: map[string]any{
			"QueueName": b.InterruptionQueue.Name, "MessageRetentionPeriod": retention, "SqsManagedSseEnabled": true,
		}},
		"InterruptionQueuePolicy": {Type: "AWS::SQS::QueuePolicy", Properties: map[string]any{
			"Queues": []map[string]any{{"Ref": "InterruptionQueue"}}, "PolicyDocument": b.InterruptionQueue.Policy,
		}},
	}
	for _, r := range b.InterruptionQueue.Rules {
		resources[r.Name+"Rule"] = resource{Type: "AWS::Events::Rule", Properties: map[string]any{
			"EventPattern": r.Pattern, "Targets": []map[string]any{{"Id": "InterruptionQueue", "Arn": queueARN}},
		}}
	}
	if s.OIDCIssuer == "" {
		resources["PodIdentityAssociation"] = resource{Type: "AWS::EKS::PodIdentityAssociation", Properties: map[string]any{
			"ClusterName": s.Cluster, "Namespace": s.Namespace, "ServiceAccount": s.ServiceAccount, "RoleArn": roleARN,
		}}
	}
	return JSON(map[string]any{
		"AWSTemplateFormatVersion": "2010-09-09",
		"Description":              "What the controller of Nodeless needs for cluster " + s.Cluster,
		"Parameters": map[string]any{"CreateNodeAccessEntry": map[string]any{
			"Type": "String", "AllowedValues": []string{"true", "false"}, "Default": "true", "Description": withoutEntry,
		}},
		"Conditions": map[string]any{"HasNodeAccessEntry": map[string]any{
			"Fn::Equals": []any{map[string]any{"Ref": "CreateNodeAccessEntry"}, "true"},
		}},
		"Resources": resources,
		"Outputs":   map[string]any{"ControllerRoleArn": map[string]any{"Value": roleARN}},
	})
}

// Terraform returns the bundle as a configuration in HCL for the provider hashicorp/aws.
func (s Scope) Terraform() ([]byte, error) {
	w := &configuration{}
	fmt.Fprintf(&w.text, "variable \"node_access_entry\" {\n  type        = bool\n  default     = true\n"+
		"  description = %q\n}\n\n", withoutEntry)
	s.resources(w)
	w.text.WriteString("output \"controller_role_arn\" {\n  value = aws_iam_role.controller.arn\n}\n")
	return w.text.Bytes(), w.err
}

// resources writes the bundle.
func (s Scope) resources(w *configuration) {
	b := s.Bundle()
	w.block("aws_iam_role", "controller", "name", b.ControllerRole.Name, "assume_role_policy", b.ControllerRole.Trust)
	w.block("aws_iam_role_policy", "controller", "name", "nodeless", "role", reference("aws_iam_role.controller.id"),
		"policy", *b.ControllerRole.Policy)
	w.block("aws_iam_role", "node", "name", b.NodeRole.Name, "assume_role_policy", b.NodeRole.Trust)
	for _, arn := range b.NodeRole.ManagedPolicies {
		name := arn[strings.LastIndex(arn, "/")+1:]
		w.block("aws_iam_role_policy_attachment", name, "role", reference("aws_iam_role.node.name"), "policy_arn", arn)
	}
	w.block("aws_eks_access_entry", "nodes", "count", reference("var.node_access_entry ? 1 : 0"),
		"cluster_name", s.Cluster, "principal_arn", reference("aws_iam_role.node.arn"), "type", "EC2_LINUX")
	w.block("aws_sqs_queue", "interruption", "name", b.InterruptionQueue.Name, "message_retention_seconds", retention,
		"sqs_managed_sse_enabled", true)
	w.block("aws_sqs_queue_policy", "interruption", "queue_url", reference("aws_sqs_queue.interruption.url"),
		"policy", b.InterruptionQueue.Policy)
	for _, r := range b.InterruptionQueue.Rules {
		w.block("aws_cloudwatch_event_rule", r.Name, "event_pattern", r.Pattern)
		w.block("aws_cloudwatch_event_target", r.Name, "rule", reference("aws_cloudwatch_event_rule."+r.Name+".name"),
			"arn", reference("aws_sqs_queue.interruption.arn"))
	}
	if s.OIDCIssuer == "" {
		w.block("aws_eks_pod_identity_association", "controller", "cluster_name", s.Cluster, "namespace", s.Namespace,
			"service_account", s.ServiceAccount, "role_arn", reference("aws_iam_role.controller.arn"))
	}
}

// reference is an HCL expression that is not a string.
type reference string

// configuration writes resources of a Terraform configuration.
type configuration struct {
	text bytes.Buffer
	err  error
}

// block writes a resource with pairs of names and values. A value other than a string, number, boolean or reference
// becomes JSON text.
func (w *configuration) block(kind, name string, pairs ...any) {
	width := 0
	for pair := range slices.Chunk(pairs, 2) {
		width = max(width, len(pair[0].(string)))
	}
	fmt.Fprintf(&w.text, "resource %q %q {\n", kind, name)
	for pair := range slices.Chunk(pairs, 2) {
		fmt.Fprintf(&w.text, "  %-*s = %s\n", width, pair[0], w.expression(pair[len(pair)-1]))
	}
	w.text.WriteString("}\n\n")
}

func (w *configuration) expression(value any) string {
	if r, ok := value.(reference); ok {
		return string(r)
	}
	text, err := JSON(value)
	if err != nil {
		w.err = err
		return "null"
	}
	// HCL accepts JSON as an expression, except that some characters begin a template in it.
	escaped := strings.NewReplacer("${", "$${", "%{", "%%{").Replace(strings.TrimSpace(string(text)))
	switch value.(type) {
	case string, int, bool:
		return escaped
	}
	return "jsonencode(" + strings.ReplaceAll(escaped, "\n", "\n  ") + ")"
}
