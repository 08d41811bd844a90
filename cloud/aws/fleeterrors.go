package aws

import (
	"fmt"
	"strings"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"

	"github.com/nodeless/nodeless/engine/model"
)

// refused interprets the error of a call that failed as a whole.
func (l *launch) refused(err error, choices []choice, groups []templateGroup) error {
	c := code(err)
	switch {
	case c == codeTokenMismatch:
		return err
	case isMissingTemplate(c):
		return l.recreateTemplates(err, groups)
	case outOfCapacity(c):
		l.markTried(choices, true)
		return fmt.Errorf("%w: %w", errNothingLaunched, err)
	}
	return wrapLaunch("create fleet", "ec2:CreateFleet, ec2:RunInstances, ec2:CreateTags and iam:PassRole", err)
}

// recreateTemplates lets one more call create the templates again: they were deleted, or EC2 does not see new ones
// yet.
func (l *launch) recreateTemplates(err error, groups []templateGroup) error {
	for _, g := range groups {
		l.p.templates.forget(g.name)
	}
	if l.recreated {
		l.state.next++
		return wrap("create fleet", "ec2:CreateFleet", err)
	}
	l.recreated = true
	return fmt.Errorf("%w: %w", errNothingLaunched, err)
}

// failed interprets the errors of a call that EC2 accepted but that started nothing.
func (l *launch) failed(errs []ec2types.CreateFleetError, choices []choice, subnets map[string]ec2v1.Subnet,
	groups []templateGroup,
) error {
	for _, e := range errs {
		if strings.Contains(awssdk.ToString(e.ErrorMessage), "Invalid IAM Instance Profile name") {
			return l.withoutProfile(fleetError(e))
		}
	}
	capacity, first := l.record(errs, choices, subnets)
	for _, e := range errs {
		if isMissingTemplate(awssdk.ToString(e.ErrorCode)) {
			return l.recreateTemplates(fleetError(e), groups)
		}
	}
	if !capacity && first != nil {
		// Other choices would fail, too. The next attempt needs a new token nevertheless.
		l.state.next++
		return wrapLaunch("create fleet", "ec2:RunInstances, ec2:CreateTags and iam:PassRole", first)
	}
	// If a subnet was full, another one of its zone may have addresses; otherwise all choices of the call are used up.
	if !l.retrySubnets(errs) {
		l.markTried(choices, false)
	}
	if len(errs) == 0 {
		l.markTried(choices, true)
	}
	if first == nil {
		return errNothingLaunched
	}
	return fmt.Errorf("%w: %w", errNothingLaunched, first)
}

// withoutProfile interprets the error that EC2 does not know the instance profile. EC2 sees a new one with a delay, so
// the next attempt may find the profile of a role; one that the class names does not exist. Offerings are not to blame.
func (l *launch) withoutProfile(err error) error {
	l.state.next++
	if l.class.Spec.Role != "" {
		return wrap("create fleet: EC2 may not see the new instance profile yet; trying again", "ec2:RunInstances", err)
	}
	return wrapLaunch("create fleet", "ec2:RunInstances", err)
}

func fleetError(e ec2types.CreateFleetError) *fleetFault {
	return &fleetFault{awssdk.ToString(e.ErrorCode), awssdk.ToString(e.ErrorMessage)}
}

// record marks the offerings for which EC2 has no capacity. capacity reports whether there were any; first is the
// first error about capacity or, if there is none, the first error.
func (l *launch) record(errs []ec2types.CreateFleetError, choices []choice,
	subnets map[string]ec2v1.Subnet,
) (capacity bool, first *fleetFault) {
	for _, e := range errs {
		c := awssdk.ToString(e.ErrorCode)
		if first == nil || (!capacity && outOfCapacity(c)) {
			first = fleetError(e)
		}
		if !outOfCapacity(c) {
			continue
		}
		capacity = true
		if c == codeNoSpotRole || c == "MaxSpotInstanceCountExceeded" {
			l.markTried(l.ofCapacityType(model.Spot), true)
			continue
		}
		hit := matching(e, choices, subnets)
		if closesZone(e) {
			hit = l.inZonesOf(hit)
		}
		if c == codeNoAddresses && l.fillSubnets(hit, subnets) {
			continue
		}
		l.markTried(hit, true)
	}
	return capacity, first
}

// fillSubnets marks the subnets of choices as full, and reports whether each of their zones has another one to try.
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

// retrySubnets reports whether a choice failed only because of its subnet and can be tried in another.
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

// markTried marks choices as tried, and as exhausted if EC2 has no capacity for them. A full reservation says nothing
// about the offering of its type.
func (l *launch) markTried(choices []choice, exhausted bool) {
	for _, o := range choices {
		if o.from.id != "" {
			l.spent[o.from.id] = true
			if exhausted {
				l.p.reservations.full(o.from.id)
			}
			continue
		}
		l.tried[o.OfferingKey] = true
		if exhausted {
			l.exhausted[o.OfferingKey] = true
		}
	}
}

func (l *launch) ofCapacityType(kind string) []choice {
	var out []choice
	for _, o := range l.choices {
		if o.CapacityType == kind {
			out = append(out, o)
		}
	}
	return out
}

// matching returns the choices that an error concerns; an error that names no type concerns all of them.
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
