package arch

import (
	"os/exec"
	"strings"
	"testing"
)

// The controller of a real cluster has no embedded control plane, no simulated region and no virtual machines.
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

// Templates call methods by name, so a program that contains them keeps every method of every type, including the AWS
// SDK's: the controller would be twice as large, on disk and in memory.
func TestTheControllerLinksNoTemplates(t *testing.T) {
	list := `{{range .Imports}}{{if or (eq . "text/template") (eq . "html/template")}}{{$.ImportPath}}{{"\n"}}{{end}}{{end}}`
	out, err := exec.Command("go", "list", "-deps", "-tags", "noplane", "-f", list, module+"/cmd/nodeless").Output()
	if err != nil {
		t.Fatal(err)
	}
	for path := range strings.Lines(string(out)) {
		switch path = strings.TrimSpace(path); path {
		case "", "github.com/spf13/cobra", "github.com/google/cel-go/cel":
			// the linker drops them unless a command has a template of its own, or cel writes prompts for a language model
		default:
			t.Errorf("in the build without a control plane, %s imports templates", path)
		}
	}
}
