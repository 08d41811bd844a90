// Package kubelet serves the kubelet API of simulated nodes. kubectl logs shows what a simulated container would
// print, marked as simulated; exec, attach and port-forward are refused with the reason.
//
// Simulated nodes have addresses in their VPC, which do not exist in this host's network. The API server reaches them
// over an in-memory Network instead; no port is open.
package kubelet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/nodeless/nodeless/microvm/kubelet"
)

// Nodes are the simulated nodes and their pods; see nodesim.Simulator.
type Nodes interface {
	Host(name string) (node string, ip netip.Addr, err error)
	Pod(namespace, name string) (*corev1.Pod, bool)
	Pods(node string) []*corev1.Pod
}

// Options configures the kubelets; all fields are required.
type Options struct {
	Network  *Network
	Nodes    Nodes
	Client   kubernetes.Interface
	ClientCA []byte // PEM of the CA of the API server's client certificate
	LogDir   string // for container logs; its content is deleted
}

// Serve serves the connections of the network until the context ends.
func Serve(ctx context.Context, o Options) error {
	logs, err := newLogs(o.LogDir, o.Nodes)
	if err != nil {
		return err
	}
	server, err := kubelet.New(kubelet.Options{
		Backend: &backend{Nodes: o.Nodes, network: o.Network, logs: logs}, Client: o.Client, ClientCA: o.ClientCA,
		Certificates: kubelet.NewSigner(o.Client, true),
	})
	if err != nil {
		return err
	}
	o.Network.join(o.Nodes)
	return server.Serve(ctx, o.Network)
}

// backend implements kubelet.Backend.
type backend struct {
	Nodes
	network *Network
	logs    *logs
}

// NodeAt implements kubelet.Backend.
func (b *backend) NodeAt(local netip.AddrPort) (string, bool) { return b.network.nodeAt(local) }

// Log implements kubelet.Backend.
func (b *backend) Log(pod *corev1.Pod, container string, _ bool) (kubelet.LogFile, error) {
	return b.logs.file(pod, container)
}

// Refuse implements kubelet.Refuser.
func (b *backend) Refuse(pod *corev1.Pod, what string) error {
	return fmt.Errorf("%s: pod %s/%s is on a simulated node, where no container runs; "+
		"pods that a FargateProfile selects really run",
		what, pod.Namespace, pod.Name)
}

var errSimulated = errors.New("a simulated node runs nothing")

// Exec implements kubelet.Backend. It is never reached: Refuse refuses the request first.
func (*backend) Exec(context.Context, *corev1.Pod, string, []string, kubelet.Streams) error {
	return errSimulated
}

// Attach implements kubelet.Backend. It is never reached: Refuse refuses the request first.
func (*backend) Attach(context.Context, *corev1.Pod, string, kubelet.Streams) error {
	return errSimulated
}

// PortForward implements kubelet.Backend. It is never reached: Refuse refuses the request first.
func (*backend) PortForward(context.Context, *corev1.Pod, int32, io.ReadWriteCloser) error {
	return errSimulated
}

// Stats implements kubelet.Backend.
func (*backend) Stats(context.Context, string) (*stats.Summary, error) {
	return nil, errors.New("nothing can be measured on a simulated node")
}
