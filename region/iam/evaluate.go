package iam

import (
	"slices"
	"strings"
)

// Context holds the values of a request's condition keys, such as aws:RequestTag/team, by lower-case key: in IAM,
// keys are case-insensitive and values are not. An absent key is not in the request.
type Context map[string][]string

// Set sets the values of a key.
func (c Context) Set(key string, values ...string) { c[strings.ToLower(key)] = values }

// Request is one action on one resource.
type Request struct {
	Action   string // such as ec2:RunInstances
	Resource string // an ARN; * if the action has no resource types
	// Principals are the names under which a trust policy may list the caller: its ARN, its account.
	Principals []string
	Context    Context
}

// Decision is the result of evaluating policies for a request.
type Decision int

// The decisions. An explicit deny overrides every allow; without either, the request is implicitly denied.
const (
	ImplicitDeny Decision = iota
	Allowed
	ExplicitDeny
)

// Evaluate evaluates all policies that apply to a request.
func Evaluate(r Request, policies ...*Policy) Decision {
	decision := ImplicitDeny
	for _, p := range policies {
		for i := range p.statements {
			s := &p.statements[i]
			switch {
			case !s.applies(r):
			case s.deny:
				return ExplicitDeny
			default:
				decision = Allowed
			}
		}
	}
	return decision
}

// applies reports whether a statement applies to a request.
func (s *statement) applies(r Request) bool {
	action := strings.ToLower(r.Action)
	named := slices.ContainsFunc(s.actions, func(pattern string) bool { return literal(pattern).matches(action) })
	if named == s.exceptThese {
		return false
	}
	if s.principals != nil {
		if !slices.ContainsFunc(s.principals, func(p string) bool { return p == "*" || slices.Contains(r.Principals, p) }) {
			return false
		}
	} else {
		named = slices.ContainsFunc(s.resources, func(pattern string) bool {
			g, ok := expand(pattern, r.Context)
			return ok && g.matches(r.Resource)
		})
		if named == s.exceptThose {
			return false
		}
	}
	for _, c := range s.conditions {
		if !c.holds(r.Context) {
			return false
		}
	}
	return true
}
