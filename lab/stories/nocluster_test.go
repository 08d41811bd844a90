package stories

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// alone runs the binary as a user without any cluster or kubeconfig, and returns stdout and stderr combined.
func alone(t *testing.T, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Env = []string{"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH"), "NO_COLOR=1"}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// Without a cluster, every command that needs one says the same as status: how to start one.
func TestWithoutAClusterEveryCommandSaysHowToHaveOne(t *testing.T) {
	t.Parallel()
	for _, command := range []string{
		"status", "why pod/web", "top", "web", "plan --scale deployment/web=1", "capture", "decisions", "savings", "env",
		"run --cluster-name x", "host token a", "doctor", "roll nodepool a", "roll group a", "migrate status", "migrate next",
		"migrate back", "migrate --from-cluster",
		"kubectl get pods", "kubectl --name b get pods", "top --name b",
	} {
		out, err := alone(t, strings.Fields(command)...)
		if err == nil || !strings.Contains(strings.ToLower(out), "nothing runs in ") ||
			!strings.Contains(out, "start a cluster with: ") || strings.Contains(out, "KUBERNETES_MASTER") {
			t.Errorf("%s: %v\n%s", command, err, out)
		}
		if strings.Contains(command, "--name b") && !strings.Contains(out, "up --name b") {
			t.Errorf("%s does not say how to have that cluster:\n%s", command, out)
		}
	}
}

// A mistyped command gets the nearest ones, one per line.
func TestAMistypedCommandGetsTheNearest(t *testing.T) {
	t.Parallel()
	out, err := alone(t, "wyh")
	if err == nil || !strings.Contains(out, "\n  why\n") || strings.Contains(out, `\x`) {
		t.Errorf("%v\n%q", err, out)
	}
}

// Help lists a command's own flags, not those that the Kubernetes libraries declare for every program.
func TestHelpHasOnlyTheCommandsOwnFlags(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"why", "up", "kubectl", "host token"} {
		if out, err := alone(t, append(strings.Fields(command), "--help")...); err != nil ||
			strings.Contains(out, "--version=raw") || strings.Contains(out, "Global Flags") {
			t.Errorf("%s --help: %v\n%s", command, err, out)
		}
	}
}

// With --log-format json every line is JSON, even the last one.
func TestALogOfJSONIsJSONToTheEnd(t *testing.T) {
	t.Parallel()
	out, err := alone(t, "run", "--cluster-name", "x", "--log-format", "json", "--kube-client-qps", "-1")
	var record struct{ Time, Level, Error string }
	if json.Unmarshal([]byte(out), &record) != nil || record.Time == "" || record.Level != "ERROR" ||
		!strings.Contains(record.Error, "--kube-client-qps") || err == nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// A simulation whose stderr is not a terminal writes no progress messages.
func TestASimulationIsQuietWithoutATerminal(t *testing.T) {
	t.Parallel()
	trace := filepath.Join(t.TempDir(), "pods.csv")
	if err := os.WriteFile(trace, []byte("start,life,cpu,memory\n0,600,500m,1Gi\n60,300,2,512Mi\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, errs := speak(t, binary, "simulate", "trace", trace)
	if errs != "" || !strings.Contains(out, "2 pods") {
		t.Errorf("stderr %q\n%s", errs, out)
	}
}
