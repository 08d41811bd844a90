package region_test

import (
	"testing"
	"time"

	"github.com/nodeless/nodeless/region"
)

// reserve reserves m5.large in the first zone.
func (p place) reserve(count int, match string, end time.Time) region.CapacityReservation {
	p.t.Helper()
	r, err := p.CreateCapacityReservation(region.CapacityReservationRequest{
		Type: "m5.large", Zone: p.zone(0), Match: match, Count: count, EndAt: end,
	})
	if err != nil {
		p.t.Fatal(err)
	}
	return r
}

// template creates a launch template with a market type and a reservation choice.
func (p place) template(name, market string, choice region.ReservationChoice) {
	p.t.Helper()
	data := region.TemplateData{ImageID: p.amd64Image(), Market: market, Reservation: choice}
	if _, err := p.CreateLaunchTemplate(name, data, nil); err != nil {
		p.t.Fatal(err)
	}
}

func (p place) from(template, typeName string) region.Override {
	return region.Override{TemplateName: template, InstanceType: typeName, Zone: p.zone(0)}
}

func (p place) wantAvailable(id string, want int) {
	p.t.Helper()
	for _, r := range p.CapacityReservations() {
		if r.ID == id && r.Available != want {
			p.t.Errorf("reservation has %d of %d available, want %d", r.Available, r.Total, want)
		}
	}
}

func TestATargetedReservationIsUsedUpAndFreedAgain(t *testing.T) {
	p := seeded(t, region.Config{})
	r := p.reserve(2, region.MatchTargeted, time.Time{})
	pool := region.Pool{Type: "m5.large", Zone: p.zone(0), CapacityType: region.OnDemand}
	if err := p.SetCapacity(pool, 0); err != nil {
		t.Fatal(err)
	}
	p.template("reserved", "", region.ReservationChoice{Preference: region.ReservationsOnly, Target: r.ID})
	ids, result := p.launch(fleet(region.OnDemand, 3, p.from("reserved", "m5.large")))
	if len(ids) != 2 || len(result.Errors) != 1 || result.Errors[0].Code != "ReservationCapacityExceeded" {
		t.Fatalf("launched %v, errors %+v", ids, result.Errors)
	}
	p.wantAvailable(r.ID, 0)
	if i, _ := p.Instance(ids[0]); i.ReservationID != r.ID || i.CapacityType != region.OnDemand {
		t.Errorf("instance %+v does not run in %s", i, r.ID)
	}
	if _, err := p.TerminateInstances(ids[:1]); err != nil {
		t.Fatal(err)
	}
	p.wantAvailable(r.ID, 1)
	if _, result := p.launch(fleet(region.OnDemand, 1, p.from("reserved", "c5.large"))); len(result.Errors) != 1 ||
		result.Errors[0].Code != "ReservationCapacityExceeded" {
		t.Errorf("another type: %+v", result)
	}
	if n := p.Capacity(pool); n != 0 {
		t.Errorf("the exhausted pool gives %d", n)
	}
	if _, result := p.launch(fleet(region.OnDemand, 1, p.override("m5.large", 0))); len(result.Launched) != 0 {
		t.Error("a launch that does not name it came to run in a targeted reservation")
	}
}

func TestAnOpenReservationTakesWhatMatches(t *testing.T) {
	p := seeded(t, region.Config{})
	before := p.one(region.OnDemand)
	r := p.reserve(2, region.MatchOpen, time.Time{})
	if i, _ := p.Instance(before); i.ReservationID != r.ID {
		t.Error("a running instance that matches does not run in the reservation")
	}
	p.template("none", "", region.ReservationChoice{Preference: region.PreferNone})
	p.launch(fleet(region.OnDemand, 1, p.from("none", "m5.large")))
	p.one(region.Spot)
	p.wantAvailable(r.ID, 1)
	p.one(region.OnDemand)
	p.wantAvailable(r.ID, 0)
	if last, _ := p.Instance(p.one(region.OnDemand)); last.ReservationID != "" {
		t.Errorf("runs in %s, which is full", last.ReservationID)
	}
}

func TestAnEndedReservationLeavesItsInstancesOnDemand(t *testing.T) {
	c := region.Config{Dir: t.TempDir()}
	p := seeded(t, c)
	r := p.reserve(3, region.MatchTargeted, monday.Add(time.Hour))
	pool := region.Pool{Type: "m5.large", Zone: p.zone(0), CapacityType: region.OnDemand}
	if err := p.SetCapacity(pool, 0); err != nil {
		t.Fatal(err)
	}
	p.template("reserved", "", region.ReservationChoice{Target: r.ID})
	ids, _ := p.launch(fleet(region.OnDemand, 1, p.from("reserved", "m5.large")))
	each := r.PriceMicros
	if s := p.Summary(); s.Unused != 2 || s.PriceMicros != 3*each {
		t.Errorf("summary %+v, want 2 unused and %d micros", s, 3*each)
	}

	p = p.crash(c)
	p.wantAvailable(r.ID, 2)
	p.clock.Advance(2 * time.Hour)
	if got := p.CapacityReservations(); len(got) != 0 {
		// expired an hour ago: shown for one hour, which has passed
		t.Errorf("reservations %+v", got)
	}
	if i, _ := p.Instance(ids[0]); i.State != region.Running || i.ReservationID != "" {
		t.Errorf("instance %+v", i)
	}
	if n := p.Capacity(pool); n != 2 {
		t.Errorf("the pool gives %d after the end of a reservation of 3 with one instance", n)
	}
	if s := p.Summary(); s.Unused != 0 || s.PriceMicros != each {
		t.Errorf("summary %+v", s)
	}
}

func TestACapacityBlockTakesItsInstancesAlong(t *testing.T) {
	p := seeded(t, region.Config{})
	r, err := p.AddCapacityBlock(region.CapacityReservationRequest{
		Type: "m5.large", Zone: p.zone(0), Count: 1, EndAt: monday.Add(2 * time.Hour),
	})
	if err != nil {
		t.Fatal(err)
	}
	choice := region.ReservationChoice{Preference: region.ReservationsOnly, Target: r.ID}
	p.template("block", region.CapacityBlock, choice)
	p.template("wrong", "", choice)
	_, err = p.CreateFleet(fleet(region.CapacityBlock, 1, p.from("wrong", "m5.large")))
	wantCode(t, err, "InvalidParameterCombination")
	ids, _ := p.launch(fleet(region.CapacityBlock, 1, p.from("block", "m5.large")))
	wantCode(t, p.CancelCapacityReservation(r.ID), "OperationNotPermitted")
	p.clock.Advance(89 * time.Minute)
	if s := p.state(ids[0]); s != region.Running {
		t.Fatalf("31 minutes before the end the instance is %s", s)
	}
	p.clock.Advance(2 * time.Minute)
	if s := p.state(ids[0]); s != region.Terminated {
		t.Errorf("29 minutes before the end the instance is %s", s)
	}
	p.wantAvailable(r.ID, 0)
	p.clock.Advance(30 * time.Minute)
	if got := p.CapacityReservations(); len(got) != 1 || got[0].State != region.ReservationExpired {
		t.Errorf("reservations %+v", got)
	}
}

func TestReservationsThatCannotBe(t *testing.T) {
	p := seeded(t, region.Config{Quotas: region.Quotas{OnDemandVCPUs: 8}})
	for code, q := range map[string]region.CapacityReservationRequest{
		"InvalidParameterValue": {Type: "m5.large", Zone: p.zone(0), Count: 1001},
		"InstanceLimitExceeded": {Type: "m5.large", Zone: p.zone(0), Count: 5},
	} {
		_, err := p.CreateCapacityReservation(q)
		wantCode(t, err, code)
	}
	for _, q := range []region.CapacityReservationRequest{
		{Type: "m5.none", Zone: p.zone(0), Count: 1},
		{Type: "m5.large", Zone: "mars-1a", Count: 1},
		{Type: "m5.large", Zone: p.zone(0), Count: 1, EndAt: monday.Add(-time.Hour)},
	} {
		_, err := p.CreateCapacityReservation(q)
		wantCode(t, err, "InvalidParameterValue")
	}
	if err := p.SetCapacity(region.Pool{Type: "m5.large", Zone: p.zone(0), CapacityType: region.OnDemand}, 2); err != nil {
		t.Fatal(err)
	}
	_, err := p.CreateCapacityReservation(region.CapacityReservationRequest{Type: "m5.large", Zone: p.zone(0), Count: 3})
	wantCode(t, err, "InsufficientInstanceCapacity")
	wantCode(t, p.CancelCapacityReservation("cr-0"), "InvalidCapacityReservationId.NotFound")
}

func TestAReservationIsResizedAndCancelled(t *testing.T) {
	p := seeded(t, region.Config{})
	pool := region.Pool{Type: "m5.large", Zone: p.zone(0), CapacityType: region.OnDemand}
	if err := p.SetCapacity(pool, 5); err != nil {
		t.Fatal(err)
	}
	r := p.reserve(2, region.MatchOpen, time.Time{})
	p.one(region.OnDemand)
	wantCode(t, p.ModifyCapacityReservation(r.ID, region.CapacityReservationChange{Count: 6}),
		"InsufficientInstanceCapacity")
	if err := p.ModifyCapacityReservation(r.ID, region.CapacityReservationChange{Count: 4}); err != nil {
		t.Fatal(err)
	}
	p.wantAvailable(r.ID, 3)
	if n := p.Capacity(pool); n != 1 {
		t.Errorf("the pool of 5 gives %d beside a reservation of 4", n)
	}
	wantCode(t, p.ModifyCapacityReservation(r.ID, region.CapacityReservationChange{Match: region.MatchTargeted}),
		"IncorrectState")
	if err := p.CancelCapacityReservation(r.ID); err != nil {
		t.Fatal(err)
	}
	if n := p.Capacity(pool); n != 4 {
		t.Errorf("the pool of 5 gives %d beside one instance", n)
	}
	wantCode(t, p.CancelCapacityReservation(r.ID), "IncorrectState")
}
