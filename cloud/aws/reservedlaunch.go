package aws

import (
	"cmp"
	"slices"
	"strings"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/engine/model"
)

// source is a capacity reservation from which instances are launched; the zero value is none.
type source struct {
	id, kind      string
	interruptible bool
}

// wantsReserved reports whether a request is for capacity reservations: it allows the capacity type reserved and names
// reservations, or allows no other capacity type.
func wantsReserved(rs model.Requirements) bool {
	kind, ok := rs.Get(model.LabelCapacityType)
	if ok && !kind.Has(model.Reserved) {
		return false
	}
	id, named := rs.Get(ec2v1.LabelCapacityReservationID)
	return named && !id.Complement && len(id.Values) > 0 ||
		ok && !kind.Has(model.Spot) && !kind.Has(model.OnDemand)
}

// reservedChoices returns the reservations of a class that satisfy a request, one for each call, in the order in
// which they are tried: those with free instances first, then by kind as Karpenter does
// (github.com/aws/karpenter-provider-aws/pkg/providers/instance/filter), then the cheapest type, then by ID. EC2
// decides what is free.
func (p *Provider) reservedChoices(class *ec2v1.EC2NodeClass, c *classCatalog, req *cloud.LaunchRequest) []choice {
	if !wantsReserved(req.Requirements) {
		return nil
	}
	p.reservations.mu.Lock()
	defer p.reservations.mu.Unlock()
	var out []choice
	for _, r := range class.Status.CapacityReservations {
		key := model.OfferingKey{Type: r.InstanceType, Zone: r.AvailabilityZone, CapacityType: model.Reserved}
		o := c.offeringIn(r.InstanceType, r.AvailabilityZone)
		if o == nil || !p.reservations.usable(r) || req.Unavailable[key] || !c.holds(r, req) {
			continue
		}
		rank := 0
		if p.reservations.free(r.ID) == 0 {
			rank = 3
		}
		switch {
		case r.Interruptible:
			rank += 2
		case r.ReservationType == ec2v1.CapacityReservationTypeCapacityBlock:
			rank++
		}
		out = append(out, choice{
			OfferingKey: key, price: o.Price, tie: rank, from: source{r.ID, string(r.ReservationType), r.Interruptible},
		})
	}
	slices.SortFunc(out, func(a, b choice) int {
		return cmp.Or(cmp.Compare(a.tie, b.tie), cmp.Compare(a.price, b.price), cmp.Compare(a.from.id, b.from.id))
	})
	return out
}

// holds reports whether an instance of a reservation satisfies a request.
func (c *classCatalog) holds(r ec2v1.CapacityReservation, req *cloud.LaunchRequest) bool {
	t := &c.types[c.index[r.InstanceType]]
	own := reservationRequirements(r)
	var ofType, ofReservation model.Requirements
	for _, want := range req.Requirements {
		if _, reserved := own.Get(want.Key); reserved {
			ofReservation = append(ofReservation, want)
		} else if c.typeKeys[want.Key] {
			ofType = append(ofType, want)
		}
	}
	place := placementOf(req.Requirements)
	return req.Requests.Fits(t.Allocatable) && t.Requirements.Conflict(ofType, nil) == "" &&
		own.Conflict(ofReservation, nil) == "" && place.zone.Has(r.AvailabilityZone) &&
		place.zoneID.Has(c.zoneIDs[r.AvailabilityZone])
}

// targetType returns the target capacity type of a fleet for a capacity type and a reservation.
func (s source) targetType(kind string) ec2types.DefaultTargetCapacityType {
	switch {
	case s.id == "":
		return ec2types.DefaultTargetCapacityType(kind)
	case s.kind == string(ec2v1.CapacityReservationTypeCapacityBlock):
		return ec2types.DefaultTargetCapacityTypeCapacityBlock
	case s.interruptible:
		return ec2types.DefaultTargetCapacityTypeReservedCapacity
	}
	return ec2types.DefaultTargetCapacityTypeOnDemand
}

// into sets the reservation that a launch template's instances use. Instances of a class that selects reservations
// use no other ones, so that an on-demand instance does not take capacity that the class launches as reserved;
// instances of other classes use open ones as EC2 does.
func (s source) into(data *ec2types.RequestLaunchTemplateData, selects bool) {
	type specification = ec2types.LaunchTemplateCapacityReservationSpecificationRequest
	if s.id == "" {
		if selects {
			data.CapacityReservationSpecification = &specification{
				CapacityReservationPreference: ec2types.CapacityReservationPreferenceNone,
			}
		}
		return
	}
	data.CapacityReservationSpecification = &specification{
		CapacityReservationPreference: ec2types.CapacityReservationPreferenceCapacityReservationsOnly,
		CapacityReservationTarget:     &ec2types.CapacityReservationTarget{CapacityReservationId: &s.id},
	}
	var market ec2types.MarketType
	switch s.targetType(model.Reserved) {
	case ec2types.DefaultTargetCapacityTypeCapacityBlock:
		market = ec2types.MarketTypeCapacityBlock
	case ec2types.DefaultTargetCapacityTypeReservedCapacity:
		market = ec2types.MarketTypeInterruptibleCapacityReservation
	default:
		return
	}
	data.InstanceMarketOptions = &ec2types.LaunchTemplateInstanceMarketOptionsRequest{MarketType: market}
}

// outOfCapacity reports whether an error code of EC2 means that the named choices cannot be launched now.
func outOfCapacity(code string) bool {
	return capacityCodes[code] || code == codeOtherZone || strings.HasPrefix(code, "InvalidCapacityReservation")
}

// reservedLabels returns the labels of an instance that was launched from a reservation; nil for any other. An
// instance that merely runs in an open reservation is on-demand: it may leave the reservation at any time.
func reservedLabels(i ec2types.Instance) map[string]string {
	spec := i.CapacityReservationSpecification
	if awssdk.ToString(i.CapacityReservationId) == "" || spec == nil ||
		spec.CapacityReservationPreference != ec2types.CapacityReservationPreferenceCapacityReservationsOnly &&
			spec.CapacityReservationTarget == nil {
		return nil
	}
	kind := ec2v1.CapacityReservationTypeDefault
	if i.InstanceLifecycle == ec2types.InstanceLifecycleTypeCapacityBlock {
		kind = ec2v1.CapacityReservationTypeCapacityBlock
	}
	return reservationLabels(*i.CapacityReservationId, string(kind),
		i.InstanceLifecycle == ec2types.InstanceLifecycleTypeInterruptibleCapacityReservation)
}
