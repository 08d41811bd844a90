package view

import (
	"math"
	"strconv"

	"github.com/nodeless/nodeless/catalog"
)

// LabelPrice on a Node is its price in dollars an hour, which overrides the catalogue; eks-node-viewer reads it, too.
const LabelPrice = "eks-node-viewer/instance-price"

// reserved is the capacity type of prepaid nodes.
const reserved = "reserved"

// PriceOf returns what a node with these labels costs, in millionths of a dollar an hour; 0 if unknown. LabelPrice
// comes first; else it is the catalogue's list price of the type in its region or, for spot nodes, the catalogue's
// average in their zone. A node without a capacity type is assumed to be on-demand. AWS bills Fargate per pod, which
// no label gives. It bills a capacity reservation whether it is used or not, so its nodes cost nothing more, as in
// decisions and savings; see NodeRow.Priced.
func PriceOf(labels map[string]string) int64 {
	if own, err := strconv.ParseFloat(labels[LabelPrice], 64); err == nil && own > 0 && own < 1e9 {
		return int64(math.Round(own * 1e6))
	}
	if labels[labelCompute] == "fargate" || labels[labelCapacity] == reserved || labels[eksCapacity] == "CAPACITY_BLOCK" {
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

// PriceSource describes where prices come from.
func PriceSource() string { return "list prices, spot averaged, of " + catalog.Origin() }
