package arch

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"strings"
	"testing"
)

const module = "github.com/nodeless/nodeless"

// pkg is a package as printed by `go list -json`.
type pkg struct {
	ImportPath   string
	Dir          string
	Doc          string
	Name         string
	GoFiles      []string
	Imports      []string
	TestImports  []string
	XTestImports []string
}

// rel returns the path inside the module: "engine/check" for …/nodeless/engine/check.
func (p pkg) rel() string {
	return strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
}

func packages(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Dir,Doc,Name,GoFiles,Imports,TestImports,XTestImports",
		module+"/...")
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			t.Fatalf("go list: %v\n%s", err, exit.Stderr)
		}
		t.Fatal(err)
	}
	var ps []pkg
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return ps
		} else if err != nil {
			t.Fatal(err)
		}
		ps = append(ps, p)
	}
}

// under reports whether path is dir or below it.
func under(path string, dirs ...string) bool {
	for _, d := range dirs {
		if path == d || strings.HasPrefix(path, d+"/") {
			return true
		}
	}
	return false
}

func standard(path string) bool { return !strings.Contains(strings.Split(path, "/")[0], ".") }

// rule forbids imports; why is printed when it is violated.
type rule struct {
	name   string
	why    string
	in     func(p pkg) bool
	forbid func(path string) bool // full import path
}

func ours(path string) (string, bool) {
	return strings.CutPrefix(path, module+"/")
}

func rules() []rule {
	inDirs := func(dirs ...string) func(pkg) bool {
		return func(p pkg) bool { return under(p.rel(), dirs...) }
	}
	forbidOurs := func(dirs ...string) func(string) bool {
		return func(path string) bool {
			r, ok := ours(path)
			return ok && under(r, dirs...)
		}
	}
	return []rule{
		{
			name: "the engine imports the standard library alone",
			why:  "it must stay pure: what it cannot import cannot make a decision depend on it",
			in:   inDirs("engine"),
			forbid: func(path string) bool {
				r, ok := ours(path)
				return !standard(path) && (!ok || !under(r, "engine"))
			},
		},
		{
			name:   "the catalogue imports the standard library alone",
			why:    "facts and their formulas depend on nothing",
			in:     inDirs("catalog"),
			forbid: func(path string) bool { return !standard(path) },
		},
		{
			name: "client-go and controller-runtime stay out of engine, catalog, cloud, the region and the simulation",
			why:  "these rooms must be usable without a cluster",
			in: func(p pkg) bool {
				return under(p.rel(), "api", "catalog", "cloud", "engine", "lab/sim", "region") &&
					!under(p.rel(), "region/nodesim", "region/incluster")
			},
			forbid: func(path string) bool {
				return strings.HasPrefix(path, "k8s.io/client-go") || strings.HasPrefix(path, "sigs.k8s.io/controller-runtime")
			},
		},
		{
			name:   "the cloud knows the engine's model and nothing above it",
			why:    "a provider is usable by the controller, the simulator and tests alike",
			in:     inDirs("cloud"),
			forbid: forbidOurs("controller", "plane", "region", "cmd", "lab", "view"),
		},
		{
			name: "the guest agent imports the standard library, x/sys/unix and the wire protocol alone",
			why:  "it is part of every guest's memory, and each of its starts under emulation costs time",
			in:   inDirs("microvm/guest", "microvm/wire"),
			forbid: func(path string) bool {
				r, ok := ours(path)
				return !standard(path) && path != "golang.org/x/sys/unix" && (!ok || !under(r, "microvm/guest", "microvm/wire"))
			},
		},
		{
			name: "the region does not know who uses it",
			why:  "it stands in for AWS: whatever works against it must have come over the wire",
			in: func(p pkg) bool {
				return under(p.rel(), "region") && !under(p.rel(), "region/nodesim", "region/incluster")
			},
			forbid: forbidOurs("cloud", "engine", "controller", "plane", "region/nodesim", "region/incluster", "cmd"),
		},
		{
			name: "only cmd and tests import the embedded control plane",
			why:  "it takes minutes to compile and megabytes to link; everything else must build without it",
			in:   func(p pkg) bool { return !under(p.rel(), "cmd", "plane", "lab/stacktest") },
			forbid: func(path string) bool {
				r, ok := ours(path)
				return (ok && under(r, "plane")) || strings.HasPrefix(path, "k8s.io/kubernetes/cmd")
			},
		},
		{
			name:   "kube-scheduler's own code judges in tests alone",
			why:    "the rules must be ours to explain and fast; lab/oracle compares them with the scheduler's",
			in:     func(p pkg) bool { return !under(p.rel(), "cmd", "plane", "lab/stacktest") },
			forbid: func(path string) bool { return strings.HasPrefix(path, "k8s.io/kubernetes/pkg/scheduler") },
		},
		{
			name: "the rules of Fargate know the API types alone",
			why:  "they are pure: objects in, values out; admission, scheduler and tests call the same",
			in:   inDirs("api", "microvm/fargate"),
			forbid: func(path string) bool {
				r, ok := ours(path)
				return ok && !under(r, "api") || strings.HasPrefix(path, "k8s.io/client-go") ||
					strings.HasPrefix(path, "sigs.k8s.io/controller-runtime")
			},
		},
		{
			name: "the translator knows only the engine and the API types",
			why:  "translate is the one place where Kubernetes objects and engine types meet",
			in:   inDirs("controller/translate"),
			forbid: forbidOurs("controller/cluster", "controller/apply", "controller/nodeclaim", "controller/cycle",
				"cloud", "region"),
		},
		{
			name: "cluster, apply and nodeclaim do not import the assembly",
			why:  "imports point down: cmd → controller → cluster, apply, nodeclaim → translate → engine",
			in:   inDirs("controller/cluster", "controller/apply", "controller/nodeclaim"),
			forbid: func(path string) bool {
				r, ok := ours(path)
				return ok && (r == "controller" || under(r, "cmd"))
			},
		},
		{
			name: "the decision cycle knows the model of the engine alone",
			why:  "snapshots, decisions and writes come through its ports, so that a forecast drives the same cycle",
			in:   inDirs("controller/cycle"),
			forbid: func(path string) bool {
				r, ok := ours(path)
				return ok && !under(r, "engine/model", "engine/check", "internal/kit")
			},
		},
		{
			name: "the simulation calls the engine, the driver of the cycle, and what lies below them",
			why:  "it must be usable without a cluster, and decide by nothing that production does not decide by",
			in:   inDirs("lab/sim"),
			forbid: func(path string) bool {
				r, ok := ours(path)
				return ok && !under(r, "engine", "catalog", "cloud", "region", "internal/kit/clock", "controller/cycle", "lab/sim")
			},
		},
		{
			name:   "nothing imports cmd",
			why:    "flags and wiring only",
			in:     func(p pkg) bool { return !under(p.rel(), "cmd") },
			forbid: forbidOurs("cmd"),
		},
	}
}

func TestImportDirections(t *testing.T) {
	for _, p := range packages(t) {
		for _, r := range rules() {
			if !r.in(p) {
				continue
			}
			for _, i := range p.Imports {
				if r.forbid(i) {
					t.Errorf("%s imports %s\n  rule: %s\n  why:  %s", p.rel(), i, r.name, r.why)
				}
			}
		}
	}
}

func TestEveryPackageSaysWhatItIsFor(t *testing.T) {
	for _, p := range packages(t) {
		if len(p.GoFiles) == 0 || p.Name == "main" && p.Doc != "" {
			continue
		}
		if len(strings.Fields(p.Doc)) < 5 {
			t.Errorf("package %s has no doc comment that says what it is for (found %q)", p.rel(), p.Doc)
		}
	}
}
