package awsapi

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// priced is an offer of EC2's price list: one type, on demand, for Linux with shared or dedicated hardware.
type priced struct {
	instanceType, family, regionCode string
	vcpus                            int
	memoryMiB                        int64
	bareMetal, currentGeneration     bool
	dollarsPerHour                   float64
}

// attributes returns what GetProducts filters on and answers with (names as in the price list's AmazonEC2 offers).
func (p priced) attributes() map[string]string {
	a := map[string]string{
		"instanceType": p.instanceType, "regionCode": p.regionCode, "servicecode": "AmazonEC2",
		"servicename":     "Amazon Elastic Compute Cloud",
		"operatingSystem": "Linux", "preInstalledSw": "NA", "capacitystatus": "Used", "tenancy": "Shared",
		"marketoption": "OnDemand",
		"locationType": "AWS Region", "licenseModel": "No License required", "operation": "RunInstances",
		"vcpu": strconv.Itoa(p.vcpus), "memory": strconv.FormatFloat(float64(p.memoryMiB)/1024, 'f', -1, 64) + " GiB",
		"instanceFamily": p.family, "currentGeneration": "No",
	}
	if p.bareMetal {
		a["tenancy"] = "Dedicated" // where the price list keeps bare metal
	}
	if p.currentGeneration {
		a["currentGeneration"] = "Yes"
	}
	return a
}

func (p priced) productFamily() string {
	if p.bareMetal {
		return "Compute Instance (bare metal)"
	}
	return "Compute Instance"
}

func (p priced) sku() string {
	return "SIM" + strings.ToUpper(strings.NewReplacer(".", "", "-", "").Replace(p.instanceType))
}

type productFilter struct{ Type, Field, Value string }

type productsRequest struct {
	ServiceCode string
	Filters     []productFilter
	NextToken   string
	MaxResults  int
}

type productsAnswer struct {
	FormatVersion string
	PriceList     []string
	NextToken     string `json:",omitempty"`
}

// matches reports whether the offer passes every filter. Field names are compared without case, as the service does.
func (p priced) matches(filters []productFilter) (bool, error) {
	known := map[string]string{"productfamily": p.productFamily()}
	for k, v := range p.attributes() {
		known[strings.ToLower(k)] = v
	}
	for _, f := range filters {
		if f.Type != "TERM_MATCH" {
			return false, failure(400, "InvalidParameterException",
				fmt.Sprintf("filter type %q of field %s is not served: use TERM_MATCH", f.Type, f.Field))
		}
		if known[strings.ToLower(f.Field)] != f.Value {
			return false, nil
		}
	}
	return true, nil
}

// document is the offer as the price list writes it: JSON within a JSON string.
func (p priced) document() (string, error) {
	type object = map[string]any
	sku := p.sku()
	term := sku + ".JRTCKXETXF"
	rate := term + ".6YS6EN2CT7"
	b, err := json.Marshal(object{
		"serviceCode": "AmazonEC2",
		"product":     object{"sku": sku, "productFamily": p.productFamily(), "attributes": p.attributes()},
		"terms": object{"OnDemand": object{term: object{
			"sku": sku, "offerTermCode": "JRTCKXETXF", "termAttributes": object{},
			"priceDimensions": object{rate: object{
				"rateCode": rate, "unit": "Hrs", "beginRange": "0", "endRange": "Inf", "appliesTo": []string{},
				"description":  fmt.Sprintf("$%g per On Demand Linux %s Instance Hour", p.dollarsPerHour, p.instanceType),
				"pricePerUnit": object{"USD": strconv.FormatFloat(p.dollarsPerHour, 'f', 10, 64)},
			}},
		}}},
	})
	if err != nil {
		return "", fmt.Errorf("write the price of %s: %w", p.instanceType, err)
	}
	return string(b), nil
}

// answer is one page of the offers that match.
func (q productsRequest) answer(offers []priced) (productsAnswer, error) {
	out := productsAnswer{FormatVersion: "aws_v1", PriceList: []string{}}
	if q.ServiceCode != "AmazonEC2" {
		return out, failure(400, "InvalidParameterException",
			fmt.Sprintf("service code %q is not served: use AmazonEC2", q.ServiceCode))
	}
	var found []priced
	for _, p := range offers {
		ok, err := p.matches(q.Filters)
		if err != nil {
			return out, err
		}
		if ok {
			found = append(found, p)
		}
	}
	found, next, err := page(found, q.MaxResults, 100, q.NextToken, func(p priced) string { return p.instanceType })
	if err != nil {
		return out, err
	}
	out.NextToken = next
	for _, p := range found {
		text, err := p.document()
		if err != nil {
			return out, err
		}
		out.PriceList = append(out.PriceList, text)
	}
	return out, nil
}
