package aws

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"

	"github.com/nodeless/nodeless/cloud"
)

// networkResolver finds the subnets and security groups of classes.
type networkResolver struct {
	*account
	subnets *subnetTracker
}

func (r *networkResolver) resolveSubnets(ctx context.Context, class *ec2v1.EC2NodeClass) (verdict, error) {
	const condition = ec2v1.ConditionTypeSubnetsReady
	found, err := r.subnets.selected(ctx, class.Spec.SubnetSelectorTerms)
	if err != nil {
		return verdict{}, err
	}
	class.Status.Subnets = found
	field := "spec.subnetSelectorTerms"
	if network := podNetworkOf(class); len(found) > 0 && network != nil {
		field = "spec.podSubnetSelectorTerms"
		if found, err = r.subnets.selected(ctx, network.Subnets); err != nil {
			return verdict{}, err
		}
	}
	if len(found) == 0 {
		return unready(condition, "SubnetsNotFound",
			"%s: no subnet in region %s matches; check the terms, or tag subnets accordingly", field, r.o.AWS.Region), nil
	}
	return ready(condition), nil
}

// selected reads the subnets that terms select. They are sorted by zone and ID, not by free addresses, which would
// change a status all the time.
func (b *subnetTracker) selected(ctx context.Context, terms []ec2v1.SubnetSelectorTerm) ([]ec2v1.Subnet, error) {
	var filterSets [][]ec2types.Filter
	var ids []string
	for _, t := range terms {
		if t.ID != "" {
			ids = append(ids, t.ID)
		} else if len(t.Tags) > 0 {
			filterSets = append(filterSets, tagFilters(t.Tags))
		}
	}
	if len(ids) > 0 {
		filterSets = append(filterSets, []ec2types.Filter{filter("subnet-id", ids...)})
	}
	found := map[string]ec2v1.Subnet{}
	for _, filters := range filterSets {
		subnets, err := b.describe(ctx, filters)
		if err != nil {
			return nil, err
		}
		for _, s := range subnets {
			id := awssdk.ToString(s.SubnetId)
			found[id] = ec2v1.Subnet{
				ID: id, Zone: awssdk.ToString(s.AvailabilityZone),
				ZoneID: awssdk.ToString(s.AvailabilityZoneId),
			}
		}
	}
	return slices.SortedFunc(maps.Values(found), func(a, b ec2v1.Subnet) int {
		return cmp.Or(cmp.Compare(a.Zone, b.Zone), cmp.Compare(a.ID, b.ID))
	}), nil
}

// describe reads the subnets that match filters, and how many addresses are free in them.
func (b *subnetTracker) describe(ctx context.Context, filters []ec2types.Filter) ([]ec2types.Subnet, error) {
	started := b.now()
	out, err := b.list(ctx, filters)
	if err != nil {
		return nil, err
	}
	for _, s := range out {
		id := awssdk.ToString(s.SubnetId)
		b.observe(id, int64(awssdk.ToInt32(s.AvailableIpAddressCount)), started)
		b.learn(id, &s)
	}
	b.countUsable(ctx, out)
	return out, nil
}

// list reads the subnets that match filters, and learns the names of their zones.
func (b *subnetTracker) list(ctx context.Context, filters []ec2types.Filter) (out []ec2types.Subnet, err error) {
	pages := ec2.NewDescribeSubnetsPaginator(b.ec2,
		&ec2.DescribeSubnetsInput{Filters: filters, MaxResults: awssdk.Int32(500)})
	err = eachPage(ctx, pages, "describe subnets", "ec2:DescribeSubnets",
		func(page *ec2.DescribeSubnetsOutput) { out = append(out, page.Subnets...) })
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range out {
		b.zones[awssdk.ToString(s.AvailabilityZoneId)] = awssdk.ToString(s.AvailabilityZone)
	}
	return out, err
}

func (r *networkResolver) resolveSecurityGroups(ctx context.Context, class *ec2v1.EC2NodeClass) (verdict, error) {
	const condition = ec2v1.ConditionTypeSecurityGroupsReady
	found, err := r.securityGroups(ctx, class.Spec.SecurityGroupSelectorTerms)
	if err != nil {
		return verdict{}, err
	}
	class.Status.SecurityGroups = found
	field := "spec.securityGroupSelectorTerms"
	if network := podNetworkOf(class); len(found) > 0 && network != nil {
		field = "spec.podSecurityGroupSelectorTerms"
		if found, err = r.securityGroups(ctx, network.SecurityGroups); err != nil {
			return verdict{}, err
		}
	}
	if len(found) == 0 {
		return unready(condition, "SecurityGroupsNotFound",
			"%s: no security group in region %s matches; check the terms, or tag groups accordingly", field, r.o.AWS.Region), nil
	}
	return ready(condition), nil
}

// securityGroups reads the security groups that terms select, by ID.
func (r *networkResolver) securityGroups(ctx context.Context, terms []ec2v1.SecurityGroupSelectorTerm,
) ([]ec2v1.SecurityGroup, error) {
	var filterSets [][]ec2types.Filter
	for _, t := range terms {
		switch {
		case t.ID != "":
			filterSets = append(filterSets, []ec2types.Filter{filter("group-id", t.ID)})
		case t.Name != "":
			filterSets = append(filterSets, []ec2types.Filter{filter("group-name", t.Name)})
		case len(t.Tags) > 0:
			filterSets = append(filterSets, tagFilters(t.Tags))
		}
	}
	found := map[string]ec2v1.SecurityGroup{}
	for _, filters := range filterSets {
		pages := ec2.NewDescribeSecurityGroupsPaginator(r.ec2,
			&ec2.DescribeSecurityGroupsInput{Filters: filters, MaxResults: awssdk.Int32(500)})
		err := eachPage(ctx, pages, "describe security groups", "ec2:DescribeSecurityGroups",
			func(page *ec2.DescribeSecurityGroupsOutput) {
				for _, g := range page.SecurityGroups {
					id := awssdk.ToString(g.GroupId)
					found[id] = ec2v1.SecurityGroup{ID: id, Name: awssdk.ToString(g.GroupName)}
				}
			})
		if err != nil {
			return nil, err
		}
	}
	return slices.SortedFunc(maps.Values(found), func(a, b ec2v1.SecurityGroup) int {
		return cmp.Compare(a.ID, b.ID)
	}), nil
}

// subnetTracker tracks how many addresses subnets have left: EC2's last number, less those that launches have taken
// since, and how many of these pods can get as prefixes. It also tracks which subnets give each new instance a public
// address.
type subnetTracker struct {
	*account
	prefixes atomic.Bool // pods get prefixes: see DelegatePrefixes
	denied   sync.Once   // says that usable addresses cannot be counted

	mu         sync.Mutex
	known      map[string]*subnetState
	zones      map[string]string // names of the zones of all subnets seen, by ID
	refreshing bool
}

type subnetState struct {
	free   int64
	usable int64  // of free, the most that nodes can use whose pods get prefixes
	cidr   string // of IPv4
	public bool   // mapPublicIpOnLaunch
	at     time.Time
	taken  []taking
}

type taking struct {
	at        time.Time
	addresses int64
}

func newSubnetTracker(a *account) *subnetTracker {
	return &subnetTracker{account: a, known: map[string]*subnetState{}, zones: map[string]string{}}
}

// zoneOf returns the name of the zone with an ID, "" if it has no subnets.
func (b *subnetTracker) zoneOf(ctx context.Context, id string) (string, error) {
	if zone := b.seenZone(id); zone != "" {
		return zone, nil
	}
	_, err := b.list(ctx, []ec2types.Filter{filter("availability-zone-id", id)})
	return b.seenZone(id), err
}

func (b *subnetTracker) seenZone(id string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.zones[id]
}

// observe records the result of a call that began at started, which accounts for earlier launches.
func (b *subnetTracker) observe(id string, free int64, started time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.known[id]
	if s == nil {
		s = &subnetState{usable: math.MaxInt64}
		b.known[id] = s
	}
	s.free, s.at = free, started
	s.taken = slices.DeleteFunc(s.taken, func(t taking) bool { return t.at.Before(started) })
}

// learn records the range of a known subnet, and whether it assigns public addresses.
func (b *subnetTracker) learn(id string, s *ec2types.Subnet) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.known[id].cidr, b.known[id].public = awssdk.ToString(s.CidrBlock), awssdk.ToBool(s.MapPublicIpOnLaunch)
}

// public returns the IDs of the subnets that are known to give each new instance a public address.
func (b *subnetTracker) public(subnets []ec2v1.Subnet) map[string]bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := map[string]bool{}
	for _, s := range subnets {
		if k := b.known[s.ID]; k != nil && k.public {
			out[s.ID] = true
		}
	}
	return out
}

// Subnets returns the subnets of a class, by ID, with the free addresses that EC2 last reported; none unless EC2 has
// reported those of all.
func (p *Provider) Subnets(ref cloud.ClassRef) []cloud.Subnet {
	class, err := p.readyClass(ref)
	if err != nil {
		return nil
	}
	return p.subnets.observed(class.Status.Subnets)
}

// SubnetsByID returns the subnets with these IDs that exist, with their free addresses, by ID.
func (p *Provider) SubnetsByID(ctx context.Context, ids []string) ([]cloud.Subnet, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	found, err := p.subnets.describe(ctx, []ec2types.Filter{filter("subnet-id", ids...)})
	if err != nil {
		return nil, err
	}
	list := make([]ec2v1.Subnet, len(found))
	for i, s := range found {
		list[i] = ec2v1.Subnet{ID: awssdk.ToString(s.SubnetId), Zone: awssdk.ToString(s.AvailabilityZone)}
	}
	return p.subnets.observed(list), nil
}

// observed returns the subnets with their free addresses, none unless those of all are known.
func (b *subnetTracker) observed(subnets []ec2v1.Subnet) []cloud.Subnet {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []cloud.Subnet
	for _, s := range subnets {
		k := b.known[s.ID]
		if k == nil {
			return nil
		}
		out = append(out, cloud.Subnet{
			ID: s.ID, Zone: s.Zone, CIDR: k.cidr, Free: k.free, Scattered: max(k.free-k.usable, 0), At: k.at,
		})
	}
	slices.SortFunc(out, func(a, b cloud.Subnet) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// full records that a subnet has no address left.
func (b *subnetTracker) full(id string) { b.observe(id, 0, b.now()) }

// take counts addresses against a subnet until the next observation.
func (b *subnetTracker) take(id string, addresses int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s := b.known[id]; s != nil {
		s.taken = append(s.taken, taking{b.now(), addresses})
	}
}

// best returns, for each zone, the subnet with the most usable addresses left, of equal ones that with the most free,
// then by ID; subnets in avoid come last. A zone is kept even if its subnets seem full: the numbers are up to a minute
// old, and EC2 decides.
func (b *subnetTracker) best(subnets []ec2v1.Subnet, avoid map[string]bool) map[string]ec2v1.Subnet {
	b.mu.Lock()
	defer b.mu.Unlock()
	out, most := map[string]ec2v1.Subnet{}, map[string][2]int64{}
	for _, s := range subnets {
		left := b.left(s.ID)
		if avoid[s.ID] {
			left = [2]int64{math.MinInt64}
		}
		have, ok := out[s.Zone]
		better := cmp.Or(cmp.Compare(left[0], most[s.Zone][0]), cmp.Compare(left[1], most[s.Zone][1]))
		if !ok || better > 0 || better == 0 && s.ID < have.ID {
			out[s.Zone], most[s.Zone] = s, left
		}
	}
	return out
}

// left returns how many addresses of a subnet nodes whose pods get prefixes can use, not less than 0, and how many are
// free, both less what launches have taken.
func (b *subnetTracker) left(id string) [2]int64 {
	k := b.known[id]
	if k == nil {
		return [2]int64{}
	}
	taken := int64(0)
	for _, t := range k.taken {
		taken += t.addresses
	}
	return [2]int64{max(min(k.free, k.usable)-taken, 0), k.free - taken}
}

// stale reports whether the numbers of some subnet are old and not being read; the caller must then read them.
func (b *subnetTracker) stale(subnets []ec2v1.Subnet) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.refreshing {
		return false
	}
	for _, s := range subnets {
		if k := b.known[s.ID]; k == nil || b.now().Sub(k.at) > subnetAge {
			b.refreshing = true
			return true
		}
	}
	return false
}

func (b *subnetTracker) refreshed() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refreshing = false
}

// choose returns the subnet of each zone to launch into. If the numbers of free addresses are old, it reads them
// again in the background.
func (b *subnetTracker) choose(class *ec2v1.EC2NodeClass, avoid map[string]bool) map[string]ec2v1.Subnet {
	if b.stale(class.Status.Subnets) {
		var ids []string
		for _, s := range class.Status.Subnets {
			ids = append(ids, s.ID)
		}
		go func() {
			defer b.refreshed()
			if _, err := b.describe(b.ctx, []ec2types.Filter{filter("subnet-id", ids...)}); err != nil {
				b.log.Warn("free addresses of subnets are out of date", "error", err)
			}
		}()
	}
	return b.best(class.Status.Subnets, avoid)
}
