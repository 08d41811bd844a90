package webpage

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/internal/kit/clock"
	"github.com/nodeless/nodeless/microvm"
	"github.com/nodeless/nodeless/microvm/fargate"
	"github.com/nodeless/nodeless/view/web"
)

func hostNamed(name string, heartbeat time.Time) v1alpha1.MicroVMHost {
	return v1alpha1.MicroVMHost{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: v1alpha1.HostNamespace(name)},
		Spec:       v1alpha1.MicroVMHostSpec{PodCIDR: "10.90.0.0/24"},
		Status: v1alpha1.MicroVMHostStatus{
			Ready: true, Heartbeat: &metav1.MicroTime{Time: heartbeat}, OverlayPort: 8476, OverlayPublicKey: "key",
			Capacity: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")},
		},
	}
}

// A host has the microVMs of its namespace; a host outside its own namespace is ignored.
func TestAHostHasTheMicroVMsOfItsNamespace(t *testing.T) {
	c := clock.NewVirtual(time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC))
	r := &hostReader{clock: c}
	stray := hostNamed("stray", c.Now())
	stray.Namespace = "default"
	vm := v1alpha1.MicroVM{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "nodeless-host-shelf"}}
	vm.Spec.Pod.Namespace, vm.Spec.Pod.Name = "shop", "web-0"
	vm.Spec.Size = corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("500m"), corev1.ResourceMemory: resource.MustParse("1Gi"),
	}
	out := r.join([]v1alpha1.MicroVMHost{stray, hostNamed("shelf", c.Now())}, map[string][]web.MicroVM{
		"nodeless-host-shelf": {microVMOf(&vm)}, "nodeless-host-other": {microVMOf(&vm)}, "default": {microVMOf(&vm)},
	})
	if len(out.Hosts) != 1 || !out.Served {
		t.Fatalf("%+v", out)
	}
	h := out.Hosts[0]
	if h.Name != "shelf" || h.Status != "Ready" || h.Used != (web.HostUse{CPU: 500, Memory: 1 << 30, Pods: 1}) ||
		h.Capacity.CPU != 4000 || len(h.MicroVMs) != 1 || h.MicroVMs[0].Pod != "web-0" || !h.OverlayKey ||
		h.Heard != c.Now().Unix() {
		t.Errorf("%+v", h)
	}
}

// The microVMs on the controller's own host are read from its pods' NodeClaims.
func TestANodeClaimIsAMicroVMOfTheOwnHost(t *testing.T) {
	n := &karpv1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Annotations: map[string]string{microvm.PodAnnotation: "shop/web-0"},
			Labels:      map[string]string{fargate.ProfileLabel: "small"},
		},
		Spec: karpv1.NodeClaimSpec{Resources: karpv1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("250m")},
		}},
	}
	if got := podOf(n); got != (web.MicroVM{Namespace: "shop", Pod: "web-0", Profile: "small", CPU: 250}) {
		t.Errorf("%+v", got)
	}
}

// A host whose heartbeat stops changing is not ready, whatever its clock says; one whose heartbeat changes is.
func TestAHostIsHeardOfByTheChangesOfItsHeartbeat(t *testing.T) {
	c := clock.NewVirtual(time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC))
	r := &hostReader{clock: c}
	status := func(hosts ...v1alpha1.MicroVMHost) (out []string) {
		for _, h := range r.join(hosts, nil).Hosts {
			out = append(out, h.Status+" "+h.Message)
		}
		return out
	}
	behind, ahead := c.Now().Add(-time.Hour), c.Now().Add(time.Hour)
	const silent = "NotReady nothing has been heard of it since"
	if got := status(hostNamed("late", behind), hostNamed("soon", ahead)); !strings.HasPrefix(got[0], silent) ||
		got[1] != "Ready " {
		t.Errorf("at first: %q", got)
	}
	c.Advance(20 * time.Second)
	late := hostNamed("late", behind.Add(20*time.Second))
	if got := status(late, hostNamed("soon", ahead)); got[0] != "Ready " || got[1] != "Ready " {
		t.Errorf("when the slow clock moves on: %q", got)
	}
	c.Advance(20 * time.Second)
	late = hostNamed("late", behind.Add(40*time.Second))
	if got := status(late, hostNamed("soon", ahead)); got[0] != "Ready " || !strings.HasPrefix(got[1], silent) {
		t.Errorf("when the fast clock stands still: %q", got)
	}
	full := hostNamed("full", c.Now())
	full.Spec.Unschedulable = true
	broken := hostNamed("broken", c.Now())
	broken.Status.Ready, broken.Status.Message = false, "no QEMU"
	booting := hostNamed("booting", c.Now())
	booting.Status.Ready, booting.Status.Starting = false, true
	expected := hostNamed("expected", c.Now())
	expected.Status.Heartbeat = nil
	want := "Starting |NotReady no QEMU|NotReady it has not joined yet|Unschedulable "
	if got := strings.Join(status(full, broken, booting, expected), "|"); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
