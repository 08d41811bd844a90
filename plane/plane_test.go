package plane_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/nodeless/nodeless/internal/kit/datadir"
	"github.com/nodeless/nodeless/internal/kit/porttest"
	"github.com/nodeless/nodeless/plane"
	"github.com/nodeless/nodeless/plane/planetest"
)

// helper names the environment variable that turns this test binary into a process that tries to run a control plane.
const helper = "PLANE_TEST_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(helper); dir != "" {
		os.Exit(runHelper(dir))
	}
	os.Exit(m.Run())
}

// runHelper starts a control plane, reports it, and runs until it is killed.
func runHelper(dir string) int {
	p, err := plane.Start(context.Background(), plane.Options{DataDir: dir})
	if err != nil {
		fmt.Println("error:", err)
		return 1
	}
	status, _ := os.ReadFile("/proc/self/status")
	for _, line := range strings.Split(string(status), "\n") {
		if strings.HasPrefix(line, "VmRSS") {
			fmt.Println(line)
		}
	}
	fmt.Println("ready", p.APIServerURL())
	<-p.Done()
	fmt.Println("error:", p.Err())
	return 1
}

func start(t *testing.T, o plane.Options) *plane.Plane {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	began := time.Now()
	p, err := plane.Start(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("ready after %s", time.Since(began).Round(time.Millisecond))
	return p
}

func stop(t *testing.T, p *plane.Plane) {
	t.Helper()
	began := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // 5 s suffice on an idle machine
	defer cancel()
	if err := p.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	t.Logf("stopped after %s", time.Since(began).Round(time.Millisecond))
	if err := p.Err(); err != nil {
		t.Errorf("after Stop: %v", err)
	}
}

func client(t *testing.T, p *plane.Plane) *kubernetes.Clientset {
	t.Helper()
	c, err := kubernetes.NewForConfig(p.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func deploy(t *testing.T, c *kubernetes.Clientset, ns string, replicas int32) {
	t.Helper()
	labels := map[string]string{"app": "web"}
	_, err := c.AppsV1().Deployments(ns).Create(context.Background(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "pause"}}},
			},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// unschedulable waits until a namespace has n pods for which the scheduler has found no node.
func unschedulable(t *testing.T, c *kubernetes.Clientset, ns string, n int) {
	t.Helper()
	planetest.Eventually(t, "unschedulable pods", func(ctx context.Context) error {
		pods, err := c.CoreV1().Pods(ns).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		found := 0
		for _, p := range pods.Items {
			for _, cond := range p.Status.Conditions {
				if cond.Type == corev1.PodScheduled && cond.Reason == corev1.PodReasonUnschedulable {
					found++
				}
			}
		}
		if found != n {
			return fmt.Errorf("%d of %d", found, n)
		}
		return nil
	})
}

func TestADeploymentSurvivesARestart(t *testing.T) {
	skipShort(t)
	dir := t.TempDir()
	steps := map[string]bool{}
	p := start(t, plane.Options{DataDir: dir, Port: ownPort(t), Progress: func(step string, took time.Duration) {
		t.Logf("%-45s %s", step, took.Round(time.Millisecond))
		steps[step] = true
	}})
	if len(steps) != 4 {
		t.Errorf("steps told: %v", steps)
	}
	if v, err := client(t, p).Discovery().ServerVersion(); err != nil || v.GitVersion != p.Version() {
		t.Errorf("version %q, the server says %v %v", p.Version(), v, err)
	}
	deploy(t, client(t, p), "default", 3)
	unschedulable(t, client(t, p), "default", 3)
	url := p.APIServerURL()
	_, err := plane.Start(context.Background(), plane.Options{DataDir: t.TempDir()})
	if err == nil || !strings.Contains(err.Error(), "already runs in this process") {
		t.Errorf("a second one in this process: %v", err)
	}
	watch, err := client(t, p).CoreV1().Pods("").Watch(context.Background(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	stop(t, p) // despite an open watch
	if l, err := net.Listen("tcp4", strings.TrimPrefix(url, "https://")); err != nil {
		t.Errorf("port not freed: %v", err)
	} else {
		l.Close()
	}

	stopped := p
	p = start(t, plane.Options{DataDir: dir})
	defer stop(t, p)
	givesUp(t, stopped)
	if err := p.Err(); err != nil {
		t.Errorf("the one before gave up: %v", err)
	}
	if p.APIServerURL() != url {
		t.Errorf("moved from %s to %s", url, p.APIServerURL())
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", p.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	c, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	unschedulable(t, c, "default", 3)
	if err := c.AppsV1().Deployments("default").Delete(context.Background(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	unschedulable(t, c, "default", 0)
	onlyForItsOwner(t, dir)
}

// givesUp lets a component of a control plane, which may be stopped, end the process.
func givesUp(t *testing.T, p *plane.Plane) {
	t.Helper()
	ended := make(chan struct{})
	p.Go(func() {
		defer close(ended)
		klog.Fatal("hook failed")
	})
	<-ended
}

func TestAComponentThatGivesUp(t *testing.T) {
	skipShort(t)
	gave := false
	p := start(t, plane.Options{DataDir: t.TempDir(), Progress: func(string, time.Duration) {
		if !gave { // while it starts, which is then repeated
			gave = true
			givesUp(t, plane.Running())
		}
	}})
	givesUp(t, p)
	<-p.Done()
	if err := p.Err(); err == nil || !strings.Contains(err.Error(), "hook failed") {
		t.Errorf("%v; want what the component said", err)
	}
}

// ownPort returns a free port that no other plane takes by default while this one is down: the tests of other
// packages run at the same time.
func ownPort(t *testing.T) int {
	t.Helper()
	return porttest.Free(t, 16600, 16699)
}

func onlyForItsOwner(t *testing.T, dir string) {
	t.Helper()
	for _, pattern := range []string{"kubeconfig", "plane.json", "lock", "pki/*", "logs/*"} {
		files, _ := filepath.Glob(filepath.Join(dir, pattern))
		if len(files) == 0 {
			t.Errorf("no %s", pattern)
		}
		for _, f := range files {
			if info, err := os.Stat(f); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("%s: %v %v", f, info.Mode(), err)
			}
		}
	}
	for _, d := range []string{"etcd", "pki", "logs"} {
		if info, err := os.Stat(filepath.Join(dir, d)); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v %v", d, info.Mode(), err)
		}
	}
}

func TestAKilledProcessLosesNothingAndKeepsOthersOut(t *testing.T) {
	skipShort(t)
	dir := t.TempDir()
	began := time.Now()
	other := exec.Command(os.Args[0])
	other.Env = append(os.Environ(), helper+"="+dir)
	other.Stderr = os.Stderr
	out, err := other.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer other.Process.Kill() //nolint:errcheck // it may be gone already
	for said := ""; !strings.Contains(said, "ready"); {
		buf := make([]byte, 4096)
		n, err := out.Read(buf)
		said += string(buf[:n])
		if err != nil {
			t.Fatalf("the other process: %v: %s", err, said)
		}
		t.Logf("after %s: %s", time.Since(began).Round(time.Millisecond), buf[:n])
	}

	_, err = plane.Start(context.Background(), plane.Options{DataDir: dir})
	var locked *datadir.InUseError
	if !errors.As(err, &locked) || locked.PID != other.Process.Pid || !strings.Contains(err.Error(), "nodeless down") {
		t.Fatalf("second start: %v; want it refused, naming process %d and the remedy", err, other.Process.Pid)
	}

	cfg, err := clientcmd.BuildConfigFromFlags("", filepath.Join(dir, "kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	cfg.QPS = -1
	c, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 50 {
		_, err := c.CoreV1().ConfigMaps("default").Create(context.Background(),
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("written-%d", i)}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := other.Process.Kill(); err != nil { // SIGKILL, right after the response to the last write
		t.Fatal(err)
	}
	_ = other.Wait()

	p := start(t, plane.Options{DataDir: dir})
	defer stop(t, p)
	for i := range 50 {
		if _, err := client(t, p).CoreV1().ConfigMaps("default").Get(context.Background(), fmt.Sprintf("written-%d", i),
			metav1.GetOptions{}); err != nil {
			t.Error(err)
		}
	}
}

func skipShort(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a control plane; -short skips it")
	}
}
