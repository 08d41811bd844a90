package wiretest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/cloud/aws"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/region"
)

// places adds a placement group, which class default then selects by name.
func (p *place) places(t *testing.T, name, strategy string, partitions int) (region.PlacementGroup, *aws.Provider) {
	t.Helper()
	g, err := p.region.CreatePlacementGroup(region.PlacementGroup{Name: name, Strategy: strategy, Partitions: partitions})
	if err != nil {
		t.Fatal(err)
	}
	p.classes["default"].Spec.PlacementGroupSelector = &ec2v1.PlacementGroupSelector{Name: &name}
	p.resolve(t, "default")
	return g, p.onVirtualTime(t)
}

// partitioned returns a request for an instance in one of the given partitions.
func partitioned(claim string, partitions ...string) cloud.LaunchRequest {
	req := requestFor(claim, "general")
	req.Token = "token-" + claim
	req.Requirements = model.NewRequirements(model.OneOf(model.LabelInstanceType, "m5.large"),
		model.OneOf(model.LabelZone, "us-west-2a"))
	if len(partitions) > 0 {
		req.Requirements = req.Requirements.And(model.Requirements{
			model.OneOf(ec2v1.LabelPlacementGroupPartition, partitions...),
		})
	}
	return req
}

// An instance is launched into a partition that the request allows, and its labels name the partition, in EC2's lists
// too.
func TestInstancesGoToPartitions(t *testing.T) {
	p := newPlace(t)
	g, provider := p.places(t, "parts", region.PartitionPlacement, 3)
	labels, err := provider.Placement(t.Context(), defaultClass)
	if want := ec2v1.LabelPlacementGroupPartition + " In [1 2 3]"; err != nil || labels.String() != want {
		t.Errorf("placement %q, %v; want %q", labels, err, want)
	}
	launched := map[string]string{}
	for n, req := range []cloud.LaunchRequest{
		partitioned("a", "2"), partitioned("b", "3", "1"), partitioned("c"), partitioned("d"), partitioned("e"),
	} {
		m := launch(t, provider, req)
		i, _ := p.region.Instance(m.ID)
		if partition := m.Labels[ec2v1.LabelPlacementGroupPartition]; fmt.Sprint(i.Partition) != partition ||
			i.PlacementGroupID != g.ID || m.Labels[ec2v1.LabelPlacementGroupID] != g.ID ||
			n == 0 && partition != "2" || n == 1 && partition == "2" {
			t.Errorf("claim %s: labels %v, instance in partition %d of %s", req.Claim, m.Labels, i.Partition, i.PlacementGroupID)
		}
		launched[m.ID] = m.Labels[ec2v1.LabelPlacementGroupPartition]
	}
	listed, err := p.connect(t).List(t.Context())
	if err != nil || len(listed) != len(launched) {
		t.Fatalf("%d instances, %v", len(listed), err)
	}
	for _, m := range listed {
		if m.Labels[ec2v1.LabelPlacementGroupPartition] != launched[m.ID] {
			t.Errorf("instance %s is listed with %v", m.ID, m.Labels)
		}
	}
	if _, err := provider.Launch(t.Context(), partitioned("f", "4")); !errors.Is(err, cloud.ErrNoCapacity) {
		t.Errorf("launched into partition 4: %v", err)
	}
}

// A claim that does not allow default tenancy gets a dedicated instance, whose labels say so in EC2's lists too.
func TestAClaimMayRequireADedicatedInstance(t *testing.T) {
	p := newPlace(t)
	provider := p.onVirtualTime(t)
	launched := map[string]string{}
	for claim, tenancies := range map[string][]string{
		"dedicated": {"dedicated"}, "default": {"default"}, "any": nil, "either": {"dedicated", "default"},
	} {
		req, want := partitioned(claim), "default"
		if tenancies != nil {
			req.Requirements = req.Requirements.And(model.Requirements{
				model.OneOf(ec2v1.LabelInstanceTenancy, tenancies...),
			})
		}
		if claim == "dedicated" {
			want = claim
		}
		m := launch(t, provider, req)
		i, _ := p.region.Instance(m.ID)
		if m.Labels[ec2v1.LabelInstanceTenancy] != want || i.Dedicated != (want == "dedicated") {
			t.Errorf("claim %s: labels %v; dedicated: %v", claim, m.Labels, i.Dedicated)
		}
		launched[m.ID] = want
	}
	listed, err := p.connect(t).List(t.Context())
	if err != nil || len(listed) != len(launched) {
		t.Fatalf("%d instances, %v", len(listed), err)
	}
	for _, m := range listed {
		if has := m.Labels[ec2v1.LabelInstanceTenancy] == "dedicated"; has != (launched[m.ID] == "dedicated") {
			t.Errorf("instance %s is listed with %v", m.ID, m.Labels)
		}
	}
}

// A spread group has no capacity for an eighth instance in a zone, whatever its type; that affects its class only.
func TestASpreadGroupIsFullForItsClassAlone(t *testing.T) {
	p := newPlace(t)
	_, provider := p.places(t, "apart", region.SpreadPlacement, 0)
	if labels, err := provider.Placement(t.Context(), defaultClass); err != nil || labels != nil {
		t.Errorf("placement %v, %v", labels, err)
	}
	req := func(n int) cloud.LaunchRequest {
		req := partitioned(fmt.Sprint("claim-", n))
		req.Requirements = model.NewRequirements(model.OneOf(model.LabelInstanceType, "m5.large", "c5.large"),
			model.OneOf(model.LabelZone, "us-west-2a"), model.OneOf(model.LabelCapacityType, model.OnDemand))
		return req
	}
	for n := range 7 {
		launch(t, provider, req(n))
	}
	result, err := provider.Launch(t.Context(), req(7))
	if !errors.Is(err, cloud.ErrNoCapacity) || !result.OfClass || len(result.Exhausted) != 2 {
		t.Errorf("%v, exhausted for the class alone: %t, %v", err, result.OfClass, result.Exhausted)
	}
}

// A cluster group accepts no burstable types, and no instances in another zone than its first.
func TestAClusterGroupKeepsToItsZone(t *testing.T) {
	p := newPlace(t)
	_, provider := p.places(t, "near", region.ClusterPlacement, 0)
	types, err := provider.Catalog(t.Context(), defaultClass)
	if err != nil || len(types) < 100 || slices.ContainsFunc(types, func(it model.InstanceType) bool {
		return strings.HasPrefix(it.Name, "t3.")
	}) {
		t.Errorf("%d types, %v", len(types), err)
	}
	launch(t, provider, partitioned("first"))
	other := partitioned("second")
	other.Requirements = model.NewRequirements(model.OneOf(model.LabelZone, "us-west-2b"))
	// More types are exhausted than one call names: one response counts for all.
	result, err := provider.Launch(t.Context(), other)
	if !errors.Is(err, cloud.ErrNoCapacity) || !result.OfClass || len(result.Exhausted) < 700 {
		t.Errorf("launched %+v, %v, %d of %d types exhausted", result.Instance, err, len(result.Exhausted), len(types))
	}
	other.Claim, other.Token = "third", "token-third"
	other.Requirements = model.NewRequirements(model.OneOf(model.LabelZone, "us-west-2b", "us-west-2a"))
	if m := launch(t, provider, other); m.Zone != "us-west-2a" {
		t.Errorf("launched in %s", m.Zone)
	}
}

// A class whose group does not exist reports that and launches nothing; instances outside the selected group, or in a
// group that the class no longer selects, have drifted.
func TestAClassFollowsItsPlacementGroup(t *testing.T) {
	p := newPlace(t)
	provider := p.connect(t)
	before := launch(t, provider, partitioned("before"))
	drifted := func(m cloud.Instance) string {
		t.Helper()
		reason, err := p.connect(t).Drifted(t.Context(), cloud.Launched{
			InstanceID: m.ID, Class: defaultClass, Type: m.Type, ImageID: m.ImageID,
		})
		if err != nil {
			t.Fatal(err)
		}
		return reason
	}
	g, _ := p.places(t, "parts", region.PartitionPlacement, 2)
	p.classes["default"].Spec.PlacementGroupSelector = &ec2v1.PlacementGroupSelector{ID: &g.ID}
	p.resolve(t, "default")
	within := launch(t, p.connect(t), partitioned("within"))
	if a, b := drifted(before), drifted(within); a != "PlacementGroupDrift" || b != "" {
		t.Errorf("drift of an instance outside %q, of one in the group %q", a, b)
	}
	p.classes["default"].Spec.PlacementGroupSelector = nil
	if reason := drifted(within); reason != "PlacementGroupDrift" {
		t.Errorf("drift of an instance in a group that the class has left: %q", reason)
	}

	lost := "lost"
	p.classes["default"].Spec.PlacementGroupSelector = &ec2v1.PlacementGroupSelector{Name: &lost}
	if _, err := p.connect(t).Launch(t.Context(), partitioned("nowhere")); !errors.Is(err, cloud.ErrClassNotReady) ||
		!strings.Contains(err.Error(), `spec.placementGroupSelector: placement group "lost" does not exist`) {
		t.Errorf("launched into a group that does not exist: %v", err)
	}
	if err := p.connect(t).Resolve(t.Context(), p.classes["default"]); err != nil {
		t.Fatal(err)
	}
	condition := p.classes["default"].StatusConditions().Get(ec2v1.ConditionTypePlacementGroupReady)
	if condition.Reason != "PlacementGroupNotFound" || !strings.Contains(condition.Message, `"lost" not found; create it in`) {
		t.Errorf("condition %+v", condition)
	}
}
