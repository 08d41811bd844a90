package region

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// SecurityGroup is a security group of the region's VPC.
type SecurityGroup struct {
	ID, Name, Description, VPC string
	Tags                       map[string]string
	Ingress                    []SecurityGroupRule // filled in when asked for
}

// SecurityGroupRule lets traffic in from one peer. The region keeps rules and enforces none.
type SecurityGroupRule struct {
	ID, GroupID string
	Protocol    string // tcp, udp, icmp, a number, or -1 for all
	From, To    int    // ports; -1 = all
	// Peer is a CIDR block, IPv4 or IPv6, or the ID of a security group.
	Peer        string
	Description string
}

// same reports whether both rules let the same traffic in.
func (s SecurityGroupRule) same(o SecurityGroupRule) bool {
	s.ID, s.Description, o.ID, o.Description = "", "", "", ""
	return s == o
}

// clusterGroup is the security group that EKS makes for the cluster; nil without a cluster. Its one rule lets its own members in.
func (r *Region) clusterGroup() *SecurityGroup {
	name := r.cluster.Name
	if name == "" {
		return nil
	}
	id := r.fixedID("group", "cluster", name)
	title := "eks-cluster-sg-" + name + "-" + id[:10]
	return &SecurityGroup{
		ID: "sg-" + id, Name: title, VPC: VPCID,
		Description: "EKS created security group applied to ENI that is attached to EKS Control Plane master nodes, as well as any managed workloads.",
		Tags:        map[string]string{"Name": title, "aws:eks:cluster-name": name, "kubernetes.io/cluster/" + name: "owned"},
		Ingress:     []SecurityGroupRule{{ID: "sgr-" + r.fixedID("rule", "cluster", name), GroupID: "sg-" + id, Protocol: "-1", From: -1, To: -1, Peer: "sg-" + id}},
	}
}

// ClusterSecurityGroup is the ID of the security group that EKS made for the cluster; "" without a cluster.
func (r *Region) ClusterSecurityGroup() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if g := r.clusterGroup(); g != nil {
		return g.ID
	}
	return ""
}

// SecurityGroups are the region's security groups with their rules.
func (r *Region) SecurityGroups() []SecurityGroup {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.securityGroups()
}

func (r *Region) securityGroups() []SecurityGroup {
	all := slices.Clone(r.groups)
	if g := r.clusterGroup(); g != nil {
		all = append(all, g)
	}
	out := make([]SecurityGroup, len(all))
	for i, g := range all {
		out[i] = *g
		out[i].Tags = merged(g.Tags, r.tags[g.ID])
		out[i].Ingress = append(slices.Clone(g.Ingress), r.rules[g.ID]...)
	}
	return out
}

// AuthorizeSecurityGroupIngress adds rules to a group, all or none, and gives them with their IDs.
func (r *Region) AuthorizeSecurityGroupIngress(group string, rules []SecurityGroupRule) ([]SecurityGroupRule, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	have, err := r.ingress(group)
	if err != nil {
		return nil, err
	}
	added := make([]SecurityGroupRule, 0, len(rules))
	for _, rule := range rules {
		rule.GroupID = group
		if err := r.checkRule(rule); err != nil {
			return nil, err
		}
		if slices.ContainsFunc(append(have, added...), rule.same) {
			return nil, apiError("InvalidPermission.Duplicate", "the specified rule %q already exists", rule.words())
		}
		added = append(added, rule)
	}
	for i := range added {
		added[i].ID = "sgr-" + r.newID()
	}
	r.keepRules(group, append(r.rules[group], added...))
	return added, r.commit()
}

// RevokeSecurityGroupIngress takes rules from a group, all or none, by what they let in.
func (r *Region) RevokeSecurityGroupIngress(group string, rules []SecurityGroupRule) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, err := r.ingress(group); err != nil {
		return err
	}
	left := slices.Clone(r.rules[group])
	for _, rule := range rules {
		rule.GroupID = group
		i := slices.IndexFunc(left, rule.same)
		if i < 0 {
			return apiError("InvalidPermission.NotFound", "The specified rule %q does not exist in this security group.", rule.words())
		}
		left = slices.Delete(left, i, i+1)
	}
	r.keepRules(group, left)
	return r.commit()
}

// ingress are the rules of a group, which must exist.
func (r *Region) ingress(group string) ([]SecurityGroupRule, error) {
	for _, g := range r.securityGroups() {
		if g.ID == group {
			return g.Ingress, nil
		}
	}
	return nil, apiError("InvalidGroup.NotFound", "The security group '%s' does not exist", group)
}

func (r *Region) keepRules(group string, rules []SecurityGroupRule) {
	r.rules[group] = rules
	r.store.put(bucketRules, group, rules)
}

func (r *Region) checkRule(rule SecurityGroupRule) error {
	if rule.Protocol == "" {
		return apiError("MissingParameter", "The request must contain the parameter IpPermissions.1.IpProtocol")
	}
	if rule.From > rule.To || rule.From < -1 || rule.To > 65535 {
		return apiError("InvalidParameterValue", "Invalid value for portRange. Must specify both from and to ports with TCP/UDP, from %d to %d is none.", rule.From, rule.To)
	}
	if strings.HasPrefix(rule.Peer, "sg-") {
		_, err := r.ingress(rule.Peer)
		return err
	}
	if p, err := netip.ParsePrefix(rule.Peer); err != nil || p != p.Masked() {
		return apiError("InvalidParameterValue", "CIDR block %s is malformed", rule.Peer)
	}
	return nil
}

// words is a rule as EC2's errors tell it.
func (s SecurityGroupRule) words() string {
	return fmt.Sprintf("peer: %s, %s, from port: %d, to port: %d, ALLOW", s.Peer, cmp.Or(strings.ToUpper(s.Protocol), "-1"), s.From, s.To)
}
