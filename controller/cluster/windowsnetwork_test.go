package cluster

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/engine/model"
)

// windowsSays is the ConfigMap of the VPC CNI.
func windowsSays(version int, enabled string) *corev1.ConfigMap {
	c := &corev1.ConfigMap{ObjectMeta: meta("amazon-vpc-cni", version)}
	c.Namespace, c.Data = "kube-system", map[string]string{"enable-windows-ipam": enabled}
	return c
}

func m5LargeOfWindows() []model.InstanceType {
	t := m5LargeOf(110)
	t[0].Requirements = t[0].Requirements.And(onWindows)
	t[0].Capacity[model.PrivateIPv4], t[0].Allocatable[model.PrivateIPv4] = 9, 9
	return t
}

// Where the VPC CNI gives Windows pods no addresses, a Windows pool launches nothing and says what to set. Where the
// ConfigMap is not watched this is unknown, and Linux pools are unaffected.
func TestAPoolOfWindowsNeedsAddressesForItsPods(t *testing.T) {
	for what, c := range map[string]struct {
		watched bool
		types   []model.InstanceType
		says    []*corev1.ConfigMap
		ready   bool
	}{
		"not there":       {true, m5LargeOfWindows(), nil, false},
		"off":             {true, m5LargeOfWindows(), []*corev1.ConfigMap{windowsSays(2, "false")}, false},
		"on":              {true, m5LargeOfWindows(), []*corev1.ConfigMap{windowsSays(2, "true")}, true},
		"on, then off":    {true, m5LargeOfWindows(), []*corev1.ConfigMap{windowsSays(2, "true"), windowsSays(3, "")}, false},
		"not watched":     {false, m5LargeOfWindows(), nil, true},
		"read, and off":   {false, m5LargeOfWindows(), []*corev1.ConfigMap{windowsSays(2, "false")}, false},
		"a pool of Linux": {true, m5LargeOf(29), []*corev1.ConfigMap{windowsSays(2, "false")}, true},
	} {
		w := New(Options{})
		if c.watched {
			w.setWindowsKnown()
		}
		w.Update(poolOf("p", 1))
		w.SetCatalog(class, c.types, "")
		for _, says := range c.says {
			changed(w)
			if w.Update(says); !changed(w) {
				t.Errorf("%s: nobody is told", what)
			}
		}
		notReady := w.Snapshot().Pools[0].NotReady
		if reason, problems := w.PodNetworkProblems("p"); (notReady == "") != c.ready || (len(problems) == 0) != c.ready ||
			!c.ready && (reason != "WindowsIPAMDisabled" || !strings.Contains(notReady, `{"data":{"enable-windows-ipam":"true"}}`)) {
			t.Errorf("%s: not ready: %q, %s %q", what, notReady, reason, problems)
		}
	}
}

// aws-node does not run on Windows: its settings do not apply to those nodes, which take one address for each pod and
// no spare ones.
func TestNodesOfWindowsTakeAnAddressForEachPod(t *testing.T) {
	w, c := fresh()
	w.Update(poolOf("p", 1))
	w.Update(awsNode(2, corev1.EnvVar{Name: "WARM_IP_TARGET", Value: "500"}))
	w.SetCatalog(class, m5LargeOfWindows(), "")
	w.SetSubnets(class, []cloud.Subnet{{ID: "s-1", Zone: "z", Free: 100, At: c.Now()}})
	it := &w.Snapshot().Pools[0].Types[0]
	if it.Unaddressed != 0 || it.AddressesFor(4) != 5 || w.Unaddressed("p") != "" || w.UnkeptTarget("p") != "" {
		t.Errorf("%d pods have no address, four take %d addresses; the pool says %q and %q", it.Unaddressed,
			it.AddressesFor(4), w.Unaddressed("p"), w.UnkeptTarget("p"))
	}
	n := nodeOf("n", 1)
	n.Labels[model.LabelInstanceType], n.Labels[model.LabelOS] = "m5.large", "windows"
	w.Update(n)
	if got := w.Snapshot().Nodes[0].Unaddressed; got != 0 {
		t.Errorf("of a node of Windows %d pods have no address", got)
	}
}
