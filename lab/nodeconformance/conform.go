package main

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/onsi/ginkgo/v2/types"

	"github.com/nodeless/nodeless/lab/process"
)

// furniture runs every pod in a microVM of exactly its size, except for two that need nodes of their own: specs first
// check whether the cluster has two schedulable nodes.
const furniture = `
apiVersion: nodeless.sh/v1alpha1
kind: FargateProfile
metadata: {name: all}
spec: {sizing: Exact, restrictions: None, selectors: [{namespace: "*"}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: nodes, namespace: kube-system}
spec:
  replicas: 2
  selector: {matchLabels: {app: nodes}}
  template:
    metadata: {labels: {app: nodes}, annotations: {eks.amazonaws.com/compute-type: ec2}}
    spec:
      containers: [{name: pause, image: registry.k8s.io/pause, resources: {requests: {cpu: "1"}}}]
      affinity:
        podAntiAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
          - {labelSelector: {matchLabels: {app: nodes}}, topologyKey: kubernetes.io/hostname}
`

// suiteFlags are the suite's flags for a cluster that was not created with a provider's tools.
var suiteFlags = []string{
	"--provider=skeleton", "--num-nodes=2", "--allowed-not-ready-nodes=-1", "--minStartupPods=0",
	"--system-pods-startup-timeout=0s", "--node-os-distro=debian",
	"--non-blocking-taints=node-role.kubernetes.io/control-plane,eks.amazonaws.com/compute-type",
}

// conform starts a cluster and runs the selected specs on it.
func (o options) conform(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "nodeconform-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	say("starting a cluster")
	up, session, err := process.Up(ctx, dir, o.nodeless, "--addons=false")
	if up != nil {
		defer o.end(up, filepath.Join(dir, "data"))
	}
	if err != nil {
		return err
	}
	say("making the images of the suite")
	if err := o.makeImages(ctx, filepath.Join(dir, "data")); err != nil {
		return err
	}
	if err := o.furnish(ctx, session.Kubeconfig); err != nil {
		return err
	}
	focus, n, err := o.wanted(ctx)
	if err != nil {
		return err
	}
	say("%d specs, %d at a time; the log is %s", n, o.procs, o.path("e2e.log"))
	if err := o.suite(ctx, session.Kubeconfig, focus); err != nil {
		return err
	}
	return o.judge()
}

// end stops the cluster and its microVMs, which would keep running without it.
func (o options) end(up *process.Process, data string) {
	up.Stop(time.Minute)
	c := exec.Command(o.nodeless, "down", "--data-dir", data, "--wipe") //nolint:noctx // also after Ctrl-C
	if out, err := c.CombinedOutput(); err != nil {
		say("the cluster in %s was not removed: %v\n%s", data, err, out)
	}
}

// furnish applies furniture and waits for the two nodes.
func (o options) furnish(ctx context.Context, kubeconfig string) error {
	for _, args := range [][]string{
		{"apply", "-f", "-"},
		{"rollout", "status", "deployment/nodes", "-n", "kube-system", "--timeout=3m"},
		{"wait", "--for=condition=Ready", "fargateprofile/all", "--timeout=5m"},
	} {
		c := exec.CommandContext(ctx, o.path("kubectl"), append([]string{"--kubeconfig", kubeconfig}, args...)...)
		c.Stdin = strings.NewReader(furniture)
		if out, err := c.CombinedOutput(); err != nil {
			return fmt.Errorf("kubectl %s: %w\n%s", strings.Join(args, " "), err, out)
		}
	}
	return nil
}

// wanted returns a regular expression for the selected specs, and their number.
func (o options) wanted(ctx context.Context) (focus string, n int, err error) {
	list := o.path("list.json")
	c := exec.CommandContext(ctx, o.path("e2e.test"), "--ginkgo.dry-run", "--ginkgo.focus="+o.focus,
		"--ginkgo.skip="+o.skip, "--ginkgo.json-report="+list)
	if out, err := c.CombinedOutput(); err != nil {
		return "", 0, fmt.Errorf("list the specs: %w\n%s", err, out)
	}
	specs, err := readReport(list)
	if err != nil {
		return "", 0, err
	}
	var texts []string
	for _, s := range specs {
		if s.LeafNodeType == types.NodeTypeIt && s.State != types.SpecStateSkipped && o.inPart(s.FullText()) {
			texts = append(texts, regexp.QuoteMeta(s.FullText()))
		}
	}
	if len(texts) == 0 {
		return "", 0, fmt.Errorf("no spec is wanted: see -focus, -skip and -part")
	}
	if o.parts == 0 {
		return o.focus, len(texts), nil
	}
	return strings.Join(texts, "|"), len(texts), nil
}

func (o options) inPart(text string) bool {
	if o.parts == 0 {
		return true
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(text)) // never fails
	return int(h.Sum32()%uint32(o.parts))+1 == o.part
}

// suite runs the specs. Failed specs are not an error here.
func (o options) suite(ctx context.Context, kubeconfig, focus string) error {
	log, err := os.Create(o.path("e2e.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	_ = os.Remove(o.path("report.json"))
	args := append([]string{
		"run", fmt.Sprintf("--procs=%d", o.procs), "--timeout=" + o.limit.String(), "--focus=" + focus, "--skip=" + o.skip,
		"--output-dir=" + o.dir, "--json-report=report.json", "--no-color", o.path("e2e.test"), "--",
		"--kubeconfig=" + kubeconfig, "--kubectl-path=" + o.path("kubectl"),
	}, suiteFlags...)
	c := exec.CommandContext(ctx, o.path("ginkgo"), args...)
	c.Stdout, c.Stderr = log, log
	err = c.Run()
	if _, missing := os.Stat(o.path("report.json")); missing != nil {
		return fmt.Errorf("the suite left no report: %w; see %s", err, log.Name())
	}
	return ctx.Err()
}

func readReport(path string) (all types.SpecReports, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var suites []types.Report
	if err := json.Unmarshal(data, &suites); err != nil {
		return nil, fmt.Errorf("report %s: %w", path, err)
	}
	for _, s := range suites {
		all = append(all, s.SpecReports...)
	}
	return all, nil
}

// judge prints the failures. It returns an error if a spec failed that is not expected to.
func (o options) judge() error {
	reports, err := readReport(o.path("report.json"))
	if err != nil {
		return err
	}
	passed, known := 0, 0
	var surprises []string
	for _, s := range reports {
		if s.LeafNodeType != types.NodeTypeIt || s.State.Is(types.SpecStateSkipped|types.SpecStatePending) {
			continue
		}
		text := s.FullText()
		why := excuse(s)
		switch {
		case s.State == types.SpecStatePassed:
			passed++
			if expectation(text) != "" {
				say("passes, though it is expected to fail: %s", text)
			}
		case why != "":
			known++
			say("fails as expected (%s): %s", why, text)
		default:
			surprises = append(surprises, text)
			say("FAILS %s\n          %s", text, short(s.Failure.Message))
		}
	}
	say("%d passed, %d failed as expected, %d failed", passed, known, len(surprises))
	if len(surprises) > 0 {
		slices.Sort(surprises)
		return fmt.Errorf("%d specs failed:\n  %s", len(surprises), strings.Join(surprises, "\n  "))
	}
	return nil
}

// short returns the beginning of a text, on one line.
func short(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > 400 {
		return string(r[:400]) + "…"
	}
	return s
}
