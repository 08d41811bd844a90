package arch

import (
	"os/exec"
	"strings"
	"testing"
)

// The controller of a real cluster has no control plane of its own, no simulated region and no virtual machines.
func TestTheControllerLinksNoPlane(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "-tags", "noplane", module+"/cmd/nodeless").Output()
	if err != nil {
		t.Fatal(err)
	}
	for path := range strings.Lines(string(out)) {
		p, ok := ours(strings.TrimSpace(path))
		if ok && under(p, "plane", "region", "microvm/host", "microvm/sandbox", "microvm/vmm", "microvm/image",
			"microvm/guest") {
			t.Errorf("the build without a control plane links %s", p)
		}
	}
}
