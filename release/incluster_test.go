package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/kube"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/yaml"
)

// The image that a release would push runs in the cluster that it serves. Helm installs the chart with Karpenter's
// own values, its pods run in microVMs, and when the cluster's first controller ends they take over, including their
// own pods. Upgrade and rollback replace the pods; uninstalling leaves nodes and definitions.
func TestTheControllerRunsInTheClusterThatItServes(t *testing.T) {
	needMicroVMs(t)
	c := startClusterWith(t, "--boot-time", "1s", "--addons=false", "--microvms=false")
	h := c.joinHost(t)
	for _, version := range []string{"1.2.3", "1.3.0"} {
		o := options{root: "..", out: t.TempDir(), version: version, archs: []string{"amd64"}, say: io.Discard}
		if err := writeImage(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(o.out, "image"), filepath.Join(h.dir, "images", version)); err != nil {
			t.Fatal(err)
		}
	}
	c.apply(t, profileOfTheController)
	values := c.valuesInMicroVMs(t)

	install := action.NewInstall(c.helm(t))
	install.ReleaseName, install.Namespace, install.CreateNamespace = "nodeless", namespace, true
	install.Timeout, install.WaitStrategy, install.SkipCRDs = patience, kube.StatusWatcherStrategy, true
	if _, err := install.RunWithContext(t.Context(), chartForTest(t, "1.2.3"), values); err != nil {
		t.Fatalf("install: %v\n%s", err, c.kubectl(t, "describe", "pods", "-n", namespace))
	}
	c.restart(t, "--controller=false")
	hundredPods(t, c.kube)
	c.wantImage(t, "1.2.3")

	test := action.NewReleaseTesting(c.helm(t))
	test.Namespace, test.Timeout = namespace, patience
	_, finish, err := test.Run("nodeless")
	if err == nil {
		err = finish()
	}
	if err != nil {
		t.Errorf("helm test: %v\n%s\n%s", err, c.kubectl(t, "logs", "nodeless-test", "-n", namespace),
			c.kubectl(t, "describe", "pods", "-n", namespace))
	}
	if events := c.kubectl(t, "get", "events", "-n", namespace); !strings.Contains(events,
		"Successfully assigned nodeless-system/nodeless-test to fargate-") {
		t.Errorf("helm test's pod did not really run:\n%s", events)
	}
	upgrade := action.NewUpgrade(c.helm(t))
	upgrade.Namespace, upgrade.Timeout, upgrade.WaitStrategy = namespace, patience, kube.StatusWatcherStrategy
	if _, err := upgrade.RunWithContext(t.Context(), "nodeless", chartForTest(t, "1.3.0"), values); err != nil {
		t.Fatalf("upgrade: %v\n%s", err, c.kubectl(t, "describe", "pods", "-n", namespace))
	}
	c.wantImage(t, "1.3.0")
	rollback := action.NewRollback(c.helm(t))
	rollback.Version, rollback.Timeout, rollback.WaitStrategy = 1, patience, kube.StatusWatcherStrategy
	if err := rollback.Run("nodeless"); err != nil {
		t.Fatalf("rollback: %v\n%s", err, c.kubectl(t, "describe", "pods", "-n", namespace))
	}
	c.wantImage(t, "1.2.3")

	uninstall := action.NewUninstall(c.helm(t))
	uninstall.Timeout, uninstall.WaitStrategy = patience, kube.HookOnlyStrategy
	if _, err := uninstall.Run("nodeless"); err != nil {
		t.Fatal(err)
	}
	nodes, err := c.kube.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{LabelSelector: "karpenter.sh/nodepool"})
	if err != nil || len(nodes.Items) == 0 {
		t.Errorf("%d nodes after uninstalling, %v: nodes stay", len(nodes.Items), err)
	}
	if out := c.kubectl(t, "get", "crd", "nodepools.karpenter.sh", "fargateprofiles.nodeless.sh"); !strings.Contains(out, "nodepools") {
		t.Errorf("definitions after uninstalling: %s", out)
	}
}

const patience = 8 * time.Minute

const profileOfTheController = `
apiVersion: nodeless.sh/v1alpha1
kind: FargateProfile
metadata: {name: nodeless}
spec:
  selectors: [{namespace: nodeless-system}]
`

// needMicroVMs skips a test where microVMs with Services cannot run.
func needMicroVMs(t *testing.T) {
	t.Helper()
	why := ""
	if _, err := exec.LookPath("qemu-system-x86_64"); err != nil {
		why = "qemu-system-x86_64 is not installed: run scripts/test-deps"
	} else if os.Geteuid() != 0 {
		why = "without root microVMs have no Services"
	}
	if why != "" && os.Getenv("NODELESS_REQUIRE_VM") != "" {
		t.Fatal(why)
	} else if why != "" {
		t.Skip(why)
	}
}

// valuesInMicroVMs returns Karpenter's own values, adapted to what this cluster has in place of AWS.
func (c localCluster) valuesInMicroVMs(t *testing.T) map[string]any {
	t.Helper()
	var values map[string]any
	if err := yaml.Unmarshal([]byte(karpentersValues(t)), &values); err != nil {
		t.Fatal(err)
	}
	settings, controller := values["settings"].(map[string]any), values["controller"].(map[string]any)
	settings["clusterName"], settings["interruptionQueue"] = "nodeless", "nodeless"
	values["fargate"] = map[string]any{"enabled": true}
	// The profiles' webhook does not mutate its own pods, so these values set what it would add.
	values["schedulerName"] = "fargate-scheduler"
	values["podLabels"] = map[string]any{"eks.amazonaws.com/fargate-profile": "nodeless"}
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL": "http://region.localhost", "HTTP_PROXY": c.regionForPods(t), "AWS_REGION": "us-west-2", "AWS_ACCESS_KEY_ID": "any",
		"AWS_SECRET_ACCESS_KEY": "any",
	} {
		env, _ := controller["env"].([]any)
		controller["env"] = append(env, map[string]any{"name": name, "value": value})
	}
	return values
}

// regionForPods serves an HTTP proxy to the region, which only listens on loopback, at an address of this machine
// that pods can reach.
func (c localCluster) regionForPods(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp4", "0.0.0.0:0") //nolint:gosec // pods are to reach it
	if err != nil {
		t.Fatal(err)
	}
	region, err := url.Parse(c.Region)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(region)
			r.Out.Host = r.In.Host // the host is signed
		},
	}}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addresses {
		if ip := a.(*net.IPNet).IP; ip.To4() != nil && !ip.IsLoopback() {
			return fmt.Sprintf("http://%s:%d", ip, l.Addr().(*net.TCPAddr).Port)
		}
	}
	t.Fatal("this machine has no address but loopback")
	return ""
}

// wantImage waits until all pods of the controller run a version and are ready.
func (c localCluster) wantImage(t *testing.T, version string) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), time.Second, patience, true, func(ctx context.Context) (bool, error) {
		pods, err := c.kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=nodeless"})
		if err != nil || len(pods.Items) != 2 {
			return false, err
		}
		for i := range pods.Items {
			p := &pods.Items[i]
			if !strings.HasPrefix(p.Spec.NodeName, "fargate-") || p.Spec.Containers[0].Image != repository+":"+version ||
				len(p.Status.ContainerStatuses) == 0 || !p.Status.ContainerStatuses[0].Ready || p.Status.Phase != corev1.PodRunning {
				return false, nil
			}
		}
		return true, nil
	})
	if err != nil {
		t.Fatalf("two pods of %s: %v\n%s", version, err, c.kubectl(t, "describe", "pods", "-n", namespace))
	}
}

// joined is a microVM host beside the cluster, in a separate process.
type joined struct{ dir string }

func (c localCluster) joinHost(t *testing.T) joined {
	t.Helper()
	h := joined{dir: t.TempDir()}
	if err := os.MkdirAll(filepath.Join(h.dir, "images"), 0o700); err != nil {
		t.Fatal(err)
	}
	join := filepath.Join(h.dir, "join.kubeconfig")
	// hosts of other clusters on this machine are given the first address ranges
	token, err := exec.Command(c.program, "host", "token", "here", "--pod-cidr", "10.249.240.0/20", "--kubeconfig",
		c.Kubeconfig).Output()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(join, token, 0o600); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	p := exec.Command(c.program, "host", "--data-dir", h.dir, "--address", "127.0.0.2", "--cpus", "3", "--memory", "4Gi",
		"--join", join)
	p.Stdout, p.Stderr = &log, &log
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.Process.Signal(syscall.SIGTERM)
		_ = p.Wait()
		if out, err := exec.Command(c.program, "host", "end", "--now", "--data-dir", h.dir).CombinedOutput(); err != nil {
			t.Errorf("host end: %v\n%s", err, out)
		}
		if t.Failed() {
			t.Logf("the host:\n%s", log.String())
		}
	})
	return h
}

// apply applies a manifest.
func (c localCluster) apply(t *testing.T, manifest string) {
	t.Helper()
	k := exec.Command(c.program, "kubectl", "--kubeconfig", c.Kubeconfig, "apply", "-f", "-")
	k.Stdin = strings.NewReader(manifest)
	if out, err := k.CombinedOutput(); err != nil {
		t.Fatalf("apply: %v\n%s", err, out)
	}
}

// kubectl returns kubectl's output, even if it fails.
func (c localCluster) kubectl(t *testing.T, args ...string) string {
	t.Helper()
	out, _ := exec.Command(c.program, append([]string{"kubectl", "--kubeconfig", c.Kubeconfig}, args...)...).CombinedOutput()
	return string(out)
}

// restart stops the cluster's process and starts another with the same data.
func (c localCluster) restart(t *testing.T, flags ...string) {
	t.Helper()
	c.run(t, "down")
	c.run(t, append([]string{
		"up", "--detach", "--boot-time", "1s", "--merge-kubeconfig=false", "--addons=false", "--microvms=false",
	}, flags...)...)
}
