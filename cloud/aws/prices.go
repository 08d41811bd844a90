package aws

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/pricing"
	pricingtypes "github.com/aws/aws-sdk-go-v2/service/pricing/types"

	"github.com/nodeless/nodeless/catalog"
	"github.com/nodeless/nodeless/engine/model"
)

// pricingRegion returns the nearest region that serves the price list (AWS Billing user guide, "Price List Query API
// endpoints").
func pricingRegion(region string) string {
	switch {
	case strings.HasPrefix(region, "cn-"):
		return "cn-northwest-1"
	case strings.HasPrefix(region, "ap-"):
		return "ap-south-1"
	case strings.HasPrefix(region, "eu-"):
		return "eu-central-1"
	}
	return "us-east-1"
}

// fallbackRegion is the region whose on-demand prices stand in for those of a region that is not in the built-in
// catalogue while the price list cannot be read (github.com/aws/karpenter-provider-aws/pkg/providers/pricing does the
// same).
const fallbackRegion = "us-east-1"

// onDemandPrice returns the on-demand price of a type: that of the price list, else the built-in one. Prices of another
// region are not mixed with those of the price list.
func (g *offers) onDemandPrice(region, instanceType string) (model.Price, bool) {
	if price, ok := g.onDemand[instanceType]; ok {
		return price, true
	}
	if g.borrowed(region) {
		region = fallbackRegion
	}
	p, ok := catalog.Of(region).OnDemand(instanceType)
	return model.Price(p), ok && p > 0
}

// borrowed reports whether on-demand prices are those of fallbackRegion.
func (g *offers) borrowed(region string) bool {
	return len(g.onDemand) == 0 && catalog.Of(region) == nil
}

// PriceNote says where on-demand prices come from if they are not those of the region; "" if they are.
func (p *Provider) PriceNote() string {
	p.market.mu.Lock()
	defer p.market.mu.Unlock()
	if g := p.market.newest; g == nil || !g.borrowed(p.o.AWS.Region) {
		return ""
	}
	return fmt.Sprintf("on-demand prices of %s, as those of %s are not known", fallbackRegion, p.o.AWS.Region)
}

// readOnDemand reads the price list: Linux, shared tenancy, no software, in use. GovCloud has no price list, and the
// credentials of its accounts are not valid elsewhere (github.com/aws/karpenter-provider-aws/pkg/providers/pricing).
func (m *market) readOnDemand(ctx context.Context) (func(*offers), error) {
	if m.o.IsolatedVPC || strings.HasPrefix(m.o.AWS.Region, "us-gov-") {
		return func(*offers) {}, nil
	}
	prices := map[string]model.Price{}
	for _, family := range []string{"Compute Instance", "Compute Instance (bare metal)"} {
		in := &pricing.GetProductsInput{ServiceCode: awssdk.String("AmazonEC2"), MaxResults: awssdk.Int32(100)}
		for _, f := range [][2]string{
			{"regionCode", m.o.AWS.Region},
			{"serviceCode", "AmazonEC2"},
			{"preInstalledSw", "NA"},
			{"operatingSystem", "Linux"},
			{"capacitystatus", "Used"},
			{"marketoption", "OnDemand"},
			{"tenancy", "Shared"},
			{"productFamily", family},
		} {
			in.Filters = append(in.Filters, pricingtypes.Filter{
				Type: pricingtypes.FilterTypeTermMatch, Field: awssdk.String(f[0]), Value: awssdk.String(f[1]),
			})
		}
		err := eachPage(ctx, pricing.NewGetProductsPaginator(m.pricing, in), "get products from the price list",
			"pricing:GetProducts", func(page *pricing.GetProductsOutput) {
				for _, product := range page.PriceList {
					if t, price, ok := parseProduct([]byte(product)); ok {
						prices[t] = price
					}
				}
			})
		if err != nil {
			return nil, err
		}
	}
	return func(g *offers) { g.onDemand = prices }, nil
}

// parseProduct reads the type and its hourly price from an entry of the price list. ok is false for an entry without a
// price in US dollars or, in China, yuan.
func parseProduct(text []byte) (instanceType string, price model.Price, ok bool) {
	var entry struct {
		Product struct {
			Attributes struct {
				InstanceType string `json:"instanceType"`
			} `json:"attributes"`
		} `json:"product"`
		Terms struct {
			OnDemand map[string]struct {
				PriceDimensions map[string]struct {
					PricePerUnit map[string]string `json:"pricePerUnit"`
				} `json:"priceDimensions"`
			} `json:"OnDemand"`
		} `json:"terms"`
	}
	if json.Unmarshal(text, &entry) != nil || entry.Product.Attributes.InstanceType == "" {
		return "", 0, false
	}
	for _, term := range entry.Terms.OnDemand {
		for _, d := range term.PriceDimensions {
			for _, currency := range []string{"USD", "CNY"} {
				if price, ok := parsePrice(d.PricePerUnit[currency]); ok {
					return entry.Product.Attributes.InstanceType, price, true
				}
			}
		}
	}
	return "", 0, false
}

func parsePrice(dollars string) (model.Price, bool) {
	f, err := strconv.ParseFloat(dollars, 64)
	if err != nil || f <= 0 || math.IsInf(f, 0) {
		return 0, false
	}
	return model.Price(math.Round(f * 1e6)), true
}

// readSpot reads the current spot price of each type and zone.
func (m *market) readSpot(ctx context.Context) (func(*offers), error) {
	prices, newest := map[spotKey]model.Price{}, map[spotKey]time.Time{}
	pages := ec2.NewDescribeSpotPriceHistoryPaginator(m.ec2, &ec2.DescribeSpotPriceHistoryInput{
		ProductDescriptions: []string{"Linux/UNIX", "Linux/UNIX (Amazon VPC)"},
		StartTime:           awssdk.Time(m.now()),
		MaxResults:          awssdk.Int32(1000),
	})
	err := eachPage(ctx, pages, "describe spot price history", "ec2:DescribeSpotPriceHistory",
		func(page *ec2.DescribeSpotPriceHistoryOutput) {
			for _, h := range page.SpotPriceHistory {
				price, ok := parsePrice(awssdk.ToString(h.SpotPrice))
				key := spotKey{string(h.InstanceType), awssdk.ToString(h.AvailabilityZone)}
				if at := awssdk.ToTime(h.Timestamp); ok && (newest[key].IsZero() || at.After(newest[key])) {
					prices[key], newest[key] = price, at
				}
			}
		})
	return func(g *offers) { g.spot = prices }, err
}
