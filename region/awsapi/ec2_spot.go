package awsapi

import (
	"fmt"
	"slices"

	"github.com/nodeless/nodeless/region"
)

type spotPriceXML struct {
	InstanceType       string `xml:"instanceType" filter:"instance-type"`
	ProductDescription string `xml:"productDescription" filter:"product-description"`
	SpotPrice          string `xml:"spotPrice" filter:"spot-price"`
	Timestamp          string `xml:"timestamp" filter:"timestamp"`
	AvailabilityZone   string `xml:"availabilityZone" filter:"availability-zone"`
	AvailabilityZoneID string `xml:"availabilityZoneId" filter:"availability-zone-id"`
}

// describeSpotPriceHistory answers with the prices between StartTime (now, if it is absent or in the future) and
// EndTime.
func describeSpotPriceHistory(c *call) (any, error) {
	from, to, now := c.form.timestamp("StartTime"), c.form.timestamp("EndTime"), c.region.Now()
	if err := c.form.fail(); err != nil {
		return nil, err
	}
	if from.IsZero() || from.After(now) {
		from = now
	}
	if to.IsZero() || to.After(now) {
		to = now
	}
	zoneIDs, zones := map[string]string{}, []string(nil)
	zone, zoneID := c.form.str("AvailabilityZone"), c.form.str("AvailabilityZoneId")
	for _, z := range c.region.Zones() {
		zoneIDs[z.Name] = z.ID
		if (zone != "" || zoneID != "") && (zone == "" || zone == z.Name) && (zoneID == "" || zoneID == z.ID) {
			zones = append(zones, z.Name)
		}
	}
	if zones == nil && (zone != "" || zoneID != "") {
		return nil, failure(400, "InvalidParameterValue", fmt.Sprintf("Invalid availability zone: [%s%s]", zone, zoneID))
	}
	points := c.region.SpotPriceHistory(c.form.strs("InstanceType"), zones, from, to)
	all := setOf(points, func(p region.SpotPricePoint) spotPriceXML {
		return spotPriceXML{
			InstanceType: p.Type, ProductDescription: "Linux/UNIX", Timestamp: stamp(p.At), AvailabilityZone: p.Zone,
			SpotPrice: fmt.Sprintf("%.6f", float64(p.PriceMicros)/1e6), AvailabilityZoneID: zoneIDs[p.Zone],
		}
	}).Items
	// Linux costs the same within a VPC, where everything is.
	products := c.form.strs("ProductDescription")
	if len(products) > 0 && !slices.Contains(products, "Linux/UNIX") &&
		!slices.Contains(products, "Linux/UNIX (Amazon VPC)") {
		all = nil
	}
	return described(c, "spotPriceHistorySet", all, 2000, func(p spotPriceXML) string {
		return p.InstanceType + "/" + p.AvailabilityZone + "/" + p.ProductDescription + "/" + p.Timestamp
	})
}
