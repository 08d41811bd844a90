package region_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nodeless/nodeless/region"
)

// group creates a placement group, and a template of the same name that launches into it.
func (p place) group(name, strategy string, partitions int, choice region.PlacementChoice) region.PlacementGroup {
	p.t.Helper()
	g, err := p.CreatePlacementGroup(region.PlacementGroup{Name: name, Strategy: strategy, Partitions: partitions})
	if err != nil {
		p.t.Fatal(err)
	}
	choice.Group = g.ID
	data := region.TemplateData{ImageID: p.amd64Image(), Placement: choice}
	if _, err := p.CreateLaunchTemplate(name, data, nil); err != nil {
		p.t.Fatal(err)
	}
	return g
}

// A spread group holds seven instances per zone; when one ends, another can be launched.
func TestASpreadGroupHasSevenInstancesInAZone(t *testing.T) {
	p := seeded(t, region.Config{})
	p.group("apart", region.SpreadPlacement, 0, region.PlacementChoice{})
	ids, result := p.launch(fleet(region.OnDemand, 8, p.from("apart", "m5.large")))
	if len(ids) != 7 || len(result.Errors) != 1 || result.Errors[0].Code != "InsufficientInstanceCapacity" ||
		!strings.Contains(result.Errors[0].Message, "limit of instances in this spread placement group") {
		t.Fatalf("launched %d, errors %+v", len(ids), result.Errors)
	}
	other := p.from("apart", "c5.large")
	other.Zone = p.zone(1)
	if more, _ := p.launch(fleet(region.OnDemand, 1, other)); len(more) != 1 {
		t.Error("nothing was launched in another zone")
	}
	if _, err := p.TerminateInstances(ids[:1]); err != nil {
		t.Fatal(err)
	}
	if more, _ := p.launch(fleet(region.OnDemand, 1, p.from("apart", "m5.large"))); len(more) != 1 {
		t.Error("nothing was launched in the place of an instance that ended")
	}
}

// A cluster group stays in the zone of its instances, and accepts no burstable types.
func TestAClusterGroupIsInOneZone(t *testing.T) {
	p := seeded(t, region.Config{})
	g := p.group("near", "", 0, region.PlacementChoice{})
	if g.Strategy != region.ClusterPlacement {
		t.Errorf("the default strategy is %s", g.Strategy)
	}
	ids, _ := p.launch(fleet(region.OnDemand, 1, p.from("near", "m5.large")))
	other := p.from("near", "m5.large")
	other.Zone = p.zone(1)
	for override, want := range map[region.Override]string{
		other:                      "InvalidPlacementGroup.InUse",
		p.from("near", "t3.large"): "InvalidParameterCombination",
	} {
		if more, result := p.launch(fleet(region.OnDemand, 1, override)); len(more) > 0 || result.Errors[0].Code != want {
			t.Errorf("%s in %s: launched %v, errors %+v; want %s", override.InstanceType, override.Zone, more, result.Errors, want)
		}
	}
	if err := p.DeletePlacementGroup("near"); err == nil || !strings.Contains(err.Error(), "InUse") {
		t.Errorf("a group with an instance was deleted: %v", err)
	}
	if _, err := p.TerminateInstances(ids); err != nil {
		t.Fatal(err)
	}
	if err := p.DeletePlacementGroup("near"); err != nil || len(p.PlacementGroups()) != 0 {
		t.Errorf("%v, groups %v", err, p.PlacementGroups())
	}
}

// Without a partition number an instance is placed in the emptiest partition. Groups and partitions survive a
// restart.
func TestPartitionsFillEvenly(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	p := seeded(t, region.Config{Dir: dir})
	g := p.group("parts", region.PartitionPlacement, 3, region.PlacementChoice{})
	p.group("second", region.PartitionPlacement, 0, region.PlacementChoice{Partition: 2})
	p.launch(fleet(region.OnDemand, 6, p.from("parts", "m5.large")))
	p.launch(fleet(region.OnDemand, 2, p.from("second", "m5.large")))
	count := func(p place) map[string]int {
		out := map[string]int{}
		for _, i := range p.Instances() {
			out[fmt.Sprint(i.PlacementGroupID == g.ID, i.Partition)]++
		}
		return out
	}
	want := fmt.Sprint(map[string]int{"true 1": 2, "true 2": 2, "true 3": 2, "false 2": 2})
	if got := fmt.Sprint(count(p)); got != want {
		t.Errorf("instances by group and partition: %s, want %s", got, want)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	p = open(t, region.Config{Dir: dir})
	if got := fmt.Sprint(count(p)); got != want || len(p.PlacementGroups()) != 2 {
		t.Errorf("after a restart: %s in %v", got, p.PlacementGroups())
	}
	ids, result := p.launch(fleet(region.OnDemand, 1, p.from("second", "c5.large")))
	if i, _ := p.Instance(ids[0]); i.Partition != 2 {
		t.Errorf("partition %d, errors %+v", i.Partition, result.Errors)
	}
}

func TestPlacementGroupsAreChecked(t *testing.T) {
	p := seeded(t, region.Config{})
	p.group("there", region.SpreadPlacement, 0, region.PlacementChoice{})
	for want, g := range map[string]region.PlacementGroup{
		"1 to 255 characters":        {},
		"give cluster":               {Name: "a", Strategy: "precision-time"},
		"for the strategy partition": {Name: "a", Partitions: 2},
		"give 1 to 7":                {Name: "a", Strategy: region.PartitionPlacement, Partitions: 8},
		"already exists":             {Name: "there"},
	} {
		if _, err := p.CreatePlacementGroup(g); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", g, err, want)
		}
	}
	if err := p.DeletePlacementGroup("nowhere"); err == nil || !strings.Contains(err.Error(), "is unknown") {
		t.Errorf("deleted what is not there: %v", err)
	}
	data := region.TemplateData{ImageID: p.amd64Image(), Placement: region.PlacementChoice{Group: "there", Partition: 1}}
	if _, err := p.CreateLaunchTemplate("wrong", data, nil); err != nil {
		t.Fatal(err)
	}
	if ids, result := p.launch(fleet(region.OnDemand, 1, p.from("wrong", "m5.large"))); len(ids) > 0 ||
		!strings.Contains(result.Errors[0].Message, "has 0 partitions") {
		t.Errorf("launched %v, errors %+v", ids, result.Errors)
	}
}
