package agent

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/internal/kit/signal"
)

// reporter writes the description of a host to its MicroVMHost.
type reporter struct {
	o      Options
	client client.Client
	news   signal.Signal // the host's description has changed
}

func newReporter(o Options) (reporter, error) {
	o.Every, o.Log = cmp.Or(o.Every, 5*time.Second), cmp.Or(o.Log, slog.Default())
	c, err := client.New(o.REST, client.Options{Scheme: kinds()})
	return reporter{o: o, client: c, news: signal.New()}, err
}

// beat reports the host periodically and whenever its description changes; when ctx is done, it reports that the host
// has stopped. It passes the spec of the MicroVMHost to seen each time.
func (r *reporter) beat(ctx context.Context, seen func(v1alpha1.MicroVMHostSpec)) error {
	tick := time.NewTicker(r.o.Every)
	defer tick.Stop()
	for {
		d := r.o.Host.Describe()
		spec, err := r.report(ctx, d.Ready, d.Starting, d.Message)
		switch {
		case err == nil:
			seen(spec)
		case apierrors.IsUnauthorized(err) || apierrors.IsNotFound(err):
			return err // retrying would not help
		case ctx.Err() == nil:
			r.o.Log.Warn("cannot report this host to the cluster; retrying", "error", err)
		}
		select {
		case <-tick.C:
		case <-r.news:
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
			defer cancel()
			const stopped = "it was stopped; its microVMs keep running and are adopted when it is started again"
			if _, err := r.report(last, false, false, stopped); err != nil {
				r.o.Log.Warn("cannot report to the cluster that this host is stopping", "error", err)
			}
			return nil
		}
	}
}

// report writes the host's status and returns the spec.
func (r *reporter) report(ctx context.Context, ready, starting bool, message string,
) (spec v1alpha1.MicroVMHostSpec, err error) {
	d := r.o.Host.Describe()
	now := metav1.NowMicro()
	host := &v1alpha1.MicroVMHost{ObjectMeta: metav1.ObjectMeta{
		Namespace: v1alpha1.HostNamespace(r.o.Name), Name: r.o.Name,
	}}
	before := host.DeepCopy()
	// Differs from the new values in these fields, so that the patch contains false and empty ones too.
	before.Status = v1alpha1.MicroVMHostStatus{
		Ready: !ready, Starting: !starting, Message: message + " ", Region: d.Region + " ", Zone: d.Zone + " ",
		OverlayPort: int32(r.o.OverlayPort) + 1, OverlayPublicKey: r.o.OverlayKey + " ",
	}
	host.Status = v1alpha1.MicroVMHostStatus{
		Ready: ready, Starting: starting, Message: message, Heartbeat: &now, Engine: d.Engine, Architecture: d.Arch,
		Region: d.Region, Zone: d.Zone,
		KubeletVersion: d.Version, KernelVersion: d.Kernel, Address: r.o.Kubelets.Host.String(),
		KubeletPort: int32(r.o.Kubelets.FirstPort), OverlayPort: int32(r.o.OverlayPort),
		OverlayPublicKey: r.o.OverlayKey,
		Capacity: corev1.ResourceList{
			corev1.ResourceCPU:    *resource.NewMilliQuantity(d.Capacity.MilliCPU, resource.DecimalSI),
			corev1.ResourceMemory: *resource.NewQuantity(d.Capacity.MemoryBytes, resource.BinarySI),
			corev1.ResourcePods:   *resource.NewQuantity(int64(d.MaxPods), resource.DecimalSI),
		},
	}
	if err := r.client.Status().Patch(ctx, host, client.MergeFrom(before)); err != nil {
		return spec, fmt.Errorf("write the status of MicroVMHost %s: %w", r.o.Name, err)
	}
	return host.Spec, nil
}
