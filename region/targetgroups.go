package region

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// TargetGroup is a set of targets to forward requests to. Its fields are named as in the SDK.
type TargetGroup struct {
	TargetGroupARN, TargetGroupName string
	Protocol                        string // HTTP or TCP
	ProtocolVersion                 string `json:",omitempty"` // HTTP1, if Protocol is HTTP
	Port                            int
	TargetType                      string // ip or instance
	VPCID                           string
	HealthCheck
	Attributes map[string]string
	Tags       map[string]string `json:",omitempty"`
	Targets    []Target          `json:",omitempty"`
}

// HealthCheck configures the health checks of targets.
type HealthCheck struct {
	HealthCheckProtocol        string // HTTP or TCP
	HealthCheckPort            string // traffic-port or a number
	HealthCheckPath            string `json:",omitempty"`
	HealthCheckIntervalSeconds int
	HealthCheckTimeoutSeconds  int
	HealthyThresholdCount      int
	UnhealthyThresholdCount    int
	Codes                      string `json:",omitempty"` // status codes of a healthy target: 200, 200,204 or 200-299
}

// Target is a registered target. After deregistration it drains until its group's deregistration delay has passed.
type Target struct {
	ID             string // an address or an instance ID
	Port           int
	Zone           string `json:",omitempty"`
	DeregisteredAt time.Time
}

// TargetHealth is a target's state with its reason; see DescribeTargetHealth in the API reference.
type TargetHealth struct{ State, Reason, Description string }

// States of targets.
const (
	TargetInitial   = "initial"
	TargetHealthy   = "healthy"
	TargetUnhealthy = "unhealthy"
	TargetUnused    = "unused"
	TargetDraining  = "draining"
)

// targetKey identifies a target.
type targetKey struct {
	group, id string
	port      int
}

// targetGroups holds the target groups and their targets.
type targetGroups struct {
	*core
	balancing *loadBalancing
	instances *instances
	byARN     map[string]*TargetGroup
	health    map[targetKey]TargetHealth // as last reported; kept in memory only
}

// groupAttributes are the attributes of target groups by protocol with their defaults (the Elastic Load Balancing API
// reference, TargetGroupAttribute).
var groupAttributes = map[string]map[string]string{
	"HTTP": {
		"deregistration_delay.timeout_seconds": "300", "slow_start.duration_seconds": "0",
		"stickiness.enabled": "false", "stickiness.type": "lb_cookie", "stickiness.lb_cookie.duration_seconds": "86400",
		"load_balancing.algorithm.type":     "round_robin",
		"load_balancing.cross_zone.enabled": "use_load_balancer_configuration",
	},
	"TCP": {
		"deregistration_delay.timeout_seconds": "300", "stickiness.enabled": "false", "stickiness.type": "source_ip",
		"deregistration_delay.connection_termination.enabled": "false", "proxy_protocol_v2.enabled": "false",
		"preserve_client_ip.enabled":        "false",
		"load_balancing.cross_zone.enabled": "use_load_balancer_configuration",
	},
}

// CreateTargetGroup creates a target group. Empty fields get AWS's defaults. Repeating a request returns the existing
// target group.
func (s *targetGroups) CreateTargetGroup(want TargetGroup) (TargetGroup, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	want.TargetType, want.VPCID = cmp.Or(want.TargetType, "instance"), cmp.Or(want.VPCID, VPCID)
	if want.Protocol == "HTTP" {
		want.ProtocolVersion = cmp.Or(want.ProtocolVersion, "HTTP1")
	}
	want.complete(want.Protocol)
	if err := s.checkGroup(want); err != nil {
		return TargetGroup{}, err
	}
	for _, g := range s.byARN {
		if g.TargetGroupName != want.TargetGroupName {
			continue
		}
		if g.Protocol != want.Protocol || g.Port != want.Port || g.TargetType != want.TargetType ||
			g.HealthCheck != want.HealthCheck || !maps.Equal(g.Tags, want.Tags) {
			return TargetGroup{}, apiError("DuplicateTargetGroupName",
				"A target group with the same name '%s' exists, but with different settings", want.TargetGroupName)
		}
		return s.shownGroup(g), nil
	}
	if len(s.byARN) >= maxTargetGroups {
		return TargetGroup{}, apiError("TooManyTargetGroups",
			"The maximum number of target groups has been reached: %d", maxTargetGroups)
	}
	want.TargetGroupARN = s.balancing.elbARN("targetgroup/" + want.TargetGroupName + "/" + s.balancing.shortID())
	want.Attributes, want.Targets = map[string]string{}, nil
	s.byARN[want.TargetGroupARN] = &want
	s.store.put(bucketTargetGroups, want.TargetGroupARN, want)
	return s.shownGroup(&want), s.balancing.commitChange()
}

// complete fills in the defaults of a health check (API reference, CreateTargetGroup).
func (h *HealthCheck) complete(protocol string) {
	h.HealthCheckProtocol = cmp.Or(h.HealthCheckProtocol, protocol)
	h.HealthCheckPort = cmp.Or(h.HealthCheckPort, "traffic-port")
	h.HealthCheckIntervalSeconds = cmp.Or(h.HealthCheckIntervalSeconds, 30)
	h.HealthyThresholdCount = cmp.Or(h.HealthyThresholdCount, 5)
	h.UnhealthyThresholdCount = cmp.Or(h.UnhealthyThresholdCount, 2)
	if h.HealthCheckProtocol == "HTTP" {
		h.HealthCheckPath = cmp.Or(h.HealthCheckPath, "/")
		h.Codes = cmp.Or(h.Codes, "200")
		h.HealthCheckTimeoutSeconds = cmp.Or(h.HealthCheckTimeoutSeconds, 5)
	}
	h.HealthCheckTimeoutSeconds = cmp.Or(h.HealthCheckTimeoutSeconds, 10)
}

func (s *targetGroups) checkGroup(g TargetGroup) error {
	if err := checkELBName("Target group", g.TargetGroupName); err != nil {
		return err
	}
	switch {
	case g.Protocol != "HTTP" && g.Protocol != "TCP":
		return apiError("ValidationError",
			"The simulated region serves target groups of the protocols HTTP and TCP, not '%s'", g.Protocol)
	case g.Port < 1 || g.Port > 65535:
		return apiError("ValidationError", "Target group port '%d' must be between 1 and 65535", g.Port)
	case g.TargetType != "ip" && g.TargetType != "instance":
		return apiError("ValidationError", "Target type '%s' must be one of 'ip, instance'", g.TargetType)
	case g.ProtocolVersion != "" && g.ProtocolVersion != "HTTP1":
		return apiError("ValidationError", "Protocol version '%s' is not served; there is HTTP1", g.ProtocolVersion)
	case g.VPCID != VPCID:
		return apiError("ValidationError", "The VPC ID '%s' is not found", g.VPCID)
	}
	return g.check()
}

func (h HealthCheck) check() error {
	within := func(n, from, to int) bool { return n >= from && n <= to }
	port, err := strconv.Atoi(h.HealthCheckPort)
	switch {
	case h.HealthCheckProtocol != "HTTP" && h.HealthCheckProtocol != "TCP":
		return apiError("ValidationError", "Health check protocol '%s' must be one of 'HTTP, TCP'", h.HealthCheckProtocol)
	case h.HealthCheckPort != "traffic-port" && (err != nil || !within(port, 1, 65535)):
		return apiError("ValidationError", "Health check port '%s' must be 'traffic-port' or between 1 and 65535",
			h.HealthCheckPort)
	case h.HealthCheckPath != "" && (!strings.HasPrefix(h.HealthCheckPath, "/") || len(h.HealthCheckPath) > 1024):
		return apiError("ValidationError", "Health check path '%.40s' must begin with '/' and be at most 1024 characters",
			h.HealthCheckPath)
	case !within(h.HealthCheckIntervalSeconds, 5, 300):
		return apiError("ValidationError", "Health check interval '%d' must be between 5 and 300 seconds",
			h.HealthCheckIntervalSeconds)
	case !within(h.HealthCheckTimeoutSeconds, 2, 120):
		return apiError("ValidationError", "Health check timeout '%d' must be between 2 and 120 seconds",
			h.HealthCheckTimeoutSeconds)
	case h.HealthCheckTimeoutSeconds >= h.HealthCheckIntervalSeconds:
		return apiError("ValidationError", "Health check interval must be greater than the timeout")
	case !within(h.HealthyThresholdCount, 2, 10):
		return apiError("ValidationError", "Healthy threshold count '%d' must be between 2 and 10", h.HealthyThresholdCount)
	case !within(h.UnhealthyThresholdCount, 2, 10):
		return apiError("ValidationError", "Unhealthy threshold count '%d' must be between 2 and 10",
			h.UnhealthyThresholdCount)
	case h.HealthCheckProtocol == "HTTP" && !h.validCodes():
		return apiError("ValidationError", "Health check matcher HTTP code '%s' must be values or ranges within 200-499",
			h.Codes)
	}
	return nil
}

func (h HealthCheck) validCodes() bool {
	for part := range strings.SplitSeq(h.Codes, ",") {
		low, high, isRange := strings.Cut(part, "-")
		if !isRange {
			high = low
		}
		from, err1 := strconv.Atoi(low)
		to, err2 := strconv.Atoi(high)
		if err1 != nil || err2 != nil || from < 200 || to > 499 || from > to {
			return false
		}
	}
	return true
}

// Matches reports whether an HTTP status counts as healthy.
func (h HealthCheck) Matches(status int) bool {
	for part := range strings.SplitSeq(h.Codes, ",") {
		low, high, isRange := strings.Cut(part, "-")
		if !isRange {
			high = low
		}
		from, _ := strconv.Atoi(low)
		to, _ := strconv.Atoi(high)
		if status >= from && status <= to {
			return true
		}
	}
	return false
}

// shownGroup returns a target group as the API shows it, without targets that have drained.
func (s *targetGroups) shownGroup(g *TargetGroup) TargetGroup {
	out := *g
	out.Attributes = merged(groupAttributes[g.Protocol], g.Attributes)
	out.Targets = slices.DeleteFunc(slices.Clone(g.Targets), func(t Target) bool { return s.drained(out, t) })
	return out
}

// drained reports whether the deregistration delay of a target has passed. Until then it is draining even if its
// requests have ended (Elastic Load Balancing user guide, "Edit target group attributes", deregistration delay).
func (s *targetGroups) drained(shown TargetGroup, t Target) bool {
	return !t.DeregisteredAt.IsZero() && !s.clock.Now().Before(t.DeregisteredAt.Add(shown.DeregistrationDelay()))
}

// DeregistrationDelay is the time that a deregistered target has to complete its requests.
func (g TargetGroup) DeregistrationDelay() time.Duration {
	n, _ := strconv.Atoi(g.Attributes["deregistration_delay.timeout_seconds"]) // validated when set
	return time.Duration(n) * time.Second
}

// TargetGroups returns all target groups with their targets, by ARN.
func (s *targetGroups) TargetGroups() []TargetGroup {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]TargetGroup, 0, len(s.byARN))
	for _, arn := range slices.Sorted(maps.Keys(s.byARN)) {
		out = append(out, s.shownGroup(s.byARN[arn]))
	}
	return out
}

func (s *targetGroups) group(arn string) (*TargetGroup, error) {
	if g := s.byARN[arn]; g != nil {
		return g, nil
	}
	return nil, apiError("TargetGroupNotFound", "Target group '%s' not found", arn)
}

// editGroup changes a target group and saves it.
func (s *targetGroups) editGroup(arn string, change func(*TargetGroup) error) (TargetGroup, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, err := s.group(arn)
	if err != nil {
		return TargetGroup{}, err
	}
	s.forgetDrained(g) // before, as the change may leave them out
	if err := change(g); err != nil {
		return TargetGroup{}, err
	}
	shown := s.forgetDrained(g)
	s.store.put(bucketTargetGroups, arn, g)
	return shown, s.balancing.commitChange()
}

// forgetDrained removes a group's drained targets and their health, and returns the group as it is shown.
func (s *targetGroups) forgetDrained(g *TargetGroup) TargetGroup {
	shown := s.shownGroup(g)
	g.Targets = slices.DeleteFunc(g.Targets, func(t Target) bool {
		gone := s.drained(shown, t)
		if gone {
			delete(s.health, targetKey{g.TargetGroupARN, t.ID, t.Port})
		}
		return gone
	})
	return shown
}

// ModifyTargetGroup replaces the health check fields that change sets.
func (s *targetGroups) ModifyTargetGroup(arn string, change HealthCheck) (TargetGroup, error) {
	return s.editGroup(arn, func(g *TargetGroup) error {
		h := g.HealthCheck
		want := HealthCheck{
			HealthCheckProtocol:        cmp.Or(change.HealthCheckProtocol, h.HealthCheckProtocol),
			HealthCheckPort:            cmp.Or(change.HealthCheckPort, h.HealthCheckPort),
			HealthCheckPath:            cmp.Or(change.HealthCheckPath, h.HealthCheckPath),
			HealthCheckIntervalSeconds: cmp.Or(change.HealthCheckIntervalSeconds, h.HealthCheckIntervalSeconds),
			HealthCheckTimeoutSeconds:  cmp.Or(change.HealthCheckTimeoutSeconds, h.HealthCheckTimeoutSeconds),
			HealthyThresholdCount:      cmp.Or(change.HealthyThresholdCount, h.HealthyThresholdCount),
			UnhealthyThresholdCount:    cmp.Or(change.UnhealthyThresholdCount, h.UnhealthyThresholdCount),
			Codes:                      cmp.Or(change.Codes, h.Codes),
		}
		want.complete(g.Protocol)
		if err := want.check(); err != nil {
			return err
		}
		g.HealthCheck = want
		return nil
	})
}

// ModifyTargetGroupAttributes sets attributes and returns all of them.
func (s *targetGroups) ModifyTargetGroupAttributes(arn string, set map[string]string) (map[string]string, error) {
	g, err := s.editGroup(arn, func(g *TargetGroup) error {
		values := merged(attributeValues, map[string]string{"stickiness.type": stickinessTypes[g.Protocol]})
		if err := checkAttributes("Target group", set, groupAttributes[g.Protocol], values); err != nil {
			return err
		}
		maps.Copy(g.Attributes, set)
		return nil
	})
	return g.Attributes, err
}

// DeleteTargetGroup deletes a target group that no listener or rule forwards to.
func (s *targetGroups) DeleteTargetGroup(arn string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, err := s.group(arn)
	switch {
	case err != nil:
		return err
	case len(s.balancing.balancersOf(arn)) > 0:
		return apiError("ResourceInUse", "Target group '%s' is currently in use by a listener or a rule", arn)
	}
	for _, t := range g.Targets {
		delete(s.health, targetKey{arn, t.ID, t.Port})
	}
	delete(s.byARN, arn)
	s.store.remove(bucketTargetGroups, arn)
	return s.balancing.commitChange()
}

// RegisterTargets adds targets, all or none. A target without a port gets the group's. A draining target returns to
// service.
func (s *targetGroups) RegisterTargets(arn string, targets []Target) error {
	_, err := s.editGroup(arn, func(g *TargetGroup) error {
		have := s.shownGroup(g).Targets
		for _, t := range targets {
			t.Port = cmp.Or(t.Port, g.Port)
			if err := s.checkTarget(g, t); err != nil {
				return err
			}
			i := slices.IndexFunc(have, t.is)
			switch {
			case i < 0:
				have = append(have, t)
			case have[i].DeregisteredAt.IsZero():
				continue
			default:
				have[i].DeregisteredAt = time.Time{}
			}
			delete(s.health, targetKey{arn, t.ID, t.Port}) // the data path reports it
		}
		if len(have) > maxTargets {
			return apiError("TooManyTargets", "The maximum number of targets has been reached: %d", maxTargets)
		}
		g.Targets = have
		return nil
	})
	return err
}

// is reports whether t and o are the same target.
func (t Target) is(o Target) bool { return t.ID == o.ID && t.Port == o.Port }

// checkTarget validates a new target: an instance must run, an address must be private or in 100.64.0.0/10.
func (s *targetGroups) checkTarget(g *TargetGroup, t Target) error {
	if t.Port < 1 || t.Port > 65535 {
		return apiError("ValidationError", "Target port '%d' must be between 1 and 65535", t.Port)
	}
	if g.TargetType == "instance" {
		if i := s.instances.byID[t.ID]; i == nil || i.State != Running {
			return apiError("InvalidTarget",
				"The following targets are not in a running state and cannot be registered: '%s'", t.ID)
		}
		return nil
	}
	ip, err := netip.ParseAddr(t.ID)
	if err != nil {
		return apiError("ValidationError", "The IP address '%s' is not a valid IPv4 address", t.ID)
	}
	if !ip.IsPrivate() && !netip.MustParsePrefix("100.64.0.0/10").Contains(ip) {
		return apiError("InvalidTarget", "The IP address '%s' is not within the VPC, RFC 1918 or RFC 6598", t.ID)
	}
	return nil
}

// DeregisterTargets starts draining targets. A target without a port means all with its ID; unknown targets are
// ignored, as on AWS.
func (s *targetGroups) DeregisterTargets(arn string, targets []Target) error {
	_, err := s.editGroup(arn, func(g *TargetGroup) error {
		for i := range g.Targets {
			t := &g.Targets[i]
			named := slices.ContainsFunc(targets, func(o Target) bool {
				return t.ID == o.ID && (o.Port == 0 || t.Port == o.Port)
			})
			if named && t.DeregisteredAt.IsZero() {
				t.DeregisteredAt = s.clock.Now()
			}
		}
		return nil
	})
	return err
}

// SetTargetHealth records the health that the data path found for a registered target.
func (s *targetGroups) SetTargetHealth(arn string, t Target, h TargetHealth) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := targetKey{arn, t.ID, t.Port}
	if g := s.byARN[arn]; g != nil && s.health[key] != h && slices.ContainsFunc(g.Targets, t.is) {
		s.health[key] = h
		s.balancing.tell()
	}
}

// TargetHealth returns the state of a target of a group.
func (s *targetGroups) TargetHealth(arn string, of Target) (TargetHealth, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, err := s.group(arn)
	if err != nil {
		return TargetHealth{}, err
	}
	targets := s.shownGroup(g).Targets
	i := slices.IndexFunc(targets, of.is)
	reported, ok := s.health[targetKey{arn, of.ID, of.Port}]
	switch {
	case i < 0:
		return TargetHealth{TargetUnused, "Target.NotRegistered", "Target is not registered to the target group"}, nil
	case !targets[i].DeregisteredAt.IsZero():
		return TargetHealth{
			TargetDraining, "Target.DeregistrationInProgress", "Target deregistration is in progress",
		}, nil
	case len(s.balancing.balancersOf(arn)) == 0:
		return TargetHealth{
			TargetUnused, "Target.NotInUse", "Target group is not configured to receive traffic from the load balancer",
		}, nil
	case !ok:
		return TargetHealth{TargetInitial, "Elb.RegistrationInProgress", "Target registration is in progress"}, nil
	}
	return reported, nil
}
