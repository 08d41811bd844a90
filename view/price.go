package view

import (
	"math"
	"strconv"

	"github.com/nodeless/nodeless/catalog"
)

// LabelPrice on a Node says what it costs, in dollars an hour, whatever the catalogue says; eks-node-viewer reads it
// too.
const LabelPrice = "eks-node-viewer/instance-price"

// PriceOf is what a node with these labels costs, in millionths of a dollar an hour; 0 if it is not known. A
// node says it itself by LabelPrice; else it is the catalogue's list price of its type in its region, for spot
// nodes the catalogue's average in their zone. A node without a capacity type is taken to be on-demand. AWS
// bills Fargate by pod, which no label tells.
func PriceOf(labels map[string]string) int64 {
	if own, err := strconv.ParseFloat(labels[LabelPrice], 64); err == nil && own > 0 && own < 1e9 {
		return int64(math.Round(own * 1e6))
	}
	if labels[labelCompute] == "fargate" {
		return 0
	}
	zone, region, kind := labels[labelZone], labels[labelRegion], labels[labelType]
	if region == "" {
		region = catalog.RegionOf(zone)
	}
	if labels[labelCapacity] == "spot" || labels[eksCapacity] == "SPOT" {
		price, _ := catalog.Of(region).SpotAverage(zone, kind)
		return price
	}
	price, _ := catalog.Of(region).OnDemand(kind)
	return price
}

// PriceSource says where prices come from.
func PriceSource() string { return "list prices, spot averaged, of " + catalog.Origin() }
