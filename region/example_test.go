package region_test

import (
	"fmt"
	"time"

	"github.com/nodeless/nodeless/internal/kit/clock"
	"github.com/nodeless/nodeless/region"
)

// A fleet launches an instance, which runs and boots as time passes.
func Example() {
	now := clock.NewVirtual(time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC))
	r, err := region.Open(region.Config{Name: "us-west-2", Clock: now, Boot: region.BootTime{Median: 40 * time.Second}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = r.Close() }()

	image, _ := r.Parameter("/aws/service/eks/optimized-ami/1.36/amazon-linux-2023/x86_64/standard/" +
		"recommended/image_id")
	_, _ = r.CreateLaunchTemplate("node", region.TemplateData{ImageID: image}, nil)
	_, err = r.CreateFleet(region.FleetRequest{
		CapacityType: region.Spot, Total: 1,
		Overrides: []region.Override{{TemplateName: "node", InstanceType: "m5.large", Zone: "us-west-2a"}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 2 {
		for _, i := range r.Instances() {
			fmt.Println(i.Type, i.CapacityType, i.Zone, i.PrivateIP, i.State, i.Booted)
		}
		now.Advance(time.Minute)
	}

	_ = r.SetCapacity(region.Pool{Type: "m5.large", Zone: "us-west-2a", CapacityType: region.Spot}, 0)
	result, _ := r.CreateFleet(region.FleetRequest{
		CapacityType: region.Spot, Total: 1,
		Overrides: []region.Override{{TemplateName: "node", InstanceType: "m5.large", Zone: "us-west-2a"}},
	})
	fmt.Println(result.Errors[0].Code)
	// Output:
	// m5.large spot us-west-2a 10.0.0.4 pending false
	// m5.large spot us-west-2a 10.0.0.4 running true
	// InsufficientInstanceCapacity
}
