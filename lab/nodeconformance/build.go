package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// kubernetes is the module of the suite and the images.
const kubernetes = "k8s.io/kubernetes"

// programs maps the names of programs to their packages, in modules of go.mod.
var programs = map[string]string{
	"ginkgo": "github.com/onsi/ginkgo/v2/ginkgo", "kubectl": kubernetes + "/cmd/kubectl",
	"agnhost": kubernetes + "/test/images/agnhost", "nnp": kubernetes + "/test/images/nonewprivs",
	"sample-apiserver": "k8s.io/sample-apiserver", "etcd": "go.etcd.io/etcd/server/v3",
}

// build compiles the suite and the programs it needs.
func (o options) build(ctx context.Context) error {
	version, err := o.goTool(ctx, "list", "-m", "-f", "{{.Version}}", kubernetes)
	if err != nil {
		return err
	}
	version = strings.TrimSpace(version)
	// The suite's images and its expectations of kubectl depend on the version compiled into it.
	const in = "-X k8s.io/component-base/version."
	flags := fmt.Sprintf("-s -w -X k8s.io/client-go/pkg/version.gitVersion=%s "+in+"gitVersion=%[1]s "+in+"gitMajor=1 "+
		in+"gitMinor=%[2]s", version, strings.Split(version, ".")[1])
	say("building Kubernetes %s's end-to-end suite and its programs (the first time takes half an hour)", version)
	if _, err := o.goTool(ctx, "test", "-vet=off", "-trimpath", "-ldflags", flags, "-c", "-o", o.path("e2e.test"),
		kubernetes+"/test/e2e"); err != nil {
		return err
	}
	for name, path := range programs {
		if _, err := o.goTool(ctx, "build", "-trimpath", "-ldflags", flags, "-o", o.path(name), path); err != nil {
			return err
		}
	}
	return nil
}

func (o options) goTool(ctx context.Context, args ...string) (string, error) {
	c := exec.CommandContext(ctx, "go", args...)
	c.Dir, c.Env = o.root+"/lab/nodeconformance", append(os.Environ(), "CGO_ENABLED=0")
	var failed strings.Builder
	c.Stderr = &failed
	out, err := c.Output()
	if err != nil {
		return "", fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, failed.String())
	}
	return string(out), nil
}
