package stories

import (
	"bytes"
	"encoding/json"
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const shop = `type c4 cpu=4 memory=8Gi pods=58 offers(a spot 0.07)
type c8 cpu=8 memory=16Gi pods=58 offers(a on-demand 0.17)
pool general limit(cpu=8)
pods 3 web cpu=1 memory=1Gi
pods 1 search cpu=4 memory=200Gi
`

// simulate runs the binary on a cluster given on stdin, and returns stdout, stderr and the exit code.
func simulate(t *testing.T, cluster string, args ...string) (string, string, int) {
	t.Helper()
	cmd := exec.Command(binary, append([]string{"simulate"}, args...)...)
	cmd.Env = []string{"HOME=" + t.TempDir(), "NO_COLOR=1"}
	cmd.Stdin = strings.NewReader(cluster)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// A user simulates what a written cluster would get, and keeps the answer.
func TestSimulateDecidesWithoutACluster(t *testing.T) {
	out, errs, code := simulate(t, shop, "-")
	for _, want := range []string{
		"c4 spot in a at $0.0700/h for 3 pods", "next best c8 on-demand, $0.1000/h more",
		"requests memory 200Gi", "Costs $0.0700/h for 1 node",
	} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("exit code %d, want 0 and %q:\n%s%s", code, want, out, errs)
		}
	}

	out, _, code = simulate(t, shop, "-", "-o", "json")
	var plan struct {
		DollarsPerHour float64
		NotPlaced      []struct{ Pods int }
	}
	if err := json.Unmarshal([]byte(out), &plan); err != nil || code != 0 || plan.DollarsPerHour != 0.07 ||
		len(plan.NotPlaced) != 1 {
		t.Errorf("exit code %d, %v, %+v from\n%s", code, err, plan, out)
	}
	if out, _, code = simulate(t, shop, "-", "-o", "yaml"); code != 0 || !strings.Contains(out, "dollarsPerHour: 0.07\n") {
		t.Errorf("exit code %d:\n%s", code, out)
	}
	if out, _, code = simulate(t, shop, "-", "--compare"); code != 0 ||
		!strings.Contains(out, "Karpenter's way would pay") {
		t.Errorf("exit code %d:\n%s", code, out)
	}

	wide, _, _ := simulate(t, shop, "-", "-o", "wide")
	kept := shop + "----------\n" + wide
	if out, errs, code = simulate(t, kept, "-", "--check"); code != 0 {
		t.Errorf("its own plan is not as expected: exit code %d\n%s%s", code, out, errs)
	}
	out, _, code = simulate(t, strings.Replace(kept, "3 web", "2 web", 1), "-", "--check")
	if code != 1 || !strings.Contains(out, "- launch") && !strings.Contains(out, "- place") &&
		!strings.Contains(out, "+ launch") {
		t.Errorf("another plan is taken as expected: exit code %d\n%s", code, out)
	}
}

// The program agrees with the engine's scenarios.
func TestSimulateAgreesWithTheScenarios(t *testing.T) {
	for _, name := range []string{"limit-cpu.txt", "too-much-memory.txt", "empty-budget.txt"} {
		if out, errs, code := simulate(t, "", filepath.Join(root, "engine", "testdata", name), "--check"); code != 0 {
			t.Errorf("%s: exit code %d\n%s%s", name, code, out, errs)
		}
	}
	if out, errs, code := simulate(t, "", filepath.Join(root, "examples", "shop.txt")); code != 0 {
		t.Errorf("examples/shop.txt: exit code %d\n%s%s", code, out, errs)
	}
}

func TestSimulateSaysWhatIsWrongAndWhere(t *testing.T) {
	for _, c := range []struct {
		cluster string
		args    []string
		want    string
	}{
		{"pool p\npods 1 web cpu=many\n", []string{"-"}, "line 2"},
		{"pool p\npods 1 web colour=red\n", []string{"-"}, "colour"},
		{"", []string{"-"}, "nothing is declared"},
		{"", []string{"/no/such/file"}, "/no/such/file"},
		{"", nil, "--help"},
		{shop, []string{"-", "-o", "xml"}, "xml"},
		{shop, []string{"-", "--solver", "best"}, "first-fit"},
		{shop, []string{"-", "--preferences", "some"}, "respect"},
		{shop, []string{"-", "--check"}, "line of dashes"},
		{`{"Snapshot": 7}`, []string{"-"}, "Snapshot"},
	} {
		out, errs, code := simulate(t, c.cluster, c.args...)
		if code != 2 || out != "" || !strings.Contains(errs, c.want) || strings.Contains(errs, "panic") {
			t.Errorf("%v of %q: exit code %d, want 2 and %q; stdout %q, stderr %q", c.args, c.cluster, code, c.want, out, errs)
		}
	}
}
