package aws

import (
	"cmp"
	"slices"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/nodeless/nodeless/engine/model"
)

// prioritized are the strategies by which EC2 goes by the order it is told instead of by its own prices (EC2 API reference,
// CreateFleet; Karpenter uses them too where overlays change prices).
func prioritized(kind string) (*ec2types.SpotOptionsRequest, *ec2types.OnDemandOptionsRequest) {
	if kind == model.Spot {
		return &ec2types.SpotOptionsRequest{AllocationStrategy: ec2types.SpotAllocationStrategyCapacityOptimizedPrioritized}, nil
	}
	return nil, &ec2types.OnDemandOptionsRequest{AllocationStrategy: ec2types.FleetOnDemandAllocationStrategyPrioritized}
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
