package kubelet

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/nodeless/nodeless/plane"
	"github.com/nodeless/nodeless/plane/kubectl"
	"github.com/nodeless/nodeless/plane/planetest"
)

// kubeconfigVariable turns this test binary into kubectl.
const kubeconfigVariable = "PODKUBELET_KUBECTL"

func TestMain(m *testing.M) {
	if config := os.Getenv(kubeconfigVariable); config != "" {
		os.Exit(kubectl.Run(os.Args[1:], config, "", os.Stdin, os.Stdout, os.Stderr))
	}
	planetest.Main(m)
}

// cluster is a control plane with a host of pods, each on a node of its own, all served by one Server.
type cluster struct {
	*host
	plane        *plane.Plane
	client       kubernetes.Interface
	certificates Certificates
	namespace    string
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	p := planetest.Start(t)
	client, err := kubernetes.NewForConfig(p.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	return &cluster{
		host: newHost(t), plane: p, client: client, certificates: NewSigner(client, true),
		namespace: planetest.Namespace(t, p),
	}
}

// serve serves the kubelet API at a separate address for each pod's node.
func (c *cluster) serve(t *testing.T, pods ...string) {
	t.Helper()
	s, err := New(Options{Backend: c.host, Client: c.client, ClientCA: c.plane.CABundle(), Certificates: c.certificates})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	for _, pod := range pods {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		c.addNode(t, pod, l.Addr().(*net.TCPAddr).AddrPort())
		done := make(chan struct{})
		go func() {
			defer close(done)
			if err := s.Serve(ctx, l); err != nil {
				t.Error(err)
			}
		}()
		t.Cleanup(func() { cancel(); <-done })
		c.sign(t, c.node(pod), l.Addr().(*net.TCPAddr).AddrPort().Addr())
	}
}

// sign waits until a node has its certificate: requests of a busy machine may be signed too late for a client.
func (c *cluster) sign(t *testing.T, node string, at netip.Addr) {
	t.Helper()
	signer, ok := c.certificates.(*Signer)
	if !ok {
		return
	}
	planetest.Eventually(t, "a certificate of node "+node, func(ctx context.Context) error {
		_, err := signer.Certificate(ctx, node, at)
		if err != nil {
			signer.Forget(node) // so that it asks again at once
		}
		return err
	})
}

func (c *cluster) node(pod string) string { return "fargate-" + c.namespace + "-" + pod }

// addNode creates a Node and a running pod on it.
func (c *cluster) addNode(t *testing.T, pod string, at netip.AddrPort) {
	t.Helper()
	ctx := t.Context()
	_, err := c.client.CoreV1().Nodes().Create(ctx, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: c.node(pod)},
		Status: corev1.NodeStatus{
			Addresses:       []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: at.Addr().String()}},
			DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: int32(at.Port())}},
			Conditions: []corev1.NodeCondition{{
				Type: corev1.NodeReady, Status: corev1.ConditionTrue,
				LastHeartbeatTime: metav1.Now(),
			}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.client.CoreV1().Nodes().Delete(context.Background(), c.node(pod), metav1.DeleteOptions{})
	})
	grace := int64(0)
	p, err := c.client.CoreV1().Pods(c.namespace).Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: pod},
		Spec: corev1.PodSpec{
			NodeName: c.node(pod), TerminationGracePeriodSeconds: &grace,
			Containers: []corev1.Container{
				{Name: "main", Image: "example.local/main", Stdin: true},
				{Name: "late", Image: "example.local/late"},
			},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	p.Status.Phase = corev1.PodRunning
	p.Status.ContainerStatuses = []corev1.ContainerStatus{
		{
			Name: "main", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}, RestartCount: 1,
			LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ContainerID: "microvm://0"}},
		},
		{Name: "late", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}}},
	}
	if p, err = c.client.CoreV1().Pods(c.namespace).UpdateStatus(ctx, p, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nodes[at] = c.node(pod)
	c.pods[c.namespace+"/"+pod] = p
}

// command returns a kubectl command for the test's namespace.
func (c *cluster) command(t *testing.T, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), os.Args[0], append([]string{"-n", c.namespace}, args...)...)
	cmd.Env = append(os.Environ(), kubeconfigVariable+"="+c.plane.Kubeconfig())
	return cmd
}

// kubectl runs kubectl until it exits.
func (c *cluster) kubectl(t *testing.T, stdin string, args ...string) (out string, code int) {
	t.Helper()
	cmd := c.command(t, args...)
	cmd.Stdin = strings.NewReader(stdin)
	var b bytes.Buffer
	cmd.Stdout, cmd.Stderr = &b, &b
	if err := cmd.Run(); cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return b.String(), cmd.ProcessState.ExitCode()
}

// says fails the test unless kubectl succeeds and prints exactly this.
func (c *cluster) says(t *testing.T, want string, args ...string) {
	t.Helper()
	if got, code := c.kubectl(t, "", args...); got != want || code != 0 {
		t.Errorf("kubectl %s: exit %d, %q; want %q", fmt.Sprint(args), code, got, want)
	}
}

// refuses fails the test unless kubectl fails and says this.
func (c *cluster) refuses(t *testing.T, want string, args ...string) {
	t.Helper()
	if got, code := c.kubectl(t, "", args...); !strings.Contains(got, want) || code == 0 {
		t.Errorf("kubectl %s: exit %d, %q; want a failure with %q", fmt.Sprint(args), code, got, want)
	}
}
