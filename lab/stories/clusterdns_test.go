package stories

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A cluster in which no two pods share a node: its DNS runs in a microVM too, and other microVMs resolve Services
// with it. When it is deleted, the built-in DNS takes over again.
func TestTheClustersDNSRunsInAMicroVM(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("without root microVMs have no Services")
	}
	c := microVMs(t)
	build := exec.Command(filepath.Join(root, "examples", "kube-dns-image"), absolute(t, binary))
	build.Env = append(c.environment(), "NODELESS_DATA_DIR="+c.dir)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("examples/kube-dns-image: %v\n%s", err, out)
	}
	c.kubectl("apply", "-f", filepath.Join(root, "examples", "fargate.yaml"))
	c.kubectl("scale", "deployment", "hello", "--replicas", "1")
	c.kubectl("apply", "-f", filepath.Join(root, "examples", "kube-dns.yaml"))
	pod := c.readyPods("hello", 1)[0].Name
	c.kubectl("rollout", "status", "-n", "kube-system", "deployment", "kube-dns", "--timeout=240s")
	var dns corev1.PodList
	if err := c.List(context.Background(), &dns, client.InNamespace("kube-system"),
		client.MatchingLabels{"k8s-app": "kube-dns"}); err != nil || len(dns.Items) != 1 {
		t.Fatal(len(dns.Items), err)
	}
	own := dns.Items[0].Status.PodIP
	c.eventually(patience, func() error {
		if got, err := c.dnsEndpoints(); err != nil || got != own {
			return fmt.Errorf("%v: kube-dns leads to %s, want the pod's %s alone", err, got, own)
		}
		ip := c.kubectl("get", "service", "hello", "-o", "jsonpath={.spec.clusterIP}")
		out, err := c.run("kubectl", "exec", pod, "--", "sh", "-c",
			"nslookup hello.default.svc.cluster.local; wget -q -O - http://hello/")
		if err != nil || !strings.Contains(out, "Address: "+ip) || !strings.Contains(out, "hello from "+pod) {
			return fmt.Errorf("the Service's name and its answer: %v\n%s", err, out)
		}
		return nil
	})
	// The log router resolves the cluster's names too. The server behind this name accepts no records, and an event
	// says so.
	c.routeLogs("[OUTPUT]\n    Name http\n    Match *\n    Host hello.default.svc.cluster.local\n    Format json\n")
	c.eventually(patience, func() error {
		events := c.kubectl("get", "events", "--field-selector", "reason=LogOutputFailed,involvedObject.name="+pod)
		if !strings.Contains(events, "to http://hello.default.svc.cluster.local:80: 501 Not Implemented; it is tried again") {
			return fmt.Errorf("events: %s", events)
		}
		return nil
	})
	nodes := c.nodes()
	for i := range nodes {
		if nodes[i].Labels["eks.amazonaws.com/compute-type"] != "fargate" {
			t.Errorf("Node %s is one that pods share", nodes[i].Name)
		}
	}
	if len(nodes) != 2 {
		t.Errorf("%d Nodes, want one for each of the two pods", len(nodes))
	}
	c.kubectl("delete", "-n", "kube-system", "deployment", "kube-dns")
	c.eventually(patience, func() error {
		if got, err := c.dnsEndpoints(); err != nil || got == own || got == "" {
			return fmt.Errorf("%v: kube-dns leads to %q, want the built-in one", err, got)
		}
		return c.resolvesIn(pod)
	})

	// EKS's coredns is Ready behind the same Service, on simulated nodes where nothing responds: no query is sent
	// there.
	c.kubectl("apply", "-f", filepath.Join(root, "examples", "addons.yaml"))
	c.kubectl("rollout", "status", "-n", "kube-system", "deployment", "coredns", "--timeout=240s")
	c.eventually(patience, func() error {
		if got, err := c.dnsEndpoints(); err != nil || len(strings.Fields(got)) != 3 {
			return fmt.Errorf("%v: kube-dns leads to %q, want coredns twice and the built-in one", err, got)
		}
		return nil
	})
	for range 5 {
		if err := c.resolvesIn(pod); err != nil {
			t.Error("beside coredns on a simulated node:", err)
		}
	}
}

// resolvesIn returns an error if a pod cannot resolve a Service's name.
func (c *cluster) resolvesIn(pod string) error {
	out, err := c.run("kubectl", "exec", pod, "--", "nslookup", "hello.default.svc.cluster.local")
	if err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}

// dnsEndpoints returns the addresses of the ready endpoints of Service kube-dns.
func (c *cluster) dnsEndpoints() (string, error) {
	var slices discoveryv1.EndpointSliceList
	if err := c.List(context.Background(), &slices, client.InNamespace("kube-system"),
		client.MatchingLabels{discoveryv1.LabelServiceName: "kube-dns"}); err != nil {
		return "", err
	}
	var all []string
	for i := range slices.Items {
		for _, e := range slices.Items[i].Endpoints {
			if e.Conditions.Ready == nil || *e.Conditions.Ready {
				all = append(all, e.Addresses...)
			}
		}
	}
	return strings.Join(all, " "), nil
}
