package wiretest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/engine/model"
)

// requestFor returns a launch request by a pool of class default, for a pod that requests a core and two gibibytes.
func requestFor(claim, pool string) cloud.LaunchRequest {
	req := cloud.LaunchRequest{
		Token: "uid-of-" + claim, Claim: claim, Pool: pool,
		Class:  cloud.ClassRef{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: "default"},
		Labels: map[string]string{"karpenter.sh/nodepool": pool},
	}
	req.Requests[model.CPU], req.Requests[model.Memory], req.Requests[model.Pods] = 1000, 2<<30, 1
	return req
}

// pinned returns a request whose choice does not change when prices arrive late: one type, on demand.
func pinned(claim, pool string) cloud.LaunchRequest {
	req := requestFor(claim, pool)
	req.Requirements = model.NewRequirements(model.OneOf(model.LabelCapacityType, model.OnDemand),
		model.OneOf(model.LabelInstanceType, "m5.large"))
	return req
}

// callsOf returns the API calls that the region received while do ran.
func (p *place) callsOf(do func()) []string {
	before := len(p.region.Calls())
	do()
	var out []string
	for _, c := range p.region.Calls()[before:] {
		// prices are read in the background, which takes long on a slow machine
		if c.API != "DescribeSpotPriceHistory" && c.API != "GetProducts" {
			out = append(out, c.API)
		}
	}
	return out
}

// The latency of a launch is one round trip: everything but CreateFleet comes from caches. The first launch of a pool
// creates its launch template, since the pool's name is in the user data.
func TestALaunchIsOneCallOnceCachesAreWarm(t *testing.T) {
	p := newPlace(t)
	provider := p.connect(t)
	launch := func(claim, pool string) func() {
		return func() {
			if _, err := provider.Launch(t.Context(), pinned(claim, pool)); err != nil {
				t.Fatal(err)
			}
		}
	}
	launch("warm-up", "general")()
	for _, story := range []struct {
		name, claim, pool string
		want              []string
	}{
		{"same pool", "second", "general", []string{"CreateFleet"}},
		{"another pool of the class", "third", "batch", []string{"CreateLaunchTemplate", "CreateFleet"}},
		{"that pool again", "fourth", "batch", []string{"CreateFleet"}},
		{"the first pool again", "fifth", "general", []string{"CreateFleet"}},
	} {
		got := p.callsOf(launch(story.claim, story.pool))
		if !slices.Equal(got, story.want) {
			t.Errorf("%s: calls were %v, want %v", story.name, got, story.want)
		}
	}
}

// On-demand costs the same in all zones: launches spread over them, over the wire too.
func TestInstancesSpreadOverZones(t *testing.T) {
	p := newPlace(t)
	provider := p.connect(t)
	zones := map[string]int{}
	for i := range 40 {
		result, err := provider.Launch(t.Context(), pinned(fmt.Sprintf("c%d", i), "general"))
		if err != nil {
			t.Fatal(err)
		}
		zones[result.Instance.Zone]++
	}
	for zone, n := range zones {
		if n > 20 {
			t.Errorf("%d of 40 instances are in %s: %v", n, zone, zones)
		}
	}
	if len(zones) < 3 {
		t.Errorf("instances are in %v only", zones)
	}
}

// BenchmarkLaunch measures a launch with warm caches over HTTP, with the region and its disk in the same process: 3.7
// ms on two shared cores of a Xeon (2026-11-21; a third of it is the choice among 5,000 offerings, most of the rest
// the region).
func BenchmarkLaunch(b *testing.B) {
	p := newPlace(b)
	provider := p.connect(b)
	if _, err := provider.Launch(b.Context(), requestFor("warm-up", "general")); err != nil {
		b.Fatal(err)
	}
	n := 0
	for b.Loop() {
		n++
		if _, err := provider.Launch(b.Context(), requestFor(fmt.Sprintf("c%d", n), "general")); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed())/float64(time.Millisecond)/float64(b.N), "ms/launch")
}
