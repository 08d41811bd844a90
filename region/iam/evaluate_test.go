package iam

import (
	"fmt"
	"strings"
	"testing"
)

func policy(t *testing.T, statements ...string) *Policy {
	t.Helper()
	p, err := Parse(`{"Version": "2012-10-17", "Statement": [` + strings.Join(statements, ",") + `]}`)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func context(pairs ...string) Context {
	c := Context{}
	for i := 0; i < len(pairs); i += 2 {
		var values []string
		if pairs[i+1] != "" {
			values = strings.Split(pairs[i+1], ",")
		}
		c.Set(pairs[i], values...)
	}
	return c
}

// The order of "Policy evaluation logic": an explicit deny, then an allow, otherwise an implicit deny.
func TestADenyWinsOverAllows(t *testing.T) {
	allow := policy(t, `{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}`)
	deny := policy(t, `{"Effect": "Deny", "Action": "s3:Delete*", "Resource": "arn:aws:s3:::carlos-bucket/*"}`)
	for _, c := range []struct {
		action, resource string
		want             Decision
	}{
		{"s3:GetObject", "arn:aws:s3:::carlos-bucket/a", Allowed},
		{"S3:getobject", "arn:aws:s3:::carlos-bucket/a", Allowed}, // actions are case-insensitive
		{"s3:DeleteObject", "arn:aws:s3:::carlos-bucket/a", ExplicitDeny},
		{"s3:DeleteObject", "arn:aws:s3:::other/a", Allowed},
		{"ec2:RunInstances", "*", ImplicitDeny},
	} {
		for _, order := range [][]*Policy{{allow, deny}, {deny, allow}} {
			if got := Evaluate(Request{Action: c.action, Resource: c.resource}, order...); got != c.want {
				t.Errorf("%s on %s: %v, want %v", c.action, c.resource, got, c.want)
			}
		}
	}
}

// "IAM JSON policy elements: NotAction" and "NotResource", with the examples of these pages.
func TestNotActionAndNotResource(t *testing.T) {
	noDelete := policy(t, `{"Effect": "Allow", "NotAction": "s3:DeleteBucket", "Resource": "arn:aws:s3:::*"}`)
	payroll := policy(t, `{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}`, `{"Effect": "Deny", "Action": "s3:*",
		"NotResource": ["arn:aws:s3:::HRBucket/Payroll", "arn:aws:s3:::HRBucket/Payroll/*"]}`)
	for _, c := range []struct {
		p                *Policy
		action, resource string
		want             Decision
	}{
		{noDelete, "s3:GetObject", "arn:aws:s3:::a/b", Allowed},
		{noDelete, "s3:DeleteBucket", "arn:aws:s3:::a", ImplicitDeny},
		{noDelete, "ec2:RunInstances", "arn:aws:ec2:us-west-2:1:instance/i", ImplicitDeny},
		{payroll, "s3:GetObject", "arn:aws:s3:::HRBucket/Payroll/x", Allowed},
		{payroll, "s3:GetObject", "arn:aws:s3:::HRBucket/Other", ExplicitDeny},
	} {
		if got := Evaluate(Request{Action: c.action, Resource: c.resource}, c.p); got != c.want {
			t.Errorf("%s on %s: %v, want %v", c.action, c.resource, got, c.want)
		}
	}
}

// Each line is an example or a sentence of "IAM JSON policy elements: Condition operators" or of "Multivalued context
// keys" (set operators).
func TestConditions(t *testing.T) {
	for _, c := range []struct {
		condition string
		context   Context
		want      bool
	}{
		{`"StringEquals": {"aws:PrincipalTag/job-category": "iamuser-admin"}`, context("aws:PrincipalTag/job-category", "iamuser-admin"), true},
		{`"StringEquals": {"aws:PrincipalTag/job-category": "iamuser-admin"}`, context("aws:principaltag/JOB-CATEGORY", "iamuser-admin"), true},
		{`"StringEquals": {"aws:PrincipalTag/job-category": "iamuser-admin"}`, context("aws:PrincipalTag/job-category", "IAMUSER-admin"), false},
		{`"StringEquals": {"aws:PrincipalTag/job-category": "iamuser-admin"}`, context(), false},
		{`"StringEquals": {"key": ["a", "b"]}`, context("key", "b"), true},
		{`"StringEquals": {"a": "1", "b": "2"}`, context("a", "1"), false},
		{`"StringEquals": {"a": "*"}`, context("a", "anything"), false},
		{`"StringEqualsIgnoreCase": {"key": "Value"}`, context("key", "vALUE"), true},
		{`"StringNotEquals": {"key": "a"}`, context("key", "b"), true},
		{`"StringNotEquals": {"key": ["a", "b"]}`, context("key", "b"), false},
		{`"StringNotEquals": {"key": "a"}`, context(), true},
		{`"StringNotEqualsIgnoreCase": {"key": "A"}`, context("key", "a"), false},
		{`"StringLike": {"s3:prefix": ["", "home/", "home/${aws:username}/*"]}`, context("s3:prefix", "home/ann/x", "aws:username", "ann"), true},
		{`"StringLike": {"s3:prefix": "home/${aws:username}/*"}`, context("s3:prefix", "home/bob/x", "aws:username", "ann"), false},
		{`"StringLike": {"s3:prefix": "home/${aws:username}/*"}`, context("s3:prefix", "home/bob/x", "aws:username", "*"), false},
		{`"StringLike": {"key": "${aws:PrincipalTag/team, 'none'}"}`, context("key", "none"), true},
		{`"StringLike": {"key": "a${*}"}`, context("key", "ab"), false},
		{`"StringNotLike": {"key": "a*"}`, context("key", "abc"), false},
		{`"NumericLessThanEquals": {"s3:max-keys": "10"}`, context("s3:max-keys", "10"), true},
		{`"NumericLessThanEquals": {"s3:max-keys": 10}`, context("s3:max-keys", "11"), false},
		{`"NumericGreaterThan": {"key": "9"}`, context("key", "10"), true},
		{`"NumericNotEquals": {"key": "9"}`, context("key", "9.0"), false},
		{`"DateGreaterThan": {"aws:TokenIssueTime": "2020-01-01T00:00:01Z"}`, context("aws:TokenIssueTime", "2020-01-01T00:00:02Z"), true},
		{`"DateLessThan": {"aws:CurrentTime": "2020-06-30T23:59:59Z"}`, context("aws:CurrentTime", "2021-01-01T00:00:00Z"), false},
		{`"Bool": {"aws:SecureTransport": "true"}`, context("aws:SecureTransport", "true"), true},
		{`"Bool": {"aws:SecureTransport": false}`, context("aws:SecureTransport", "true"), false},
		{`"IpAddress": {"aws:SourceIp": "203.0.113.0/24"}`, context("aws:SourceIp", "203.0.113.7"), true},
		{`"NotIpAddress": {"aws:SourceIp": "203.0.113.0/24"}`, context("aws:SourceIp", "203.0.113.7"), false},
		{`"ArnLike": {"aws:SourceArn": "arn:aws:sns:*:123:topic-?"}`, context("aws:SourceArn", "arn:aws:sns:us-east-1:123:topic-1"), true},
		{`"ArnEquals": {"aws:SourceArn": "arn:aws:sns:*:topic"}`, context("aws:SourceArn", "arn:aws:sns:us-east-1:123:topic"), false},
		{`"Null": {"aws:TokenIssueTime": "true"}`, context(), true},
		{`"Null": {"aws:TokenIssueTime": "true"}`, context("aws:TokenIssueTime", "x"), false},
		{`"Null": {"aws:TokenIssueTime": "false"}`, context("aws:TokenIssueTime", "x"), true},
		{`"StringLikeIfExists": {"ec2:InstanceType": ["t1.*", "t2.*"]}`, context(), true},
		{`"StringLikeIfExists": {"ec2:InstanceType": ["t1.*", "t2.*"]}`, context("ec2:InstanceType", "m1.large"), false},
		{`"ForAllValues:StringEquals": {"aws:TagKeys": ["environment", "cost-center"]}`, context("aws:TagKeys", "environment,cost-center"), true},
		{`"ForAllValues:StringEquals": {"aws:TagKeys": ["environment", "cost-center"]}`, context("aws:TagKeys", "environment,dept"), false},
		{`"ForAllValues:StringEquals": {"aws:TagKeys": ["environment", "cost-center"]}`, context("aws:TagKeys", ""), true},
		{`"ForAllValues:StringNotEquals": {"aws:TagKeys": ["a"]}`, context("aws:TagKeys", "a,b"), false},
		{`"ForAnyValue:StringEquals": {"aws:TagKeys": ["webserver", "database"]}`, context("aws:TagKeys", "database,other"), true},
		{`"ForAnyValue:StringEquals": {"aws:TagKeys": ["webserver", "database"]}`, context(), false},
		{`"ForAnyValue:StringNotEquals": {"aws:TagKeys": ["a"]}`, context("aws:TagKeys", "a,b"), true},
	} {
		p := policy(t, `{"Effect": "Allow", "Action": "*", "Resource": "*", "Condition": {`+c.condition+`}}`)
		got := Evaluate(Request{Action: "a:B", Resource: "*", Context: c.context}, p) == Allowed
		if got != c.want {
			t.Errorf("%s with %v: %t, want %t", c.condition, c.context, got, c.want)
		}
	}
}

// Wildcards of Resource, with the examples of "IAM JSON policy elements: Resource".
func TestResources(t *testing.T) {
	for pattern, resources := range map[string]map[string]bool{
		"arn:aws:iam::111122223333:user/*":        {"arn:aws:iam::111122223333:user/a/b": true, "arn:aws:iam::1:user/a": false},
		"arn:aws:s3:::amzn-s3-demo-bucket/*/test": {"arn:aws:s3:::amzn-s3-demo-bucket/1/2/test": true, "arn:aws:s3:::amzn-s3-demo-bucket/test": false},
		"arn:aws:sqs:us-east-2:account-??:queue1": {"arn:aws:sqs:us-east-2:account-12:queue1": true, "arn:aws:sqs:us-east-2:account-1:queue1": false},
		"arn:aws:s3:::b/${aws:username}":          {"arn:aws:s3:::b/ann": true, "arn:aws:s3:::b/": false},
	} {
		p := policy(t, fmt.Sprintf(`{"Effect": "Allow", "Action": "x:Y", "Resource": %q}`, pattern))
		for resource, want := range resources {
			r := Request{Action: "x:Y", Resource: resource, Context: context("aws:username", "ann")}
			if got := Evaluate(r, p) == Allowed; got != want {
				t.Errorf("%s matches %s: %t", pattern, resource, got)
			}
		}
	}
}

func TestTrustPolicies(t *testing.T) {
	p, err := ParseTrust(`{"Statement": {"Effect": "Allow", "Principal": {"AWS": "111122223333"}, "Action": "sts:AssumeRole"}}`)
	if err != nil {
		t.Fatal(err)
	}
	for account, want := range map[string]Decision{"111122223333": Allowed, "444455556666": ImplicitDeny} {
		if got := Evaluate(Request{Action: "sts:AssumeRole", Principals: []string{account}}, p); got != want {
			t.Errorf("%s: %v, want %v", account, got, want)
		}
	}
}

// Errors name the place in the policy; nothing that the package does not know is matched silently.
func TestBadPolicies(t *testing.T) {
	statement := func(s string) string { return `{"Version": "2012-10-17", "Statement": [` + s + `]}` }
	for text, want := range map[string]string{
		``:                          "EOF",
		`{"Version": "2012-10-17"}`: "Statement",
		statement(``):               "there is none",
		`{"Version": "2013-10-17", "Statement": []}`:                                                                "write 2012-10-17",
		statement(`{"Effect": "Maybe", "Action": "*", "Resource": "*"}`):                                            `Effect "Maybe"`,
		statement(`{"Effect": "Allow", "Resource": "*"}`):                                                           "either Action or NotAction",
		statement(`{"Effect": "Allow", "Action": "RunInstances", "Resource": "*"}`):                                 `"RunInstances": write service:action`,
		statement(`{"Effect": "Allow", "Action": "*"}`):                                                             "either Resource or NotResource",
		statement(`{"Effect": "Allow", "Action": "*", "Resource": "instance/*"}`):                                   "write an ARN",
		statement(`{"Effect": "Allow", "Action": "*", "Resource": "*", "Principal": "*"}`):                          "Principal",
		statement(`{"Effect": "Allow", "Action": "*", "Resource": "*", "Condition": {"StringSame": {"a": "b"}}}`):   `operator "StringSame"`,
		statement(`{"Effect": "Allow", "Action": "*", "Resource": "*", "Conditions": {}}`):                          `unknown field "Conditions"`,
		statement(`{"Effect": "Allow", "Action": "*", "Resource": "*"}, {"Effect": "Allow", "Action": [{}]}`):       "statement 2",
		statement(`{"Effect": "Allow", "Action": "*", "Resource": "*", "Condition": {"Bool": {"a": {"b": "c"}}}}`):  "is not a text",
		statement(`{"Effect": "Allow", "Action": "*", "Resource": "*"}`) + "x":                                      "after its end",
		statement(`{"Effect": "Allow", "Action": "*", "Resource": "*", "Condition": {"ForSome:Bool": {"a": "b"}}}`): "ForSome:Bool",
	} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error with %q", text, err, want)
		}
	}
	if _, err := ParseTrust(statement(`{"Effect": "Allow", "Action": "sts:AssumeRole"}`)); err == nil {
		t.Error("a trust policy that trusts nobody was read")
	}
}

func FuzzParse(f *testing.F) {
	f.Add(`{"Statement": {"Effect": "Allow", "Action": "a:*", "Resource": "*", "Condition": {"StringLike": {"k": "${x}*?"}}}}`)
	f.Fuzz(func(_ *testing.T, text string) {
		if p, err := Parse(text); err == nil {
			Evaluate(Request{Action: "a:b", Resource: "arn:a:b:c:d:e", Context: context("k", "v")}, p)
		}
	})
}
