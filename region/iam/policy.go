package iam

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Policy is a parsed policy. It is immutable.
type Policy struct{ statements []statement }

// statement is one statement of a policy.
type statement struct {
	deny        bool
	actions     []string // lower case
	exceptThese bool     // the actions come from NotAction
	resources   []string
	exceptThose bool     // the resources come from NotResource
	principals  []string // of a trust policy; "*" is anyone
	conditions  []condition
}

// texts is a string or a list of strings; conditions also take booleans and numbers.
type texts []string

// UnmarshalJSON reads one value or a list of values.
func (t *texts) UnmarshalJSON(data []byte) error {
	var list []json.RawMessage
	if err := json.Unmarshal(data, &list); err != nil {
		list = []json.RawMessage{data}
	}
	for _, item := range list {
		var s string
		if err := json.Unmarshal(item, &s); err != nil {
			if bytes.ContainsAny(item[:1], `{["n`) {
				return fmt.Errorf("%s is not a text", item)
			}
			s = string(item) // true, false or a number
		}
		*t = append(*t, s)
	}
	return nil
}

// document is a policy as written.
type document struct {
	Version, ID string
	Statement   json.RawMessage // one or a list
}

type written struct {
	Sid, Effect                              string
	Action, NotAction, Resource, NotResource texts
	Principal                                json.RawMessage
	Condition                                map[string]map[string]texts
}

// Parse reads an identity-based policy, such as those of PutUserPolicy and PutRolePolicy.
func Parse(text string) (*Policy, error) {
	return parse(text, func(w written) error {
		switch {
		case w.Principal != nil:
			return errors.New("element Principal: an identity-based policy has none; remove it")
		case (len(w.Resource) > 0) == (len(w.NotResource) > 0):
			return errors.New("element Resource: give either Resource or NotResource")
		}
		return nil
	})
}

// ParseTrust reads the trust policy of a role.
func ParseTrust(text string) (*Policy, error) {
	return parse(text, func(w written) error {
		switch {
		case w.Principal == nil:
			return errors.New("element Principal: a trust policy needs one, such as {\"Service\": \"ec2.amazonaws.com\"}")
		case len(w.Resource)+len(w.NotResource) > 0:
			return errors.New("element Resource: a trust policy has none, since it belongs to its role; remove it")
		}
		return nil
	})
}

func parse(text string, valid func(written) error) (*Policy, error) {
	var d document
	if err := strict([]byte(text), &d); err != nil {
		return nil, fmt.Errorf("read policy: %w", err)
	}
	if d.Version != "" && d.Version != "2012-10-17" && d.Version != "2008-10-17" {
		return nil, fmt.Errorf("read policy: Version %q: write 2012-10-17", d.Version)
	}
	var list []json.RawMessage
	if err := json.Unmarshal(d.Statement, &list); err != nil && d.Statement != nil {
		list = []json.RawMessage{d.Statement}
	}
	p := &Policy{}
	for i, item := range list {
		var w written
		err := strict(item, &w)
		if err == nil {
			err = valid(w)
		}
		var s statement
		if err == nil {
			s, err = w.statement()
		}
		if err != nil {
			return nil, fmt.Errorf("read policy: statement %d: %w", i+1, err)
		}
		p.statements = append(p.statements, s)
	}
	if len(list) == 0 {
		return nil, errors.New("read policy: Statement: there is none")
	}
	return p, nil
}

// strict decodes JSON and rejects unknown fields and trailing text.
func strict(data []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if d.More() {
		return errors.New("there is text after its end")
	}
	return nil
}

func (w written) statement() (statement, error) {
	s := statement{
		deny: w.Effect == "Deny", actions: append(w.Action, w.NotAction...), exceptThese: len(w.NotAction) > 0,
		resources: append(w.Resource, w.NotResource...), exceptThose: len(w.NotResource) > 0,
	}
	if w.Effect != "Allow" && w.Effect != "Deny" {
		return s, fmt.Errorf("element Effect %q: write Allow or Deny", w.Effect)
	}
	if (len(w.Action) > 0) == (len(w.NotAction) > 0) {
		return s, errors.New("element Action: give either Action or NotAction")
	}
	for i, a := range s.actions {
		if a != "*" && !strings.Contains(a, ":") {
			return s, fmt.Errorf("element Action %q: write service:action", a)
		}
		s.actions[i] = strings.ToLower(a)
	}
	for _, r := range s.resources {
		if r != "*" && (!strings.HasPrefix(r, "arn:") || strings.Count(r, ":") < 5) && !strings.HasPrefix(r, "${") {
			return s, fmt.Errorf("element Resource %q: write an ARN or *", r)
		}
	}
	var err error
	if w.Principal != nil {
		if s.principals, err = principals(w.Principal); err != nil {
			return s, err
		}
	}
	for operator, keys := range w.Condition {
		for key, values := range keys {
			c, err := newCondition(operator, key, values)
			if err != nil {
				return s, fmt.Errorf("element Condition: %w", err)
			}
			s.conditions = append(s.conditions, c)
		}
	}
	return s, nil
}

// principals parses the element Principal: "*", or lists by kind of principal, which it concatenates.
func principals(data json.RawMessage) ([]string, error) {
	if string(data) == `"*"` {
		return []string{"*"}, nil
	}
	var byKind map[string]texts
	if err := json.Unmarshal(data, &byKind); err != nil {
		return nil, fmt.Errorf("element Principal: %w", err)
	}
	var out []string
	for kind, list := range byKind {
		switch kind {
		case "AWS", "Service", "Federated", "CanonicalUser":
			out = append(out, list...)
		default:
			return nil, fmt.Errorf("element Principal %q: write AWS, Service, Federated or CanonicalUser", kind)
		}
	}
	return out, nil
}
