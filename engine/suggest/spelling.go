package suggest

import (
	"math"
	"slices"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
)

// mostSlips is how many letters of a name may be wrong for it to be taken for another one's.
const mostSlips = 2

// misspelled is how far a type's name is from those that a requirement asks for, if none of these is a type of the view: 0 to mostSlips
// letters, else MaxUint64. Where they are types, and for other labels, all values are equally far.
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
	if nearest > mostSlips {
		return math.MaxUint64
	}
	return uint64(nearest)
}

// Letters is how many letters have to be put in, left out or changed to make b of a (Levenshtein's distance).
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
