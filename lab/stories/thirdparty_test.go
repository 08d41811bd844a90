package stories

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// program is a third-party program, compiled unchanged in a module of its own below lab/addons, which requires a
// release of it and the library versions of that release.
type program struct{ dir, module, pkg string }

var (
	metricsServer = program{
		"metrics-server", "sigs.k8s.io/metrics-server", "sigs.k8s.io/metrics-server/cmd/metrics-server",
	}
	coreDNS = program{"coredns", "github.com/coredns/coredns", "github.com/coredns/coredns"}
	// The command is our own, its packages are cert-manager's (lab/addons/cert-manager).
	certManager = program{"cert-manager", "github.com/cert-manager/cert-manager", "."}
)

// goTool runs the go command in the module that compiles the program.
func (p program) goTool(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command("go", args...)
	cmd.Dir = filepath.Join(root, "lab", "addons", p.dir)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0") // images have no C library
	return output(t, cmd)
}

// helm runs Helm, at the version that the module release requires.
func helm(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command("go", append([]string{"run", "helm.sh/helm/v4/cmd/helm"}, args...)...)
	cmd.Dir = filepath.Join(root, "release")
	return output(t, cmd)
}

func output(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	var failed strings.Builder
	cmd.Stderr = &failed
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, failed.String())
	}
	return strings.TrimSpace(string(out))
}

// source returns the folder of the program's module, which contains its manifests, and the version.
func (p program) source(t *testing.T) (dir, version string) {
	t.Helper()
	dir, version, _ = strings.Cut(p.goTool(t, "list", "-m", "-f", "{{.Dir}} {{.Version}}", p.module), " ")
	return dir, version
}

// build compiles the program into a folder that, like its image, contains nothing else.
func (p program) build(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	p.goTool(t, "build", "-trimpath", "-ldflags", "-s -w", "-o", filepath.Join(dir, p.dir), p.pkg)
	return dir
}

// buildImage builds an image of the given name from a program's folder.
func (c *cluster) buildImage(p program, dir, image string, more ...string) {
	c.t.Helper()
	if out, err := c.run(append([]string{"image", "build", dir, "--tag", image, "--entrypoint", "/" + p.dir},
		more...)...); err != nil {
		c.t.Fatalf("image build: %v\n%s", err, out)
	}
}

// inMicroVMs makes pods of kube-system with a label run in microVMs.
func (c *cluster) inMicroVMs(name, value string) {
	c.t.Helper()
	c.apply(fmt.Sprintf(`
apiVersion: nodeless.sh/v1alpha1
kind: FargateProfile
metadata: {name: %s}
spec:
  sizing: Exact
  selectors: [{namespace: kube-system, labels: {k8s-app: %s}}]
`, name, value))
}

// greeter runs the pod of examples/fargate.yaml, which serves the Service hello.
func (c *cluster) greeter() corev1.Pod {
	c.t.Helper()
	c.kubectl("apply", "-f", filepath.Join(root, "examples", "fargate.yaml"))
	c.kubectl("scale", "deployment", "hello", "--replicas", "1")
	return c.readyPods("hello", 1)[0]
}

// needServices skips the test where microVMs have no Services.
func needServices(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("without root microVMs have no Services")
	}
	needMicroVMs(t)
}
