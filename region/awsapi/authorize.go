package awsapi

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/nodeless/nodeless/region"
	"github.com/nodeless/nodeless/region/iam"
)

// access is an action on one resource for which a call needs permission.
type access struct {
	action   string            // such as ec2:RunInstances
	resource string            // ARN; * if the action has no resource types
	tags     map[string]string // tags of the resource
	given    map[string]string // tags that the call adds to it or removes from it
	keys     map[string]string // further condition keys, such as iam:PassedToService
}

// authorizer decides what the caller may do.
type authorizer struct{ *call }

// authorize returns an error unless the caller may make a call with this input: every access that it needs must be
// allowed.
func (c authorizer) authorize(in any) error {
	if c.caller.Principal == nil || c.service == serviceSTS {
		return nil // STS identifies any caller; AssumeRole has its own rules
	}
	return c.allowed(c.accesses(in)...)
}

// allowed returns the error for the first access that the caller lacks; nil if it has all.
func (c authorizer) allowed(needed ...access) error {
	if c.caller.Principal == nil {
		return nil
	}
	policies, err := c.caller.policies()
	if err != nil {
		return err
	}
	for _, a := range needed {
		if d := iam.Evaluate(c.request(a), policies...); d != iam.Allowed {
			return c.inWordsOf(c.denied(a, d))
		}
	}
	return nil
}

// policies returns all policies that apply to a caller.
func (w Caller) policies() ([]*iam.Policy, error) {
	var out []*iam.Policy
	for _, name := range slices.Sorted(maps.Keys(w.Principal.Policies)) {
		p, err := iam.Parse(w.Principal.Policies[name])
		if err != nil {
			return nil, fmt.Errorf("policy %s of %s: %w", name, w.ARN, err)
		}
		out = append(out, p)
	}
	return out, nil
}

// request returns an access with all condition keys of the call.
func (c authorizer) request(a access) iam.Request {
	r := iam.Request{Action: a.action, Resource: a.resource, Context: c.caller.context(c.signedFor, c.region.Now())}
	service, _, _ := strings.Cut(a.action, ":")
	for k, v := range a.tags {
		r.Context.Set("aws:ResourceTag/"+k, v)
		r.Context.Set(service+":ResourceTag/"+k, v)
	}
	for k, v := range a.given {
		r.Context.Set("aws:RequestTag/"+k, v)
	}
	if len(a.given) > 0 {
		r.Context.Set("aws:TagKeys", slices.Sorted(maps.Keys(a.given))...)
	}
	for k, v := range a.keys {
		r.Context.Set(k, v)
	}
	return r
}

// denied returns AWS's error for an access that is not allowed (IAM user guide, "Troubleshoot access denied error
// messages").
func (c authorizer) denied(a access, d iam.Decision) *region.APIError {
	why := fmt.Sprintf("because no identity-based policy allows the %s action", a.action)
	if d == iam.ExplicitDeny {
		why = "with an explicit deny in an identity-based policy"
	}
	return failure(http.StatusForbidden, "AccessDenied", fmt.Sprintf(
		"User: %s is not authorized to perform: %s on resource: %s %s", c.caller.ARN, a.action, a.resource, why))
}

// accesses returns the accesses that a call needs: those of its action's rule or, without one, the action on the
// resources named in its input.
func (c authorizer) accesses(in any) []access {
	if rule := accessRules[c.service][c.action]; rule != nil {
		return rule(c, in)
	}
	a := access{action: c.actionName(), resource: "*", given: tagsIn(in)}
	if readsAnything(c.service, c.action) {
		return []access{a}
	}
	var out []access
	for _, named := range resourceFields[c.service] {
		for _, value := range fieldTexts(in, named.field) {
			a.resource, a.tags = named.resource(c, value, in)
			out = append(out, a)
		}
	}
	if len(out) == 0 {
		out = []access{a}
	}
	return out
}

// actionNames maps calls to the actions that authorise them, where the names differ (Service Authorization
// Reference).
var actionNames = map[string]string{"sqs:DeleteMessageBatch": "sqs:DeleteMessage"}

// actionName returns the IAM action of a call.
func (c authorizer) actionName() string {
	name := c.service + ":" + c.action
	return cmp.Or(actionNames[name], name)
}

// readsAnything reports whether an action has no resource types because it only lists or describes (Service
// Authorization Reference).
func readsAnything(service, action string) bool {
	switch service {
	case serviceEC2, serviceScaling, serviceELB:
		return strings.HasPrefix(action, "Describe") || strings.HasPrefix(action, "Get")
	case servicePricing:
		return true
	}
	return strings.HasPrefix(action, "List") && service != serviceEKS
}
