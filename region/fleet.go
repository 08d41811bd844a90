package region

import (
	"cmp"
	"math"
	"slices"
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

// FleetRequest holds the parameters of CreateFleet, type instant.
type FleetRequest struct {
	ClientToken  string
	CapacityType string // OnDemand, Spot or CapacityBlock: the default target capacity type
	Strategy     string // of that capacity type; "" means EC2's default, lowest-price
	Total        int
	Overrides    []Override
	InstanceTags map[string]string
	FleetTags    map[string]string
}

// Override is one option of a fleet: a launch template with a type and a subnet or zone.
type Override struct {
	TemplateID, TemplateName, TemplateVersion string
	InstanceType                              string // "" means the template's
	SubnetID                                  string // "" means the template's
	Zone                                      string // name or ID; "" means the template's
	ImageID                                   string // "" means the template's
	Priority                                  float64
}

// NoPriority is the priority of an override without one, which comes after all others.
const NoPriority = math.MaxFloat64

// FleetResult is what was launched and what could not be.
type FleetResult struct {
	FleetID   string
	Launched  []FleetLaunch
	Errors    []FleetError
	Templates map[string]string // template IDs by name, as resolved
}

// FleetLaunch lists the instances of one override.
type FleetLaunch struct {
	Override     Override // with zone and image filled in
	CapacityType string
	IDs          []string
}

// FleetError tells why an override launched no more instances.
type FleetError struct {
	Override      Override
	CapacityType  string
	Code, Message string
}

// CreateFleet launches at once as many instances as it can, best options first by the strategy. The same client token
// returns the same result again; a used token with other parameters fails with IdempotentParameterMismatch.
func (l *launcher) CreateFleet(q FleetRequest) (FleetResult, error) {
	if err := q.validate(); err != nil {
		return FleetResult{}, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	t, known, err := l.tokens.result("fleet/", q.ClientToken, q)
	if err != nil {
		return FleetResult{}, err
	}
	if known {
		return *t.Fleet, nil
	}
	options, err := l.options(q)
	if err != nil {
		return FleetResult{}, err
	}
	result := FleetResult{FleetID: "fleet-" + l.newID(), Templates: map[string]string{}}
	l.fulfil(q, options, &result)
	t.Fleet = &result
	l.tokens.remember("fleet/", q.ClientToken, t)
	return result, l.commit()
}

func (q FleetRequest) validate() error {
	switch {
	case len(q.Overrides) == 0:
		return apiError("InvalidParameterValue", "LaunchTemplateConfigs must name at least one launch template")
	case q.Total < 1 || q.Total > 1000:
		return apiError("InvalidTargetCapacitySpecification", "TotalTargetCapacity must be between 1 and 1000, is %d",
			q.Total)
	case q.CapacityType != OnDemand && q.CapacityType != Spot && q.CapacityType != CapacityBlock:
		return apiError("InvalidParameterValue", "DefaultTargetCapacityType '%s' is not one of on-demand, spot, "+
			"capacity-block", q.CapacityType)
	case len(q.Overrides) > 300*50:
		return apiError("InvalidParameterValue", "too many overrides: %d", len(q.Overrides))
	}
	known := map[string][]string{
		OnDemand: {"", LowestPrice, Prioritized}, CapacityBlock: {""},
		Spot: {
			"", LowestPrice, PriceCapacityOptimized, CapacityOptimized, CapacityOptimizedPrioritized, Diversified,
		},
	}[q.CapacityType]
	if !slices.Contains(known, q.Strategy) {
		return apiError("InvalidParameterValue", "allocation strategy '%s' is not one of %v for %s",
			q.Strategy, known[1:], q.CapacityType)
	}
	return nil
}

// options resolves the overrides and sorts them best first.
func (l *launcher) options(q FleetRequest) ([]option, error) {
	var out []option
	for _, o := range q.Overrides {
		template, data, err := l.templates.version(o.TemplateID, o.TemplateName, o.TemplateVersion)
		if err != nil {
			return nil, err
		}
		o.InstanceType, o.ImageID = cmp.Or(o.InstanceType, data.InstanceType), cmp.Or(o.ImageID, data.ImageID)
		o.TemplateID, o.TemplateName = template.ID, template.Name
		subnet, err := l.network.subnetFor(data.place(o))
		if err != nil {
			return nil, err
		}
		if l.market.Type(o.InstanceType) == nil {
			return nil, apiError("InvalidInstanceType", "The instance type '%s' does not exist", o.InstanceType)
		}
		if l.images.image(o.ImageID) == nil {
			return nil, noImage(o.ImageID)
		}
		if (data.Market == CapacityBlock) != (q.CapacityType == CapacityBlock) {
			return nil, apiError("InvalidParameterCombination", "Launch template %s has the market type '%s' and the fleet "+
				"the target capacity type '%s': both are capacity-block or neither", template.Name, data.Market, q.CapacityType)
		}
		o.SubnetID, o.Zone = subnet.ID, subnet.Zone
		out = append(out, l.priced(option{o: o, template: template, data: data, subnet: subnet}, q.CapacityType))
	}
	order(out, q.Strategy)
	return out, nil
}

// order sorts options best first, ties by the order of the request.
func order(options []option, strategy string) {
	// EC2 describes price-capacity-optimized as the cheapest among the pools with capacity to spare: here, a pool of
	// four free instances counts as 50 % dearer, one of a hundred as 10 % dearer.
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

// fulfil launches instances until the total is reached or every option was tried.
func (l *launcher) fulfil(q FleetRequest, options []option, result *FleetResult) {
	left := q.Total
	for _, x := range options {
		if left == 0 {
			return
		}
		result.Templates[x.template.Name] = x.template.ID
		launched := FleetLaunch{Override: x.o, CapacityType: q.CapacityType}
		var failure *APIError
		for left > 0 && failure == nil {
			var id string
			id, failure = l.launch(x, origin{q.CapacityType, q.InstanceTags, q.ClientToken, result.FleetID})
			if failure == nil {
				launched.IDs = append(launched.IDs, id)
				left--
			}
		}
		if len(launched.IDs) > 0 {
			result.Launched = append(result.Launched, launched)
		}
		if failure != nil {
			result.Errors = append(result.Errors, FleetError{
				Override: x.o, CapacityType: q.CapacityType, Code: failure.Code, Message: failure.Message,
			})
		}
	}
}
