package region_test

import (
	"testing"
	"time"

	"github.com/nodeless/nodeless/region"
)

const shiftable = "arn:aws:eks:us-west-2:123456789012:cluster/demo"

// A resource has one zonal shift at a time, for at most three days. It expires or is cancelled, and survives a
// restart.
func TestZonalShifts(t *testing.T) {
	c := region.Config{Dir: t.TempDir()}
	p := seeded(t, c)
	zone := p.Zones()[0].ID
	for _, wrong := range []struct {
		zone  string
		lasts time.Duration
		code  string
	}{
		{"usw2-az9", time.Hour, "ValidationException"},
		{zone, 0, "ValidationException"},
		{zone, 73 * time.Hour, "ValidationException"},
	} {
		_, err := p.StartZonalShift(shiftable, wrong.zone, "", wrong.lasts)
		wantCode(t, err, wrong.code)
	}
	first, err := p.StartZonalShift(shiftable, zone, "a fire", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	_, err = p.StartZonalShift(shiftable, p.Zones()[1].ID, "", time.Hour)
	wantCode(t, err, "ConflictException")
	p.clock.Advance(time.Hour)
	_, err = p.CancelZonalShift(first.ID)
	wantCode(t, err, "ConflictException")
	second, err := p.StartZonalShift(shiftable, zone, "", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	p.clock.Advance(time.Minute)
	if _, err := p.CancelZonalShift(second.ID); err != nil {
		t.Fatal(err)
	}
	_, err = p.CancelZonalShift("none")
	wantCode(t, err, "ResourceNotFoundException")
	p = p.crash(c)
	all := p.ZonalShifts()
	if len(all) != 2 || all[0].Status(p.clock.Now()) != region.ShiftCanceled ||
		all[1].Status(p.clock.Now()) != region.ShiftExpired || all[1].Comment != "a fire" {
		t.Errorf("after a restart: %+v", all)
	}
}
