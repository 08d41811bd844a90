package awsapi

import (
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

var spotPrices = kind[types.SpotPrice]{
	key: "InstanceType AvailabilityZone ProductDescription Timestamp", most: 2000,
	filters: "instance-type product-description spot-price timestamp availability-zone availability-zone-id",
}

// describeSpotPriceHistory returns the prices between StartTime (now, if absent or in the future) and EndTime.
func describeSpotPriceHistory(
	c *call, in *ec2.DescribeSpotPriceHistoryInput,
) (*ec2.DescribeSpotPriceHistoryOutput, error) {
	from, to, now := aws.ToTime(in.StartTime), aws.ToTime(in.EndTime), c.region.Now()
	if from.IsZero() || from.After(now) {
		from = now
	}
	if to.IsZero() || to.After(now) {
		to = now
	}
	zoneIDs, zones := map[string]string{}, []string(nil)
	zone, zoneID := aws.ToString(in.AvailabilityZone), aws.ToString(in.AvailabilityZoneId)
	for _, z := range c.region.Zones() {
		zoneIDs[z.Name] = z.ID
		if (zone != "" || zoneID != "") && (zone == "" || zone == z.Name) && (zoneID == "" || zoneID == z.ID) {
			zones = append(zones, z.Name)
		}
	}
	if zones == nil && (zone != "" || zoneID != "") {
		return nil, failure(400, "InvalidParameterValue", fmt.Sprintf("Invalid availability zone: [%s%s]", zone, zoneID))
	}
	var all []types.SpotPrice
	for _, p := range c.region.SpotPriceHistory(stringsOf(in.InstanceTypes), zones, from, to) {
		all = append(all, types.SpotPrice{
			InstanceType: types.InstanceType(p.Type), ProductDescription: types.RIProductDescriptionLinuxUnix,
			Timestamp: &p.At, AvailabilityZone: &p.Zone, AvailabilityZoneId: new(zoneIDs[p.Zone]),
			SpotPrice: new(fmt.Sprintf("%.6f", float64(p.PriceMicros)/1e6)),
		})
	}
	// Linux costs the same inside a VPC, and everything is in the VPC.
	if products := in.ProductDescriptions; len(products) > 0 && !slices.Contains(products, "Linux/UNIX") &&
		!slices.Contains(products, "Linux/UNIX (Amazon VPC)") {
		all = nil
	}
	found, next, err := spotPrices.answer(in, all)
	return &ec2.DescribeSpotPriceHistoryOutput{SpotPriceHistory: found, NextToken: next}, err
}

// stringsOf converts a list of enumeration values to strings.
func stringsOf[S ~string](list []S) []string {
	var out []string
	for _, s := range list {
		out = append(out, string(s))
	}
	return out
}
