package arch

import (
	"slices"
	"strings"
	"testing"
)

// layer is one layer of the architecture: its packages import only packages of its own and of lower layers.
type layer struct {
	name     string
	packages []string // a package belongs to the layer that names it, or else to its parent's
}

// layers lists the layers from the bottom up.
var layers = []layer{
	{"kit: knows nothing of the domain", []string{"internal/kit"}},
	{"facts and kinds", []string{"api", "catalog", "examples"}},
	{"engine: pure decisions", []string{"engine"}},
	{"what a cloud promises", []string{"cloud"}},
	{"clouds and the simulated region", []string{"cloud/aws", "cloud/cloudtest", "region"}},
	{
		"rules and records that need no cluster, and what becomes of old kinds and nodes",
		[]string{
			"controller/cycle", "controller/gates", "controller/crds", "explain/record", "lab/scenario", "lab/sim",
			"microvm/fargate", "migrate", "roll",
		},
	},
	{"translation between Kubernetes objects and engine types", []string{"controller/translate"}},
	{"parts of the controller, and microVMs", []string{"controller", "explain/record/store", "microvm", "region/nodesim", "region/incluster"}},
	{"the embedded control plane", []string{"plane"}},
	{"explanations", []string{"explain"}},
	{"views", []string{"view"}},
	{"the program", []string{"cmd"}},
	{"laboratories and rules of the house", []string{"lab", "internal/arch"}},
}

// layerOf returns the index in layers of a package's layer, or a negative number if it is in none.
func layerOf(path string) int {
	for p := path; p != ""; p = p[:max(0, strings.LastIndexByte(p, '/'))] {
		if i := slices.IndexFunc(layers, func(l layer) bool { return slices.Contains(l.packages, p) }); i >= 0 {
			return i
		}
	}
	return -1
}

func TestEveryPackageStandsOnALayer(t *testing.T) {
	for _, p := range packages(t) {
		at := layerOf(p.rel())
		if at < 0 {
			t.Errorf("package %s is on no layer: name it in layers, or move it into a room", p.rel())
			continue
		}
		for _, i := range p.Imports {
			if r, ok := ours(i); ok && layerOf(r) > at {
				t.Errorf("%s (%s) imports %s, which is above it (%s)", p.rel(), layers[at].name, r, layers[layerOf(r)].name)
			}
		}
	}
}
