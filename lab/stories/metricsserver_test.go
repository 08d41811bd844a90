package stories

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

const metricsAPI = "v1beta1.metrics.k8s.io"

// metrics-server, installed with its own manifests, runs in a microVM and takes over kubectl top from "nodeless up":
// it scrapes the kubelets of all microVMs, including its own.
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
	node := c.kubectl("get", "pod", hello.Name, "-o", "jsonpath={.spec.nodeName}")
	page, _, _ := strings.Cut(c.Session.Page, "?token=")
	c.eventually(patience, func() error {
		_, _, text, err := c.fetch(page + "api/usage")
		if err != nil || !regexp.MustCompile(`"memory":[1-9]\d*,"name":"`+node+`"`).MatchString(text) {
			return fmt.Errorf("what nodes use, on the page: %v\n%s", err, text)
		}
		return nil
	})
	// The same figures, through the API server's proxy to the Node.
	got := c.kubectl("get", "--raw", "/api/v1/nodes/"+node+"/proxy/metrics/resource")
	want := `container_memory_working_set_bytes{container="hello",namespace="default",pod="` + hello.Name + `"}`
	if !strings.Contains(got, want) {
		t.Errorf("%s's own metrics do not have %s:\n%s", node, want, got)
	}
}

// A killed process leaves its registration of the metrics API behind, with a port where nobody listens. It would block
// the deletion of every namespace until a FargateProfile makes the next process register its own.
func TestTheMetricsAPIOfAKilledProcessIsRemoved(t *testing.T) {
	t.Parallel()
	c := up(t)
	c.apply(`apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: ` + metricsAPI + `, labels: {app.kubernetes.io/managed-by: nodeless}}
spec:
  group: metrics.k8s.io
  version: v1beta1
  groupPriorityMinimum: 100
  versionPriority: 100
  insecureSkipTLSVerify: true
  service: {namespace: kube-system, name: nodeless-metrics, port: 1}
`)
	c.stop(syscall.SIGKILL)
	c.start()
	if got := c.kubectl("get", "apiservice", metricsAPI, "--ignore-not-found"); got != "" {
		t.Errorf("it is still there:\n%s", got)
	}
}

// metricsFrom returns an error unless the given Service of kube-system provides the metrics API.
func (c *cluster) metricsFrom(service string) error {
	got, err := c.run("kubectl", "get", "apiservice", metricsAPI, "-o",
		`jsonpath={.spec.service.name} {.status.conditions[?(@.type=="Available")].status}`)
	if err != nil || got != service+" True" {
		return fmt.Errorf("%v: %s is from %s, want %s", err, metricsAPI, got, service)
	}
	return nil
}

// measured reports whether the output of kubectl top has figures for a pod.
func measured(pod, lines string) bool {
	return regexp.MustCompile(`(?m)^` + pod + ` +\d+m +[1-9]\d*Mi`).MatchString(lines)
}
