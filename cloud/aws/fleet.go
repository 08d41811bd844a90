package aws

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/engine/model"
)

// call makes one CreateFleet for choices of one capacity type. It fails with errNothingLaunched if EC2 accepted the
// call but started nothing; tried, exhausted and full then hold what EC2 reported.
func (l *launch) call(ctx context.Context, choices []choice) (cloud.Instance, error) {
	kind := choices[0].CapacityType
	subnets := l.p.subnets.choose(l.class, l.full)
	byTemplate, err := l.group(ctx, choices, kind)
	if err != nil {
		return cloud.Instance{}, err
	}
	in := l.input(byTemplate, choices[0], subnets)
	out, err := l.p.ec2.CreateFleet(ctx, in)
	if err != nil {
		return cloud.Instance{}, l.refused(err, choices, byTemplate)
	}
	for _, i := range out.Instances {
		if len(i.InstanceIds) > 0 {
			_, _ = l.record(out.Errors, choices, subnets) // reported with the instance
			return l.started(i, choices[0], byTemplate), nil
		}
	}
	return cloud.Instance{}, l.failed(out.Errors, choices, subnets, byTemplate)
}

// group groups choices by the launch template that they need, in the order of each template's cheapest choice, and
// ensures that the templates exist.
func (l *launch) group(ctx context.Context, choices []choice, kind string) ([]templateGroup, error) {
	boot := l.p.bootConfigOf(l.class, l.req, kind)
	groups, index := []templateGroup{}, map[templateKey]int{}
	for _, o := range choices {
		key := l.templateKey(o)
		i, ok := index[key]
		if !ok {
			t, err := l.p.templates.of(l.class, boot, key)
			if err != nil {
				return nil, err
			}
			i, index[key] = len(groups), len(groups)
			groups = append(groups, templateGroup{template: t})
		}
		groups[i].choices = append(groups[i].choices, o)
	}
	failed := make(chan error, len(groups))
	for _, g := range groups {
		go func() { failed <- l.p.templates.ensure(ctx, g.template) }()
	}
	var errs []error
	for range groups {
		errs = append(errs, <-failed)
	}
	return groups, errors.Join(errs...)
}

// templateGroup is a launch template and the choices that boot from it.
type templateGroup struct {
	template
	choices []choice
}

func (l *launch) templateKey(o choice) templateKey {
	t := &l.catalog.types[l.catalog.index[o.Type]]
	key := templateKey{
		image: l.catalog.images[o.Type], from: o.from, placement: l.catalog.placement, partition: l.partition,
		dedicated: l.dedicated,
	}
	if l.p.reservedENIs() > 0 || isAuto(l.class) || efaOnlyENIs(l.class) > 0 {
		// The image does not account for interfaces that pods cannot use, nor for Auto Mode's limit, and would accept too
		// many pods.
		key.maxPods = int32(t.Capacity[model.Pods])
	}
	if l.req.Requests[model.EFA] > 0 {
		key.efas = t.Capacity[model.EFA]
	}
	return key
}

// input returns a call for groups of choices that all have the capacity type and reservation of first.
func (l *launch) input(groups []templateGroup, first choice, subnets map[string]ec2v1.Subnet) *ec2.CreateFleetInput {
	in := &ec2.CreateFleetInput{
		Type: ec2types.FleetTypeInstant, ClientToken: awssdk.String(l.clientToken()), Context: l.class.Spec.Context,
		TargetCapacitySpecification: &ec2types.TargetCapacitySpecificationRequest{
			TotalTargetCapacity: awssdk.Int32(1), DefaultTargetCapacityType: first.from.targetType(first.CapacityType),
		},
	}
	in.SpotOptions, in.OnDemandOptions = strategies(in.TargetCapacitySpecification.DefaultTargetCapacityType,
		l.req.Prices != nil)
	if first.from.interruptible {
		const only = ec2types.FleetReservationTypeInterruptibleCapacityReservation
		in.ReservedCapacityOptions = &ec2types.ReservedCapacityOptionsRequest{
			ReservationTypes: []ec2types.FleetReservationType{only},
		}
	}
	priority := l.priorities(groups)
	for _, g := range groups {
		config := ec2types.FleetLaunchTemplateConfigRequest{
			LaunchTemplateSpecification: &ec2types.FleetLaunchTemplateSpecificationRequest{
				LaunchTemplateName: awssdk.String(g.name), Version: awssdk.String("$Latest"),
			},
		}
		for _, o := range g.choices {
			config.Overrides = append(config.Overrides, ec2types.FleetLaunchTemplateOverridesRequest{
				InstanceType: ec2types.InstanceType(o.Type), SubnetId: awssdk.String(subnets[o.Zone].ID),
				// Redundant, but errors repeat it.
				AvailabilityZone: awssdk.String(o.Zone), Priority: priority[o.OfferingKey],
			})
		}
		in.LaunchTemplateConfigs = append(in.LaunchTemplateConfigs, config)
	}
	tags := tagList(l.p.instanceTags(l.class, l.req))
	for _, r := range []ec2types.ResourceType{
		ec2types.ResourceTypeInstance, ec2types.ResourceTypeVolume,
		ec2types.ResourceTypeFleet,
	} {
		in.TagSpecifications = append(in.TagSpecifications, ec2types.TagSpecification{ResourceType: r, Tags: tags})
	}
	return in
}

// started returns the instance that a fleet started, with the capacity type and reservation of first.
func (l *launch) started(i ec2types.CreateFleetInstance, first choice, groups []templateGroup) cloud.Instance {
	m := cloud.Instance{
		ID: i.InstanceIds[0], Type: string(i.InstanceType), CapacityType: first.CapacityType, State: cloud.Pending,
		Launched: l.p.now(), Claim: l.req.Claim, Pool: l.req.Pool, Class: cloudName(l.class),
	}
	m.Labels = l.catalog.placement.labels(l.partition)
	if l.dedicated {
		m.Labels[ec2v1.LabelInstanceTenancy] = dedicatedTenancy
	}
	if r := first.from; r.id != "" {
		maps.Copy(m.Labels, reservationLabels(r.id, r.kind, r.interruptible))
		l.p.reservations.take(r.id)
	}
	subnet := ""
	if t := i.LaunchTemplateAndOverrides; t != nil && t.Overrides != nil {
		m.Zone, m.ImageID, subnet = awssdk.ToString(t.Overrides.AvailabilityZone), awssdk.ToString(t.Overrides.ImageId),
			awssdk.ToString(t.Overrides.SubnetId)
		if m.Type == "" {
			m.Type = string(t.Overrides.InstanceType)
		}
	}
	for _, s := range l.class.Status.Subnets {
		if s.ID == subnet && m.Zone == "" {
			m.Zone = s.Zone
		}
	}
	for _, g := range groups {
		for _, o := range g.choices {
			if m.ImageID == "" && o.Type == m.Type {
				m.ImageID = awssdk.ToString(g.in.LaunchTemplateData.ImageId)
			}
		}
	}
	m = l.catalog.describe(m)
	l.p.subnets.take(subnet, m.Capacity[model.Pods]+1)
	return m
}

// describe adds what the catalogue knows about an instance: provider ID, labels, capacity, allocatable.
func (c *classCatalog) describe(m cloud.Instance) cloud.Instance {
	m.ProviderID = providerID(m.Zone, m.ID)
	labels := map[string]string{model.LabelZone: m.Zone, model.LabelCapacityType: m.CapacityType}
	for _, key := range instanceKeys {
		if value, ok := m.Labels[key]; ok {
			labels[key] = value
		}
	}
	if c.tenancies {
		labels[ec2v1.LabelInstanceTenancy] = cmp.Or(m.Labels[ec2v1.LabelInstanceTenancy], defaultTenancy)
	}
	m.Labels = labels
	if id := c.zoneIDs[m.Zone]; id != "" {
		m.Labels[ec2v1.LabelTopologyZoneID] = id
	}
	if i, ok := c.index[m.Type]; ok {
		maps.Copy(m.Labels, c.labels[m.Type])
		m.Capacity, m.Allocatable = c.types[i].Capacity, c.types[i].Allocatable
	}
	return m
}

// strategies returns how EC2 chooses among the overrides of a call: by its own prices or, if prioritized, in the
// order of their priorities (EC2 API reference, CreateFleet; Karpenter does the same if overlays change prices).
func strategies(kind ec2types.DefaultTargetCapacityType, prioritized bool,
) (*ec2types.SpotOptionsRequest, *ec2types.OnDemandOptionsRequest) {
	spot := ec2types.SpotAllocationStrategyPriceCapacityOptimized
	onDemand := ec2types.FleetOnDemandAllocationStrategyLowestPrice
	if prioritized {
		spot = ec2types.SpotAllocationStrategyCapacityOptimizedPrioritized
		onDemand = ec2types.FleetOnDemandAllocationStrategyPrioritized
	}
	switch kind {
	case ec2types.DefaultTargetCapacityTypeSpot:
		return &ec2types.SpotOptionsRequest{AllocationStrategy: spot}, nil
	case ec2types.DefaultTargetCapacityTypeOnDemand:
		return nil, &ec2types.OnDemandOptionsRequest{AllocationStrategy: onDemand}
	}
	return nil, nil // a reservation leaves nothing to choose
}

// priorities returns the priorities of the choices, from 0, if prices are not EC2's; otherwise nil.
func (l *launch) priorities(groups []templateGroup) map[model.OfferingKey]*float64 {
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
