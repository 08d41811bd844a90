package agent

import (
	"context"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/internal/kit/signal"
	"github.com/nodeless/nodeless/microvm"
)

// idle is a host that runs nothing.
type idle struct {
	microvm.Host
	region, zone string
}

func (i idle) Describe() microvm.Description {
	return microvm.Description{Name: "laptop", Region: i.region, Zone: i.zone, Ready: true}
}

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

// The controller's own host is shown like others, moves with its addresses, is cordoned through its object, and
// cannot be joined.
func TestTheControllersOwnHost(t *testing.T) {
	ctx := t.Context()
	c := fake.NewClientBuilder().WithScheme(kinds()).WithStatusSubresource(&v1alpha1.MicroVMHost{}).Build()
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
	<-changes // the watch has started
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
	// It stays cordoned when its process restarts, even with other addresses.
	for _, pods := range []string{"10.202.32.0/20", "10.202.16.0/20"} {
		w = own(pods, c)
		if err := w.recall(ctx); err != nil || !w.Describe().Unschedulable {
			t.Errorf("a cordoned host takes pods after a restart: %v", err)
		}
		if err := w.register(ctx); err != nil {
			t.Fatal(err)
		}
	}
	w = own("10.202.16.0/20", fake.NewClientBuilder().WithScheme(kinds()).Build())
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

// What a host no longer has, it no longer reports: an overlay, a region, a zone.
func TestAHostWithdrawsWhatItNoLongerHas(t *testing.T) {
	c := fake.NewClientBuilder().WithScheme(kinds()).WithStatusSubresource(&v1alpha1.MicroVMHost{}).Build()
	host := &v1alpha1.MicroVMHost{ObjectMeta: metav1.ObjectMeta{Namespace: "nodeless-host-laptop", Name: "laptop"}}
	w := own("10.202.0.0/20", c)
	if err := w.register(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, has := range []v1alpha1.MicroVMHostStatus{
		{Region: "eu-west-1", Zone: "eu-west-1a", OverlayPort: 8476, OverlayPublicKey: "key"}, {},
	} {
		w.o.Host = idle{region: has.Region, zone: has.Zone}
		w.o.OverlayPort, w.o.OverlayKey = uint16(has.OverlayPort), has.OverlayPublicKey
		if _, err := w.report(t.Context(), true, false, ""); err != nil {
			t.Fatal(err)
		}
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(host), host); err != nil {
			t.Fatal(err)
		}
		s := host.Status
		is := v1alpha1.MicroVMHostStatus{
			Region: s.Region, Zone: s.Zone, OverlayPort: s.OverlayPort, OverlayPublicKey: s.OverlayPublicKey,
		}
		if !reflect.DeepEqual(is, has) {
			t.Errorf("reported %+v, the host has %+v", is, has)
		}
	}
}

// Of two hosts that are registered at the same time, the one that sees the other has other addresses, or fails if it
// must have these.
func TestHostsRegisteredAtOnceShareNoAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, wanted := range []string{"", "10.202.0.0/20"} {
			other := &v1alpha1.MicroVMHost{
				ObjectMeta: metav1.ObjectMeta{Namespace: "nodeless-host-b", Name: "b"},
				Spec:       v1alpha1.MicroVMHostSpec{PodCIDR: "10.202.0.0/20"},
			}
			met := false
			c := fake.NewClientBuilder().WithScheme(kinds()).WithInterceptorFuncs(interceptor.Funcs{
				Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
					if !met {
						met = true
						if err := c.Create(ctx, other); err != nil {
							return err
						}
					}
					return c.Create(ctx, o, opts...)
				},
			}).Build()
			block, err := Enrolment{Host: "a", PodCIDR: wanted, TTL: time.Hour}.register(t.Context(), c)
			var all v1alpha1.MicroVMHostList
			if err := c.List(t.Context(), &all); err != nil {
				t.Fatal(err)
			}
			switch {
			case wanted == "" && (err != nil || block.String() != "10.202.16.0/20" || len(all.Items) != 2):
				t.Errorf("got %s, %v, and %d hosts", block, err, len(all.Items))
			case wanted != "" && (err == nil || !strings.Contains(err.Error(), "overlap") || len(all.Items) != 1):
				t.Errorf("with %s: got %s, %v, and %d hosts", wanted, block, err, len(all.Items))
			}
		}
	})
}
