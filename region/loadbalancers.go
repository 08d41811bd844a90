package region

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// LoadBalancer is a load balancer of Elastic Load Balancing v2.
type LoadBalancer struct {
	ARN, Name, DNSName string
	Type               string // application or network
	Scheme             string // internet-facing or internal
	Subnets            []string
	SecurityGroups     []string
	CreatedAt          time.Time
	Attributes         map[string]string
	Tags               map[string]string
	Active             bool // false while it is being provisioned
}

// Types of load balancers.
const (
	Application = "application"
	Network     = "network"
)

// provisioning is the time from a load balancer's creation until it is active. AWS takes minutes.
const provisioning = 2 * time.Second

// Quotas of Elastic Load Balancing (AWS's defaults, "Quotas for your Application Load Balancers").
const (
	maxLoadBalancers = 50
	maxListeners     = 50   // per load balancer
	maxRules         = 100  // per load balancer, not counting default rules
	maxTargetGroups  = 3000 // per region
	maxTargets       = 1000 // per target group
)

// loadBalancing is Elastic Load Balancing v2: load balancers, their listeners and rules. It carries no traffic:
// package region/elb does, and reports the health of targets.
type loadBalancing struct {
	*core
	network        *network
	securityGroups *securityGroups
	groups         *targetGroups

	balancers map[string]*LoadBalancer // all by ARN
	listeners map[string]*Listener
	rules     map[string]*ListenerRule
	changed   chan struct{} // closed at the next change
}

func newLoadBalancing(c *core, n *network, s *securityGroups, i *instances) *loadBalancing {
	b := &loadBalancing{
		core: c, network: n, securityGroups: s, balancers: map[string]*LoadBalancer{},
		listeners: map[string]*Listener{}, rules: map[string]*ListenerRule{}, changed: make(chan struct{}),
	}
	b.groups = &targetGroups{
		core: c, balancing: b, instances: i, byARN: map[string]*TargetGroup{}, health: map[targetKey]TargetHealth{},
	}
	return b
}

// LoadBalancingChanged returns a channel that is closed at the next change of the data path's configuration or of a
// target's health.
func (s *loadBalancing) LoadBalancingChanged() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// tell wakes the goroutines that wait on LoadBalancingChanged.
func (s *loadBalancing) tell() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// commitChange makes a change durable and announces it.
func (s *loadBalancing) commitChange() error {
	s.tell()
	return s.commit()
}

// elbARN returns the ARN of a load balancing resource; what is its last, unique part.
func (s *loadBalancing) elbARN(what string) string {
	return fmt.Sprintf("arn:aws:elasticloadbalancing:%s:%s:%s", s.config.Name, AccountID, what)
}

// shortID returns 16 digits, the length of the IDs in ELB's ARNs.
func (s *loadBalancing) shortID() string { return s.newID()[1:] }

var elbName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9-]{0,30}[A-Za-z0-9])?$`)

// checkELBName validates the name of a load balancer or target group.
func checkELBName(kind, name string) error {
	switch {
	case len(name) > 32:
		return apiError("ValidationError", "%s name '%s' cannot be longer than '32' characters", kind, name)
	case !elbName.MatchString(name):
		return apiError("ValidationError", "%s name '%s' can only contain characters that are alphanumeric characters "+
			"and hyphens(-), and must not begin or end with a hyphen", kind, name)
	}
	return nil
}

// CreateLoadBalancer creates a load balancer, which becomes active a while later. Repeating a request returns the
// existing load balancer.
func (s *loadBalancing) CreateLoadBalancer(want LoadBalancer) (LoadBalancer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	want.Type, want.Scheme = cmp.Or(want.Type, Application), cmp.Or(want.Scheme, "internet-facing")
	if err := s.checkLoadBalancer(&want); err != nil {
		return LoadBalancer{}, err
	}
	for _, b := range s.balancers {
		if b.Name != want.Name {
			continue
		}
		if b.Type != want.Type || b.Scheme != want.Scheme || !slices.Equal(b.Subnets, want.Subnets) ||
			!slices.Equal(b.SecurityGroups, want.SecurityGroups) || !maps.Equal(b.Tags, want.Tags) {
			return LoadBalancer{}, apiError("DuplicateLoadBalancerName",
				"A load balancer with the same name '%s' exists, but with different settings", want.Name)
		}
		return s.shown(b), nil
	}
	if len(s.balancers) >= maxLoadBalancers {
		return LoadBalancer{}, apiError("TooManyLoadBalancers",
			"The maximum number of load balancers has been reached: %d", maxLoadBalancers)
	}
	id := s.shortID()
	kind := map[string]string{Application: "app", Network: "net"}[want.Type]
	want.ARN = s.elbARN("loadbalancer/" + kind + "/" + want.Name + "/" + id)
	want.DNSName = s.dnsName(want, id)
	want.CreatedAt, want.Attributes = s.clock.Now(), map[string]string{}
	s.balancers[want.ARN] = &want
	s.store.put(bucketLoadBalancers, want.ARN, want)
	return s.shown(&want), s.commitChange()
}

// dnsName returns the DNS name of a load balancer. AWS's names end in amazonaws.com; this one ends in localhost,
// which resolves to the local host (RFC 6761, section 6.3).
func (s *loadBalancing) dnsName(b LoadBalancer, id string) string {
	name := strings.ToLower(b.Name) + "-" + id
	if b.Scheme == "internal" {
		name = "internal-" + name
	}
	return name + "." + s.config.Name + ".elb.localhost"
}

func (s *loadBalancing) checkLoadBalancer(want *LoadBalancer) error {
	if err := checkELBName("Load balancer", want.Name); err != nil {
		return err
	}
	switch {
	case strings.HasPrefix(want.Name, "internal-"):
		return apiError("ValidationError", "Load balancer name '%s' cannot begin with 'internal-'", want.Name)
	case want.Type != Application && want.Type != Network:
		return apiError("ValidationError", "Load balancer type '%s' is not served; there are 'application' and 'network'",
			want.Type)
	case want.Scheme != "internet-facing" && want.Scheme != "internal":
		return apiError("ValidationError", "Scheme '%s' must be one of 'internet-facing, internal'", want.Scheme)
	case len(want.Subnets) == 0:
		return apiError("ValidationError", "At least one subnet must be specified")
	}
	zones := map[string]bool{}
	for _, id := range want.Subnets {
		sub := s.network.subnet(id)
		if sub == nil {
			return apiError("SubnetNotFound", "The subnet ID '%s' does not exist", id)
		}
		if zones[sub.Zone] {
			return apiError("InvalidConfigurationRequest",
				"A load balancer cannot be attached to multiple subnets in the same Availability Zone")
		}
		zones[sub.Zone] = true
	}
	if want.Type == Application && len(zones) < 2 {
		return apiError("ValidationError", "At least two subnets in two different Availability Zones must be specified")
	}
	if want.Type == Application && len(want.SecurityGroups) == 0 {
		want.SecurityGroups = []string{s.securityGroups.groups[1].ID} // the VPC's default
	}
	for _, id := range want.SecurityGroups {
		if _, err := s.securityGroups.ingress(id); err != nil {
			return apiError("InvalidSecurityGroup", "The security group ID '%s' does not exist", id)
		}
	}
	return nil
}

// shown returns a load balancer as the API shows it.
func (s *loadBalancing) shown(b *LoadBalancer) LoadBalancer {
	out := *b
	out.Active = !s.clock.Now().Before(b.CreatedAt.Add(provisioning))
	out.Attributes = merged(balancerAttributes[b.Type], b.Attributes)
	out.Tags = maps.Clone(b.Tags)
	return out
}

// LoadBalancers returns all load balancers, by ARN.
func (s *loadBalancing) LoadBalancers() []LoadBalancer {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]LoadBalancer, 0, len(s.balancers))
	for _, arn := range slices.Sorted(maps.Keys(s.balancers)) {
		out = append(out, s.shown(s.balancers[arn]))
	}
	return out
}

func (s *loadBalancing) balancer(arn string) (*LoadBalancer, error) {
	if b := s.balancers[arn]; b != nil {
		return b, nil
	}
	return nil, apiError("LoadBalancerNotFound", "Load balancer '%s' not found", arn)
}

// DeleteLoadBalancer deletes a load balancer with its listeners and rules. As on AWS, it is no error if the load
// balancer does not exist.
func (s *loadBalancing) DeleteLoadBalancer(arn string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.balancers[arn]
	if b == nil {
		return nil
	}
	if b.Attributes["deletion_protection.enabled"] == "true" {
		return apiError("OperationNotPermitted",
			"Load balancer '%s' cannot be deleted because deletion protection is enabled", arn)
	}
	for _, l := range s.listeners {
		if l.LoadBalancerARN == arn {
			s.dropListener(l)
		}
	}
	delete(s.balancers, arn)
	s.store.remove(bucketLoadBalancers, arn)
	return s.commitChange()
}

// balancerAttributes are the attributes of each type with their defaults (the Elastic Load Balancing API reference,
// LoadBalancerAttribute).
var balancerAttributes = map[string]map[string]string{
	Application: {
		"access_logs.s3.enabled": "false", "access_logs.s3.bucket": "", "access_logs.s3.prefix": "",
		"deletion_protection.enabled": "false", "load_balancing.cross_zone.enabled": "true",
		"idle_timeout.timeout_seconds": "60", "client_keep_alive.seconds": "3600",
		"routing.http.desync_mitigation_mode": "defensive", "routing.http.drop_invalid_header_fields.enabled": "false",
		"routing.http.preserve_host_header.enabled": "false", "routing.http.xff_header_processing.mode": "append",
		"routing.http2.enabled": "true", "waf.fail_open.enabled": "false",
	},
	Network: {
		"access_logs.s3.enabled": "false", "access_logs.s3.bucket": "", "access_logs.s3.prefix": "",
		"deletion_protection.enabled": "false", "load_balancing.cross_zone.enabled": "false",
		"dns_record.client_routing_policy": "any_availability_zone",
	},
}

// ModifyLoadBalancerAttributes sets attributes and returns all of them.
func (s *loadBalancing) ModifyLoadBalancerAttributes(arn string, set map[string]string) (map[string]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, err := s.balancer(arn)
	if err != nil {
		return nil, err
	}
	if err := checkAttributes("Load balancer", set, balancerAttributes[b.Type], attributeValues); err != nil {
		return nil, err
	}
	maps.Copy(b.Attributes, set)
	s.store.put(bucketLoadBalancers, arn, b)
	return s.shown(b).Attributes, s.commitChange()
}

// attributeValues are the values that attributes of load balancers and target groups may have: words and ranges of
// numbers. An attribute with the default true or false may have these; any other has no limit. Source: the Elastic
// Load Balancing API reference, LoadBalancerAttribute and TargetGroupAttribute.
var attributeValues = map[string]string{
	"idle_timeout.timeout_seconds": "1-4000", "client_keep_alive.seconds": "60-604800",
	"routing.http.desync_mitigation_mode":     "monitor defensive strictest",
	"routing.http.xff_header_processing.mode": "append preserve remove",
	"dns_record.client_routing_policy": "availability_zone_affinity partial_availability_zone_affinity " +
		"any_availability_zone",

	"deregistration_delay.timeout_seconds": "0-3600", "slow_start.duration_seconds": "0-0 30-900",
	"stickiness.lb_cookie.duration_seconds": "1-604800",
	"load_balancing.algorithm.type":         "round_robin least_outstanding_requests weighted_random",
	"load_balancing.cross_zone.enabled":     "true false use_load_balancer_configuration",
}

// stickinessTypes are the types of stickiness that are served, by the protocol of the target group.
var stickinessTypes = map[string]string{"HTTP": "lb_cookie", "TCP": "source_ip"}

// checkAttributes rejects unknown attributes and values that they do not have.
func checkAttributes(kind string, set, known, values map[string]string) error {
	for _, k := range slices.Sorted(maps.Keys(set)) {
		usual, ok := known[k]
		if !ok {
			return apiError("ValidationError", "%s attribute key '%s' is not recognized", kind, k)
		}
		allowed := values[k]
		if usual == "true" || usual == "false" {
			allowed = "true false"
		}
		if allowed != "" && !slices.ContainsFunc(strings.Fields(allowed), func(a string) bool { return within(set[k], a) }) {
			return apiError("ValidationError", "%s attribute value '%s' is not valid for key '%s': it must be one of '%s'",
				kind, set[k], k, allowed)
		}
	}
	return nil
}

// within reports whether a value is a word, or a number of a range such as 1-4000.
func within(value, allowed string) bool {
	low, high, isRange := strings.Cut(allowed, "-")
	n, err := strconv.ParseUint(value, 10, 32)
	from, err1 := strconv.ParseUint(low, 10, 32)
	to, err2 := strconv.ParseUint(high, 10, 32)
	if !isRange || err1 != nil || err2 != nil {
		return value == allowed
	}
	return err == nil && n >= from && n <= to
}

// elbTags returns the tags of a load balancing resource and a function that saves them.
func (s *loadBalancing) elbTags(arn string) (tags *map[string]string, save func(), err error) {
	switch {
	case s.balancers[arn] != nil:
		b := s.balancers[arn]
		return &b.Tags, func() { s.store.put(bucketLoadBalancers, arn, b) }, nil
	case s.listeners[arn] != nil:
		l := s.listeners[arn]
		return &l.Tags, func() { s.store.put(bucketListeners, arn, l) }, nil
	case s.rules[arn] != nil:
		r := s.rules[arn]
		return &r.Tags, func() { s.store.put(bucketListenerRules, arn, r) }, nil
	case s.groups.byARN[arn] != nil:
		g := s.groups.byARN[arn]
		return &g.Tags, func() { s.store.put(bucketTargetGroups, arn, g) }, nil
	}
	for part, code := range map[string]string{
		":listener/": "ListenerNotFound", ":listener-rule/": "RuleNotFound", ":targetgroup/": "TargetGroupNotFound",
	} {
		if strings.Contains(arn, part) {
			return nil, nil, apiError(code, "'%s' not found", arn)
		}
	}
	return nil, nil, apiError("LoadBalancerNotFound", "Load balancer '%s' not found", arn)
}

// LoadBalancingTags returns the tags of a load balancer, listener, rule or target group.
func (s *loadBalancing) LoadBalancingTags(arn string) (map[string]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	tags, _, err := s.elbTags(arn)
	if err != nil {
		return nil, err
	}
	return maps.Clone(*tags), nil
}

// TagLoadBalancing adds tags to load balancing resources, then removes others.
func (s *loadBalancing) TagLoadBalancing(arns []string, add map[string]string, remove []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, arn := range arns {
		if _, _, err := s.elbTags(arn); err != nil {
			return err
		}
	}
	for _, arn := range arns {
		tags, save, _ := s.elbTags(arn)
		*tags = merged(*tags, add)
		for _, k := range remove {
			delete(*tags, k)
		}
		save()
	}
	return s.commit()
}
