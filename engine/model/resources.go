package model

import "math"

// MaxResources is the number of resources one snapshot can tell apart. The first len(WellKnownResources) indices are
// fixed; the rest are given out by the owner of the snapshot (controller/cluster) as it meets other names.
const MaxResources = 24

// Indices of the resources every snapshot knows. Units: CPU in millicores, memory and ephemeral storage in bytes,
// everything else in pieces.
const (
	CPU = iota
	Memory
	EphemeralStorage
	Pods
	NvidiaGPU
	AMDGPU
	Neuron
	NeuronCore
	Gaudi
	PodENI
	EFA
	PrivateIPv4
	NitroSandbox
	FirstFreeResource
)

// WellKnownResources names the fixed indices, in order.
var WellKnownResources = []string{
	"cpu", "memory", "ephemeral-storage", "pods",
	"nvidia.com/gpu", "amd.com/gpu", "aws.amazon.com/neuron", "aws.amazon.com/neuroncore", "habana.ai/gaudi",
	"vpc.amazonaws.com/pod-eni", "vpc.amazonaws.com/efa", "vpc.amazonaws.com/PrivateIPv4Address",
	"eks.amazonaws.com/nitro-sandbox",
}

// Resources is an amount of each resource, by index; what an index means is said by Snapshot.ResourceNames.
type Resources [MaxResources]int64

// Plus is the sum of both, index by index. Sums beyond the integers stay at their end: absurd amounts of a malformed
// pod must not wrap round to something that fits.
func (r Resources) Plus(o Resources) Resources {
	for i := range r {
		sum := r[i] + o[i]
		switch {
		case o[i] > 0 && sum < r[i]:
			sum = math.MaxInt64
		case o[i] < 0 && sum > r[i]:
			sum = math.MinInt64
		}
		r[i] = sum
	}
	return r
}

// Minus is r less o, index by index; it may go below zero. It stays at the end of the integers as Plus does.
func (r Resources) Minus(o Resources) Resources {
	for i := range r {
		diff := r[i] - o[i]
		switch {
		case o[i] < 0 && diff < r[i]:
			diff = math.MaxInt64
		case o[i] > 0 && diff > r[i]:
			diff = math.MinInt64
		}
		r[i] = diff
	}
	return r
}

// Times is n times r, index by index, staying at the end of the integers.
func (r Resources) Times(n int64) Resources {
	for i := range r {
		if r[i] == 0 || n == 0 {
			r[i] = 0
			continue
		}
		p := r[i] * n
		if p/n != r[i] || (r[i] == math.MinInt64 && n == -1) {
			p = math.MaxInt64
			if (r[i] < 0) != (n < 0) {
				p = math.MinInt64
			}
		}
		r[i] = p
	}
	return r
}

// NonNegative is r with zero for every amount below it: a malformed pod cannot give resources to a machine.
func (r Resources) NonNegative() Resources { return r.Max(Resources{}) }

// Fits reports whether a request r can be taken out of free. A resource that is not requested never stands in the
// way, even where free is below zero.
func (r Resources) Fits(free Resources) bool { return r.Shortest(free) < 0 }

// Shortest is the lowest index of which free holds less than r asks, or -1 if r fits.
func (r Resources) Shortest(free Resources) int {
	for i := range r {
		if r[i] > 0 && r[i] > free[i] {
			return i
		}
	}
	return -1
}

// Max is the larger of both, index by index.
func (r Resources) Max(o Resources) Resources {
	for i := range r {
		r[i] = max(r[i], o[i])
	}
	return r
}

// IsZero reports whether nothing is asked.
func (r Resources) IsZero() bool { return r == Resources{} }

// Price is an amount of money per hour, in millionths of a US dollar, so that sums are exact.
type Price int64

// Dollars is the price in US dollars per hour, for people.
func (p Price) Dollars() float64 { return float64(p) / 1e6 }
