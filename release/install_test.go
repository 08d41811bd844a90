package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"helm.sh/helm/v4/pkg/action"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/kube"
	appsv1 "k8s.io/api/apps/v1"
	authv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

const namespace = "nodeless-system"

// localCluster is a cluster of `nodeless up`.
type localCluster struct {
	Kubeconfig string `json:"kubeconfig"`
	Region     string `json:"regionEndpoint"`
	config     *rest.Config
	kube       *kubernetes.Clientset

	program, dir string // paths of bin/nodeless and of its data
}

func startCluster(t *testing.T) localCluster {
	t.Helper()
	return startClusterWith(t, "--controller=false", "--boot-time", "1s")
}

func startClusterWith(t *testing.T, flags ...string) localCluster {
	t.Helper()
	c := localCluster{program: os.Getenv("NODELESS_BINARY"), dir: t.TempDir()}
	if c.program == "" {
		t.Skip("NODELESS_BINARY is not set: make test sets it")
	}
	t.Cleanup(func() { c.run(t, "down") })
	c.run(t, append([]string{"up", "--detach", "--merge-kubeconfig=false"}, flags...)...)
	status := struct{ Session *localCluster }{&c}
	if err := json.Unmarshal(c.run(t, "status", "-o", "json"), &status); err != nil {
		t.Fatal(err)
	}
	var err error
	if c.config, err = clientcmd.BuildConfigFromFlags("", c.Kubeconfig); err != nil {
		t.Fatal(err)
	}
	if c.kube, err = kubernetes.NewForConfig(c.config); err != nil {
		t.Fatal(err)
	}
	return c
}

// run runs a command of the program on the cluster's data.
func (c localCluster) run(t *testing.T, args ...string) []byte {
	t.Helper()
	var out, errors bytes.Buffer
	p := exec.Command(c.program, append(args, "--data-dir", c.dir)...) // without the test's context: cleanup uses it
	p.Stdout, p.Stderr = &out, &errors
	if err := p.Run(); err != nil {
		t.Fatalf("%v: %v\n%s", args, err, errors.String())
	}
	return out.Bytes()
}

func (c localCluster) helm(t *testing.T) *action.Configuration {
	t.Helper()
	flags := genericclioptions.NewConfigFlags(false)
	flags.KubeConfig = &c.Kubeconfig
	ns := namespace
	flags.Namespace = &ns
	config := action.NewConfiguration()
	if err := config.Init(flags, namespace, "secret"); err != nil {
		t.Fatal(err)
	}
	return config
}

func (c localCluster) deployment(t *testing.T) *appsv1.Deployment {
	t.Helper()
	d, err := c.kube.AppsV1().Deployments(namespace).Get(t.Context(), "nodeless", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// asThePod starts the controller as the Deployment's pod would run it: with its environment, as its service account.
// The returned function stops the controller and fails the test if something was forbidden.
func (c localCluster) asThePod(t *testing.T, d *appsv1.Deployment) (end func()) {
	t.Helper()
	token, err := c.kube.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(),
		d.Spec.Template.Spec.ServiceAccountName, &authv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.LoadFromFile(c.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	for name := range config.AuthInfos {
		config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: token.Status.Token}
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(filepath.Dir(os.Getenv("NODELESS_BINARY")), "nodeless-controller")
	ctx, stop := context.WithCancel(context.Background())
	p := exec.CommandContext(ctx, program, "run", "--kubeconfig", file)
	p.Cancel = func() error { return p.Process.Signal(os.Interrupt) }
	var log bytes.Buffer
	p.Stdout, p.Stderr = &log, &log
	p.Env = []string{
		"AWS_ENDPOINT_URL=" + c.Region, "AWS_REGION=us-west-2", "AWS_ACCESS_KEY_ID=any", "AWS_SECRET_ACCESS_KEY=any",
		"SYSTEM_NAMESPACE=" + namespace,
	}
	for name, value := range environment(d) {
		if value != "" { // without those that come from fields
			p.Env = append(p.Env, name+"="+value)
		}
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	end = sync.OnceFunc(func() {
		stop()
		_ = p.Wait() // interrupted
		if t.Failed() || strings.Contains(log.String(), "forbidden") {
			t.Errorf("the controller's log:\n%s", log.String())
		}
	})
	t.Cleanup(end)
	return end
}

// A real API server accepts all manifests. Helm installs, upgrades, rolls back and uninstalls the chart on it; the
// controller that the chart describes launches nodes for 100 pods with the permissions that the chart grants.
func TestAReleaseRunsAndGoes(t *testing.T) {
	c := startCluster(t)
	validateReleases(t, c)
	values := func(more ...string) map[string]any {
		settings := map[string]any{"clusterName": "nodeless", "interruptionQueue": "nodeless"}
		for i := 0; i < len(more); i += 2 {
			settings[more[i]] = more[i+1]
		}
		return map[string]any{
			"settings": settings, "controller": map[string]any{
				"metrics": map[string]any{"port": 18080}, "healthProbe": map[string]any{"port": 18081},
			},
		}
	}
	install := action.NewInstall(c.helm(t))
	install.ReleaseName, install.Namespace, install.CreateNamespace = "nodeless", namespace, true
	install.Timeout, install.WaitStrategy, install.SkipCRDs = time.Minute, kube.HookOnlyStrategy, true
	if _, err := install.RunWithContext(t.Context(), chartForTest(t, "1.2.3"), values()); err != nil {
		t.Fatal(err)
	}
	end := c.asThePod(t, c.deployment(t))
	hundredPods(t, c.kube)

	upgrade := action.NewUpgrade(c.helm(t))
	upgrade.Namespace, upgrade.Timeout, upgrade.WaitStrategy = namespace, time.Minute, kube.HookOnlyStrategy
	if _, err := upgrade.RunWithContext(t.Context(), "nodeless", chartForTest(t, "1.3.0"),
		values("batchIdleDuration", "1s")); err != nil {
		t.Fatal(err)
	}
	d := c.deployment(t)
	if got := d.Spec.Template.Spec.Containers[0].Image; got != repository+":1.3.0" || environment(d)["BATCH_IDLE_DURATION"] != "1s" {
		t.Errorf("after the upgrade: %s, %v", got, environment(d))
	}
	rollback := action.NewRollback(c.helm(t))
	rollback.Version, rollback.Timeout, rollback.WaitStrategy = 1, time.Minute, kube.HookOnlyStrategy
	if err := rollback.Run("nodeless"); err != nil {
		t.Fatal(err)
	}
	if got := c.deployment(t).Spec.Template.Spec.Containers[0].Image; got != repository+":1.2.3" {
		t.Errorf("after the rollback: %s", got)
	}
	end()
	uninstall := action.NewUninstall(c.helm(t))
	uninstall.Timeout, uninstall.WaitStrategy = time.Minute, kube.HookOnlyStrategy
	if _, err := uninstall.Run("nodeless"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.kube.RbacV1().ClusterRoles().Get(t.Context(), "nodeless", metav1.GetOptions{}); err == nil {
		t.Error("the cluster role outlives the release")
	}
	nodes, err := c.kube.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil || len(nodes.Items) == 0 {
		t.Errorf("%d nodes after uninstalling, %v: nodes and definitions stay", len(nodes.Items), err)
	}
}

func chartForTest(t *testing.T, version string) *chart.Chart {
	t.Helper()
	c, err := controllerChart(options{root: "..", version: version})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func hundredPods(t *testing.T, api *kubernetes.Clientset) {
	t.Helper()
	replicas, labels := int32(100), map[string]string{"app": "web"}
	_, err := api.AppsV1().Deployments("default").Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "nginx"}}},
			},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	err = wait.PollUntilContextTimeout(t.Context(), time.Second, patience, true, func(ctx context.Context) (bool, error) {
		d, err := api.AppsV1().Deployments("default").Get(ctx, "web", metav1.GetOptions{})
		return err == nil && d.Status.ReadyReplicas == replicas, nil
	})
	if err != nil {
		t.Fatalf("100 pods: %v", err)
	}
}
