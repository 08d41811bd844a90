package stories

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// The machine of `nodeless up` is one of its cluster's microVM hosts. It is shown and cordoned like those that have
// joined, on this machine and on another, and pods reach each other across all of them.
func TestPodsOfUpAndOfJoinedHostsReachEachOther(t *testing.T) {
	needMicroVMs(t)
	if os.Geteuid() != 0 {
		t.Skip("without root, no pods reach each other")
	}
	on := newCable(t)
	c := podHost(t, "--host-address", on.subnet+".1", "--page", "127.0.0.1:0")
	c.kubectl("apply", "-f", filepath.Join(root, "examples", "fargate.yaml"))
	c.kubectl("scale", "deployment", "hello", "--replicas=1")
	c.readyPods("hello", 1)
	own := ""
	c.eventually(patience, func() error {
		own = c.kubectl("get", "microvmhosts", "-A", "-o", "jsonpath={.items[*].metadata.name}")
		if own == "" {
			return errors.New("the machine of nodeless up is no microVM host")
		}
		return nil
	})
	c.eventually(patience, func() error {
		status := c.kubectl("get", "microvmhosts", "-A", "-o", "jsonpath={.items[*].status.ready} {.items[*].status.address}")
		if want := "true " + on.subnet + ".1"; status != want {
			return fmt.Errorf("the machine of nodeless up is %q, want %q", status, want)
		}
		return nil
	})
	if out, err := c.run("host", "token", own, "--kubeconfig", c.Session.Kubeconfig); err == nil ||
		!strings.Contains(out, own+" is the name of the machine on which the controller runs") {
		t.Errorf("a token for a host that is there already: %v: %s", err, out)
	}

	c.kubectl("patch", "microvmhost", "-n", "nodeless-host-"+own, own, "--type=merge", "-p", `{"spec":{"unschedulable":true}}`)
	near, far := c.joins("near", "127.3.0.1", nil), c.joins("far", "", on)
	c.kubectl("scale", "deployment", "hello", "--replicas=3")
	pods := c.readyPods("hello", 3)
	if spread := c.onHosts(pods); spread[own] != 1 || spread[near.name] != 1 || spread[far.name] != 1 {
		t.Fatalf("pods by hosts, of which %s accepts no more: %v", own, spread)
	}
	c.wantHostsOnThePage(map[string]string{own: "Unschedulable", near.name: "Ready", far.name: "Ready"}, 3)
	c.reachesAll(own, pods)

	// After a restart the tunnel and the routes exist again, and the pods are the same.
	c.stop(syscall.SIGTERM)
	c.start()
	for _, p := range c.readyPods("hello", 3) {
		if !contains(pods, &p) {
			t.Errorf("pod %s was not there before the restart of nodeless up", p.Name)
		}
	}
	c.reachesAll(own, pods)
}

// reachesAll checks that the example's pod on a host and each of the other pods reach each other, at their addresses
// and through Services of their own.
func (c *cluster) reachesAll(host string, pods []corev1.Pod) {
	c.t.Helper()
	var own int
	for i := range pods {
		if c.onHosts(pods[i : i+1])[host] > 0 {
			own = i
		}
		name := fmt.Sprintf("n%d", i)
		c.kubectl("label", "--overwrite", "pod", pods[i].Name, "number="+name)
		if _, err := c.run("kubectl", "get", "service", name); err != nil {
			c.kubectl("create", "service", "clusterip", name, "--tcp=80:8080")
			c.kubectl("patch", "service", name, "-p", fmt.Sprintf(`{"spec":{"selector":{"app":null,"number":%q}}}`, name))
		}
	}
	asks := func(from, to int) error {
		for _, url := range []string{fmt.Sprintf("http://%s:8080/", pods[to].Status.PodIP), fmt.Sprintf("http://n%d/", to)} {
			out, err := c.run("kubectl", "exec", pods[from].Name, "--", "wget", "-q", "-O", "-", url)
			if want := "hello from " + pods[to].Name + "\n"; err != nil || out != want {
				return fmt.Errorf("the pod on %v asks %s, on %v: %w: %q, want %q", c.onHosts(pods[from:from+1]), url,
					c.onHosts(pods[to:to+1]), err, out, want)
			}
		}
		return nil
	}
	c.eventually(patience, func() error {
		for i := range pods {
			if err := errors.Join(asks(own, i), asks(i, own)); err != nil {
				return err
			}
		}
		return nil
	})
}
