package rules

import (
	"fmt"
	"testing"

	"github.com/nodeless/nodeless/engine/model"
)

// volumePool has a small type in zones a and b and a large one in zone b only.
func volumePool() *model.Pool {
	offer := func(zone string) model.Offering {
		return model.Offering{Zone: zone, CapacityType: model.OnDemand, Price: 1, Available: true}
	}
	small, large := model.Resources{model.CPU: 2000, model.Pods: 10}, model.Resources{model.CPU: 16000, model.Pods: 10}
	return &model.Pool{Name: "p", Types: []model.InstanceType{
		{
			Name: "large", Capacity: large, Allocatable: large, Offerings: []model.Offering{offer("b")},
			AttachLimits: []model.AttachLimit{{Driver: "ebs", Max: 3}},
		},
		{
			Name: "small", Capacity: small, Allocatable: small, Offerings: []model.Offering{offer("a"), offer("b")},
			AttachLimits: []model.AttachLimit{{Driver: "ebs", Max: 1}},
		},
	}}
}

func TestVolumesNarrowTheFunnel(t *testing.T) {
	at := func(id, zone string) model.Volume {
		return model.Volume{ID: id, Driver: "ebs", Topology: []model.Requirements{{model.OneOf(model.LabelZone, zone)}}}
	}
	anywhere := func(id string) model.Volume { return model.Volume{ID: id, Driver: "ebs"} }
	for name, c := range map[string]struct {
		cpu     int64
		volumes []model.Volume
		want    string
	}{
		"in a zone the pool has": {
			1000,
			[]model.Volume{at("x", "a")},
			"Steps  [{Catalog 2} {Requirement 2} {Volume 1} {Resource 1} {Limit 1} {Capacity 1}]",
		},
		"in a zone it does not have": {
			1000,
			[]model.Volume{at("x", "c")},
			"Volume x [{Catalog 2} {Requirement 2} {Volume 0}]",
		},
		"in two zones at once": {
			1000,
			[]model.Volume{at("x", "a"), at("y", "b")},
			"Volume x, y [{Catalog 2} {Requirement 2} {Volume 0}]",
		},
		"where only small types are": {
			9000,
			[]model.Volume{at("x", "a")},
			"Resource cpu [{Catalog 2} {Requirement 2} {Volume 1} {Resource 0}]",
		},
		"more than small types take": {
			1000,
			[]model.Volume{anywhere("x"), anywhere("y"), anywhere("y")},
			"Steps  [{Catalog 2} {Requirement 2} {VolumeLimit 1} {Resource 1} {Limit 1} {Capacity 1}]",
		},
		"more than any type takes": {
			1000,
			[]model.Volume{anywhere("x"), anywhere("y"), anywhere("z"), anywhere("u")},
			"VolumeLimit ebs [{Catalog 2} {Requirement 2} {VolumeLimit 0}]",
		},
		"no volume: the funnel has no volume": {
			1000, nil,
			"Steps  [{Catalog 2} {Requirement 2} {Resource 2} {Limit 2} {Capacity 2}]",
		},
	} {
		v := NewView(volumePool(), nil)
		shape := model.Shape{Requests: model.Resources{model.CPU: c.cpu, model.Pods: 1}, Volumes: c.volumes}
		got := v.Verdict(&shape, v.Headroom(), model.WellKnownResources)
		if text := fmt.Sprint(got.Rule, " ", got.Object, " ", got.Funnel); text != c.want {
			t.Errorf("%s:\ngot  %s\nwant %s", name, text, c.want)
		}
	}
}
