package aws

import (
	"context"
	"errors"
	"fmt"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"

	"github.com/nodeless/nodeless/engine/model"
)

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
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("create fleet: %w", err)
	}
	return launchError("ec2:CreateFleet, ec2:RunInstances, ec2:CreateTags and iam:PassRole", c,
		fmt.Errorf("create fleet: %w", brief(err)))
}

// lostTemplates has the templates made again for one more call; somebody deleted them, or EC2 does not see new ones
// yet.
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
func (l *launch) failed(errs []ec2types.CreateFleetError, choices []choice, subnets map[string]ec2v1.Subnet,
	groups []templateGroup,
) error {
	capacity, first := l.note(errs, choices, subnets)
	for _, e := range errs {
		if isMissingTemplate(awssdk.ToString(e.ErrorCode)) {
			return l.lostTemplates(fleetError(e), groups)
		}
	}
	if !capacity && first != nil {
		// Not a matter of what was chosen: other choices would fail alike. The next try needs a fresh token all the same.
		l.state.next++
		return launchError("ec2:RunInstances, ec2:CreateTags and iam:PassRole", first.code,
			fmt.Errorf("create fleet: %w", first))
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
func (l *launch) note(errs []ec2types.CreateFleetError, choices []choice,
	subnets map[string]ec2v1.Subnet,
) (capacity bool, first *fleetFault) {
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
