package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/nodeless/nodeless/engine/model"
)

const offered = "karpenter_cloudprovider_instance_type_"

var (
	offeringPrice = newGauge(offered+"offering_price_estimate", "Price of an offering, in dollars an hour.",
		"instance_type", "capacity_type", "zone")
	offeringAvailable = newGauge(offered+"offering_available",
		"1 if an offering can be had, 0 while the cloud lately had none.", "instance_type", "capacity_type", "zone")
	offeringBackoff = newGauge("nodeless_offering_backoff_seconds",
		"Seconds until an offering that the cloud had no capacity for is tried again.", "instance_type", "capacity_type",
		"zone")
	typeCores  = newGauge(offered+"cpu_cores", "CPUs of an instance type.", "instance_type")
	typeMemory = newGauge(offered+"memory_bytes",
		"Memory of an instance type, as pods of a fresh machine see it.", "instance_type")
)

// offerings tells what can be had under any NodePool; a type is told once.
func (v *view) offerings(ch chan<- prometheus.Metric) {
	told := map[string]bool{}
	for i := range v.snapshot.Pools {
		for j := range v.snapshot.Pools[i].Types {
			t := &v.snapshot.Pools[i].Types[j]
			if told[t.Name] {
				continue
			}
			told[t.Name] = true
			typeCores.put(ch, float64(t.Capacity[model.CPU])/1000, t.Name)
			typeMemory.put(ch, float64(t.Capacity[model.Memory]), t.Name)
			for _, o := range t.Offerings {
				available := 0.0
				if o.Available {
					available = 1
				}
				if !o.Available && o.RetryAt.After(v.now) {
					offeringBackoff.put(ch, o.RetryAt.Sub(v.now).Seconds(), t.Name, o.CapacityType, o.Zone)
				}
				offeringPrice.put(ch, dollars(o.Price), t.Name, o.CapacityType, o.Zone)
				offeringAvailable.put(ch, available, t.Name, o.CapacityType, o.Zone)
			}
		}
	}
}
