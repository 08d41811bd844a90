package aws

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/engine/model"
)

// blockReclaim is how long before its end a Capacity Block stops taking instances: ten minutes later EC2 begins to
// terminate those that it has (github.com/aws/karpenter-provider-aws/pkg/apis/v1).
const blockReclaim = 40 * time.Minute

var _ cloud.Reserver = (*Provider)(nil)

// reservations finds the capacity reservations of classes and tracks how many instances they have left: EC2's last
// number, less the launches since.
type reservations struct {
	*account

	mu      sync.Mutex
	known   map[string]*reservationState // by ID
	classes map[string]*classReservations
}

func newReservations(a *account) *reservations {
	return &reservations{
		account: a, known: map[string]*reservationState{}, classes: map[string]*classReservations{},
	}
}

// resolve fills in the reservations that a class selects. It is no fault to select none.
func (s *reservations) resolve(ctx context.Context, class *ec2v1.EC2NodeClass) (verdict, error) {
	found, err := s.find(ctx, class)
	if err != nil {
		return verdict{}, err
	}
	class.Status.CapacityReservations = nil
	for _, id := range sortedKeys(found) {
		if r, ok := s.statusOf(found[id]); ok {
			class.Status.CapacityReservations = append(class.Status.CapacityReservations, r)
		}
	}
	return ready(ec2v1.ConditionTypeCapacityReservationsReady), nil
}

// find returns the active reservations that a class selects, by ID, and records how many instances they have left.
func (s *reservations) find(ctx context.Context, class *ec2v1.EC2NodeClass,
) (map[string]ec2types.CapacityReservation, error) {
	started, found := s.now(), map[string]ec2types.CapacityReservation{}
	s.begin(class, started)
	for _, in := range reservationQueries(s.termsOf(class)) {
		pages := ec2.NewDescribeCapacityReservationsPaginator(s.ec2, in)
		err := eachPage(ctx, pages, "describe capacity reservations", "ec2:DescribeCapacityReservations",
			func(page *ec2.DescribeCapacityReservationsOutput) {
				for _, r := range page.CapacityReservations {
					found[awssdk.ToString(r.CapacityReservationId)] = r
				}
			})
		if err != nil && code(err) != codeReservationMissing {
			return nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, r := range found {
		s.observe(id, int64(awssdk.ToInt32(r.AvailableInstanceCount)), started)
	}
	for _, r := range class.Status.CapacityReservations {
		if _, ok := found[r.ID]; !ok { // it has ended, or is no longer selected
			s.observe(r.ID, 0, started)
		}
	}
	return found, nil
}

// termsOf returns the terms by which a class selects capacity reservations.
func (a *account) termsOf(class *ec2v1.EC2NodeClass) []ec2v1.CapacityReservationSelectorTerm {
	if a.o.IgnoreReservations {
		return nil
	}
	return class.Spec.CapacityReservationSelectorTerms
}

// reservationQueries returns a query for each term. EC2 fails a query with an unknown ID, so each ID has its own
// query. A query with IDs accepts no page size.
func reservationQueries(terms []ec2v1.CapacityReservationSelectorTerm) []*ec2.DescribeCapacityReservationsInput {
	var out []*ec2.DescribeCapacityReservationsInput
	for _, t := range terms {
		in := &ec2.DescribeCapacityReservationsInput{
			Filters: []ec2types.Filter{filter("state", string(ec2types.CapacityReservationStateActive))},
		}
		if t.ID != "" {
			in.CapacityReservationIds = []string{t.ID}
			out = append(out, in)
			continue
		}
		in.MaxResults = awssdk.Int32(1000)
		if t.OwnerID != "" {
			in.Filters = append(in.Filters, filter("owner-id", t.OwnerID))
		}
		if t.InstanceMatchCriteria != "" {
			in.Filters = append(in.Filters, filter("instance-match-criteria", t.InstanceMatchCriteria))
		}
		in.Filters = append(in.Filters, tagFilters(t.Tags)...)
		if len(in.Filters) > 1 { // never query everything
			out = append(out, in)
		}
	}
	return out
}

// statusOf returns a reservation as a class shows it; false if it has ended or is of a kind that is not used here.
func (s *reservations) statusOf(r ec2types.CapacityReservation) (ec2v1.CapacityReservation, bool) {
	out := ec2v1.CapacityReservation{
		ID: awssdk.ToString(r.CapacityReservationId), AvailabilityZone: awssdk.ToString(r.AvailabilityZone),
		InstanceType: awssdk.ToString(r.InstanceType), OwnerID: awssdk.ToString(r.OwnerId),
		InstanceMatchCriteria: string(r.InstanceMatchCriteria), Interruptible: awssdk.ToBool(r.Interruptible),
		ReservationType: ec2v1.CapacityReservationType(cmp.Or(r.ReservationType, ec2types.CapacityReservationTypeDefault)),
		State:           ec2v1.CapacityReservationStateActive,
	}
	known := slices.Contains(out.ReservationType.Values(), out.ReservationType) &&
		slices.Contains(r.InstanceMatchCriteria.Values(), r.InstanceMatchCriteria) &&
		r.Tenancy != ec2types.CapacityReservationTenancyDedicated
	if !known {
		s.log.Warn("capacity reservation is not used: its type or its matching is unknown, or its tenancy is dedicated",
			"reservation", out.ID, "type", r.ReservationType, "match", r.InstanceMatchCriteria, "tenancy", r.Tenancy)
	}
	if r.EndDate != nil {
		out.EndTime = new(metav1.NewTime(r.EndDate.Truncate(time.Second))) // as the API server stores it
		known = known && r.EndDate.After(s.now())
	}
	if s.expiring(out) {
		out.State = ec2v1.CapacityReservationStateExpiring
	}
	return out, known
}

// expiring reports whether a Capacity Block is about to end.
func (s *reservations) expiring(r ec2v1.CapacityReservation) bool {
	return r.ReservationType == ec2v1.CapacityReservationTypeCapacityBlock && r.EndTime != nil &&
		!s.now().Before(r.EndTime.Add(-blockReclaim))
}

// usable reports whether instances may be launched from a reservation of a class.
func (s *reservations) usable(r ec2v1.CapacityReservation) bool {
	return r.State != ec2v1.CapacityReservationStateExpiring && !s.expiring(r) &&
		(r.EndTime == nil || r.EndTime.After(s.now()))
}

// Reservations returns the reservations of a class from which types of its catalogue can be launched, by ID. Free is
// at most a minute old. The slice is the same one as before unless something has changed.
func (p *Provider) Reservations(ctx context.Context, ref cloud.ClassRef) (_ []model.Reservation, err error) {
	defer p.called("Reservations", p.now(), &err)
	class, err := p.readyClass(ref)
	if err != nil {
		return nil, err
	}
	if len(class.Status.CapacityReservations) == 0 {
		return nil, nil
	}
	catalog, err := p.catalogs.of(ctx, class)
	if err != nil {
		return nil, err
	}
	if err := p.reservations.refresh(ctx, class); err != nil {
		return nil, fmt.Errorf("reservations of %s: %w", title(class), err)
	}
	return p.reservations.of(class, catalog), nil
}

// of returns the reservations of a class that its catalogue can use.
func (s *reservations) of(class *ec2v1.EC2NodeClass, catalog *classCatalog) []model.Reservation {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []model.Reservation
	for _, r := range class.Status.CapacityReservations {
		o := catalog.offeringIn(r.InstanceType, r.AvailabilityZone)
		if o == nil || !s.usable(r) {
			continue
		}
		labels := reservationRequirements(r)
		if id := catalog.zoneIDs[r.AvailabilityZone]; id != "" {
			labels = labels.And(model.Requirements{model.OneOf(ec2v1.LabelTopologyZoneID, id)})
		}
		if catalog.tenancies {
			labels = labels.And(model.Requirements{model.OneOf(ec2v1.LabelInstanceTenancy, defaultTenancy)})
		}
		out = append(out, model.Reservation{
			ID: r.ID, Type: r.InstanceType, Zone: r.AvailabilityZone, Free: s.free(r.ID), Labels: labels, Price: o.SidePrice,
		})
	}
	slices.SortFunc(out, func(a, b model.Reservation) int { return cmp.Compare(a.ID, b.ID) })
	c := s.class(class)
	if !reflect.DeepEqual(out, c.offered) {
		c.offered = out
	}
	return c.offered
}

// ReservationsOf returns the reservations in the status of a class, without their free instances, which are unknown.
func ReservationsOf(class *ec2v1.EC2NodeClass, types []model.InstanceType) []model.Reservation {
	var out []model.Reservation
	for _, r := range class.Status.CapacityReservations {
		x := model.Reservation{
			ID: r.ID, Type: r.InstanceType, Zone: r.AvailabilityZone, Labels: reservationRequirements(r),
		}
		for i := range types {
			for k := range types[i].Offerings {
				if o := &types[i].Offerings[k]; o.Zone == x.Zone { // the same for all types
					x.Price = o.SidePrice
				}
			}
		}
		out = append(out, x)
	}
	return out
}

func (s *reservations) forget(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.classes, name)
}

// reservedZones returns the zones in which a class has a reservation and a subnet, by instance type.
func reservedZones(class *ec2v1.EC2NodeClass) map[string][]string {
	out := map[string][]string{}
	for _, r := range class.Status.CapacityReservations {
		zone := r.AvailabilityZone
		if !slices.Contains(out[r.InstanceType], zone) && slices.ContainsFunc(class.Status.Subnets,
			func(s ec2v1.Subnet) bool { return s.Zone == zone }) {
			out[r.InstanceType] = append(out[r.InstanceType], zone)
		}
	}
	return out
}

// offeringIn returns an offering of a type in a zone with a subnet, nil if the class has no such type or subnet. It has
// no price of an instance if EC2 sells none there: types that EC2 sells only as capacity blocks have none.
func (c *classCatalog) offeringIn(typeName, zone string) *model.Offering {
	i, ok := c.index[typeName]
	if !ok {
		return nil
	}
	for n := range c.types[i].Offerings {
		if o := &c.types[i].Offerings[n]; o.Zone == zone {
			return o
		}
	}
	if _, has := c.zoneIDs[zone]; has {
		return &model.Offering{Zone: zone, CapacityType: model.Reserved, Price: c.side[zone], SidePrice: c.side[zone]}
	}
	return nil
}

// reservationLabels returns the labels of a reservation's nodes.
func reservationLabels(id, kind string, interruptible bool) map[string]string {
	return map[string]string{
		ec2v1.LabelCapacityReservationID: id, ec2v1.LabelCapacityReservationType: kind,
		ec2v1.LabelCapacityReservationInterruptible: strconv.FormatBool(interruptible),
	}
}

func reservationRequirements(r ec2v1.CapacityReservation) model.Requirements {
	var rs []model.Requirement
	for k, v := range reservationLabels(r.ID, string(r.ReservationType), r.Interruptible) {
		rs = append(rs, model.OneOf(k, v))
	}
	return model.NewRequirements(rs...)
}
