package stories

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const metricsAPI = "v1beta1.metrics.k8s.io"

// metrics-server, by its own manifests, runs in a microVM and takes kubectl top over from "nodeless up": it reads the
// kubelets of all microVMs, its own among them.
func TestMetricsServerRunsInAMicroVM(t *testing.T) {
	needServices(t)
	programs := metricsServer.build(t)
	dir, version := metricsServer.source(t)
	c := microVMs(t)
	c.buildImage(metricsServer, programs, "registry.k8s.io/metrics-server/metrics-server:"+version)
	hello := c.greeter()
	c.eventually(patience, func() error { return c.metricsFrom("nodeless-metrics") })

	c.inMicroVMs("metrics-server", "metrics-server")
	c.kubectl("apply", "-k", filepath.Join(dir, "manifests", "overlays", "release"))
	c.kubectl("rollout", "status", "-n", "kube-system", "deployment", "metrics-server", "--timeout=240s")
	c.eventually(patience, func() error {
		if err := c.metricsFrom("metrics-server"); err != nil {
			return err
		}
		pods, err := c.run("kubectl", "top", "pods", "-A", "--no-headers")
		if err != nil || !measured("default +"+hello.Name, pods) || !measured("kube-system +metrics-server-[a-z0-9-]+", pods) {
			return fmt.Errorf("kubectl top pods: %v\n%s", err, pods)
		}
		nodes, err := c.run("kubectl", "top", "nodes", "--no-headers")
		for _, n := range c.nodes() {
			if err != nil || !regexp.MustCompile(`(?m)^`+n.Name+` +\d+m +\d+% +[1-9]\d*Mi +\d+%`).MatchString(nodes) {
				return fmt.Errorf("kubectl top nodes: %v\n%s", err, nodes)
			}
		}
		return nil
	})
	// The same figures, by the API server's proxy to the Node.
	node := c.kubectl("get", "pod", hello.Name, "-o", "jsonpath={.spec.nodeName}")
	got := c.kubectl("get", "--raw", "/api/v1/nodes/"+node+"/proxy/metrics/resource")
	want := `container_memory_working_set_bytes{container="hello",namespace="default",pod="` + hello.Name + `"}`
	if !strings.Contains(got, want) {
		t.Errorf("%s's own metrics do not have %s:\n%s", node, want, got)
	}
}

// metricsFrom reports that the metrics API does not come from a Service of kube-system.
func (c *cluster) metricsFrom(service string) error {
	got, err := c.run("kubectl", "get", "apiservice", metricsAPI, "-o",
		`jsonpath={.spec.service.name} {.status.conditions[?(@.type=="Available")].status}`)
	if err != nil || got != service+" True" {
		return fmt.Errorf("%v: %s is from %s, want %s", err, metricsAPI, got, service)
	}
	return nil
}

// measured reports whether lines of kubectl top have figures for a pod.
func measured(pod, lines string) bool {
	return regexp.MustCompile(`(?m)^` + pod + ` +\d+m +[1-9]\d*Mi`).MatchString(lines)
}
