package aws

import (
	"cmp"
	"slices"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/nodeless/nodeless/engine/model"
)

// strategies returns how EC2 chooses among the overrides of a call: by its own prices or, if prioritized, by the order that
// it is told (EC2 API reference, CreateFleet; Karpenter does so too where overlays change prices).
func strategies(kind string, prioritized bool) (*ec2types.SpotOptionsRequest, *ec2types.OnDemandOptionsRequest) {
	spot := ec2types.SpotAllocationStrategyPriceCapacityOptimized
	onDemand := ec2types.FleetOnDemandAllocationStrategyLowestPrice
	if prioritized {
		spot = ec2types.SpotAllocationStrategyCapacityOptimizedPrioritized
		onDemand = ec2types.FleetOnDemandAllocationStrategyPrioritized
	}
	if kind == model.Spot {
		return &ec2types.SpotOptionsRequest{AllocationStrategy: spot}, nil
	}
	return nil, &ec2types.OnDemandOptionsRequest{AllocationStrategy: onDemand}
}

// places are the choices' priorities, 0 the first, where prices are not EC2's; nil where they are.
func (l *launch) places(groups []templateGroup) map[model.OfferingKey]*float64 {
	if l.req.Prices == nil {
		return nil
	}
	var all []choice
	for _, g := range groups {
		all = append(all, g.choices...)
	}
	slices.SortFunc(all, func(a, b choice) int { return cmp.Or(cmp.Compare(a.price, b.price), cmp.Compare(a.tie, b.tie)) })
	out := map[model.OfferingKey]*float64{}
	for i, o := range all {
		out[o.OfferingKey] = awssdk.Float64(float64(i))
	}
	return out
}
