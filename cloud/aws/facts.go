package aws

import (
	"github.com/nodeless/nodeless/catalog"
	"github.com/nodeless/nodeless/engine/model"
)

// branchInterfaces is how many interfaces of security groups for pods a type carries; 0 if it cannot, or is too new for
// the catalogue. EC2 itself does not tell.
func branchInterfaces(instanceType string) int {
	t, ok := catalog.Lookup(instanceType)
	if !ok {
		return 0
	}
	return t.BranchENIs
}

// staticPrice is the on-demand price of the built-in catalogue, for when the price list cannot be read.
func staticPrice(region, instanceType string) (model.Price, bool) {
	p, ok := catalog.OnDemand(region, instanceType)
	return model.Price(p), ok && p > 0
}
