package stories

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// CoreDNS, installed with EKS's own manifest and moved to Fargate as EKS tells its users to, runs in microVMs and
// answers the queries of other microVMs in place of the built-in DNS.
func TestCoreDNSRunsInMicroVMs(t *testing.T) {
	needServices(t)
	programs := coreDNS.build(t)
	_, version := coreDNS.source(t)
	c := microVMs(t)
	c.buildImage(coreDNS, programs, "registry.k8s.io/coredns/coredns:"+version)
	hello := c.greeter()

	c.inMicroVMs("coredns", "kube-dns")
	c.apply(coreDNSManifest(t, "registry.k8s.io/coredns/coredns:"+version))
	c.kubectl("rollout", "status", "-n", "kube-system", "deployment", "coredns", "--timeout=240s")
	var pods corev1.PodList
	if err := c.List(context.Background(), &pods, client.InNamespace("kube-system"),
		client.MatchingLabels{"k8s-app": "kube-dns"}); err != nil || len(pods.Items) != 2 {
		t.Fatal(len(pods.Items), err)
	}
	want := []string{pods.Items[0].Status.PodIP, pods.Items[1].Status.PodIP}
	slices.Sort(want)
	ip := c.kubectl("get", "service", "hello", "-o", "jsonpath={.spec.clusterIP}")
	c.eventually(patience, func() error {
		got, err := c.dnsEndpoints()
		at := strings.Fields(got)
		if slices.Sort(at); err != nil || !slices.Equal(at, want) {
			return fmt.Errorf("%v: kube-dns leads to %v, want CoreDNS's %v alone", err, at, want)
		}
		out, err := c.run("kubectl", "exec", hello.Name, "--", "nslookup", "hello.default.svc.cluster.local")
		if err != nil || !strings.Contains(out, "Address: "+ip) {
			return fmt.Errorf("nslookup: %v\n%s", err, out)
		}
		return c.coreDNSAnswered(pods.Items, version)
	})
}

// coreDNSAnswered returns an error unless the metrics of CoreDNS's pods show that one of them has answered a query.
func (c *cluster) coreDNSAnswered(pods []corev1.Pod, version string) error {
	for i := range pods {
		metrics, err := c.run("kubectl", "get", "--raw",
			"/api/v1/namespaces/kube-system/pods/"+pods[i].Name+":9153/proxy/metrics")
		if err != nil || !strings.Contains(metrics, `version="`+strings.TrimPrefix(version, "v")+`"`) {
			return fmt.Errorf("%s is not CoreDNS %s: %v\n%s", pods[i].Name, version, err, metrics)
		}
		if answered.MatchString(metrics) {
			return nil
		}
	}
	return errors.New("CoreDNS has not answered, who has?")
}

// answered matches successful responses. CoreDNS's loop-detection queries have none.
var answered = regexp.MustCompile(`(?m)^coredns_dns_responses_total\{.*rcode="NOERROR"`)

// coreDNSManifest returns the CoreDNS objects of examples/addons.yaml with our own image, and without the annotation
// that keeps them off Fargate.
func coreDNSManifest(t *testing.T, image string) string {
	t.Helper()
	all, err := os.ReadFile(filepath.Join(root, "examples", "addons.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var own []string
	for _, document := range strings.Split(string(all), "\n---\n") {
		if strings.Contains(document, "coredns") || strings.Contains(document, "kube-dns") {
			own = append(own, document)
		}
	}
	var lines []string
	for _, line := range strings.Split(strings.Join(own, "\n---\n"), "\n") {
		switch before, _, found := strings.Cut(line, "image: "); {
		case strings.Contains(line, "eks.amazonaws.com/compute-type: ec2"):
		case found:
			lines = append(lines, before+"image: "+image)
		default:
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}
