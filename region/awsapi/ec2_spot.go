package awsapi

import (
	"fmt"
	"slices"

	"github.com/nodeless/nodeless/region"
)

type spotPriceXML struct {
	InstanceType       string `xml:"instanceType"`
	ProductDescription string `xml:"productDescription"`
	SpotPrice          string `xml:"spotPrice"`
	Timestamp          string `xml:"timestamp"`
	AvailabilityZone   string `xml:"availabilityZone"`
	AvailabilityZoneID string `xml:"availabilityZoneId"`
}

func (p spotPriceXML) key() string {
	return p.InstanceType + "/" + p.AvailabilityZone + "/" + p.ProductDescription + "/" + p.Timestamp
}

func (p spotPriceXML) attributes() attributes {
	return attributes{
		"instance-type": {p.InstanceType}, "availability-zone": {p.AvailabilityZone}, "availability-zone-id": {p.AvailabilityZoneID},
		"product-description": {p.ProductDescription}, "spot-price": {p.SpotPrice}, "timestamp": {p.Timestamp},
	}
}

type spotPricesAnswer struct {
	Prices    set[spotPriceXML] `xml:"spotPriceHistorySet"`
	NextToken string            `xml:"nextToken,omitempty"`
}

// describeSpotPriceHistory tells the prices from StartTime, which is now where it is absent or to come, to EndTime.
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
	return c.answerSpotPrices(setOf(points, func(p region.SpotPricePoint) spotPriceXML {
		return spotPriceXML{
			InstanceType: p.Type, ProductDescription: "Linux/UNIX", SpotPrice: fmt.Sprintf("%.6f", float64(p.PriceMicros)/1e6), Timestamp: stamp(p.At),
			AvailabilityZone: p.Zone, AvailabilityZoneID: zoneIDs[p.Zone],
		}
	}).Items)
}

// answerSpotPrices: Linux costs the same within a VPC, which is where all is.
func (c *call) answerSpotPrices(all []spotPriceXML) (any, error) {
	products := c.form.strs("ProductDescription")
	if len(products) > 0 && !slices.Contains(products, "Linux/UNIX") && !slices.Contains(products, "Linux/UNIX (Amazon VPC)") {
		all = nil
	}
	found, err := selected(all, c.filters(), spotPriceXML.attributes)
	if err != nil {
		return nil, err
	}
	found, next, err := pageOf(c, found, 2000, spotPriceXML.key)
	return spotPricesAnswer{Prices: set[spotPriceXML]{Items: found}, NextToken: next}, err
}
