package awsapi

import (
	"cmp"
	"net/netip"

	"github.com/nodeless/nodeless/region"
)

type securityGroupXML struct {
	OwnerID     string             `xml:"ownerId" filter:"owner-id"`
	GroupID     string             `xml:"groupId" filter:"group-id"`
	GroupName   string             `xml:"groupName" filter:"group-name"`
	Description string             `xml:"groupDescription" filter:"description"`
	VpcID       string             `xml:"vpcId" filter:"vpc-id"`
	Ingress     set[permissionXML] `xml:"ipPermissions"`
	Egress      set[permissionXML] `xml:"ipPermissionsEgress"`
	TagSet      set[tagXML]        `xml:"tagSet" filter:"tag"`
}

func describeSecurityGroups(c *call) (any, error) {
	all := setOf(c.region.SecurityGroups(), func(g region.SecurityGroup) securityGroupXML {
		return securityGroupXML{
			OwnerID: region.AccountID, GroupID: g.ID, GroupName: g.Name, Description: g.Description, VpcID: g.VPC,
			TagSet:  tagsOf(g.Tags),
			Ingress: permissionsOf(g.Ingress),
			Egress:  permissionsOf([]region.SecurityGroupRule{{Protocol: "-1", From: -1, To: -1, Peer: "0.0.0.0/0"}}),
		}
	}).Items
	const code, format = "InvalidGroup.NotFound", "The security group '%s' does not exist"
	id := func(g securityGroupXML) string { return g.GroupID }
	return described(c, "securityGroupInfo", all, 1000, id, naming[securityGroupXML]{"GroupId", code, format, id},
		naming[securityGroupXML]{"GroupName", code, format, func(g securityGroupXML) string { return g.GroupName }})
}

// permissionXML is what several rules of a group let in through the same ports.
type permissionXML struct {
	Protocol string       `xml:"ipProtocol"`
	From     *int         `xml:"fromPort"`
	To       *int         `xml:"toPort"`
	Groups   set[pairXML] `xml:"groups"`
	IPv4     set[cidrXML] `xml:"ipRanges"`
	IPv6     set[ipv6XML] `xml:"ipv6Ranges"`
}

type pairXML struct {
	UserID      string `xml:"userId"`
	GroupID     string `xml:"groupId"`
	Description string `xml:"description,omitempty"`
}

type cidrXML struct {
	CIDR        string `xml:"cidrIp"`
	Description string `xml:"description,omitempty"`
}

type ipv6XML struct {
	CIDR        string `xml:"cidrIpv6"`
	Description string `xml:"description,omitempty"`
}

// ports are a rule's; nil where it says nothing of ports.
func ports(r region.SecurityGroupRule) (from, to *int) {
	if r.Protocol == "-1" {
		return nil, nil
	}
	return &r.From, &r.To
}

// peer splits who is let in: the one that is not empty says what it is.
func peer(r region.SecurityGroupRule) (group, v4, v6 string) {
	p, err := netip.ParsePrefix(r.Peer)
	switch {
	case err != nil:
		return r.Peer, "", ""
	case p.Addr().Is4():
		return "", r.Peer, ""
	}
	return "", "", r.Peer
}

func permissionsOf(rules []region.SecurityGroupRule) set[permissionXML] {
	type key struct {
		protocol string
		from, to int
	}
	at := map[key]int{}
	var out set[permissionXML]
	for _, r := range rules {
		k := key{r.Protocol, r.From, r.To}
		i, ok := at[k]
		if !ok {
			i = len(out.Items)
			at[k] = i
			from, to := ports(r)
			out.Items = append(out.Items, permissionXML{Protocol: r.Protocol, From: from, To: to})
		}
		x := &out.Items[i]
		switch group, v4, v6 := peer(r); {
		case group != "":
			x.Groups.Items = append(x.Groups.Items,
				pairXML{UserID: region.AccountID, GroupID: group, Description: r.Description})
		case v4 != "":
			x.IPv4.Items = append(x.IPv4.Items, cidrXML{CIDR: v4, Description: r.Description})
		default:
			x.IPv6.Items = append(x.IPv6.Items, ipv6XML{CIDR: v6, Description: r.Description})
		}
	}
	return out
}

// rules reads IpPermissions; the parameters of a single rule beside them (CidrIp, IpProtocol …) are the older form of
// one.
func (f form) rules() []region.SecurityGroupRule {
	permissions := f.each("IpPermissions")
	if len(permissions) == 0 && f.has("IpProtocol") {
		permissions = []form{f}
	}
	var out []region.SecurityGroupRule
	for _, p := range permissions {
		rule := region.SecurityGroupRule{Protocol: p.str("IpProtocol"), From: -1, To: -1}
		if rule.Protocol != "-1" && p.has("FromPort") {
			rule.From, rule.To = p.integer("FromPort"), p.integer("ToPort")
		}
		add := func(peer, description string) {
			rule.Peer, rule.Description = peer, description
			out = append(out, rule)
		}
		for _, list := range []struct{ name, peer string }{
			{"IpRanges", "CidrIp"},
			{"Ipv6Ranges", "CidrIpv6"},
			{"Groups", "GroupId"},
		} {
			for _, x := range p.each(list.name) {
				add(x.str(list.peer), x.str("Description"))
			}
		}
		if cidr := p.str("CidrIp"); cidr != "" {
			add(cidr, "")
		}
	}
	if len(out) == 0 && *f.err == nil {
		*f.err = failure(400, "MissingParameter", "The request must contain the parameter IpPermissions")
	}
	return out
}

// groupID is the security group that a call names by ID or name.
func (c *call) groupID() string {
	id, name := c.form.str("GroupId"), c.form.str("GroupName")
	for _, g := range c.region.SecurityGroups() {
		if id == "" && g.Name == name {
			id = g.ID
		}
	}
	return cmp.Or(id, name)
}

type ruleXML struct {
	ID          string   `xml:"securityGroupRuleId"`
	GroupID     string   `xml:"groupId"`
	OwnerID     string   `xml:"groupOwnerId"`
	Egress      bool     `xml:"isEgress"`
	Protocol    string   `xml:"ipProtocol"`
	From        int      `xml:"fromPort"`
	To          int      `xml:"toPort"`
	IPv4        string   `xml:"cidrIpv4,omitempty"`
	IPv6        string   `xml:"cidrIpv6,omitempty"`
	Referenced  *pairXML `xml:"referencedGroupInfo"`
	Description string   `xml:"description,omitempty"`
}

type authorizeAnswer struct {
	Return bool         `xml:"return"`
	Rules  set[ruleXML] `xml:"securityGroupRuleSet"`
}

// authorizeSecurityGroupIngress adds rules, which the region keeps and does not enforce.
func authorizeSecurityGroupIngress(c *call) (any, error) {
	rules := c.form.rules()
	if err := c.dryRun(); err != nil {
		return nil, err
	}
	added, err := c.region.AuthorizeSecurityGroupIngress(c.groupID(), rules)
	return authorizeAnswer{Return: true, Rules: setOf(added, func(r region.SecurityGroupRule) ruleXML {
		x := ruleXML{
			ID: r.ID, GroupID: r.GroupID, OwnerID: region.AccountID, Protocol: r.Protocol, From: r.From, To: r.To,
			Description: r.Description,
		}
		var group string
		if group, x.IPv4, x.IPv6 = peer(r); group != "" {
			x.Referenced = &pairXML{UserID: region.AccountID, GroupID: group}
		}
		return x
	})}, err
}

func revokeSecurityGroupIngress(c *call) (any, error) {
	rules := c.form.rules()
	if err := c.dryRun(); err != nil {
		return nil, err
	}
	return returned{Return: true}, c.region.RevokeSecurityGroupIngress(c.groupID(), rules)
}
