package wiretest

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/cloud/aws"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/region"
)

// clusterARN is the ARN of the cluster demo.
const clusterARN = "arn:aws:eks:us-west-2:" + region.AccountID + ":cluster/demo"

// shifting returns a provider that follows the zonal shifts of a cluster.
func (p *place) shifting(t *testing.T, cluster string) *aws.Provider {
	t.Helper()
	return p.connectWith(t, func(o *aws.Options) { o.Clock, o.ClusterARN = p.clock, cluster })
}

// During a zonal shift nothing is launched in the zone, not even by a controller that has just started.
func TestNothingIsLaunchedInAShiftedZone(t *testing.T) {
	p := newPlace(t)
	if err := p.region.SetCluster(region.ClusterInfo{Name: "demo", Version: "1.36"}); err != nil {
		t.Fatal(err)
	}
	p.resolve(t, "default")
	zones := p.region.Zones()
	s, err := p.region.StartZonalShift(clusterARN, zones[0].ID, "a fire", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	provider := p.shifting(t, clusterARN)
	shifted := func() []cloud.ShiftedZone {
		t.Helper()
		got, err := provider.ShiftedZones(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := shifted(); len(got) != 1 || got[0].Zone != zones[0].Name || got[0].ID != zones[0].ID ||
		got[0].Until.Sub(s.Expiry).Abs() > time.Second {
		t.Fatalf("shifted: %+v, want %s (%s) until %s", got, zones[0].Name, zones[0].ID, s.Expiry)
	}
	for _, claim := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		if m := launch(t, provider, requestFor(claim, "general")); m.Zone == zones[0].Name {
			t.Errorf("claim %s was launched in %s", claim, m.Zone)
		}
	}
	there := requestFor("there", "general")
	there.Requirements = model.NewRequirements(model.OneOf(model.LabelZone, zones[0].Name))
	if _, err := provider.Launch(t.Context(), there); !errors.Is(err, cloud.ErrNoCapacity) {
		t.Errorf("a launch in the shifted zone: %v", err)
	}
	if _, err := p.region.CancelZonalShift(s.ID); err != nil {
		t.Fatal(err)
	}
	if got := shifted(); len(got) != 0 {
		t.Errorf("after the end: %+v", got)
	}
	there.Token = "uid-of-there-again"
	if m := launch(t, provider, there); m.Zone != zones[0].Name {
		t.Errorf("launched in %s", m.Zone)
	}
}

// A cluster that is not enabled for zonal shift has none; for a cluster whose shifts are not followed no call is
// made.
func TestShiftsThatAreNotFollowed(t *testing.T) {
	p := newPlace(t)
	for _, cluster := range []string{clusterARN, ""} {
		provider := p.shifting(t, cluster)
		calls := p.callsOf(func() {
			if got, err := provider.ShiftedZones(t.Context()); err != nil || got != nil {
				t.Errorf("cluster %q: %+v, %v", cluster, got, err)
			}
		})
		if asked := slices.Contains(calls, "GetManagedResource"); asked != (cluster != "") {
			t.Errorf("cluster %q: calls %v", cluster, calls)
		}
	}
}
