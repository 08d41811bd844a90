package aws

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/engine/model"
)

// call makes one CreateFleet for choices, which are of one capacity type. It fails with errNothing when EC2 took the call
// and started nothing; what it said is then in tried, exhausted and full.
func (l *launch) call(ctx context.Context, choices []choice) (cloud.Machine, error) {
	kind := choices[0].CapacityType
	subnets := l.p.bestSubnets(l.class, l.full)
	byTemplate, err := l.group(ctx, choices, kind)
	if err != nil {
		return cloud.Machine{}, err
	}
	in := l.input(byTemplate, kind, subnets)
	out, err := l.p.ec2.CreateFleet(ctx, in)
	if err != nil {
		return cloud.Machine{}, l.refused(err, choices, byTemplate)
	}
	for _, i := range out.Instances {
		if len(i.InstanceIds) > 0 {
			_, _ = l.note(out.Errors, choices, subnets) // told beside the machine
			return l.started(i, kind, byTemplate), nil
		}
	}
	return cloud.Machine{}, l.failed(out.Errors, choices, subnets, byTemplate)
}

// group sorts choices by the launch template they need, and makes sure that these exist. Names are in the order of the
// cheapest choice.
func (l *launch) group(ctx context.Context, choices []choice, kind string) ([]templateGroup, error) {
	boot := l.p.bootOf(l.class, l.req, kind)
	groups, index := []templateGroup{}, map[templateKey]int{}
	for _, o := range choices {
		key := l.templateKey(o.Type)
		i, ok := index[key]
		if !ok {
			t, err := l.p.templateFor(l.class, boot, key)
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
		go func() { failed <- l.p.ensureTemplate(ctx, g.template) }()
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

func (l *launch) templateKey(name string) templateKey {
	t := &l.catalog.types[l.catalog.index[name]]
	key := templateKey{image: l.catalog.images[name]}
	if l.p.o.ReservedENIs > 0 {
		// The image knows nothing of reserved interfaces and would promise too many pods.
		key.maxPods = int32(t.Capacity[model.Pods])
	}
	if l.req.Requests[model.EFA] > 0 {
		key.efas = t.Capacity[model.EFA]
	}
	return key
}

func (l *launch) input(groups []templateGroup, kind string, subnets map[string]ec2v1.Subnet) *ec2.CreateFleetInput {
	in := &ec2.CreateFleetInput{
		Type: ec2types.FleetTypeInstant, ClientToken: awssdk.String(l.clientToken()), Context: l.class.Spec.Context,
		TargetCapacitySpecification: &ec2types.TargetCapacitySpecificationRequest{
			TotalTargetCapacity: awssdk.Int32(1), DefaultTargetCapacityType: ec2types.DefaultTargetCapacityType(kind),
		},
	}
	if kind == model.Spot {
		in.SpotOptions = &ec2types.SpotOptionsRequest{AllocationStrategy: ec2types.SpotAllocationStrategyPriceCapacityOptimized}
	} else {
		in.OnDemandOptions = &ec2types.OnDemandOptionsRequest{AllocationStrategy: ec2types.FleetOnDemandAllocationStrategyLowestPrice}
	}
	if l.req.Prices != nil {
		in.SpotOptions, in.OnDemandOptions = prioritized(kind)
	}
	place := l.places(groups)
	for _, g := range groups {
		config := ec2types.FleetLaunchTemplateConfigRequest{
			LaunchTemplateSpecification: &ec2types.FleetLaunchTemplateSpecificationRequest{
				LaunchTemplateName: awssdk.String(g.name), Version: awssdk.String("$Latest"),
			},
		}
		for _, o := range g.choices {
			config.Overrides = append(config.Overrides, ec2types.FleetLaunchTemplateOverridesRequest{
				InstanceType: ec2types.InstanceType(o.Type), SubnetId: awssdk.String(subnets[o.Zone].ID),
				// Says nothing new, but comes back in errors.
				AvailabilityZone: awssdk.String(o.Zone), Priority: place[o.OfferingKey],
			})
		}
		in.LaunchTemplateConfigs = append(in.LaunchTemplateConfigs, config)
	}
	tags := tagList(l.p.machineTags(l.class, l.req))
	for _, r := range []ec2types.ResourceType{ec2types.ResourceTypeInstance, ec2types.ResourceTypeVolume, ec2types.ResourceTypeFleet} {
		in.TagSpecifications = append(in.TagSpecifications, ec2types.TagSpecification{ResourceType: r, Tags: tags})
	}
	return in
}

// refused makes sense of a call that failed as a whole.
func (l *launch) refused(err error, choices []choice, groups []templateGroup) error {
	c := code(err)
	switch {
	case c == codeTokenMismatch:
		return err
	case isMissingTemplate(c):
		return l.lostTemplates(err, groups)
	case capacityCodes[c]:
		l.use(choices, true)
		return fmt.Errorf("%w: %w", errNothing, err)
	}
	return wrap("create fleet", "ec2:CreateFleet, ec2:RunInstances, ec2:CreateTags and iam:PassRole", err)
}

// lostTemplates has the templates made again for one more call; somebody deleted them, or EC2 does not see new ones yet.
func (l *launch) lostTemplates(err error, groups []templateGroup) error {
	for _, g := range groups {
		l.p.templates.forget(g.name)
	}
	if l.remade {
		l.state.next++
		return wrap("create fleet", "ec2:CreateFleet", err)
	}
	l.remade = true
	return fmt.Errorf("%w: %w", errNothing, err)
}

// failed makes sense of a call that EC2 took and that started nothing.
func (l *launch) failed(errs []ec2types.CreateFleetError, choices []choice, subnets map[string]ec2v1.Subnet, groups []templateGroup) error {
	capacity, first := l.note(errs, choices, subnets)
	for _, e := range errs {
		if isMissingTemplate(awssdk.ToString(e.ErrorCode)) {
			return l.lostTemplates(fleetError(e), groups)
		}
	}
	if !capacity && first != nil {
		// Not a matter of what was chosen: other choices would fail alike. The next try needs a fresh token all the same.
		l.state.next++
		return classifyCode("ec2:RunInstances, ec2:CreateTags and iam:PassRole", first.code, fmt.Errorf("create fleet: %w", first))
	}
	// With a subnet found full, others of its zone may do; else all that was named is used up.
	if !l.retrySubnets(errs) {
		l.use(choices, false)
	}
	if len(errs) == 0 {
		l.use(choices, true)
	}
	if first == nil {
		return errNothing
	}
	return fmt.Errorf("%w: %w", errNothing, first)
}

// fleetFault is an error inside an answer of CreateFleet.
type fleetFault struct{ code, message string }

func (e *fleetFault) Error() string { return e.code + ": " + e.message }

func fleetError(e ec2types.CreateFleetError) *fleetFault {
	return &fleetFault{awssdk.ToString(e.ErrorCode), awssdk.ToString(e.ErrorMessage)}
}

// note books every offering EC2 said it has none of. capacity says whether there was one, first is the first error.
func (l *launch) note(errs []ec2types.CreateFleetError, choices []choice, subnets map[string]ec2v1.Subnet) (capacity bool, first *fleetFault) {
	for _, e := range errs {
		c := awssdk.ToString(e.ErrorCode)
		if first == nil || (!capacity && capacityCodes[c]) {
			first = fleetError(e)
		}
		if !capacityCodes[c] {
			continue
		}
		capacity = true
		if c == codeNoSpotRole || c == "MaxSpotInstanceCountExceeded" {
			l.use(l.ofKind(model.Spot), true)
			continue
		}
		hit := matching(e, choices, subnets)
		if c == codeNoAddresses && l.fillSubnets(hit, subnets) {
			continue
		}
		l.use(hit, true)
	}
	return capacity, first
}

// fillSubnets books the subnets of choices as full and reports whether each of their zones has another one to try.
func (l *launch) fillSubnets(choices []choice, subnets map[string]ec2v1.Subnet) bool {
	another := true
	for _, o := range choices {
		id := subnets[o.Zone].ID
		l.full[id] = true
		l.p.subnets.full(id)
		left := false
		for _, s := range l.class.Status.Subnets {
			left = left || (s.Zone == o.Zone && !l.full[s.ID])
		}
		another = another && left
	}
	return another
}

// retrySubnets reports whether some choice was refused for its subnet alone and can be tried in another.
func (l *launch) retrySubnets(errs []ec2types.CreateFleetError) bool {
	for _, e := range errs {
		if awssdk.ToString(e.ErrorCode) != codeNoAddresses {
			continue
		}
		for _, s := range l.class.Status.Subnets {
			if !l.full[s.ID] {
				return true
			}
		}
	}
	return false
}

// use books choices as tried, and as exhausted if EC2 said so.
func (l *launch) use(choices []choice, exhausted bool) {
	for _, o := range choices {
		l.tried[o.OfferingKey] = true
		if exhausted {
			l.exhausted[o.OfferingKey] = true
		}
	}
}

func (l *launch) ofKind(kind string) []choice {
	var out []choice
	for _, o := range l.choices {
		if o.CapacityType == kind {
			out = append(out, o)
		}
	}
	return out
}

// matching are the choices an error is about; one that names no type is about all of them.
func matching(e ec2types.CreateFleetError, choices []choice, subnets map[string]ec2v1.Subnet) []choice {
	if e.LaunchTemplateAndOverrides == nil || e.LaunchTemplateAndOverrides.Overrides == nil {
		return choices
	}
	o := e.LaunchTemplateAndOverrides.Overrides
	var out []choice
	for _, c := range choices {
		typeHit := o.InstanceType == "" || string(o.InstanceType) == c.Type
		zone, subnet := awssdk.ToString(o.AvailabilityZone), awssdk.ToString(o.SubnetId)
		zoneHit := (zone == "" && subnet == "") || zone == c.Zone || (subnet != "" && subnet == subnets[c.Zone].ID)
		if typeHit && zoneHit {
			out = append(out, c)
		}
	}
	return out
}

// started is the machine a fleet has given.
func (l *launch) started(i ec2types.CreateFleetInstance, kind string, groups []templateGroup) cloud.Machine {
	m := cloud.Machine{
		ID: i.InstanceIds[0], Type: string(i.InstanceType), CapacityType: kind, State: cloud.Pending, Launched: l.p.now(),
		Claim: l.req.Claim, Pool: l.req.Pool, Class: cloudName(l.class),
	}
	subnet := ""
	if t := i.LaunchTemplateAndOverrides; t != nil && t.Overrides != nil {
		m.Zone, m.ImageID, subnet = awssdk.ToString(t.Overrides.AvailabilityZone), awssdk.ToString(t.Overrides.ImageId), awssdk.ToString(t.Overrides.SubnetId)
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
	m = l.p.describeAs(m, l.catalog)
	l.p.subnets.take(subnet, m.Capacity[model.Pods]+1)
	return m
}

// describeAs adds what the catalogue knows about a machine: provider id, labels, capacity, allocatable.
func (p *Provider) describeAs(m cloud.Machine, c *classCatalog) cloud.Machine {
	m.ProviderID = providerID(m.Zone, m.ID)
	m.Labels = map[string]string{model.LabelZone: m.Zone, model.LabelCapacityType: m.CapacityType}
	if id := c.zoneIDs[m.Zone]; id != "" {
		m.Labels[ec2v1.LabelTopologyZoneID] = id
	}
	if i, ok := c.index[m.Type]; ok {
		maps.Copy(m.Labels, c.labels[m.Type])
		m.Capacity, m.Allocatable = c.types[i].Capacity, c.types[i].Allocatable
	}
	return m
}

func providerID(zone, id string) string { return "aws:///" + zone + "/" + id }

// tagToken is the tag that ties a machine to one claim object: names of claims come again, their UIDs do not.
const tagToken = "nodeless.sh/nodeclaim-uid"

// sharedTags are on everything made for a class.
func (p *Provider) sharedTags(class *ec2v1.EC2NodeClass) map[string]string {
	tags := map[string]string{}
	for k, v := range class.Spec.Tags {
		if !strings.HasPrefix(k, "aws:") {
			tags[k] = v
		}
	}
	tags[ec2v1.LabelNodeClass] = cloudName(class)
	tags[ec2v1.EKSClusterNameTagKey] = p.o.ClusterName
	tags["kubernetes.io/cluster/"+p.o.ClusterName] = "owned"
	return tags
}

// machineTags are on a machine and its volumes: by them it is found again.
func (p *Provider) machineTags(class *ec2v1.EC2NodeClass, req *cloud.LaunchRequest) map[string]string {
	tags := p.sharedTags(class)
	if _, named := tags[ec2v1.NameTagKey]; !named {
		tags[ec2v1.NameTagKey] = req.Claim
	}
	tags[ec2v1.NodeClaimTagKey] = req.Claim
	tags[tagToken] = req.Token
	if req.Pool != "" {
		tags[ec2v1.NodePoolTagKey] = req.Pool
	}
	return tags
}

func tagList(tags map[string]string) []ec2types.Tag {
	out := make([]ec2types.Tag, 0, len(tags))
	for _, k := range sortedKeys(tags) {
		out = append(out, ec2types.Tag{Key: awssdk.String(k), Value: awssdk.String(tags[k])})
	}
	return out
}
