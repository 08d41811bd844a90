// Package iampolicy holds the AWS permissions that the controller needs, and no more, as data: its policy, who may
// assume its role, the role of nodes, the interruption queue and the rules that feed it. All printed forms derive
// from the same documents, and the simulated region enforces them in tests.
//
// The scoping by cluster tags follows Karpenter's CloudFormation template
// (karpenter.sh/docs/reference/cloudformation, read 2026-11-26), so that reviewers of that template find it familiar.
package iampolicy

// Document is an IAM policy.
type Document struct {
	Version   string
	Statement []Statement
}

// Statement is one statement of a policy.
type Statement struct {
	Sid       string
	Effect    string
	Principal map[string]string `json:",omitempty"`
	Action    []string
	Resource  []string   `json:",omitempty"`
	Condition Conditions `json:",omitempty"`
}

// Conditions maps operators to keys to values.
type Conditions map[string]map[string][]string

// document returns a policy with statements.
func document(statements ...Statement) Document {
	return Document{Version: "2012-10-17", Statement: statements}
}

// allow returns a statement that allows actions on resources.
func allow(sid string, actions, resources []string, c Conditions) Statement {
	return Statement{Sid: sid, Effect: "Allow", Action: actions, Resource: resources, Condition: c}
}
