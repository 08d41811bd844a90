package model

import "math"

// MaxResources is the number of resources that one snapshot can distinguish. The first len(WellKnownResources)
// indices are fixed; the owner of the snapshot (controller/cluster) assigns the others as it meets further names.
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

// Resources is an amount of each resource, by index. Snapshot.ResourceNames says what an index means.
type Resources [MaxResources]int64

// Plus returns the sum, index by index. It saturates: absurd amounts of a malformed pod must not wrap around to
// something that fits.
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

// Minus returns r less o, index by index; it may be negative. It saturates as Plus does.
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

// Times returns n times r, index by index. It saturates as Plus does.
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

// NonNegative replaces negative amounts by zero: a malformed pod cannot add resources to a node.
func (r Resources) NonNegative() Resources { return r.Max(Resources{}) }

// Fits reports whether free has room for the request r. A resource that is not requested never matters, even if free
// is negative there.
func (r Resources) Fits(free Resources) bool { return r.Shortest(free) < 0 }

// Shortest returns the lowest index at which r requests more than free holds, or -1 if r fits.
func (r Resources) Shortest(free Resources) int {
	for i := range r {
		if r[i] > 0 && r[i] > free[i] {
			return i
		}
	}
	return -1
}

// Max returns the larger of both, index by index.
func (r Resources) Max(o Resources) Resources {
	for i := range r {
		r[i] = max(r[i], o[i])
	}
	return r
}

// IsZero reports whether all amounts are zero.
func (r Resources) IsZero() bool { return r == Resources{} }

// Price is an amount of money per hour, in millionths of a US dollar, so that sums are exact.
type Price int64

// Dollars returns the price in US dollars per hour, for display.
func (p Price) Dollars() float64 { return float64(p) / 1e6 }
