package awsapi

import (
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/nodeless/nodeless/catalog"
	"github.com/nodeless/nodeless/region"
)

var spotPrices = kind[types.SpotPrice]{
	usual:   2000,
	filters: "instance-type product-description spot-price timestamp availability-zone availability-zone-id",
}

// spotHistory is the prices of some pools, hour by hour.
type spotHistory struct {
	region   *region.Region
	pools    []region.SpotPool // by key
	from, to time.Time
}

// spotProduct is the one product. Linux costs the same inside a VPC, and everything is in the VPC.
const spotProduct = types.RIProductDescriptionLinuxUnix

// describeSpotPriceHistory returns the prices between StartTime (now, if absent or in the future) and EndTime. Only the
// prices of the page are calculated: the key of a price, by which pages are ordered, is TYPE/ZONE/PRODUCT/TIME.
func describeSpotPriceHistory(
	c *call, in *ec2.DescribeSpotPriceHistoryInput,
) (*ec2.DescribeSpotPriceHistoryOutput, error) {
	h, err := spotHistoryOf(c.region, in)
	if err != nil {
		return nil, err
	}
	match, err := spotPrices.matcher(in.Filters)
	if err == nil {
		err = dryRun(in.DryRun)
	}
	after := ""
	if token := aws.ToString(in.NextToken); err == nil && token != "" {
		after, err = untoken(token)
	}
	if err != nil {
		return nil, err
	}
	size := sizeOf(in.MaxResults, spotPrices.usual)
	out := &ec2.DescribeSpotPriceHistoryOutput{SpotPriceHistory: []types.SpotPrice{}}
	for p := range h.after(after) {
		if !match(p) {
			continue
		}
		if len(out.SpotPriceHistory) == size {
			last := &out.SpotPriceHistory[size-1]
			out.NextToken = tokenAfter(fmt.Sprintf("%s/%s/%s/%s", last.InstanceType, *last.AvailabilityZone, spotProduct,
				stamp(*last.Timestamp)))
			break
		}
		out.SpotPriceHistory = append(out.SpotPriceHistory, p)
	}
	return out, nil
}

// spotHistoryOf returns the history that a call asks for, of at most 90 days, which EC2 keeps.
func spotHistoryOf(r *region.Region, in *ec2.DescribeSpotPriceHistoryInput) (spotHistory, error) {
	from, to, now := aws.ToTime(in.StartTime), aws.ToTime(in.EndTime), r.Now()
	if from.IsZero() || from.After(now) {
		from = now
	}
	if to.IsZero() || to.After(now) {
		to = now
	}
	if oldest := to.Add(-90 * 24 * time.Hour); from.Truncate(region.SpotStep).Before(oldest) {
		from = oldest
	}
	h := spotHistory{region: r, from: from.Truncate(region.SpotStep), to: to}
	zone, zoneID := aws.ToString(in.AvailabilityZone), aws.ToString(in.AvailabilityZoneId)
	inZone := func(z catalog.Zone) bool { return (zone == "" || zone == z.Name) && (zoneID == "" || zoneID == z.ID) }
	if !slices.ContainsFunc(r.Zones(), inZone) {
		return h, failure(400, "InvalidParameterValue", fmt.Sprintf("Invalid availability zone: [%s%s]", zone, zoneID))
	}
	if products := in.ProductDescriptions; len(products) > 0 && !slices.Contains(products, string(spotProduct)) &&
		!slices.Contains(products, "Linux/UNIX (Amazon VPC)") {
		return h, nil
	}
	for _, p := range r.SpotPools() {
		if inZone(p.Zone) &&
			(len(in.InstanceTypes) == 0 || slices.Contains(in.InstanceTypes, types.InstanceType(p.Type))) {
			h.pools = append(h.pools, p)
		}
	}
	return h, nil
}

// after yields the prices whose keys come after a key.
func (h spotHistory) after(key string) iter.Seq[types.SpotPrice] {
	return func(yield func(types.SpotPrice) bool) {
		for i := range h.pools {
			p := &h.pools[i]
			rest, begun := strings.CutPrefix(key, p.Key)
			if !begun && key > p.Key {
				continue
			}
			for at := h.from; !at.After(h.to); at = at.Add(region.SpotStep) {
				if begun && string(spotProduct)+"/"+stamp(at) <= rest {
					continue
				}
				if !yield(h.price(p, at)) {
					return
				}
			}
		}
	}
}

func (h spotHistory) price(p *region.SpotPool, at time.Time) types.SpotPrice {
	price, _ := h.region.SpotPrice(p.Type, p.Zone.Name, at)
	return types.SpotPrice{
		InstanceType: types.InstanceType(p.Type), ProductDescription: spotProduct, Timestamp: &at,
		AvailabilityZone: &p.Zone.Name, AvailabilityZoneId: &p.Zone.ID,
		SpotPrice: new(strconv.FormatFloat(float64(price)/1e6, 'f', 6, 64)),
	}
}

// stringsOf converts a list of enumeration values to strings.
func stringsOf[S ~string](list []S) []string {
	var out []string
	for _, s := range list {
		out = append(out, string(s))
	}
	return out
}
