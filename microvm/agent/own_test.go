package agent

import (
	"context"
	"net/netip"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/internal/kit/signal"
	"github.com/nodeless/nodeless/microvm"
)

// idle is a host that runs nothing.
type idle struct{ microvm.Host }

func (idle) Describe() microvm.Description                   { return microvm.Description{Name: "laptop", Ready: true} }
func (idle) Watch(ctx context.Context, changed func(string)) { <-ctx.Done() }

func own(pods string, c client.Client) *Own {
	return &Own{Host: idle{}, reporter: reporter{
		client: c, news: signal.New(),
		o: Options{
			Name: "laptop", Host: idle{}, OverlayPort: 8476, OverlayKey: "key", Every: time.Hour,
			Kubelets: microvm.KubeletEndpoints{
				Host: netip.MustParseAddr("127.0.0.1"), Pods: netip.MustParsePrefix(pods),
			},
		},
	}}
}

// The controller's own host is shown like others, moves with its addresses, is cordoned by its object, and is joined by
// nobody.
func TestTheControllersOwnHost(t *testing.T) {
	ctx := t.Context()
	c := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1alpha1.MicroVMHost{}).Build()
	host := &v1alpha1.MicroVMHost{ObjectMeta: metav1.ObjectMeta{Namespace: "nodeless-host-laptop", Name: "laptop"}}
	for _, pods := range []string{"10.202.0.0/20", "10.202.0.0/20", "10.202.16.0/20"} {
		w := own(pods, c)
		if err := w.register(ctx); err != nil {
			t.Fatal(err)
		}
		if _, err := w.report(ctx, true, false, ""); err != nil {
			t.Fatal(err)
		}
		if err := c.Get(ctx, client.ObjectKeyFromObject(host), host); err != nil || host.Spec.PodCIDR != pods ||
			!host.Status.Ready || host.Status.OverlayPort != 8476 || host.Status.KubeletPort != 0 {
			t.Errorf("with pods at %s: %+v, %v", pods, host, err)
		}
	}

	w := own("10.202.16.0/20", c)
	changes := signal.New()
	watching, stop := context.WithCancel(ctx)
	defer stop()
	go w.Watch(watching, func(string) { changes.Set() })
	<-changes // the watch has begun
	host.Spec.Unschedulable = true
	if err := c.Update(ctx, host); err != nil {
		t.Fatal(err)
	}
	spec, err := w.report(ctx, true, false, "")
	if err != nil {
		t.Fatal(err)
	}
	w.cordon(spec)
	<-changes
	if !w.Describe().Unschedulable {
		t.Error("a cordoned host takes pods")
	}
	// It stays cordoned when its process starts again, also with other addresses.
	for _, pods := range []string{"10.202.32.0/20", "10.202.16.0/20"} {
		w = own(pods, c)
		if err := w.recall(ctx); err != nil || !w.Describe().Unschedulable {
			t.Errorf("a cordoned host takes pods after a restart: %v", err)
		}
		if err := w.register(ctx); err != nil {
			t.Fatal(err)
		}
	}
	w = own("10.202.16.0/20", fake.NewClientBuilder().WithScheme(scheme).Build())
	if err := w.recall(ctx); err != nil || w.Describe().Unschedulable {
		t.Errorf("a cluster that is new: %v", err)
	}
	w = own("10.202.16.0/20", c)

	_, err = Enrolment{Host: "laptop", TTL: time.Hour}.register(ctx, c)
	if err == nil || !strings.Contains(err.Error(), "laptop is the name of the machine on which the controller runs") {
		t.Error("joining by its name:", err)
	}
	block, err := Enrolment{Host: "shelf", TTL: time.Hour}.register(ctx, c)
	if err != nil || block.String() != "10.202.0.0/20" {
		t.Errorf("the addresses of a host that joins: %s, %v; want the first that are not this machine's", block, err)
	}

	if err := c.Get(ctx, client.ObjectKeyFromObject(host), host); err != nil {
		t.Fatal(err)
	}
	host.Annotations = nil
	if err := c.Update(ctx, host); err != nil {
		t.Fatal(err)
	}
	if err := w.register(ctx); err == nil || !strings.Contains(err.Error(), "kubectl delete namespace nodeless-host-laptop") {
		t.Error("a host that has joined by this machine's name:", err)
	}
}
