package region

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"math"
	"slices"
	"time"

	"github.com/nodeless/nodeless/catalog"
)

// Allocation strategies of CreateFleet.
const (
	LowestPrice                  = "lowest-price"
	Prioritized                  = "prioritized"
	PriceCapacityOptimized       = "price-capacity-optimized"
	CapacityOptimized            = "capacity-optimized"
	CapacityOptimizedPrioritized = "capacity-optimized-prioritized"
	Diversified                  = "diversified"
)

// FleetRequest is CreateFleet of type instant.
type FleetRequest struct {
	ClientToken  string
	CapacityType string // OnDemand or Spot: the default target capacity type
	Strategy     string // of that capacity type; "" = EC2's default, lowest-price
	Total        int
	Overrides    []Override
	InstanceTags map[string]string
	FleetTags    map[string]string
}

// Override is one way to fulfil a fleet: a launch template with a type and place.
type Override struct {
	TemplateID, TemplateName, TemplateVersion string
	InstanceType                              string // "" = the template's
	SubnetID                                  string
	Zone                                      string
	ImageID                                   string // "" = the template's
	Priority                                  float64
}

// FleetResult is what was launched and what could not be.
type FleetResult struct {
	FleetID   string
	Launched  []FleetLaunch
	Errors    []FleetError
	Templates map[string]string // template ids by name, as resolved
}

// FleetLaunch are the instances of one override.
type FleetLaunch struct {
	Override     Override // with zone and image filled in
	CapacityType string
	IDs          []string
}

// FleetError is why an override that was tried gave nothing.
type FleetError struct {
	Override      Override
	CapacityType  string
	Code, Message string
}

// token is the result of a call that had a client token.
type token struct {
	Digest string // of the request's parameters
	At     time.Time
	Fleet  *FleetResult
	Run    []string
}

// CreateFleet launches at once what it can get, best first by the strategy. The same client token gives the same result
// again; other parameters under a used token are IdempotentParameterMismatch.
func (r *Region) CreateFleet(q FleetRequest) (FleetResult, error) {
	if err := validate(q); err != nil {
		return FleetResult{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	digest := digestOf(q)
	if t, ok := r.tokens["fleet/"+q.ClientToken]; ok && q.ClientToken != "" {
		if t.Digest != digest || t.Fleet == nil {
			return FleetResult{}, apiError("IdempotentParameterMismatch", "The client token '%s' was used before with other parameters", q.ClientToken)
		}
		return *t.Fleet, nil
	}
	options, err := r.resolve(q)
	if err != nil {
		return FleetResult{}, err
	}
	result := FleetResult{FleetID: "fleet-" + r.newID(), Templates: map[string]string{}}
	r.fulfil(q, options, &result)
	if q.ClientToken != "" {
		t := &token{Digest: digest, At: r.clock.Now(), Fleet: &result}
		r.tokens["fleet/"+q.ClientToken] = t
		r.store.put(bucketTokens, "fleet/"+q.ClientToken, t)
	}
	return result, r.commit()
}

func validate(q FleetRequest) error {
	switch {
	case len(q.Overrides) == 0:
		return apiError("InvalidParameterValue", "LaunchTemplateConfigs must name at least one launch template")
	case q.Total < 1 || q.Total > 1000:
		return apiError("InvalidTargetCapacitySpecification", "TotalTargetCapacity must be between 1 and 1000, is %d", q.Total)
	case q.CapacityType != OnDemand && q.CapacityType != Spot:
		return apiError("InvalidParameterValue", "DefaultTargetCapacityType '%s' is not one of on-demand, spot", q.CapacityType)
	case len(q.Overrides) > 300*50:
		return apiError("InvalidParameterValue", "too many overrides: %d", len(q.Overrides))
	}
	known := map[string][]string{
		OnDemand: {"", LowestPrice, Prioritized},
		Spot:     {"", LowestPrice, PriceCapacityOptimized, CapacityOptimized, CapacityOptimizedPrioritized, Diversified},
	}
	if !slices.Contains(known[q.CapacityType], q.Strategy) {
		return apiError("InvalidParameterValue", "allocation strategy '%s' is not one of %v for %s", q.Strategy, known[q.CapacityType][1:], q.CapacityType)
	}
	return nil
}

// option is an override with everything looked up.
type option struct {
	o        Override
	template *LaunchTemplate
	data     *TemplateData
	subnet   *Subnet
	offer    *catalog.Offer // nil where the region does not offer the type in that zone
	price    int64
	free     int
	index    int
}

// resolve looks up templates, subnets, types and prices. The caller holds the lock.
func (r *Region) resolve(q FleetRequest) ([]option, error) {
	var out []option
	for n, o := range q.Overrides {
		template, data, err := r.template(o.TemplateID, o.TemplateName, o.TemplateVersion)
		if err != nil {
			return nil, err
		}
		if o.InstanceType == "" {
			o.InstanceType = data.InstanceType
		}
		if o.ImageID == "" {
			o.ImageID = data.ImageID
		}
		o.TemplateID, o.TemplateName = template.ID, template.Name
		subnet, err := r.subnetFor(o)
		if err != nil {
			return nil, err
		}
		if r.Type(o.InstanceType) == nil {
			return nil, apiError("InvalidInstanceType", "The instance type '%s' does not exist", o.InstanceType)
		}
		if r.image(o.ImageID) == nil {
			return nil, apiError("InvalidAMIID.NotFound", "The image id '[%s]' does not exist", o.ImageID)
		}
		o.SubnetID, o.Zone = subnet.ID, subnet.Zone
		x := option{o: o, template: template, data: data, subnet: subnet, index: n}
		x.offer = r.offerIn(o.InstanceType, subnet.Zone)
		if x.offer != nil {
			x.price = r.price(x.offer, subnet.Zone, q.CapacityType)
			x.free = r.free(Pool{o.InstanceType, subnet.Zone, q.CapacityType})
		}
		out = append(out, x)
	}
	order(out, q.Strategy)
	return out, nil
}

// order sorts options best first, ties by the order of the request.
func order(options []option, strategy string) {
	// A pool's depth counts as EC2 describes price-capacity-optimized: the cheapest among those with capacity to spare. A
	// pool of four machines seems half as dear again, one of a hundred a tenth dearer.
	weighted := func(x option) float64 { return float64(x.price) * (1 + 1/math.Sqrt(float64(max(x.free, 1)))) }
	slices.SortStableFunc(options, func(a, b option) int {
		switch strategy {
		case Prioritized:
			return cmp.Compare(a.o.Priority, b.o.Priority)
		case PriceCapacityOptimized:
			return cmp.Compare(weighted(a), weighted(b))
		case CapacityOptimized, CapacityOptimizedPrioritized:
			return cmp.Or(cmp.Compare(b.free, a.free), cmp.Compare(a.o.Priority, b.o.Priority))
		}
		return cmp.Compare(a.price, b.price)
	})
}

func digestOf(q any) string {
	data, err := json.Marshal(q)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:16])
}

func merged(maps ...map[string]string) map[string]string {
	out := map[string]string{}
	for _, m := range maps {
		for k, v := range m {
			out[k] = v
		}
	}
	return out
}
