package region_test

import (
	"errors"
	"testing"
	"time"

	"github.com/nodeless/nodeless/internal/kit/clock"
	"github.com/nodeless/nodeless/region"
)

// monday is when every story begins.
var monday = time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC)

// place is a region with a launch template, on virtual time.
type place struct {
	*region.Region
	t     *testing.T
	clock *clock.Virtual
}

// open opens a region with the configuration; it fills in name, seed, clock and boot time.
func open(t *testing.T, c region.Config) place {
	t.Helper()
	v, ok := c.Clock.(*clock.Virtual)
	if !ok {
		v = clock.NewVirtual(monday)
	}
	c.Name, c.Clock = "us-west-2", v
	if c.Seed == 0 {
		c.Seed = 1
	}
	if c.Boot.Median == 0 {
		c.Boot.Median = 30 * time.Second
	}
	r, err := region.Open(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return place{Region: r, t: t, clock: v}
}

// seeded opens a region with a cluster, its queue, and launch template "node".
func seeded(t *testing.T, c region.Config) place {
	t.Helper()
	p := open(t, c)
	if err := p.SetCluster(region.ClusterInfo{Name: "prod"}); err != nil {
		t.Fatal(err)
	}
	if _, err := p.CreateLaunchTemplate("node", region.TemplateData{ImageID: p.amd64Image(), UserData: []byte("#!")},
		nil); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p place) amd64Image() string {
	p.t.Helper()
	id, err := p.Parameter("/aws/service/eks/optimized-ami/1.36/amazon-linux-2023/x86_64/standard/recommended/image_id")
	if err != nil {
		p.t.Fatal(err)
	}
	return id
}

// zone returns the nth zone's name.
func (p place) zone(n int) string { return p.Zones()[n].Name }

func (p place) override(typeName string, zone int) region.Override {
	return region.Override{TemplateName: "node", InstanceType: typeName, Zone: p.zone(zone)}
}

func fleet(capacityType string, total int, overrides ...region.Override) region.FleetRequest {
	return region.FleetRequest{CapacityType: capacityType, Total: total, Overrides: overrides}
}

// launch creates a fleet and returns the IDs of the launched instances.
func (p place) launch(q region.FleetRequest) ([]string, region.FleetResult) {
	p.t.Helper()
	result, err := p.CreateFleet(q)
	if err != nil {
		p.t.Fatal(err)
	}
	var ids []string
	for _, l := range result.Launched {
		ids = append(ids, l.IDs...)
	}
	return ids, result
}

// one launches one instance.
func (p place) one(capacityType string) string {
	p.t.Helper()
	ids, result := p.launch(fleet(capacityType, 1, p.override("m5.large", 0)))
	if len(ids) != 1 {
		p.t.Fatalf("nothing launched: %+v", result.Errors)
	}
	return ids[0]
}

func (p place) state(id string) region.State {
	i, _ := p.Instance(id)
	return i.State
}

func wantCode(t *testing.T, err error, code string) {
	t.Helper()
	if e, ok := errors.AsType[*region.APIError](err); !ok || e.Code != code {
		t.Errorf("got %v, want %s", err, code)
	}
}
