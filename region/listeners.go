package region

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Listener accepts a load balancer's connections on a port. Its fields are named as in the SDK.
type Listener struct {
	ListenerARN, LoadBalancerARN string
	Port                         int
	Protocol                     string // HTTP for application, TCP for network load balancers
	DefaultActions               []ListenerAction
	Tags                         map[string]string `json:",omitempty"`
}

// DefaultRuleARN returns the ARN of the rule that holds the default actions.
func (l Listener) DefaultRuleARN() string {
	return strings.Replace(l.ListenerARN, ":listener/", ":listener-rule/", 1) + "/0000000000000000"
}

// ListenerAction is what a listener does with a request: forward, fixed-response or redirect.
type ListenerAction struct {
	Type                string
	Order               int            `json:",omitempty"`
	TargetGroupARN      string         `json:",omitempty"` // of a forward action to one group
	ForwardConfig       *Forward       `json:",omitempty"`
	FixedResponseConfig *FixedResponse `json:",omitempty"`
	RedirectConfig      *Redirect      `json:",omitempty"`
}

// Forward distributes requests over target groups.
type Forward struct {
	TargetGroups []WeightedTargetGroup
}

// WeightedTargetGroup is a target group and its weight, from 0 to 999.
type WeightedTargetGroup struct {
	TargetGroupARN string
	Weight         *int `json:",omitempty"`
}

// FixedResponse is a response without a target.
type FixedResponse struct {
	StatusCode  string
	ContentType string `json:",omitempty"`
	MessageBody string `json:",omitempty"`
}

// Redirect sends the client elsewhere; #{protocol}, #{host}, #{port}, #{path} and #{query} stand for the request's.
type Redirect struct {
	StatusCode                        string // HTTP_301 or HTTP_302
	Protocol, Host, Port, Path, Query string `json:",omitempty"`
}

// ListenerRule applies actions if all of its conditions hold. Rules are tried in order of priority.
type ListenerRule struct {
	RuleARN, ListenerARN string
	Priority             int
	Conditions           []RuleCondition
	Actions              []ListenerAction
	Tags                 map[string]string `json:",omitempty"`
}

// RuleCondition matches a field of the request against values. The field is path-pattern, host-header,
// http-request-method or source-ip.
type RuleCondition struct {
	Field  string
	Values []string
}

// Forwards returns the target groups of an action with their weights; a nil weight means 1.
func (a ListenerAction) Forwards() []WeightedTargetGroup {
	if a.ForwardConfig != nil && len(a.ForwardConfig.TargetGroups) > 0 {
		return a.ForwardConfig.TargetGroups
	}
	if a.TargetGroupARN == "" {
		return nil
	}
	return []WeightedTargetGroup{{TargetGroupARN: a.TargetGroupARN}}
}

// balancerPart returns the part of a load balancer's ARN that its listeners' ARNs repeat: app/NAME/ID.
func balancerPart(arn string) string {
	_, part, _ := strings.Cut(arn, ":loadbalancer/")
	return part
}

// CreateListener creates a listener on a port that is free on the load balancer.
func (s *loadBalancing) CreateListener(want Listener) (Listener, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, err := s.balancer(want.LoadBalancerARN)
	if err != nil {
		return Listener{}, err
	}
	if err := s.checkListener(b, want); err != nil {
		return Listener{}, err
	}
	if n := len(s.listenersOf(b.ARN)); n >= maxListeners {
		return Listener{}, apiError("TooManyListeners", "The maximum number of listeners has been reached: %d", maxListeners)
	}
	want.ListenerARN = s.elbARN("listener/" + balancerPart(b.ARN) + "/" + s.shortID())
	s.listeners[want.ListenerARN] = &want
	s.store.put(bucketListeners, want.ListenerARN, want)
	return want, s.commitChange()
}

func (s *loadBalancing) checkListener(b *LoadBalancer, want Listener) error {
	protocol := map[string]string{Application: "HTTP", Network: "TCP"}[b.Type]
	switch {
	case want.Port < 1 || want.Port > 65535:
		return apiError("ValidationError", "Listener port '%d' must be between 1 and 65535", want.Port)
	case want.Protocol != protocol:
		return apiError("UnsupportedProtocol", "The simulated region serves '%s' listeners of '%s' load balancers, not '%s'",
			protocol, b.Type, want.Protocol)
	}
	for _, l := range s.listenersOf(b.ARN) {
		if l.Port == want.Port && l.ListenerARN != want.ListenerARN {
			return apiError("DuplicateListener",
				"A listener already exists on this port for this load balancer '%s'", b.ARN)
		}
	}
	return s.checkActions(b, want.DefaultActions)
}

// checkActions validates actions: exactly one, of a type that the load balancer supports, forwarding only to target
// groups of a compatible protocol.
func (s *loadBalancing) checkActions(b *LoadBalancer, actions []ListenerAction) error {
	if len(actions) != 1 {
		return apiError("ValidationError", "Exactly one action of type forward, redirect or fixed-response is required")
	}
	a := actions[0]
	switch {
	case b.Type == Network && a.Type != "forward":
		return apiError("InvalidLoadBalancerAction", "The action type '%s' is not valid with network load balancers", a.Type)
	case a.Type == "forward":
		return s.checkForward(b, a)
	case a.Type == "fixed-response" && a.FixedResponseConfig != nil:
		code, err := strconv.Atoi(a.FixedResponseConfig.StatusCode)
		if err != nil || code < 200 || code > 599 || (code > 299 && code < 400) {
			return apiError("ValidationError", "The fixed-response status code '%s' must be 2XX, 4XX or 5XX",
				a.FixedResponseConfig.StatusCode)
		}
		if len(a.FixedResponseConfig.MessageBody) > 1024 {
			return apiError("ValidationError", "The fixed-response message body cannot be longer than '1024' characters")
		}
		return nil
	case a.Type == "redirect" && a.RedirectConfig != nil:
		if c := a.RedirectConfig.StatusCode; c != "HTTP_301" && c != "HTTP_302" {
			return apiError("ValidationError", "The redirect status code '%s' must be HTTP_301 or HTTP_302", c)
		}
		return nil
	}
	return apiError("InvalidLoadBalancerAction", "The action type '%s' is not served or lacks its configuration", a.Type)
}

func (s *loadBalancing) checkForward(b *LoadBalancer, a ListenerAction) error {
	to := a.Forwards()
	if len(to) == 0 || len(to) > 5 {
		return apiError("ValidationError", "A forward action needs between 1 and 5 target groups, not %d", len(to))
	}
	for _, t := range to {
		g, err := s.groups.group(t.TargetGroupARN)
		switch {
		case err != nil:
			return err
		case t.Weight != nil && (*t.Weight < 0 || *t.Weight > 999):
			return apiError("ValidationError", "The target group weight '%d' must be between 0 and 999", *t.Weight)
		case (g.Protocol == "HTTP") != (b.Type == Application):
			return apiError("IncompatibleProtocols", "The target group '%s' has protocol %s, which %s load balancers lack",
				g.TargetGroupARN, g.Protocol, b.Type)
		}
	}
	return nil
}

// listenersOf returns the listeners of a load balancer, sorted by ARN.
func (s *loadBalancing) listenersOf(balancer string) []*Listener {
	var out []*Listener
	for _, arn := range slices.Sorted(maps.Keys(s.listeners)) {
		if l := s.listeners[arn]; l.LoadBalancerARN == balancer {
			out = append(out, l)
		}
	}
	return out
}

// Listeners returns all listeners, by ARN.
func (s *loadBalancing) Listeners() []Listener {
	s.mu.Lock()
	defer s.mu.Unlock()
	return values(s.listeners)
}

// values returns the values of a map, sorted by key.
func values[T any](m map[string]*T) []T {
	out := make([]T, 0, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, *m[k])
	}
	return out
}

func (s *loadBalancing) listener(arn string) (*Listener, error) {
	if l := s.listeners[arn]; l != nil {
		return l, nil
	}
	return nil, apiError("ListenerNotFound", "Listener '%s' not found", arn)
}

// ModifyListener replaces the fields that change sets: port, protocol, default actions.
func (s *loadBalancing) ModifyListener(arn string, change Listener) (Listener, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, err := s.listener(arn)
	if err != nil {
		return Listener{}, err
	}
	want := *l
	want.Port, want.Protocol = cmp.Or(change.Port, l.Port), cmp.Or(change.Protocol, l.Protocol)
	if change.DefaultActions != nil {
		want.DefaultActions = change.DefaultActions
	}
	if err := s.checkListener(s.balancers[l.LoadBalancerARN], want); err != nil {
		return Listener{}, err
	}
	*l = want
	s.store.put(bucketListeners, arn, l)
	return want, s.commitChange()
}

// DeleteListener deletes a listener with its rules.
func (s *loadBalancing) DeleteListener(arn string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, err := s.listener(arn)
	if err != nil {
		return err
	}
	s.dropListener(l)
	return s.commitChange()
}

func (s *loadBalancing) dropListener(l *Listener) {
	for arn, r := range s.rules {
		if r.ListenerARN == l.ListenerARN {
			delete(s.rules, arn)
			s.store.remove(bucketListenerRules, arn)
		}
	}
	delete(s.listeners, l.ListenerARN)
	s.store.remove(bucketListeners, l.ListenerARN)
}

// conditionFields are the request fields that conditions may match.
var conditionFields = []string{"path-pattern", "host-header", "http-request-method", "source-ip"}

// CreateRule adds a rule to a listener, at a free priority.
func (s *loadBalancing) CreateRule(want ListenerRule) (ListenerRule, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, err := s.listener(want.ListenerARN)
	if err != nil {
		return ListenerRule{}, err
	}
	if err := s.checkRuleOf(l, want); err != nil {
		return ListenerRule{}, err
	}
	n := 0
	for _, r := range s.rules {
		if s.listeners[r.ListenerARN].LoadBalancerARN == l.LoadBalancerARN {
			n++
		}
	}
	if n >= maxRules {
		return ListenerRule{}, apiError("TooManyRules", "The maximum number of rules has been reached: %d", maxRules)
	}
	_, part, _ := strings.Cut(l.ListenerARN, ":listener/")
	want.RuleARN = s.elbARN("listener-rule/" + part + "/" + s.shortID())
	s.rules[want.RuleARN] = &want
	s.store.put(bucketListenerRules, want.RuleARN, want)
	return want, s.commitChange()
}

func (s *loadBalancing) checkRuleOf(l *Listener, want ListenerRule) error {
	b := s.balancers[l.LoadBalancerARN]
	switch {
	case b.Type != Application:
		return apiError("InvalidConfigurationRequest", "Rules are not supported by listeners of network load balancers")
	case want.Priority < 1 || want.Priority > 50000:
		return apiError("ValidationError", "The priority '%d' must be between 1 and 50000", want.Priority)
	case len(want.Conditions) == 0:
		return apiError("ValidationError", "A rule must have at least one condition")
	}
	for _, c := range want.Conditions {
		if !slices.Contains(conditionFields, c.Field) {
			return apiError("ValidationError", "Condition field '%s' must be one of '%s'", c.Field,
				strings.Join(conditionFields, ", "))
		}
		if len(c.Values) == 0 || len(c.Values) > 5 {
			return apiError("ValidationError", "Condition '%s' needs between 1 and 5 values, not %d", c.Field, len(c.Values))
		}
	}
	for _, r := range s.rules {
		if r.ListenerARN == l.ListenerARN && r.Priority == want.Priority && r.RuleARN != want.RuleARN {
			return apiError("PriorityInUse", "Priority '%d' is currently in use", want.Priority)
		}
	}
	return s.checkActions(b, want.Actions)
}

// Rules returns the rules of all listeners except the default ones, by listener and priority.
func (s *loadBalancing) Rules() []ListenerRule {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := values(s.rules)
	slices.SortStableFunc(out, func(a, b ListenerRule) int {
		return cmp.Or(cmp.Compare(a.ListenerARN, b.ListenerARN), cmp.Compare(a.Priority, b.Priority))
	})
	return out
}

// ModifyRule replaces the conditions and actions that change sets.
func (s *loadBalancing) ModifyRule(arn string, change ListenerRule) (ListenerRule, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.rules[arn]
	if r == nil {
		return ListenerRule{}, apiError("RuleNotFound", "Rule '%s' not found", arn)
	}
	want := *r
	if change.Conditions != nil {
		want.Conditions = change.Conditions
	}
	if change.Actions != nil {
		want.Actions = change.Actions
	}
	if err := s.checkRuleOf(s.listeners[r.ListenerARN], want); err != nil {
		return ListenerRule{}, err
	}
	*r = want
	s.store.put(bucketListenerRules, arn, r)
	return want, s.commitChange()
}

// DeleteRule deletes a rule.
func (s *loadBalancing) DeleteRule(arn string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rules[arn] == nil {
		return apiError("RuleNotFound", "Rule '%s' not found", arn)
	}
	delete(s.rules, arn)
	s.store.remove(bucketListenerRules, arn)
	return s.commitChange()
}

// balancersOf returns the ARNs of the load balancers that forward to a target group.
func (s *loadBalancing) balancersOf(group string) []string {
	found := map[string]bool{}
	uses := func(listener string, actions []ListenerAction) {
		for _, a := range actions {
			for _, t := range a.Forwards() {
				if t.TargetGroupARN == group {
					found[s.listeners[listener].LoadBalancerARN] = true
				}
			}
		}
	}
	for arn, l := range s.listeners {
		uses(arn, l.DefaultActions)
	}
	for _, r := range s.rules {
		uses(r.ListenerARN, r.Actions)
	}
	return slices.Sorted(maps.Keys(found))
}

// LoadBalancersOf returns the ARNs of the load balancers that forward to a target group.
func (s *loadBalancing) LoadBalancersOf(group string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.balancersOf(group)
}
