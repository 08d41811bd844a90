package engine_test

import (
	"fmt"

	"github.com/nodeless/nodeless/engine"
	"github.com/nodeless/nodeless/engine/model"
)

// Three pods are pending, and no node exists. One instance of the cheaper type holds them all.
func ExampleProvision() {
	instanceType := func(name string, cpu int64, price model.Price) model.InstanceType {
		size := model.Resources{model.CPU: cpu * 1000, model.Memory: cpu << 32, model.Pods: 30}
		return model.InstanceType{
			Name: name, Capacity: size, Allocatable: size,
			Offerings: []model.Offering{{Zone: "a", CapacityType: model.OnDemand, Price: price, Available: true}},
		}
	}
	cluster := &model.Snapshot{
		ResourceNames: model.WellKnownResources,
		Shapes: []model.Shape{{
			Key: "web", Namespace: "default",
			Requests: model.Resources{model.CPU: 1000, model.Memory: 1 << 30, model.Pods: 1},
		}},
		Pools: []model.Pool{{
			Name:  "general",
			Types: []model.InstanceType{instanceType("large", 4, 200_000), instanceType("xlarge", 8, 400_000)},
		}},
	}
	for i := range 3 {
		key := model.PodKey{Namespace: "default", Name: fmt.Sprintf("web-%d", i)}
		cluster.Pending = append(cluster.Pending, model.Pod{PodKey: key})
	}

	plan := engine.Provision(cluster, model.Policy{})
	for _, launch := range plan.Launches {
		fmt.Printf("launch %s in zone %s for %d pods at $%.2f an hour\n",
			launch.Chosen.Type, launch.Chosen.Zone, len(launch.Pods), launch.Chosen.Price.Dollars())
	}
	// Output: launch large in zone a for 3 pods at $0.20 an hour
}
