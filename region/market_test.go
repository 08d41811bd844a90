package region_test

import (
	"testing"
	"time"

	"github.com/nodeless/nodeless/catalog"
	"github.com/nodeless/nodeless/region"
)

func TestSpotTakesTheCheapestOfTheDeepPools(t *testing.T) {
	p := seeded(t, region.Config{})
	price := func(zone int) int64 {
		micros, ok := p.SpotPrice("m5.large", p.zone(zone), monday)
		if !ok {
			t.Fatalf("m5.large is not sold as spot in %s", p.zone(zone))
		}
		return micros
	}
	cheap, dear := 0, 1
	if price(dear) < price(cheap) {
		cheap, dear = dear, cheap
	}
	fill := func(zone, n int) {
		t.Helper()
		if err := p.SetCapacity(region.Pool{Type: "m5.large", Zone: p.zone(zone), CapacityType: region.Spot}, n); err != nil {
			t.Fatal(err)
		}
	}
	launch := func(strategy string) region.Instance {
		t.Helper()
		q := fleet(region.Spot, 1, p.override("m5.large", dear), p.override("m5.large", cheap))
		q.Strategy = strategy
		ids, _ := p.launch(q)
		i, _ := p.Instance(ids[0])
		return i
	}
	fill(cheap, 500)
	fill(dear, 2000)
	if i := launch(region.PriceCapacityOptimized); i.Zone != p.zone(cheap) || i.PriceMicros != price(cheap) ||
		i.SpotRequestID == "" {
		t.Errorf("price-capacity-optimized launched in %s at %d", i.Zone, i.PriceMicros)
	}
	if i := launch(region.CapacityOptimized); i.Zone != p.zone(dear) {
		t.Errorf("capacity-optimized launched in %s, the shallower pool", i.Zone)
	}
}

func TestPrioritiesComeBeforePrices(t *testing.T) {
	p := seeded(t, region.Config{})
	first, second := p.override("m5.4xlarge", 0), p.override("m5.large", 0)
	first.Priority, second.Priority = 1, 2
	q := fleet(region.OnDemand, 1, second, first)
	q.Strategy = region.Prioritized
	if _, result := p.launch(q); result.Launched[0].Override.InstanceType != "m5.4xlarge" {
		t.Errorf("launched %+v", result.Launched)
	}
}

func TestQuotasStopAnAccount(t *testing.T) {
	p := seeded(t, region.Config{Quotas: region.Quotas{SpotInstances: 1, OnDemandVCPUs: 4}})
	for kind, want := range map[string]struct {
		ids  int
		code string
	}{region.Spot: {1, "MaxSpotInstanceCountExceeded"}, region.OnDemand: {2, "VcpuLimitExceeded"}} {
		ids, result := p.launch(fleet(kind, 3, p.override("m5.large", 0)))
		if len(ids) != want.ids || len(result.Errors) != 1 || result.Errors[0].Code != want.code {
			t.Errorf("%s: %d instances, errors %+v", kind, len(ids), result.Errors)
		}
	}
}

func TestSpotInstancesAreTakenBackAtTheSetRate(t *testing.T) {
	p := seeded(t, region.Config{SpotInterruptionsPerHour: 1})
	p.launch(fleet(region.Spot, 400, p.override("m5.large", 0), p.override("m5.large", 1)))
	p.clock.Advance(time.Hour)
	if left := p.Summary().Instances; left < 400/4 || left > 400/2 { // 400/e is 147
		t.Errorf("%d of 400 are left after an hour at one interruption per hour", left)
	}
}

func TestNewInstancesAreSeenLateWithLag(t *testing.T) {
	p := seeded(t, region.Config{DescribeLag: 3 * time.Second})
	p.one(region.OnDemand)
	if n := len(p.Instances()); n != 0 {
		t.Errorf("%d instances seen at once", n)
	}
	if p.clock.Advance(3 * time.Second); len(p.Instances()) != 1 {
		t.Error("not seen after the lag")
	}
}

func TestNoSpotPriceIsAboveOnDemandAndSeedsDiffer(t *testing.T) {
	a, b := open(t, region.Config{Seed: 1}), open(t, region.Config{Seed: 2})
	differ := 0
	for _, o := range catalog.Of("us-west-2").Offers() {
		for n := range o.Spot {
			x, _ := a.SpotPrice(o.Type.Name, o.Zones[n].Name, monday)
			y, _ := b.SpotPrice(o.Type.Name, o.Zones[n].Name, monday)
			if x <= 0 || x > o.OnDemand {
				t.Errorf("%s in %s costs %d, on demand %d", o.Type.Name, o.Zones[n].Name, x, o.OnDemand)
			}
			if x != y {
				differ++
			}
		}
	}
	if differ == 0 {
		t.Error("two seeds give one market")
	}
}

func TestDelaysLastAsLongAsTold(t *testing.T) {
	p := open(t, region.Config{})
	p.Delay("CreateFleet", time.Minute)
	done := make(chan error)
	go func() {
		_, err := p.Admit(t.Context(), "CreateFleet", "", "")
		done <- err
	}()
	for due := false; !due; _, due = p.clock.Next() { // until the call waits
	}
	p.clock.Advance(time.Minute - 1)
	select {
	case err := <-done:
		t.Fatalf("let through early: %v", err)
	default:
	}
	p.clock.Advance(1)
	if err := <-done; err != nil {
		t.Error(err)
	}
	p.Delay("CreateFleet", 0)
	if _, err := p.Admit(t.Context(), "CreateFleet", "", ""); err != nil {
		t.Error(err)
	}
}
