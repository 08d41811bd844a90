package region

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// SecurityGroup is a security group of the region's VPC.
type SecurityGroup struct {
	ID, Name, Description, VPC string
	Tags                       map[string]string
	Ingress                    []SecurityGroupRule
}

// SecurityGroupRule allows traffic from one peer. The region stores rules but does not enforce them.
type SecurityGroupRule struct {
	ID, GroupID string
	Protocol    string // tcp, udp, icmp, a number, or -1 for all
	From, To    int    // ports; -1 = all
	// Peer is a CIDR block, IPv4 or IPv6, or the ID of a security group.
	Peer        string
	Description string
}

// same reports whether both rules allow the same traffic.
func (s SecurityGroupRule) same(o SecurityGroupRule) bool {
	s.ID, s.Description, o.ID, o.Description = "", "", "", ""
	return s == o
}

// securityGroups holds the security groups of the VPC and their rules.
type securityGroups struct {
	*core
	cluster    *cluster
	interfaces *interfaces
	balancing  *loadBalancing
	groups     []*SecurityGroup
	own        int                            // number of initial groups
	added      map[string][]SecurityGroupRule // by group ID
}

func newSecurityGroups(c *core, k *cluster) *securityGroups {
	node := c.config.Discovery + "-node"
	s := &securityGroups{core: c, cluster: k, added: map[string][]SecurityGroupRule{}, groups: []*SecurityGroup{
		{
			ID: "sg-" + c.fixedID("group", "node"), Name: node, Description: "nodes of the cluster", VPC: VPCID,
			Tags: c.discoveryTags(node),
		},
		{
			ID: "sg-" + c.fixedID("group", "default"), Name: "default", Description: "default VPC security group", VPC: VPCID,
			Tags: map[string]string{},
		},
	}}
	s.own = len(s.groups)
	return s
}

// clusterGroup returns the security group that EKS creates for the cluster, or nil without a cluster. Its only rule
// allows traffic between its members.
func (s *securityGroups) clusterGroup() *SecurityGroup {
	name := s.cluster.info.Name
	if name == "" {
		return nil
	}
	id := s.fixedID("group", "cluster", name)
	title := "eks-cluster-sg-" + name + "-" + id[:10]
	return &SecurityGroup{
		ID: "sg-" + id, Name: title, VPC: VPCID,
		Description: "EKS created security group applied to ENI that is attached to EKS Control Plane master nodes, " +
			"as well as any managed workloads.",
		Tags: map[string]string{"Name": title, "aws:eks:cluster-name": name, "kubernetes.io/cluster/" + name: "owned"},
		Ingress: []SecurityGroupRule{{
			ID: "sgr-" + s.fixedID("rule", "cluster", name), GroupID: "sg-" + id, Protocol: "-1",
			From: -1, To: -1, Peer: "sg-" + id,
		}},
	}
}

// ClusterSecurityGroup returns the ID of the security group that EKS created for the cluster, or "" without a
// cluster.
func (s *securityGroups) ClusterSecurityGroup() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if g := s.clusterGroup(); g != nil {
		return g.ID
	}
	return ""
}

// SecurityGroups returns the region's security groups with their rules.
func (s *securityGroups) SecurityGroups() []SecurityGroup {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.list()
}

func (s *securityGroups) list() []SecurityGroup {
	all := slices.Clone(s.groups)
	if g := s.clusterGroup(); g != nil {
		all = append(all, g)
	}
	out := make([]SecurityGroup, len(all))
	for i, g := range all {
		out[i] = *g
		out[i].Tags = s.tagged(g.ID, g.Tags)
		out[i].Ingress = append(slices.Clone(g.Ingress), s.added[g.ID]...)
	}
	return out
}

// SecurityGroupRequest holds the parameters of CreateSecurityGroup.
type SecurityGroupRequest struct {
	Name, Description string
	Tags              map[string]string
}

// CreateSecurityGroup creates a security group in the VPC.
func (s *securityGroups) CreateSecurityGroup(q SecurityGroupRequest) (SecurityGroup, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q.Name == "" || len(q.Name) > 255 || strings.HasPrefix(q.Name, "sg-") {
		return SecurityGroup{}, apiError("InvalidParameterValue", "Invalid security group name '%s': give 1 to 255 "+
			"characters that do not begin with sg-", q.Name)
	}
	if slices.ContainsFunc(s.list(), func(g SecurityGroup) bool { return g.Name == q.Name }) {
		return SecurityGroup{}, apiError("InvalidGroup.Duplicate", "The security group '%s' already exists for VPC '%s'",
			q.Name, VPCID)
	}
	g := &SecurityGroup{ID: "sg-" + s.newID(), Name: q.Name, Description: q.Description, VPC: VPCID, Tags: q.Tags}
	s.groups = append(s.groups, g)
	s.store.put(bucketSecurityGroups, g.ID, g)
	return *g, s.commit()
}

// DeleteSecurityGroup deletes a security group made by CreateSecurityGroup. No interface or load balancer may use it,
// and no rule of another group may name it.
func (s *securityGroups) DeleteSecurityGroup(id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.ingress(id); err != nil {
		return err
	}
	i := slices.IndexFunc(s.groups, func(g *SecurityGroup) bool { return g.ID == id })
	switch {
	case i < s.own: // includes the cluster's group (-1)
		return apiError("OperationNotPermitted", "The security group '%s' is one of those that the simulated region begins "+
			"with", id)
	case s.used(id):
		return apiError("DependencyViolation", "resource %s has a dependent object", id)
	}
	s.groups = slices.Delete(s.groups, i, i+1)
	delete(s.added, id)
	delete(s.tags, id)
	s.store.remove(bucketSecurityGroups, id)
	s.store.remove(bucketRules, id)
	s.store.remove(bucketTags, id)
	return s.commit()
}

// used reports whether an interface or a load balancer uses a group, or a rule of another group names it.
func (s *securityGroups) used(id string) bool {
	for _, e := range s.interfaces.byID {
		if slices.Contains(e.SecurityGroups, id) {
			return true
		}
	}
	for _, b := range s.balancing.balancers {
		if slices.Contains(b.SecurityGroups, id) {
			return true
		}
	}
	return slices.ContainsFunc(s.list(), func(g SecurityGroup) bool {
		return g.ID != id && slices.ContainsFunc(g.Ingress, func(r SecurityGroupRule) bool { return r.Peer == id })
	})
}

// check returns an error if one of the groups does not exist.
func (s *securityGroups) check(ids []string) error {
	for _, id := range ids {
		if _, err := s.ingress(id); err != nil {
			return err
		}
	}
	return nil
}

// resolve returns the IDs of groups that are given by ID or name.
func (s *securityGroups) resolve(groups []string) ([]string, *APIError) {
	all := s.groups
	if g := s.clusterGroup(); g != nil {
		all = append(slices.Clip(all), g)
	}
	var ids []string
	for _, name := range groups {
		i := slices.IndexFunc(all, func(g *SecurityGroup) bool { return g.ID == name || g.Name == name })
		if i < 0 {
			return nil, noSecurityGroup(name)
		}
		ids = append(ids, all[i].ID)
	}
	return ids, nil
}

func (s *securityGroups) restore(_ string, value []byte) error {
	g := &SecurityGroup{}
	if err := json.Unmarshal(value, g); err != nil {
		return err
	}
	s.groups = append(s.groups, g)
	return nil
}

// AuthorizeSecurityGroupIngress adds rules to a group, all or none, and returns them with their IDs.
func (s *securityGroups) AuthorizeSecurityGroupIngress(
	group string, rules []SecurityGroupRule,
) ([]SecurityGroupRule, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	have, err := s.ingress(group)
	if err != nil {
		return nil, err
	}
	added := make([]SecurityGroupRule, 0, len(rules))
	for _, rule := range rules {
		rule.GroupID = group
		if err := s.checkRule(rule); err != nil {
			return nil, err
		}
		if slices.ContainsFunc(append(have, added...), rule.same) {
			return nil, apiError("InvalidPermission.Duplicate", "the specified rule %q already exists", rule.describe())
		}
		added = append(added, rule)
	}
	for i := range added {
		added[i].ID = "sgr-" + s.newID()
	}
	s.keepRules(group, append(s.added[group], added...))
	return added, s.commit()
}

// RevokeSecurityGroupIngress removes the rules that allow the same traffic from a group, all or none.
func (s *securityGroups) RevokeSecurityGroupIngress(group string, rules []SecurityGroupRule) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.ingress(group); err != nil {
		return err
	}
	left := slices.Clone(s.added[group])
	for _, rule := range rules {
		rule.GroupID = group
		i := slices.IndexFunc(left, rule.same)
		if i < 0 {
			return apiError("InvalidPermission.NotFound", "The specified rule %q does not exist in this security group.",
				rule.describe())
		}
		left = slices.Delete(left, i, i+1)
	}
	s.keepRules(group, left)
	return s.commit()
}

// ingress returns the rules of a group, or an error if the group does not exist.
func (s *securityGroups) ingress(group string) ([]SecurityGroupRule, error) {
	for _, g := range s.list() {
		if g.ID == group {
			return g.Ingress, nil
		}
	}
	return nil, noSecurityGroup(group)
}

func noSecurityGroup(id string) *APIError {
	return apiError("InvalidGroup.NotFound", "The security group '%s' does not exist", id)
}

func (s *securityGroups) keepRules(group string, rules []SecurityGroupRule) {
	s.added[group] = rules
	s.store.put(bucketRules, group, rules)
}

// protocolNumbers are the protocols with names (EC2 API reference, IpPermission); others have their number only.
var protocolNumbers = map[string]string{"tcp": "6", "udp": "17", "icmp": "1", "icmpv6": "58"}

func (s *securityGroups) checkRule(rule SecurityGroupRule) error {
	if rule.Protocol == "" {
		return apiError("MissingParameter", "The request must contain the parameter IpPermissions.1.IpProtocol")
	}
	number, err := strconv.Atoi(cmp.Or(protocolNumbers[rule.Protocol], rule.Protocol))
	if err != nil || number < -1 || number > 255 {
		return apiError("InvalidParameterValue", "Invalid value '%s' for IP protocol. Unknown protocol.", rule.Protocol)
	}
	withPorts := number == 6 || number == 17 // TCP and UDP
	if rule.From > rule.To || rule.From < -1 || rule.To > 65535 || withPorts && rule.From < 0 {
		return apiError("InvalidParameterValue",
			"Invalid value for portRange. Must specify both from and to ports with TCP/UDP, "+
				"and %d to %d is not a valid range.", rule.From, rule.To)
	}
	if strings.HasPrefix(rule.Peer, "sg-") {
		_, err := s.ingress(rule.Peer)
		return err
	}
	if p, err := netip.ParsePrefix(rule.Peer); err != nil || p != p.Masked() {
		return apiError("InvalidParameterValue", "CIDR block %s is malformed", rule.Peer)
	}
	return nil
}

// describe returns a rule as worded in EC2's errors.
func (s SecurityGroupRule) describe() string {
	return fmt.Sprintf("peer: %s, %s, from port: %d, to port: %d, ALLOW",
		s.Peer, cmp.Or(strings.ToUpper(s.Protocol), "-1"), s.From, s.To)
}
