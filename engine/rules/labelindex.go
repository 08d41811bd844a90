package rules

import "github.com/nodeless/nodeless/engine/model"

// labelIndex finds the owners of a label, types or pools, by the values the label may have.
type labelIndex struct {
	size   int
	values []string // distinct, of owners with exactly one
	with   map[string]Bits
	absent Bits // owners without the label
	others []other
}

// other is an owner whose label may have several values.
type other struct {
	owner int
	have  model.Requirement
}

func newLabelIndex(size int, labelOf func(int) (model.Requirement, bool)) *labelIndex {
	x := &labelIndex{size: size, with: map[string]Bits{}, absent: NewBits(size)}
	for i := range size {
		have, ok := labelOf(i)
		switch {
		case !ok:
			x.absent.Set(i)
		case have.Complement || len(have.Values) != 1 || have.Gte != nil || have.Lte != nil:
			x.others = append(x.others, other{i, have})
		default:
			value := have.Values[0]
			if x.with[value] == nil {
				x.with[value] = NewBits(size)
				x.values = append(x.values, value)
			}
			x.with[value].Set(i)
		}
	}
	return x
}

// allowing returns the owners whose label can satisfy the requirement.
func (x *labelIndex) allowing(w model.Requirement) Bits {
	out := NewBits(x.size)
	values := x.values
	if !w.Complement && len(w.Values) < len(values) {
		values = w.Values
	}
	for _, value := range values {
		if owners := x.with[value]; owners != nil && w.Has(value) {
			out.add(owners)
		}
	}
	if w.AllowsAbsence() {
		out.add(x.absent)
	}
	for i := range x.others {
		if o := &x.others[i]; o.have.Overlaps(w) {
			out.Set(o.owner)
		}
	}
	return out
}
