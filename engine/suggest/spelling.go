package suggest

import (
	"math"
	"slices"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
	"github.com/nodeless/nodeless/engine/spelling"
)

// maxTypos is the number of wrong letters up to which a name counts as misspelled.
const maxTypos = 2

// misspelled returns how far a type's name is from those that a requirement asks for, provided none of these is a
// type of the view: 0 to maxTypos letters, else MaxUint64. For other labels all values are equally far.
func misspelled(v *rules.View, r model.Requirement, name string) uint64 {
	if r.Key != model.LabelInstanceType || r.Complement || len(r.Values) == 0 {
		return 0
	}
	nearest := math.MaxInt
	for _, asked := range r.Values {
		if slices.ContainsFunc(v.Pool.Types, func(t model.InstanceType) bool { return t.Name == asked }) {
			return 0
		}
		nearest = min(nearest, spelling.EditDistance(asked, name))
	}
	if nearest > maxTypos {
		return math.MaxUint64
	}
	return uint64(nearest)
}
