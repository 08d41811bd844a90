package aws

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"sync"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/engine/model"
)

var _ cloud.Placer = (*Provider)(nil)

// placementGroup is an EC2 placement group; the zero value is none.
type placementGroup struct {
	id         string
	strategy   ec2types.PlacementStrategy
	partitions int32 // of the strategy partition; they are numbered from 1
}

// placementGroups finds the placement groups that classes select.
type placementGroups struct {
	*account

	mu    sync.Mutex
	known map[string]placementGroup // as last seen, by selector
}

func newPlacementGroups(a *account) *placementGroups {
	return &placementGroups{account: a, known: map[string]placementGroup{}}
}

// resolve finds the placement group of a class.
func (s *placementGroups) resolve(ctx context.Context, class *ec2v1.EC2NodeClass) (verdict, error) {
	const condition = ec2v1.ConditionTypePlacementGroupReady
	if class.Spec.PlacementGroupSelector == nil {
		return ready(condition), nil
	}
	g, err := s.find(ctx, class)
	switch name := selected(class); {
	case err != nil:
		return verdict{}, err
	case g.id == "":
		return unready(condition, "PlacementGroupNotFound", "Placement group %q not found; create it in %s, or correct "+
			"spec.placementGroupSelector", name, s.o.AWS.Region), nil
	case !slices.Contains(g.strategy.Values(), g.strategy):
		return unready(condition, "PlacementGroupNotSupported", "Placement group %q has the strategy %s; name one with "+
			"cluster, partition or spread in spec.placementGroupSelector", name, g.strategy), nil
	}
	return ready(condition), nil
}

// selected returns the ID or name in the selector of a class.
func selected(class *ec2v1.EC2NodeClass) string {
	selector := class.Spec.PlacementGroupSelector
	return cmp.Or(awssdk.ToString(selector.ID), awssdk.ToString(selector.Name))
}

// find reads the placement group of a class from EC2. It returns the zero value if there is none.
func (s *placementGroups) find(ctx context.Context, class *ec2v1.EC2NodeClass) (placementGroup, error) {
	in := &ec2.DescribePlacementGroupsInput{Filters: []ec2types.Filter{
		filter("state", string(ec2types.PlacementGroupStateAvailable)),
	}}
	if id := class.Spec.PlacementGroupSelector.ID; awssdk.ToString(id) != "" {
		in.GroupIds = []string{*id}
	} else {
		in.GroupNames = []string{selected(class)}
	}
	out, err := s.ec2.DescribePlacementGroups(ctx, in)
	if err != nil && !strings.HasPrefix(code(err), "InvalidPlacementGroup") {
		return placementGroup{}, wrap("describe placement groups", "ec2:DescribePlacementGroups", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil || len(out.PlacementGroups) == 0 {
		delete(s.known, selected(class))
		return placementGroup{}, nil
	}
	found := out.PlacementGroups[0]
	g := placementGroup{
		id: awssdk.ToString(found.GroupId), strategy: found.Strategy, partitions: awssdk.ToInt32(found.PartitionCount),
	}
	s.known[selected(class)] = g
	return g, nil
}

// of returns the placement group of a class, as last seen, or the zero value if the class selects none.
func (s *placementGroups) of(ctx context.Context, class *ec2v1.EC2NodeClass) (placementGroup, error) {
	if class.Spec.PlacementGroupSelector == nil {
		return placementGroup{}, nil
	}
	s.mu.Lock()
	g := s.known[selected(class)]
	s.mu.Unlock()
	if g.id != "" {
		return g, nil
	}
	g, err := s.find(ctx, class)
	if err == nil && g.id == "" {
		err = fmt.Errorf("placement group %q does not exist: %w", selected(class), cloud.ErrClassNotReady)
	}
	if err != nil {
		return g, fmt.Errorf("%s: spec.placementGroupSelector: %w", title(class), err)
	}
	return g, nil
}

// Placement returns the partitions of a class's placement group as a requirement on their label; nil if it has none.
func (p *Provider) Placement(ctx context.Context, ref cloud.ClassRef) (_ model.Requirements, err error) {
	defer p.called("Placement", p.now(), &err)
	class, err := p.readyClass(ref)
	if err != nil {
		return nil, err
	}
	g, err := p.placements.of(ctx, class)
	if err != nil || g.partitions == 0 {
		return nil, err
	}
	return model.Requirements{model.OneOf(ec2v1.LabelPlacementGroupPartition, g.names()...)}, nil
}

// names returns the partitions as values of their label.
func (g placementGroup) names() (out []string) {
	for n := range g.partitions {
		out = append(out, strconv.Itoa(int(n)+1))
	}
	return out
}

// takes reports whether the group supports instances of a type.
func (g placementGroup) takes(t *ec2types.InstanceTypeInfo) bool {
	return g.id == "" || t.PlacementGroupInfo != nil &&
		slices.Contains(t.PlacementGroupInfo.SupportedStrategies, ec2types.PlacementGroupStrategy(g.strategy))
}

// partitionFor returns the partition of a launch: one that the request allows, derived from its token, so that a
// repeated call is the same. It returns 0 if the group has no partitions, and false if the request allows none of
// those it has.
func (g placementGroup) partitionFor(req *cloud.LaunchRequest) (int32, bool) {
	wanted, named := req.Requirements.Get(ec2v1.LabelPlacementGroupPartition)
	var allowed []int32
	for n, name := range g.names() {
		if !named || wanted.Has(name) {
			allowed = append(allowed, int32(n)+1)
		}
	}
	if len(allowed) == 0 {
		return 0, g.partitions == 0 // candidates still checks the requirement
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(req.Token)) // a hash never fails
	return allowed[h.Sum32()%uint32(len(allowed))], true
}

// labels returns the labels of an instance in a partition of the group.
func (g placementGroup) labels(partition int32) map[string]string {
	out := map[string]string{}
	if g.id != "" {
		out[ec2v1.LabelPlacementGroupID] = g.id
	}
	if partition > 0 {
		out[ec2v1.LabelPlacementGroupPartition] = strconv.Itoa(int(partition))
	}
	return out
}

// placementLabels returns the labels of the placement group that EC2 reports for an instance.
func placementLabels(p *ec2types.Placement) map[string]string {
	return placementGroup{id: awssdk.ToString(p.GroupId)}.labels(awssdk.ToInt32(p.PartitionNumber))
}

// into sets the group and the partition, if there is one, of a launch template's instances.
func (g placementGroup) into(data *ec2types.RequestLaunchTemplateData, partition int32) {
	if g.id == "" {
		return
	}
	data.Placement = &ec2types.LaunchTemplatePlacementRequest{GroupId: &g.id}
	if partition > 0 {
		data.Placement.PartitionNumber = &partition
	}
}

// drift compares the placement group of an instance with that of its class.
func (g placementGroup) drift(m cloud.Instance) string {
	if m.Labels[ec2v1.LabelPlacementGroupID] != g.id {
		return placementDrift
	}
	return ""
}

// codeOtherZone is EC2's error for a launch into a cluster placement group whose instances are in another zone.
const codeOtherZone = "InvalidPlacementGroup.InUse"

// closesZone reports whether an error means that a placement group accepts no instance of any type in the zone: the
// group is in another zone, or has the seven instances that the strategy spread allows.
func closesZone(e ec2types.CreateFleetError) bool {
	return awssdk.ToString(e.ErrorCode) == codeOtherZone ||
		strings.Contains(awssdk.ToString(e.ErrorMessage), "limit of instances in this spread placement group")
}

// inZonesOf returns all choices of a launch in the zones of some of them.
func (l *launch) inZonesOf(some []choice) []choice {
	return slices.DeleteFunc(slices.Clone(l.choices), func(o choice) bool {
		return !slices.ContainsFunc(some, func(s choice) bool { return s.Zone == o.Zone })
	})
}
