package main

import (
	"fmt"
	"slices"

	"github.com/nodeless/nodeless/catalog"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/lab/sim"
)

// catalogue holds what both sides may launch, in the engine's model; karpenter.go translates it.
type catalogue struct {
	name    string
	about   string
	types   []model.InstanceType // by Name
	zones   []string
	daemons []model.Resources // requests of the pods that run on every node
}

const region = "us-east-1"

// ec2Zones are the zones of a typical cluster: three of the region's six, which offer nearly all types.
var ec2Zones = []string{"us-east-1a", "us-east-1b", "us-east-1d"}

// agents request 280m and 320 MiB in all: a CNI plugin, a proxy and a log shipper.
var agents = []model.Resources{
	{model.CPU: 50, model.Memory: 64 << 20, model.Pods: 1},
	{model.CPU: 100, model.Memory: 128 << 20, model.Pods: 1},
	{model.CPU: 130, model.Memory: 128 << 20, model.Pods: 1},
}

func catalogueOf(name string) (*catalogue, error) {
	switch name {
	case "fake":
		return fakeCatalogue(400), nil
	case "cmr":
		return ec2("cmr", "EC2 c, m, r of amd64, generation > 2, on-demand", general, false), nil
	case "cmr192":
		return ec2("cmr192", "as cmr, up to 192 vCPUs", func(t *catalog.Type) bool { return general(t) && t.VCPU <= 192 },
			false), nil
	case "cmrgp":
		return ec2("cmrgp", "as cmr, with the g and p families", func(t *catalog.Type) bool {
			return general(t) || (t.Category == "g" || t.Category == "p") && t.Arch == "amd64" && t.Generation > 2
		}, false), nil
	case "all":
		return ec2("all", "all of EC2, on-demand and spot", func(*catalog.Type) bool { return true }, true), nil
	}
	return nil, fmt.Errorf("there is no catalogue %q: say fake, cmr, cmr192, cmrgp or all", name)
}

func general(t *catalog.Type) bool {
	return (t.Category == "c" || t.Category == "m" || t.Category == "r") && t.Arch == "amd64" && t.Generation > 2
}

// ec2 returns the region's types that admit accepts, at the catalogue's prices and with EKS's overhead formulas.
func ec2(name, about string, admit func(*catalog.Type) bool, spot bool) *catalogue {
	return &catalogue{
		name: name, about: about, zones: ec2Zones, daemons: agents,
		types: sim.Types(region, ec2Zones, admit, spot),
	}
}

// labelsOf returns only a few labels, in Karpenter's favour: each label of a type costs it time.
func labelsOf(name, arch string) model.Requirements {
	return model.NewRequirements(
		model.OneOf(model.LabelInstanceType, name), model.OneOf(model.LabelArch, arch), model.OneOf(model.LabelOS, "linux"))
}

// fakeCatalogue returns the catalogue of Karpenter's own benchmark: n types from 1 core, 2 GiB and 10 pods to n times
// that, at proportional prices, on demand in three zones and as spot in two.
func fakeCatalogue(n int) *catalogue {
	c := &catalogue{
		name: "fake", about: "Karpenter's 400 fake types",
		zones: []string{"test-zone-1", "test-zone-2", "test-zone-3"},
	}
	for i := range int64(n) {
		cores := i + 1
		memory := cores * 2 << 30
		name := fmt.Sprintf("fake-it-%d", i)
		t := model.InstanceType{Name: name, Requirements: labelsOf(name, "amd64")}
		t.Capacity = model.Resources{model.CPU: cores * 1000, model.Memory: memory, model.Pods: cores * 10}
		t.Allocatable = t.Capacity.Minus(model.Resources{model.CPU: 100, model.Memory: 10 << 20})
		price := model.Price(100_000*cores + memory/10_000)
		for z, zone := range c.zones {
			t.Offerings = append(t.Offerings,
				model.Offering{Zone: zone, CapacityType: model.OnDemand, Price: price, Available: true})
			if z < 2 {
				t.Offerings = append(t.Offerings,
					model.Offering{Zone: zone, CapacityType: model.Spot, Price: price, Available: true})
			}
		}
		c.types = append(c.types, t)
	}
	return c.sorted()
}

func (c *catalogue) sorted() *catalogue {
	slices.SortFunc(c.types, func(a, b model.InstanceType) int { return compare(a.Name, b.Name) })
	for i := range c.types {
		slices.SortFunc(c.types[i].Offerings, func(a, b model.Offering) int {
			return compare(a.Zone+"\x00"+a.CapacityType, b.Zone+"\x00"+b.CapacityType)
		})
	}
	return c
}

// overhead returns the total requests of the daemons of a node.
func (c *catalogue) overhead() model.Resources {
	var sum model.Resources
	for _, d := range c.daemons {
		sum = sum.Plus(d)
	}
	return sum
}
