package awsapi

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/pricing"
	"github.com/aws/aws-sdk-go-v2/service/pricing/types"

	"github.com/nodeless/nodeless/catalog"
)

// product returns the product family and the attributes of a type in EC2's price list, on demand, for Linux (names as
// in the list's AmazonEC2 offers).
func product(t *catalog.Type, region string) (family string, attributes map[string]string) {
	family, tenancy, current := "Compute Instance", "Shared", "No"
	if t.BareMetal {
		family, tenancy = "Compute Instance (bare metal)", "Dedicated"
	}
	if t.CurrentGeneration {
		current = "Yes"
	}
	return family, map[string]string{
		"instanceType": t.Name, "regionCode": region, "servicecode": "AmazonEC2",
		"servicename":     "Amazon Elastic Compute Cloud",
		"operatingSystem": "Linux", "preInstalledSw": "NA", "capacitystatus": "Used", "tenancy": tenancy,
		"marketoption": "OnDemand",
		"locationType": "AWS Region", "licenseModel": "No License required", "operation": "RunInstances",
		"vcpu": strconv.Itoa(t.VCPU), "memory": strconv.FormatFloat(float64(t.MemoryMiB)/1024, 'f', -1, 64) + " GiB",
		"instanceFamily": t.Category, "currentGeneration": current,
	}
}

// passes reports whether a product matches every filter. Field names are case-insensitive, as in the service.
func passes(family string, attributes map[string]string, filters []types.Filter) (bool, error) {
	known := map[string]string{"productfamily": family}
	for k, v := range attributes {
		known[strings.ToLower(k)] = v
	}
	for _, f := range filters {
		if f.Type != types.FilterTypeTermMatch {
			return false, failure(400, "InvalidParameterException",
				fmt.Sprintf("filter type %q of field %s is not served: use TERM_MATCH", f.Type, aws.ToString(f.Field)))
		}
		if known[strings.ToLower(aws.ToString(f.Field))] != aws.ToString(f.Value) {
			return false, nil
		}
	}
	return true, nil
}

// document returns a product as in the price list: JSON inside a JSON string.
func document(o *catalog.Offer, family string, attributes map[string]string) (string, error) {
	type object = map[string]any
	dollars := float64(o.OnDemand) / 1e6
	sku := "SIM" + strings.ToUpper(strings.NewReplacer(".", "", "-", "").Replace(o.Type.Name))
	term := sku + ".JRTCKXETXF"
	rate := term + ".6YS6EN2CT7"
	b, err := json.Marshal(object{
		"serviceCode": "AmazonEC2",
		"product":     object{"sku": sku, "productFamily": family, "attributes": attributes},
		"terms": object{"OnDemand": object{term: object{
			"sku": sku, "offerTermCode": "JRTCKXETXF", "termAttributes": object{},
			"priceDimensions": object{rate: object{
				"rateCode": rate, "unit": "Hrs", "beginRange": "0", "endRange": "Inf", "appliesTo": []string{},
				"description":  fmt.Sprintf("$%g per On Demand Linux %s Instance Hour", dollars, o.Type.Name),
				"pricePerUnit": object{"USD": strconv.FormatFloat(dollars, 'f', 10, 64)},
			}},
		}}},
	})
	if err != nil {
		return "", fmt.Errorf("write the price of %s: %w", o.Type.Name, err)
	}
	return string(b), nil
}

// getProducts returns one page of EC2's on-demand prices.
func getProducts(c *call, in *pricing.GetProductsInput) (*pricing.GetProductsOutput, error) {
	if code := aws.ToString(in.ServiceCode); code != "AmazonEC2" {
		return nil, failure(400, "InvalidParameterException",
			fmt.Sprintf("service code %q is not served: use AmazonEC2", code))
	}
	var found []*catalog.Offer
	for _, o := range c.region.Offers() {
		family, attributes := product(o.Type, c.region.Name())
		ok, err := passes(family, attributes, in.Filters)
		if err != nil {
			return nil, err
		}
		if ok {
			found = append(found, o)
		}
	}
	found, next, err := page(found, in.MaxResults, 100, in.NextToken,
		func(o *catalog.Offer) string { return o.Type.Name })
	if err != nil {
		return nil, err
	}
	out := &pricing.GetProductsOutput{FormatVersion: new("aws_v1"), PriceList: []string{}, NextToken: next}
	for _, o := range found {
		family, attributes := product(o.Type, c.region.Name())
		text, err := document(o, family, attributes)
		if err != nil {
			return nil, err
		}
		out.PriceList = append(out.PriceList, text)
	}
	return out, nil
}
