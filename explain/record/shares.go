package record

import (
	"cmp"
	"math"
	"slices"

	"github.com/nodeless/nodeless/engine/model"
)

// Workload is what created pods, such as Deployment shop/web. Only its Namespace is set for pods without a controller;
// the zero value stands for what no pod requested.
type Workload struct {
	Kind      string `json:"kind,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
}

// Share is the part of the price of removed nodes that the pods of a workload requested.
type Share struct {
	Workload       `json:",inline"`
	DollarsPerHour float64 `json:"dollarsPerHour"`
}

// maxShares is the number of workloads, the largest, that one decision names. The others count together by namespace,
// of which it names as many.
const maxShares = 50

// maxOwner is the maximum length of a workload's kind and name, which nothing else bounds: those of Kubernetes' own
// kinds are shorter.
const maxOwner = 63 + 253

// Weights divides the price of a node by what is requested of it: equally among the resources that it offers, and each
// resource's part by requests. It returns the share of the price that one unit of each resource costs. Where more is
// requested than offered, the price is divided by what is requested.
func Weights(offered, requested []int64) []float64 {
	w, n := make([]float64, len(offered)), 0.0
	for i := range offered {
		if offered[i] > 0 {
			w[i] = 1 / float64(max(offered[i], requested[i]))
			n++
		}
	}
	for i := range w {
		w[i] /= max(n, 1)
	}
	return w
}

// gpus are the resources that count together as GPUs, whoever makes them.
var gpus = []int{model.NvidiaGPU, model.AMDGPU, model.Neuron, model.Gaudi}

// IsGPU reports whether a resource counts as GPUs.
func IsGPU(resource string) bool {
	return slices.ContainsFunc(gpus, func(i int) bool { return model.WellKnownResources[i] == resource })
}

// paid returns the amounts of the resources that a node's price pays for: CPU, memory, and GPUs.
func paid(r *model.Resources) []int64 {
	out := []int64{r[model.CPU], r[model.Memory], 0}
	for _, i := range gpus {
		out[2] += r[i]
	}
	return out
}

// shares divides the prices of the nodes that a decision removes among the workloads of their pods.
func (w *writer) shares(d *Decision) []Share {
	dollars, total := map[Workload]float64{}, 0.0
	for i := range d.Removed {
		if n := w.node(d.Removed[i].Claim); n != nil {
			total += n.Price.Dollars()
			w.divide(n, d.Method == string(model.Empty), dollars)
		}
	}
	var out []Share
	for of, sum := range dollars {
		if sum = inMillionths(sum); sum > 0 {
			out = append(out, Share{of, sum})
			total -= sum
		}
	}
	slices.SortFunc(out, compareShares)
	out = bounded(out)
	if total = inMillionths(total); total > 0 { // the rest of what they cost
		out = append([]Share{{DollarsPerHour: total}}, out...)
	}
	return out
}

// divide adds what the pods of a node requested of its price. Those of an empty node are its daemons: the snapshot may
// predate the decision and show pods that have since ended.
func (w *writer) divide(n *model.Node, empty bool, dollars map[Workload]float64) {
	var of map[string]Workload
	if w.Workloads != nil {
		of = w.Workloads(n.Name)
	}
	requests, sum := make([][]int64, len(n.Pods)), make([]int64, len(paid(&n.Allocatable)))
	for i := range n.Pods {
		p := &n.Pods[i]
		if p.Terminal || empty && !p.Daemon || p.Shape < 0 || p.Shape >= len(w.Snapshot.Shapes) {
			continue
		}
		requests[i] = paid(&w.Snapshot.Shapes[p.Shape].Requests)
		for r, amount := range requests[i] {
			sum[r] += amount
		}
	}
	weights := Weights(paid(&n.Allocatable), sum)
	for i := range n.Pods {
		key := Workload{Namespace: n.Pods[i].Namespace}
		if known, ok := of[n.Pods[i].UID]; ok && len(known.Kind)+len(known.Name) <= maxOwner {
			key = known
		}
		for r, amount := range requests[i] {
			dollars[key] += n.Price.Dollars() * weights[r] * float64(amount)
		}
	}
}

// bounded returns at most maxShares shares, and as many for the namespaces of the others.
func bounded(all []Share) []Share {
	if len(all) <= maxShares {
		return all
	}
	sums := map[string]float64{}
	for _, s := range all[maxShares:] {
		sums[s.Namespace] += s.DollarsPerHour
	}
	out, rest := slices.Clone(all[:maxShares]), []Share{}
	for namespace, sum := range sums {
		rest = append(rest, Share{Workload{Namespace: namespace}, inMillionths(sum)})
	}
	slices.SortFunc(rest, compareShares)
	return append(out, rest[:min(len(rest), maxShares)]...)
}

func compareShares(a, b Share) int {
	return cmp.Or(cmp.Compare(b.DollarsPerHour, a.DollarsPerHour), cmp.Compare(a.Namespace, b.Namespace),
		cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
}

// inMillionths rounds dollars to millionths, in which prices are known.
func inMillionths(dollars float64) float64 { return math.Round(dollars*1e6) / 1e6 }
