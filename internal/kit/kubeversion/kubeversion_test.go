package kubeversion

import (
	"os/exec"
	"strings"
	"testing"

	"k8s.io/component-base/version"
)

func TestVersionIsThatOfTheModule(t *testing.T) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Version}}", "k8s.io/kubernetes").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if module := strings.TrimSpace(string(out)); module != Version {
		t.Errorf("go.mod has k8s.io/kubernetes %s, this package says %s; change it (and the minor version) too", module,
			Version)
	}
	if v := version.Get(); v.GitVersion != Version || !strings.HasPrefix(Version, "v"+v.Major+"."+v.Minor+".") {
		t.Errorf("components call themselves %+v", v)
	}
}
