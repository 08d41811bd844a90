package suggest

import (
	"math"
	"slices"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
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
		nearest = min(nearest, EditDistance(asked, name))
	}
	if nearest > maxTypos {
		return math.MaxUint64
	}
	return uint64(nearest)
}

// EditDistance returns the number of letters to insert, delete or change to turn a into b (Levenshtein distance).
func EditDistance(a, b string) int {
	x, y := []rune(a), []rune(b)
	row := make([]int, len(y)+1)
	for j := range row {
		row[j] = j
	}
	for i := range x {
		before := row[0]
		row[0] = i + 1
		for j := range y {
			cost := before
			if x[i] != y[j] {
				cost++
			}
			before = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(y)]
}
