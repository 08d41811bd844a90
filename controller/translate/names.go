// Package translate is the only translator between Kubernetes objects and engine types.
//
// It makes no decisions, and its only state is the table of resource names. It reports what it cannot translate: a
// pod gets Unmodelled, a pool NotReady, everything else an error that names the field.
package translate

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/nodeless/nodeless/engine/model"
)

// maxAmount is the largest amount of one resource; larger ones are clamped. Sums of thousands still fit an int64.
const maxAmount = int64(1) << 50

// Names maps resource names to indices of model.Resources. It only grows. It is safe for concurrent use.
type Names struct {
	mu    sync.RWMutex
	list  []string
	index map[string]int
}

// NewNames returns a table of model.WellKnownResources.
func NewNames() *Names {
	n := &Names{list: slices.Clone(model.WellKnownResources), index: map[string]int{}}
	for i, name := range n.list {
		n.index[name] = i
	}
	return n
}

// Index returns the index of a resource name, a new one if it has none yet; false if the table is full.
func (n *Names) Index(name string) (int, bool) {
	n.mu.RLock()
	i, ok := n.index[name]
	n.mu.RUnlock()
	if ok {
		return i, true
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if i, ok := n.index[name]; ok {
		return i, true
	}
	if len(n.list) == model.MaxResources {
		return 0, false
	}
	n.list = append(n.list, name)
	n.index[name] = len(n.list) - 1
	return len(n.list) - 1, true
}

// List returns the names by index. The result is shared: do not change it.
func (n *Names) List() []string {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return slices.Clip(n.list)
}

// Resources translates amounts: CPU in millicores, the rest in base units, both rounded up. Amounts that are negative
// or larger than 2^50 are clamped, amounts of a name that the table has no room for are left out, and the error names
// the first of these; the result is usable anyway.
func (n *Names) Resources(list corev1.ResourceList) (model.Resources, error) {
	var out model.Resources
	var bad []string
	for name, q := range list {
		if q.IsZero() {
			continue
		}
		i, ok := n.Index(string(name))
		if !ok {
			bad = append(bad, fmt.Sprintf("resource %s: more than %d different resources are in use", name, model.MaxResources))
			continue
		}
		v, problem := amount(q, i == model.CPU)
		if problem != "" {
			bad = append(bad, fmt.Sprintf("resource %s: %s %s", name, q.String(), problem))
		}
		out[i] = v
	}
	if len(bad) == 0 {
		return out, nil
	}
	slices.Sort(bad)
	return out, fmt.Errorf("%s", bad[0])
}

// amount returns a quantity as an integer within 0..maxAmount, and what is wrong with it.
func amount(q resource.Quantity, milli bool) (int64, string) {
	limit := maxAmount
	if milli {
		limit /= 1000
	}
	switch {
	case q.Sign() < 0:
		return 0, "is negative"
	case q.CmpInt64(limit) > 0:
		return maxAmount, "is too large"
	case milli:
		return q.MilliValue(), ""
	}
	return q.Value(), ""
}

// ResourceList returns the Kubernetes form of r, without zero entries and without devices, which are not resources in
// Kubernetes.
func (n *Names) ResourceList(r model.Resources) corev1.ResourceList {
	out := n.resourceList(r)
	maps.DeleteFunc(out, func(name corev1.ResourceName, _ resource.Quantity) bool {
		return strings.HasPrefix(string(name), model.DevicesOf)
	})
	return out
}

// resourceList is ResourceList with devices.
func (n *Names) resourceList(r model.Resources) corev1.ResourceList {
	out := corev1.ResourceList{}
	for i, name := range n.List() {
		if r[i] == 0 {
			continue
		}
		switch i {
		case model.CPU:
			out[corev1.ResourceName(name)] = *resource.NewMilliQuantity(r[i], resource.DecimalSI)
		case model.Memory, model.EphemeralStorage:
			out[corev1.ResourceName(name)] = *resource.NewQuantity(r[i], resource.BinarySI)
		default:
			out[corev1.ResourceName(name)] = *resource.NewQuantity(r[i], resource.DecimalSI)
		}
	}
	return out
}

// wrap names the object an error is about.
func wrap(kind, name string, err error) error { return fmt.Errorf("%s %s: %w", kind, name, err) }
