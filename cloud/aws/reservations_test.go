package aws

import (
	"errors"
	"slices"
	"testing"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/internal/kit/clock"
)

// reservedStage is a stage whose class selects the account's reservations by tag.
func reservedStage(t *testing.T, fill func(*fakeAccount), change ...func(*Options)) (
	*fakeAccount, *Provider, *ec2v1.EC2NodeClass,
) {
	t.Helper()
	a, p, class := stage(t, change...)
	fill(a)
	class.Spec.CapacityReservationSelectorTerms = []ec2v1.CapacityReservationSelectorTerm{{
		Tags: map[string]string{"karpenter.sh/discovery": "*"},
	}}
	resolve(t, p, class)
	return a, p, class
}

func fromReservation(claim string, ids ...string) cloud.LaunchRequest {
	return requestFor(claim, model.OneOf(model.LabelCapacityType, model.Reserved),
		model.OneOf(ec2v1.LabelCapacityReservationID, ids...))
}

func capacityBlock(end time.Time) func(*ec2types.CapacityReservation) {
	return func(r *ec2types.CapacityReservation) {
		r.ReservationType, r.EndDate = ec2types.CapacityReservationTypeCapacityBlock, &end
	}
}

func interruptible(r *ec2types.CapacityReservation) { r.Interruptible = awssdk.Bool(true) }

func reservationIDs(class *ec2v1.EC2NodeClass) (ids []string) {
	for _, r := range class.Status.CapacityReservations {
		ids = append(ids, r.ID)
	}
	return ids
}

func TestTermsSelectReservations(t *testing.T) {
	now := time.Now()
	for name, c := range map[string]struct {
		terms []ec2v1.CapacityReservationSelectorTerm
		want  []string
	}{
		"by ID, known or not": {[]ec2v1.CapacityReservationSelectorTerm{{ID: "cr-2"}, {ID: "cr-404"}}, []string{"cr-2"}},
		"by tag": {
			[]ec2v1.CapacityReservationSelectorTerm{{Tags: map[string]string{"karpenter.sh/discovery": "demo"}}},
			[]string{"cr-1", "cr-2"},
		},
		"by owner and matching": {[]ec2v1.CapacityReservationSelectorTerm{
			{OwnerID: "123456789012", InstanceMatchCriteria: "open"},
		}, []string{"cr-1"}},
		"by two terms": {[]ec2v1.CapacityReservationSelectorTerm{
			{ID: "cr-2"}, {InstanceMatchCriteria: "targeted"},
		}, []string{"cr-2"}},
		"an empty term selects nothing": {[]ec2v1.CapacityReservationSelectorTerm{{}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			a, p, class := stage(t)
			a.reserve("cr-1", 1, func(r *ec2types.CapacityReservation) { r.InstanceMatchCriteria = "open" })
			a.reserve("cr-2", 1)
			a.reserve("cr-3", 1, func(r *ec2types.CapacityReservation) { r.State = "cancelled" })
			a.reserve("cr-4", 1, func(r *ec2types.CapacityReservation) { r.EndDate = awssdk.Time(now.Add(-time.Minute)) })
			class.Spec.CapacityReservationSelectorTerms = c.terms
			resolve(t, p, class)
			if got := reservationIDs(class); !slices.Equal(got, c.want) {
				t.Errorf("selected %v, want %v", got, c.want)
			}
		})
	}
}

// A transient failure keeps the condition and the selected reservations; a missing permission becomes a condition.
func TestReservationsThatCannotBeRead(t *testing.T) {
	a, p, class := reservedStage(t, func(a *fakeAccount) { a.reserve("cr-1", 1) })
	a.fail["DescribeCapacityReservations"] = []error{apiError("InvalidParameterValue", "broken")}
	if err := p.Resolve(t.Context(), class); err == nil {
		t.Error("no error")
	}
	condition := func() string {
		c := class.StatusConditions().Get(ec2v1.ConditionTypeCapacityReservationsReady)
		return string(c.Status) + " " + c.Reason
	}
	if got := condition(); got != "True CapacityReservationsReady" || len(class.Status.CapacityReservations) != 1 {
		t.Errorf("condition %s, selected %v", got, reservationIDs(class))
	}
	a.fail["DescribeCapacityReservations"] = []error{apiError("UnauthorizedOperation", "no")}
	resolve(t, p, class) // on-demand and spot still work
	if got := condition(); got != "False Unauthorized" {
		t.Errorf("condition %s", got)
	}
}

// A type that EC2 sells only as capacity blocks has no price, but instances are launched from a block that a class
// selects in a zone of its subnets. Without one, the class does not offer the type.
func TestBlocksOfTypesWithoutAPrice(t *testing.T) {
	offered := func(p *Provider) *model.InstanceType {
		types, err := p.Catalog(t.Context(), classRef)
		if err != nil {
			t.Fatal(err)
		}
		for i := range types {
			if types[i].Name == "m5.large" {
				return &types[i]
			}
		}
		return nil
	}
	a, p, class := stage(t)
	a.blockOnly = "m5.large"
	if offered(p) != nil {
		t.Error("the type is offered without a block")
	}
	a.reserve("cr-1", 1, capacityBlock(time.Now().Add(time.Hour)))
	a.reserve("cr-elsewhere", 1, func(r *ec2types.CapacityReservation) { r.AvailabilityZone = awssdk.String("us-west-2d") })
	class.Spec.CapacityReservationSelectorTerms = []ec2v1.CapacityReservationSelectorTerm{{
		Tags: map[string]string{"karpenter.sh/discovery": "*"},
	}}
	resolve(t, p, class)
	list, err := p.Reservations(t.Context(), classRef)
	if err != nil || len(list) != 1 || list[0].ID != "cr-1" || list[0].Price == 0 {
		t.Fatalf("reservations %+v, %v", list, err)
	}
	it := offered(p)
	if it == nil || len(it.Offerings) != 0 {
		t.Fatalf("the type of the block is %+v", it)
	}
	reserved := model.WithReserved([]model.InstanceType{*it}, list)[0]
	at := model.NewRequirements(model.OneOf(model.LabelZone, "us-west-2a"),
		model.OneOf(model.LabelCapacityType, model.Reserved), model.OneOf(ec2v1.LabelTopologyZoneID, "usw2-az1"))
	if key := reserved.Requirements.Conflict(at, nil); key != "" || len(reserved.Offerings) != 1 {
		t.Errorf("%s of the type are %v, with offerings %v", key, reserved.Requirements, reserved.Offerings)
	}
	m := mustLaunch(t, p, fromReservation("c", "cr-1")).Instance
	if m.Type != "m5.large" || m.CapacityType != model.Reserved || m.Capacity[model.CPU] == 0 {
		t.Errorf("launched %+v", m)
	}
}

// Each kind of reservation has its own market type.
func TestALaunchFromAReservationSaysSo(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*ec2types.CapacityReservation)
		market string
		labels [2]string // type, interruptible
	}{
		"on-demand":      {func(*ec2types.CapacityReservation) {}, "", [2]string{"default", "false"}},
		"capacity block": {capacityBlock(time.Now().Add(time.Hour)), "capacity-block", [2]string{"capacity-block", "false"}},
		"interruptible":  {interruptible, "interruptible-capacity-reservation", [2]string{"default", "true"}},
	} {
		t.Run(name, func(t *testing.T) {
			a, p, _ := reservedStage(t, func(a *fakeAccount) { a.reserve("cr-1", 1, c.change) })
			m := mustLaunch(t, p, fromReservation("c", "cr-1")).Instance
			again, err := p.Get(t.Context(), m.ID)
			if err != nil {
				t.Fatal(err)
			}
			for _, i := range []cloud.Instance{m, again} {
				got := [2]string{
					i.Labels[ec2v1.LabelCapacityReservationType], i.Labels[ec2v1.LabelCapacityReservationInterruptible],
				}
				if i.CapacityType != model.Reserved || got != c.labels {
					t.Errorf("instance is %s, labels %v", i.CapacityType, i.Labels)
				}
			}
			for _, data := range a.templates {
				s, market := data.CapacityReservationSpecification, ""
				if data.InstanceMarketOptions != nil {
					market = string(data.InstanceMarketOptions.MarketType)
				}
				if *s.CapacityReservationTarget.CapacityReservationId != "cr-1" || market != c.market ||
					s.CapacityReservationPreference != "capacity-reservations-only" {
					t.Errorf("template %+v, market %q", s, market)
				}
			}
		})
	}
}

// Several reservations are tried one after another; a deleted one does not end the attempt.
func TestReservationsAreTriedInTurn(t *testing.T) {
	a, p, _ := reservedStage(t, func(a *fakeAccount) {
		a.reserve("cr-1", 1)
		a.reserve("cr-2", 1)
		a.reserve("cr-3", 0)
	})
	a.mu.Lock()
	a.reserved = slices.DeleteFunc(a.reserved, func(r *ec2types.CapacityReservation) bool {
		return *r.CapacityReservationId == "cr-1"
	})
	a.mu.Unlock()
	m := mustLaunch(t, p, fromReservation("c1", "cr-1", "cr-2", "cr-3")).Instance
	if got := m.Labels[ec2v1.LabelCapacityReservationID]; got != "cr-2" {
		t.Errorf("launched from %s", got)
	}
	result, err := p.Launch(t.Context(), fromReservation("c2", "cr-1", "cr-2", "cr-3"))
	if !errors.Is(err, cloud.ErrNoCapacity) || len(result.Exhausted) != 0 {
		t.Errorf("launched %+v, %v", result, err)
	}
	list, err := p.Reservations(t.Context(), classRef)
	if err != nil || len(list) != 3 {
		t.Fatalf("reservations %+v, %v", list, err)
	}
	for _, r := range list {
		tenancy, _ := r.Labels.Get(ec2v1.LabelInstanceTenancy)
		if r.Free != 0 || !slices.Equal(tenancy.Values, []string{"default"}) {
			t.Errorf("%s has %d free, tenancy %v", r.ID, r.Free, tenancy)
		}
	}
}

func TestReservationsHaveTheNodesOtherCosts(t *testing.T) {
	_, p, class := reservedStage(t, func(a *fakeAccount) {
		a.reserve("cr-1", 3)
		a.reserve("cr-2", 3, func(r *ec2types.CapacityReservation) { r.InstanceType = awssdk.String("m9.huge") })
		a.reserve("cr-3", 3, func(r *ec2types.CapacityReservation) { r.AvailabilityZone = awssdk.String("us-west-2z") })
	})
	list, err := p.Reservations(t.Context(), classRef)
	if err != nil || len(list) != 1 || list[0].ID != "cr-1" || list[0].Free != 3 {
		t.Fatalf("reservations %+v, %v", list, err)
	}
	if want := sidePrices(class, "us-west-2", nil)["us-west-2a"]; list[0].Price != want {
		t.Errorf("price %d, want %d", list[0].Price, want)
	}
	again, _ := p.Reservations(t.Context(), classRef)
	if &again[0] != &list[0] {
		t.Error("another slice although nothing has changed")
	}
}

// The number of free instances is read again when it is a minute old, even if the class is not resolved again.
func TestFreeInstancesAreReadAgain(t *testing.T) {
	v := clock.NewVirtual(time.Now())
	a, p, _ := reservedStage(t, func(a *fakeAccount) { a.reserve("cr-1", 1) }, func(o *Options) { o.Clock = v })
	free := func() int64 {
		list, err := p.Reservations(t.Context(), classRef)
		if err != nil || len(list) != 1 {
			t.Fatalf("reservations %+v, %v", list, err)
		}
		return list[0].Free
	}
	a.mu.Lock()
	*a.reserved[0].AvailableInstanceCount = 5
	a.mu.Unlock()
	if n := free(); n != 1 {
		t.Errorf("%d free within the minute", n)
	}
	v.Advance(time.Minute + time.Second)
	for deadline := time.Now().Add(time.Minute); free() != 5; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d free after a minute", free())
		}
	}
}

func TestARequestForReservationsIsToldFromOthers(t *testing.T) {
	id := model.OneOf(ec2v1.LabelCapacityReservationID, "cr-1")
	kinds := func(values ...string) model.Requirement { return model.OneOf(model.LabelCapacityType, values...) }
	for _, c := range []struct {
		rs   model.Requirements
		want bool
	}{
		{model.NewRequirements(), false},
		{model.NewRequirements(kinds(model.Reserved)), true},
		{model.NewRequirements(kinds(model.Reserved, model.Spot)), false},
		{model.NewRequirements(kinds(model.Reserved, model.Spot), id), true},
		{model.NewRequirements(kinds(model.OnDemand), id), false},
		{model.NewRequirements(id), true},
	} {
		if got := wantsReserved(c.rs); got != c.want {
			t.Errorf("[%s]: %v, want %v", c.rs, got, c.want)
		}
	}
}

func TestReservationsCanBeIgnored(t *testing.T) {
	a, p, class := reservedStage(t, func(a *fakeAccount) { a.reserve("cr-1", 1) },
		func(o *Options) { o.IgnoreReservations = true })
	if got := reservationIDs(class); len(got) != 0 || a.count("DescribeCapacityReservations") != 0 {
		t.Errorf("selected %v", got)
	}
	mustLaunch(t, p, requestFor("c"))
	for name, data := range a.templates {
		if data.CapacityReservationSpecification != nil {
			t.Errorf("template %s: %+v", name, data.CapacityReservationSpecification)
		}
	}
}

// A reservation that has ended since the class was resolved has none free, and is read only once a minute.
func TestAnEndedReservationIsReadOnceAMinute(t *testing.T) {
	v := clock.NewVirtual(time.Now())
	a, p, _ := reservedStage(t, func(a *fakeAccount) { a.reserve("cr-1", 1) }, func(o *Options) { o.Clock = v })
	a.mu.Lock()
	a.reserved = nil
	a.mu.Unlock()
	before := a.count("DescribeCapacityReservations")
	v.Advance(time.Minute + time.Second)
	free := func() int64 {
		list, err := p.Reservations(t.Context(), classRef)
		if err != nil || len(list) != 1 {
			t.Fatalf("reservations %+v, %v", list, err)
		}
		return list[0].Free
	}
	deadline := time.Now().Add(time.Minute)
	for free() != 0 && time.Now().Before(deadline) { // the reservation is read in the background
		time.Sleep(time.Millisecond)
	}
	for range 100 {
		free()
	}
	if n := a.count("DescribeCapacityReservations") - before; n != 1 || free() != 0 {
		t.Errorf("%d free after %d calls, want 0 after 1", free(), n)
	}
}

// An instance drifts when its class no longer selects its reservation, and before its Capacity Block ends.
func TestAnInstanceDriftsFromItsReservation(t *testing.T) {
	instance := func(capacityType, id string) cloud.Instance {
		return cloud.Instance{CapacityType: capacityType, Labels: map[string]string{ec2v1.LabelCapacityReservationID: id}}
	}
	class := &ec2v1.EC2NodeClass{}
	class.Status.CapacityReservations = []ec2v1.CapacityReservation{
		{ID: "cr-1", State: ec2v1.CapacityReservationStateActive},
		{ID: "cr-2", State: ec2v1.CapacityReservationStateExpiring},
	}
	for _, c := range []struct {
		instance cloud.Instance
		ignore   bool
		want     string
	}{
		{instance: instance(model.Reserved, "cr-1")},
		{instance: instance(model.Reserved, "cr-2"), want: reservationDrift},
		{instance: instance(model.Reserved, "cr-3"), want: reservationDrift},
		{instance: instance(model.Reserved, "cr-3"), ignore: true},
		{instance: instance(model.OnDemand, "")},
	} {
		a := &account{o: Options{IgnoreReservations: c.ignore}}
		if got := a.reservedDrift(class, c.instance); got != c.want {
			t.Errorf("%s, ignored: %t: %q, want %q", c.instance.Labels, c.ignore, got, c.want)
		}
	}
}
