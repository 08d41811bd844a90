// Package gates holds the feature gates of karpenter.sh/v1: which of the contract's optional parts are on.
package gates

import (
	"fmt"
	"strconv"
	"strings"
)

// Gates says which optional parts of the contract are on, and whether one of our own is.
type Gates struct {
	NodeRepair              bool // nodes whose kubelet or hardware is broken for long are replaced
	ReservedCapacity        bool // capacity reservations are offerings of their own
	SpotToSpotConsolidation bool // a spot instance may be replaced by a cheaper spot instance
	NodeOverlay             bool // NodeOverlay objects change prices and capacities
	StaticCapacity          bool // a NodePool with spec.replicas keeps that many nodes
	CapacityBuffer          bool // CapacityBuffer objects keep capacity free
	Nominations             bool // ours: pods are nominated to the nodes that were launched for them (docs/adr/0027)
}

// Default returns the defaults: those of the reference, v1.14.1, and our own gate.
func Default() Gates { return Gates{ReservedCapacity: true, Nominations: true} }

// field returns the gate of a name, nil if there is none.
func (g *Gates) field(name string) *bool {
	switch name {
	case "NodeRepair":
		return &g.NodeRepair
	case "ReservedCapacity":
		return &g.ReservedCapacity
	case "SpotToSpotConsolidation":
		return &g.SpotToSpotConsolidation
	case "NodeOverlay":
		return &g.NodeOverlay
	case "StaticCapacity":
		return &g.StaticCapacity
	case "CapacityBuffer":
		return &g.CapacityBuffer
	case "Nominations":
		return &g.Nominations
	}
	return nil
}

// names are the gates in the order in which String writes them.
var names = []string{
	"NodeRepair", "ReservedCapacity", "SpotToSpotConsolidation", "NodeOverlay", "StaticCapacity",
	"CapacityBuffer", "Nominations",
}

// Parse parses "A=true,B=false" on top of the defaults. Unknown names are ignored, as in the reference, so that
// settings written for another version still work; unknown returns them. A value that is not a bool is an error.
func Parse(s string) (g Gates, unknown []string, err error) {
	g = Default()
	for item := range strings.SplitSeq(s, ",") {
		if item = strings.TrimSpace(item); item == "" {
			continue
		}
		name, value, found := strings.Cut(item, "=")
		on, bad := strconv.ParseBool(strings.TrimSpace(value))
		if name = strings.TrimSpace(name); !found || bad != nil {
			return Default(), nil, fmt.Errorf("feature gates: %q is not of the form Name=true or Name=false", item)
		}
		if f := g.field(name); f != nil {
			*f = on
		} else {
			unknown = append(unknown, name)
		}
	}
	return g, unknown, nil
}

// String writes the gates in the form that Parse reads.
func (g Gates) String() string {
	var parts []string
	for _, name := range names {
		parts = append(parts, name+"="+strconv.FormatBool(*g.field(name)))
	}
	return strings.Join(parts, ",")
}
