package record

import (
	"cmp"
	"slices"
)

// What savings can be divided by.
const (
	ByPool      = "pool"
	ByNamespace = "namespace"
	ByWorkload  = "workload"
)

// Groupings are the values of SavedBy's parameter by.
var Groupings = []string{ByPool, ByNamespace, ByWorkload}

// Division states how savings are divided. SavedBy implements it word for word.
const Division = "Each decision's saving is divided among NodePools by the prices of the nodes that it removed, and " +
	"among namespaces and workloads, the owners of pods, by what the pods on those nodes requested: each price equally " +
	"among CPU, memory and GPUs, and each resource's part among the pods. " +
	"What no pod requested, such as the price of empty nodes, is nobody's."

// Beneficiary is what a part of the savings belongs to: a NodePool, a namespace, or a workload. The zero value stands
// for what no pod requested.
type Beneficiary struct {
	Pool     string `json:"nodePool,omitempty"`
	Workload `json:",inline"`
	// NotRecorded marks what decisions do not divide: those of older versions, and the smallest shares of a large one.
	NotRecorded bool `json:"notRecorded,omitempty"`
}

// String returns the name of a NodePool or a namespace, or KIND NAMESPACE/NAME.
func (b Beneficiary) String() string {
	switch {
	case b.NotRecorded:
		return "not recorded"
	case b.Kind != "":
		return b.Kind + " " + b.Namespace + "/" + b.Name
	}
	return cmp.Or(b.Pool, b.Namespace, "requested by no pod")
}

// Sum is a part of the savings. Its amounts are as in Saving.
type Sum struct {
	Beneficiary        `json:",inline"`
	Decisions          int     `json:"decisions"`
	RemovedDollars     float64 `json:"goneDollars"`
	ReplacementDollars float64 `json:"replacementsDollars"`
	LaunchedDollars    float64 `json:"launchedDollars"`
	Dollars            float64 `json:"dollars"`
	DollarsPerHour     float64 `json:"dollarsPerHour"`
}

// SavedBy divides savings by one of Groupings, largest first. The sums add up to the savings.
func SavedBy(savings []Saving, by string) []Sum {
	sums := map[Beneficiary]*Sum{}
	for i := range savings {
		s := &savings[i]
		for of, part := range s.parts(by) {
			sum := sums[of]
			if sum == nil {
				sum = &Sum{Beneficiary: of}
				sums[of] = sum
			}
			sum.Decisions++
			sum.RemovedDollars += part * s.RemovedDollars
			sum.ReplacementDollars += part * s.ReplacementDollars
			sum.LaunchedDollars += part * s.LaunchedDollars
			sum.Dollars += part * s.Dollars
			sum.DollarsPerHour += part * s.DollarsPerHour
		}
	}
	out := make([]Sum, 0, len(sums))
	for _, sum := range sums {
		out = append(out, *sum)
	}
	slices.SortFunc(out, func(a, b Sum) int {
		return cmp.Or(cmp.Compare(b.Dollars, a.Dollars), cmp.Compare(a.String(), b.String()))
	})
	return out
}

// parts returns the parts of a saving, which add up to 1.
func (s *Saving) parts(by string) map[Beneficiary]float64 {
	parts, total := map[Beneficiary]float64{}, 0.0
	for _, m := range s.removed {
		total += m.DollarsPerHour
		if by == ByPool {
			parts[Beneficiary{Pool: m.Pool}] += m.DollarsPerHour
		}
	}
	if by != ByPool {
		known := 0.0
		for _, share := range s.shares {
			of := share.Workload
			if by == ByNamespace {
				of = Workload{Namespace: of.Namespace}
			}
			parts[Beneficiary{Workload: of}] += share.DollarsPerHour
			known += share.DollarsPerHour
		}
		if rest := inMillionths(total - known); rest > 0 {
			parts[Beneficiary{NotRecorded: true}] = rest
		}
		total = max(inMillionths(total), known)
	}
	for of := range parts {
		parts[of] /= total
	}
	return parts
}
