package cluster

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"sigs.k8s.io/karpenter/pkg/apis/v1alpha1"

	"github.com/nodeless/nodeless/engine/model"
)

// overlay is a NodeOverlay in the form in which it is applied.
type overlay struct {
	name               string
	weight             int32
	ofType             model.Requirements // all others, checked against type and pool
	zone, capacityType model.Requirement
	price              func(model.Price) model.Price // nil: prices stay
	capacity           map[int]int64                 // by resource
}

// read translates a NodeOverlay. The error names the field.
func (e *evaluation) read(o *v1alpha1.NodeOverlay) (*overlay, error) {
	if err := validate(o); err != nil {
		return nil, fmt.Errorf("spec.requirements or spec.capacity: %w", err)
	}
	x := &overlay{
		name: o.Name, weight: weight(o), zone: anything(model.LabelZone),
		capacityType: anything(model.LabelCapacityType),
	}
	var rs []model.Requirement
	for i, s := range o.Spec.Requirements {
		r, err := model.NewRequirement(s.Key, model.Operator(s.Operator), s.Values...)
		if err != nil {
			return nil, fmt.Errorf("spec.requirements[%d]: %w", i, err)
		}
		rs = append(rs, r)
	}
	for _, r := range model.NewRequirements(rs...) {
		switch r.Key {
		case model.LabelZone:
			x.zone = r
		case model.LabelCapacityType:
			x.capacityType = r
		case zoneID:
			return nil, fmt.Errorf("spec.requirements: %s is not told apart here; use %s", zoneID, model.LabelZone)
		default:
			x.ofType = append(x.ofType, r)
		}
	}
	switch {
	case o.Spec.Price != nil && o.Spec.PriceAdjustment != nil:
		return nil, errors.New("spec: cannot set both 'price' and 'priceAdjustment'; remove one")
	case o.Spec.Price != nil:
		dollars, err := amount(*o.Spec.Price)
		if err != nil || strings.HasPrefix(*o.Spec.Price, "-") || strings.HasPrefix(*o.Spec.Price, "+") {
			return nil, fmt.Errorf("spec.price: %q is not an amount of dollars an hour, such as 0.25", *o.Spec.Price)
		}
		x.price = func(model.Price) model.Price { return toPrice(dollars * 1e6) }
	case o.Spec.PriceAdjustment != nil:
		adjust, err := adjustment(*o.Spec.PriceAdjustment)
		if err != nil {
			return nil, err
		}
		x.price = adjust
	}
	return x, e.readCapacity(x, o)
}

func (e *evaluation) readCapacity(x *overlay, o *v1alpha1.NodeOverlay) error {
	more, err := e.names.Resources(o.Spec.Capacity)
	if err != nil {
		return fmt.Errorf("spec.capacity: %w", err)
	}
	for name := range o.Spec.Capacity {
		if i, ok := e.names.Index(string(name)); ok {
			if x.capacity == nil {
				x.capacity = map[int]int64{}
			}
			x.capacity[i] = more[i]
		}
	}
	return nil
}

// zoneID is a label of the AWS provider; offerings are identified by the name of their zone.
const zoneID = "topology.k8s.aws/zone-id"

func anything(key string) model.Requirement { return model.Requirement{Key: key, Complement: true} }

// adjustment parses +n, -n, +n% and -n%.
func adjustment(text string) (func(model.Price) model.Price, error) {
	number, percent := strings.CutSuffix(text, "%")
	n, err := amount(number)
	if err != nil || !strings.HasPrefix(text, "+") && !strings.HasPrefix(text, "-") || percent && n < -100 {
		return nil, fmt.Errorf("spec.priceAdjustment: %q is neither an amount such as +0.05 or -0.05 nor a percentage "+
			"such as +10%% or -15%%, -100%% at the least", text)
	}
	if percent {
		return func(p model.Price) model.Price { return toPrice(float64(p) * (1 + n/100)) }, nil
	}
	return func(p model.Price) model.Price { return toPrice(float64(p) + n*1e6) }, nil
}

// amount parses a plain decimal number.
func amount(text string) (float64, error) {
	if strings.ContainsFunc(text, func(r rune) bool { return !strings.ContainsRune("0123456789.+-", r) }) {
		return 0, errors.New("not a decimal number")
	}
	return strconv.ParseFloat(text, 64)
}

// mostPrice exceeds the price of any instance, in millionths of a dollar; sums of thousands of it still fit.
const mostPrice = 1e12

// toPrice rounds to millionths of a dollar. Free becomes a millionth, since a price of 0 means unknown.
func toPrice(millionths float64) model.Price {
	return model.Price(math.Round(min(max(millionths, 1), mostPrice)))
}

// with returns r with the positive amounts of more in place of its own.
func (e *evaluation) with(r, more model.Resources) model.Resources {
	for i, n := range more {
		if n > 0 {
			r[i] = n
		}
	}
	return r
}

// hugePages returns how much memory huge pages take from what pods may otherwise request.
func (e *evaluation) hugePages(r model.Resources) int64 {
	total := int64(0)
	for i, name := range e.names.List() {
		if strings.HasPrefix(name, "hugepages-") {
			total += r[i]
		}
	}
	return total
}
