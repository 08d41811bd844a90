//go:build !noplane

package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/nodeless/nodeless/cmd/internal/localcluster"
	"github.com/nodeless/nodeless/internal/kit/events"
	"github.com/nodeless/nodeless/microvm"
	"github.com/nodeless/nodeless/microvm/agent"
	"github.com/nodeless/nodeless/microvm/host"
	"github.com/nodeless/nodeless/microvm/image"
	"github.com/nodeless/nodeless/microvm/network"
)

// serve runs the parts of the host until ctx is done or one of them ends.
func (o *hostOptions) serve(ctx context.Context, id *agent.Identity, vms *host.Host, agent *agent.Agent,
	network *hostNetwork, log *slog.Logger,
) error {
	ctx, cancel := context.WithCancel(ctx)
	parts := append([]func() error{
		func() error { return vms.Run(ctx) }, func() error { return agent.Run(ctx) },
		func() error { id.KeepFresh(ctx, log); return nil },
	}, network.parts(ctx)...)
	ended := make(chan error, len(parts))
	for _, part := range parts {
		go func() { ended <- part() }()
	}
	err := <-ended
	cancel()
	for range len(parts) - 1 {
		err = errors.Join(err, <-ended)
	}
	return err
}

// kubelets returns where this host serves the kubelet APIs of its microVMs.
func (o *hostOptions) kubelets(server, pods string) (k microvm.KubeletEndpoints, err error) {
	k.FirstPort = uint16(o.kubeletPort)
	if k.Pods, err = netip.ParsePrefix(pods); err != nil {
		return k, fmt.Errorf("spec.podCIDR of the MicroVMHost: %w", err)
	}
	if o.address != "" {
		if k.Host, err = netip.ParseAddr(o.address); err != nil {
			return k, fmt.Errorf("--address: %w", err)
		}
		return k, nil
	}
	at, err := hostPort(server)
	if err != nil {
		return k, err
	}
	conn, err := net.Dial("udp", at) //nolint:noctx // nothing is sent
	if err != nil {
		return k, fmt.Errorf("address of this machine: %w; say it with --address", err)
	}
	defer func() { _ = conn.Close() }()
	k.Host = conn.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap()
	return k, nil
}

// podHost returns the options for running the microVMs, and a function that stops their events.
func (o *hostOptions) podHost(ctx context.Context, id *agent.Identity, kubelets microvm.KubeletEndpoints,
	log *slog.Logger,
) (host.Options, func(), error) {
	kube, err := kubernetes.NewForConfig(id.REST)
	if err != nil {
		return host.Options{}, nil, err
	}
	const trusted = "extension-apiserver-authentication"
	clients, err := kube.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, trusted, metav1.GetOptions{})
	if err != nil {
		return host.Options{}, nil, fmt.Errorf("who signs client certificates: %w", err)
	}
	pods, err := agent.Pods(id.REST, id.Host)
	if err != nil {
		return host.Options{}, nil, err
	}
	mirrors, err := image.ParseMirrors(o.mirrors)
	if err != nil {
		return host.Options{}, nil, err
	}
	engine, err := host.Engine(o.engine)
	if err != nil {
		return host.Options{}, nil, err
	}
	broadcaster := events.Broadcast(ctx, kube)
	return host.Options{
		Dir: localcluster.MicroVMDir(o.stateDir), Name: id.Host, Region: o.region, Zone: o.zone, Kube: kube, AsNode: id.REST,
		ClientCA: []byte(clients.Data["client-ca-file"]), Log: log,
		Recorder: broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "kubelet", Host: id.Host}),
		Engine:   engine, Kernel: o.guestKernel,
		Images: image.Options{Sources: []string{localcluster.ImageDir(o.dataDir)}, Mirrors: mirrors},
		Pods:   pods, Kubelets: &kubelets, Unapproved: true, Capacity: o.room,
	}, broadcaster.Shutdown, nil
}

// endHostMicroVMs ends the microVMs that the process of a data directory has left running, and removes their network.
// Pods have their grace period, but no longer than until ctx is done.
func endHostMicroVMs(ctx context.Context, dataDir string) (int, error) {
	n, err := host.Sweep(ctx, localcluster.MicroVMDir(dataDir))
	return n, errors.Join(err, network.CleanUp(localcluster.MicroVMDir(dataDir)))
}
