package wiretest

import (
	"errors"
	"testing"
	"time"

	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/cloud/aws"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/region"
)

var defaultClass = cloud.ClassRef{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: "default"}

// reserve adds a reservation with the tag team=web, which class default then selects.
func (p *place) reserve(t *testing.T, typeName string, count int, match string) region.CapacityReservation {
	t.Helper()
	r, err := p.region.CreateCapacityReservation(region.CapacityReservationRequest{
		Type: typeName, Zone: p.region.Zones()[0].Name, Count: count, Match: match, Tags: map[string]string{"team": "web"},
	})
	if err != nil {
		t.Fatal(err)
	}
	p.selects(t, ec2v1.CapacityReservationSelectorTerm{Tags: map[string]string{"team": "web"}})
	return r
}

// selects sets the reservations that class default selects, and resolves it.
func (p *place) selects(t *testing.T, terms ...ec2v1.CapacityReservationSelectorTerm) {
	t.Helper()
	p.classes["default"].Spec.CapacityReservationSelectorTerms = terms
	if err := p.onVirtualTime(t).Resolve(t.Context(), p.classes["default"]); err != nil {
		t.Fatal(err)
	}
}

// onVirtualTime returns a provider on the region's clock. Get and Terminate wait on the clock for calls to batch: use
// a provider on real time for them.
func (p *place) onVirtualTime(t *testing.T) *aws.Provider {
	t.Helper()
	return p.connectWith(t, func(o *aws.Options) { o.Clock = p.clock })
}

// reserved returns a request for instances from reservations.
func reserved(claim string, ids ...string) cloud.LaunchRequest {
	req := requestFor(claim, "general")
	req.Requirements = model.NewRequirements(model.OneOf(model.LabelCapacityType, model.Reserved),
		model.OneOf(ec2v1.LabelCapacityReservationID, ids...))
	return req
}

func launch(t *testing.T, p *aws.Provider, req cloud.LaunchRequest) cloud.Instance {
	t.Helper()
	result, err := p.Launch(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	return result.Instance
}

// free returns how many instances the only reservation of class default has left.
func free(t *testing.T, p *aws.Provider) int64 {
	t.Helper()
	list, err := p.Reservations(t.Context(), defaultClass)
	if err != nil || len(list) != 1 {
		t.Fatalf("reservations %+v, %v", list, err)
	}
	return list[0].Free
}

func TestAReservationIsSelectedOfferedAndUsedUp(t *testing.T) {
	p := newPlace(t)
	r := p.reserve(t, "m5.large", 2, region.MatchTargeted)
	class, provider := p.classes["default"], p.onVirtualTime(t)
	if err := p.region.SetCapacity(region.Pool{Type: "m5.large", Zone: r.Zone, CapacityType: model.OnDemand},
		0); err != nil {
		t.Fatal(err)
	}
	want := ec2v1.CapacityReservation{
		ID: r.ID, AvailabilityZone: r.Zone, InstanceType: "m5.large", OwnerID: region.AccountID,
		InstanceMatchCriteria: "targeted", ReservationType: "default", State: "active",
	}
	if got := class.Status.CapacityReservations; len(got) != 1 || got[0] != want {
		t.Fatalf("status %+v", got)
	}
	if c := class.StatusConditions().Get(ec2v1.ConditionTypeCapacityReservationsReady); !c.IsTrue() {
		t.Errorf("condition %+v", c)
	}
	offered, err := provider.Reservations(t.Context(), defaultClass)
	if err != nil || len(offered) != 1 || offered[0].Free != 2 || offered[0].Price <= 0 ||
		offered[0].Labels.String() == "" {
		t.Fatalf("reservations %+v, %v", offered, err)
	}
	m := launch(t, provider, reserved("c1", r.ID))
	if m.CapacityType != model.Reserved || m.Type != "m5.large" || m.Zone != r.Zone ||
		m.Labels[ec2v1.LabelCapacityReservationID] != r.ID || m.Labels[ec2v1.LabelCapacityReservationType] != "default" ||
		m.Labels[model.LabelCapacityType] != model.Reserved {
		t.Errorf("instance %+v", m)
	}
	if n := free(t, provider); n != 1 {
		t.Errorf("%d free after a launch", n)
	}
	launch(t, p.onVirtualTime(t), reserved("c2", r.ID))
	result, err := provider.Launch(t.Context(), reserved("c3", r.ID))
	if !errors.Is(err, cloud.ErrNoCapacity) || len(result.Exhausted) != 0 {
		t.Fatalf("from a full reservation: %v, exhausted %v", err, result.Exhausted)
	}
	if n := free(t, provider); n != 0 {
		t.Errorf("%d free after EC2 said that it is full", n)
	}
	if err := p.connect(t).Terminate(t.Context(), m.ID); err != nil {
		t.Fatal(err)
	}
	p.clock.Advance(2 * time.Minute)
	if err := provider.Resolve(t.Context(), class); err != nil {
		t.Fatal(err)
	}
	if n := free(t, provider); n != 1 {
		t.Errorf("%d free after a termination", n)
	}
	launch(t, provider, reserved("c3", r.ID))
}

func TestALaunchFromAReservationIsFoundAgain(t *testing.T) {
	p := newPlace(t)
	r := p.reserve(t, "m5.large", 1, region.MatchTargeted)
	first := launch(t, p.onVirtualTime(t), reserved("c1", r.ID))
	again := launch(t, p.onVirtualTime(t), reserved("c1", r.ID)) // another process, to which the reservation is full
	if again.ID != first.ID || again.CapacityType != model.Reserved ||
		again.Labels[ec2v1.LabelCapacityReservationID] != r.ID {
		t.Errorf("launched %+v, then %+v", first, again)
	}
	list, err := p.onVirtualTime(t).List(t.Context())
	if err != nil || len(list) != 1 || list[0].CapacityType != model.Reserved ||
		list[0].Labels[ec2v1.LabelCapacityReservationID] != r.ID {
		t.Errorf("list %+v, %v", list, err)
	}
}

// Selected reservations are used by reserved launches only; other classes use open reservations as EC2 does.
func TestOnDemandLaunchesSpareWhatTheClassSelects(t *testing.T) {
	p := newPlace(t)
	provider := p.onVirtualTime(t)
	pin := func(claim string) cloud.LaunchRequest {
		req := pinned(claim, "general")
		req.Requirements = req.Requirements.And(model.NewRequirements(
			model.OneOf(model.LabelZone, p.region.Zones()[0].Name)))
		return req
	}
	r := p.reserve(t, "m5.large", 3, region.MatchOpen)
	spared := launch(t, provider, pin("c1"))
	p.selects(t)
	used := launch(t, provider, pin("c2"))
	for id, want := range map[string]string{spared.ID: "", used.ID: r.ID} {
		if i, _ := p.region.Instance(id); i.ReservationID != want {
			t.Errorf("instance runs in %q, want %q", i.ReservationID, want)
		}
	}
	if m, err := p.connect(t).Get(t.Context(), used.ID); err != nil || m.CapacityType != model.OnDemand {
		t.Errorf("an instance that came to run in an open reservation is %s, %v", m.CapacityType, err)
	}
}

func TestTermsThatMatchNothingAreNoFault(t *testing.T) {
	p := newPlace(t)
	p.selects(t, ec2v1.CapacityReservationSelectorTerm{ID: "cr-0123"},
		ec2v1.CapacityReservationSelectorTerm{InstanceMatchCriteria: "open", OwnerID: "999999999999"})
	class := p.classes["default"]
	if c := class.StatusConditions().Get(ec2v1.ConditionTypeCapacityReservationsReady); !c.IsTrue() ||
		len(class.Status.CapacityReservations) != 0 {
		t.Errorf("condition %+v, status %+v", c, class.Status.CapacityReservations)
	}
	if list, err := p.onVirtualTime(t).Reservations(t.Context(), defaultClass); err != nil || len(list) != 0 {
		t.Errorf("reservations %v, %v", list, err)
	}
	_, err := p.onVirtualTime(t).Launch(t.Context(), reserved("c1", "cr-0123"))
	if !errors.Is(err, cloud.ErrNoCapacity) {
		t.Errorf("launch from a reservation that does not exist: %v", err)
	}
}

// An instance drifts when its class no longer selects its reservation, but not when the reservation has ended.
func TestReservationsAreLeftAndEnd(t *testing.T) {
	p := newPlace(t)
	r := p.reserve(t, "m5.large", 1, region.MatchTargeted)
	provider := p.onVirtualTime(t)
	m := launch(t, provider, reserved("c1", r.ID))
	drift := func() string {
		reason, err := p.connect(t).Drifted(t.Context(), cloud.Launched{
			InstanceID: m.ID, Class: defaultClass, Type: m.Type, ImageID: m.ImageID,
		})
		if err != nil {
			t.Fatal(err)
		}
		return reason
	}
	if got := drift(); got != "" {
		t.Errorf("a fresh instance drifts: %s", got)
	}
	p.selects(t, ec2v1.CapacityReservationSelectorTerm{ID: "cr-0123"})
	if got := drift(); got != "CapacityReservationDrift" {
		t.Errorf("drift %q of an instance whose reservation is not selected", got)
	}
	if err := p.region.CancelCapacityReservation(r.ID); err != nil {
		t.Fatal(err)
	}
	if now, err := p.connect(t).Get(t.Context(), m.ID); err != nil || now.CapacityType != model.OnDemand {
		t.Errorf("after the end of its reservation it is %s, %v", now.CapacityType, err)
	}
	if got := drift(); got != "" {
		t.Errorf("drift %q of an instance whose reservation has ended", got)
	}
}

func TestACapacityBlockIsUsedUntilItExpires(t *testing.T) {
	p := newPlace(t)
	r, err := p.region.AddCapacityBlock(region.CapacityReservationRequest{
		Type: "m5.large", Zone: p.region.Zones()[0].Name, Count: 2, EndAt: p.clock.Now().Add(2 * time.Hour),
	})
	if err != nil {
		t.Fatal(err)
	}
	p.selects(t, ec2v1.CapacityReservationSelectorTerm{ID: r.ID})
	provider := p.onVirtualTime(t)
	m := launch(t, provider, reserved("c1", r.ID))
	if m.Labels[ec2v1.LabelCapacityReservationType] != "capacity-block" {
		t.Errorf("labels %v", m.Labels)
	}
	if now, err := p.connect(t).Get(t.Context(), m.ID); err != nil || now.CapacityType != model.Reserved ||
		now.Labels[ec2v1.LabelCapacityReservationType] != "capacity-block" {
		t.Errorf("instance %+v, %v", now, err)
	}
	p.clock.Advance(81 * time.Minute)
	if list, err := provider.Reservations(t.Context(), defaultClass); err != nil || len(list) != 0 {
		t.Errorf("39 minutes before its end: %+v, %v", list, err)
	}
	if err := provider.Resolve(t.Context(), p.classes["default"]); err != nil {
		t.Fatal(err)
	}
	if got := p.classes["default"].Status.CapacityReservations; len(got) != 1 ||
		got[0].State != ec2v1.CapacityReservationStateExpiring {
		t.Errorf("status %+v", got)
	}
	if _, err := provider.Launch(t.Context(), reserved("c2", r.ID)); !errors.Is(err, cloud.ErrNoCapacity) {
		t.Errorf("launch from an expiring block: %v", err)
	}
}

// Reserved capacity is used first; the request's other capacity types follow when none is left.
func TestReservedComesBeforeOnDemand(t *testing.T) {
	p := newPlace(t)
	r := p.reserve(t, "m5.large", 1, region.MatchTargeted)
	provider := p.onVirtualTime(t)
	req := reserved("c1", r.ID)
	req.Requirements = model.NewRequirements(model.OneOf(model.LabelCapacityType, model.Reserved, model.OnDemand),
		model.OneOf(ec2v1.LabelCapacityReservationID, r.ID))
	if m := launch(t, provider, req); m.CapacityType != model.Reserved {
		t.Errorf("launched %s", m.CapacityType)
	}
	plain := requestFor("c2", "general")
	plain.Requirements = model.NewRequirements(model.OneOf(model.LabelCapacityType, model.Reserved, model.OnDemand))
	if m := launch(t, provider, plain); m.CapacityType != model.OnDemand {
		t.Errorf("a request that names no reservation launched %s", m.CapacityType)
	}
}
