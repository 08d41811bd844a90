package cluster

import (
	"slices"
	"strconv"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/api/eksv1"
	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
	"github.com/nodeless/nodeless/internal/kit/clock"
)

// Addresses limit nothing where it is unknown how many a node takes: without the VPC CNI, where its DaemonSet has
// been disabled in favour of another CNI, and under IPv6.
func TestUnknownAddressesLimitNothing(t *testing.T) {
	w, c := fresh()
	w.Update(poolOf("p", 1))
	w.SetCatalog(class, m5Large(), "")
	w.SetSubnets(class, []cloud.Subnet{{ID: "s-1", Zone: "z", Free: 1, At: c.Now()}})
	unlimited := func(what string) {
		t.Helper()
		s := w.Snapshot()
		if p := &s.Pools[0]; s.Subnets != nil || p.Subnets != nil || p.Types[0].Addresses != nil {
			t.Errorf("%s: subnets %v, the pool's %v, steps %v", what, s.Subnets, p.Subnets, p.Types[0].Addresses)
		}
	}
	unlimited("no aws-node")
	w.Update(awsNode(2))
	if s := w.Snapshot(); len(s.Subnets) != 1 || len(s.Pools[0].Subnets) != 1 {
		t.Errorf("subnets of the VPC CNI: %v, the pool's %v", s.Subnets, s.Pools[0].Subnets)
	}
	elsewhere := awsNode(3)
	elsewhere.Spec.Template.Spec.NodeSelector = map[string]string{"io.cilium/aws-node-enabled": "true"}
	w.Update(elsewhere)
	unlimited("aws-node runs on some nodes")
	w.Update(awsNode(5, corev1.EnvVar{Name: "ENABLE_IPv6", Value: "true"}))
	unlimited("IPv6")

	w.Update(awsNode(6))
	w.SetSubnets(class, nil)
	unlimited("the cloud says nothing of subnets")
}

// awsNode is the DaemonSet of the VPC CNI with the given environment variables.
func awsNode(version int, env ...corev1.EnvVar) *appsv1.DaemonSet {
	ds := &appsv1.DaemonSet{ObjectMeta: meta("aws-node", version)}
	ds.Namespace, ds.Generation = "kube-system", int64(version)
	ds.Spec.Template.Spec.Containers = []corev1.Container{{Name: "aws-node", Env: env}}
	return ds
}

// m5Large offers m5.large, whose nodes take 29 pods and have three interfaces of ten addresses.
func m5Large() []model.InstanceType {
	t := types1()[0]
	t.Name = "m5.large"
	t.Capacity[model.Pods] = 29
	return []model.InstanceType{t}
}

func inFlight(pods string) *karpv1.NodeClaim {
	c := claimOf("c", "", 3)
	c.Spec.Resources.Requests = corev1.ResourceList{"pods": resource.MustParse(pods)}
	for key, values := range map[string][]string{
		model.LabelInstanceType: {"m5.large"}, model.LabelZone: {"z", "z2"},
	} {
		c.Spec.Requirements = append(c.Spec.Requirements, karpv1.NodeSelectorRequirementWithMinValues{
			Key: key, Operator: corev1.NodeSelectorOpIn, Values: values,
		})
	}
	return c
}

// Nodes of EKS Auto Mode take prefixes, or single addresses with ipv4PrefixSize: "32", whether other nodes have an
// aws-node or not. Where EKS builds no CNI into them, another one gives them addresses.
func TestASnapshotKnowsTheAddressesOfAutoMode(t *testing.T) {
	c := clock.NewVirtual(noon.Add(time.Minute))
	w, elsewhere := New(Options{Clock: c, BuiltInCNI: true}), New(Options{Clock: c})
	auto := cloud.ClassRef{Group: eksv1.GroupVersion.Group, Kind: eksv1.Kind, Name: "default"}
	np := poolOf("auto", 1)
	ref := np.Spec.Template.Spec.NodeClassRef
	ref.Group, ref.Kind, ref.Name = auto.Group, auto.Kind, auto.Name
	for _, w := range []*State{w, elsewhere} {
		w.Update(np)
		w.SetSubnets(auto, []cloud.Subnet{{ID: "s-1", Zone: "z", Free: 100, At: c.Now()}})
		w.SetCatalog(auto, m5LargeOf(110), "")
	}
	if s := elsewhere.Snapshot(); s.Subnets != nil || s.Pools[0].Subnets != nil || s.Pools[0].Types[0].Addresses != nil {
		t.Errorf("with an unknown CNI: %+v", s.Subnets)
	}
	takes := func(maxPods int64, steps ...model.AddressStep) {
		t.Helper()
		w.SetPodNetwork(auto, cloud.PodNetwork{Single: maxPods < 110})
		w.SetCatalog(auto, m5LargeOf(maxPods), "")
		p := w.Snapshot().Pools[0]
		if got := p.Types[0].Addresses; !slices.Equal(p.Subnets, []string{"s-1"}) || len(got) < len(steps) ||
			!slices.Equal(got[:len(steps)], steps) {
			t.Errorf("with %d pods at most: subnets %v, steps %v", maxPods, p.Subnets, got)
		}
	}
	prefixes := []model.AddressStep{{Pods: 0, Addresses: 17}, {Pods: 16, Addresses: 33}, {Pods: 32, Addresses: 49}}
	single := []model.AddressStep{{Pods: 0, Addresses: 2}, {Pods: 1, Addresses: 3}, {Pods: 2, Addresses: 4}}
	takes(110, prefixes...)
	takes(29, single...)
	claim := inFlight("5")
	claim.Spec.NodeClassRef = ref
	w.Update(claim)
	takes(110, prefixes...)
	if s := w.Snapshot(); len(s.Subnets) != 1 || s.Subnets[0].Free != 67 {
		t.Errorf("with a node on its way %+v are free", s.Subnets)
	}

	w.Update(awsNode(4, corev1.EnvVar{Name: "WARM_IP_TARGET", Value: "2"}))
	takes(110, prefixes...)
	takes(29, single...)
}

// While pods get prefixes, addresses outside free blocks are not free for nodes, except for those of EKS Auto Mode,
// which fall back to single addresses.
func TestScatteredAddressesAreNotFreeForPrefixes(t *testing.T) {
	c := clock.NewVirtual(noon.Add(time.Minute))
	w := New(Options{Clock: c, BuiltInCNI: true})
	auto := cloud.ClassRef{Group: eksv1.GroupVersion.Group, Kind: eksv1.Kind, Name: "default"}
	w.Update(poolOf("p", 1))
	w.SetCatalog(class, m5Large(), "")
	scattered := func(id string, at time.Time) []cloud.Subnet {
		return []cloud.Subnet{{ID: id, Zone: "z", Free: 200, Scattered: 168, At: at}}
	}
	w.SetSubnets(class, scattered("s-1", c.Now()))
	w.SetSubnets(auto, append(scattered("s-1", c.Now().Add(time.Second)), scattered("s-2", c.Now())...))
	free := func(when string, want ...model.Subnet) {
		t.Helper()
		if s := w.Snapshot(); !slices.Equal(s.Subnets, want) {
			t.Errorf("%s: %+v, want %+v", when, s.Subnets, want)
		}
	}
	whole := []model.Subnet{{ID: "s-1", Zone: "z", Free: 200}, {ID: "s-2", Zone: "z", Free: 200}}
	w.Update(awsNode(2))
	free("single addresses", whole...)
	w.Update(awsNode(4, corev1.EnvVar{Name: "ENABLE_PREFIX_DELEGATION", Value: "true"}))
	free("prefixes", model.Subnet{ID: "s-1", Zone: "z", Free: 32, Scattered: 168}, whole[1])
}

// Two classes may know the same subnet from readings of different times: the newest one counts, with all its numbers.
func TestTheNewestReadingOfASubnetCounts(t *testing.T) {
	for range 20 { // whichever class comes first
		w, c := fresh()
		w.Update(poolOf("p", 1))
		w.SetCatalog(class, m5Large(), "")
		w.Update(awsNode(2, corev1.EnvVar{Name: "ENABLE_PREFIX_DELEGATION", Value: "true"}))
		other, now := class, c.Now()
		other.Name = "other"
		w.SetSubnets(class, []cloud.Subnet{{ID: "s-1", Zone: "z", Free: 200, Scattered: 184, At: now}})
		w.SetSubnets(other, []cloud.Subnet{{ID: "s-1", Zone: "z", Free: 100, At: now.Add(time.Second)}})
		if s := w.Snapshot(); len(s.Subnets) != 1 || s.Subnets[0] != (model.Subnet{ID: "s-1", Zone: "z", Free: 100}) {
			t.Fatalf("subnets %+v, want 100 free addresses", s.Subnets)
		}
	}
}

// With ENABLE_PREFIX_DELEGATION, nodes of Windows and of types on xen take single addresses all the same: they are
// launched in a subnet without a free block.
func TestSingleAddressesMayBeScattered(t *testing.T) {
	xen := m5LargeOf(29)
	xen[0].Name = "m4.large"
	for what, x := range map[string]struct {
		types []model.InstanceType
		free  int64
	}{
		"nitro": {m5LargeOf(29), 0}, "xen": {xen, 200}, "Windows": {m5LargeOfWindows(), 200},
	} {
		w, c := fresh()
		w.Update(poolOf("p", 1))
		w.Update(awsNode(2, corev1.EnvVar{Name: "ENABLE_PREFIX_DELEGATION", Value: "true"}))
		w.SetCatalog(class, x.types, "")
		w.SetSubnets(class, []cloud.Subnet{{ID: "s-1", Zone: "z", Free: 200, Scattered: 200, At: c.Now()}})
		s := w.Snapshot()
		p := &s.Pools[0]
		if got := s.Subnets[0].FreeFor(&p.Types[0]); got != x.free {
			t.Errorf("%s: %d addresses are free, want %d", what, got, x.free)
		}
		v := rules.NewView(p, nil)
		v.ApplySubnets(s.Subnets)
		for _, o := range v.Offers[0] {
			if v.Zones[o.Zone] == "z" && o.Dry != (x.free == 0) {
				t.Errorf("%s: launched in z: %t", what, o.Available)
			}
		}
	}
}

// The environment of aws-node determines how many addresses nodes take from subnets. The addresses that nodes in
// flight will take count as used until the cloud's numbers include them.
func TestASnapshotKnowsFreeAddresses(t *testing.T) {
	w, c := fresh()
	w.Update(poolOf("p", 1))
	w.SetCatalog(class, m5Large(), "")
	if s := w.Snapshot(); s.Subnets != nil || s.Pools[0].Subnets != nil || s.Pools[0].Types[0].Addresses != nil {
		t.Errorf("nobody said anything of subnets: %v", s.Subnets)
	}
	w.Update(awsNode(1))
	w.SetSubnets(class, []cloud.Subnet{
		{ID: "s-1", Zone: "z", Free: 100, At: c.Now()}, {ID: "s-2", Zone: "z2", Free: 50, At: c.Now()},
	})
	s := w.Snapshot()
	steps := []model.AddressStep{{Pods: 0, Addresses: 10}, {Pods: 9, Addresses: 20}, {Pods: 27, Addresses: 30}}
	if !slices.Equal(s.Pools[0].Subnets, []string{"s-1", "s-2"}) || !slices.Equal(s.Pools[0].Types[0].Addresses, steps) {
		t.Errorf("subnets %v, steps %v", s.Pools[0].Subnets, s.Pools[0].Types[0].Addresses)
	}
	w.Update(inFlight("5"))
	free := func(a, b int64) {
		t.Helper()
		s := w.Snapshot()
		want := []model.Subnet{{ID: "s-1", Zone: "z", Free: a}, {ID: "s-2", Zone: "z2", Free: b}}
		if !slices.Equal(s.Subnets, want) {
			t.Errorf("subnets %+v, want %+v", s.Subnets, want)
		}
	}
	free(80, 30) // it may be launched in either zone

	launched := claimOf("c", "n", 4)
	launched.Spec = inFlight("5").Spec
	launched.Labels[model.LabelZone], launched.Labels[model.LabelInstanceType] = "z", "m5.large"
	w.Update(launched)
	free(80, 50)

	ready := launched.DeepCopy()
	ready.ResourceVersion = "5"
	ready.StatusConditions().SetTrue(karpv1.ConditionTypeInitialized)
	node := nodeOf("n", 6)
	node.Labels[model.LabelInstanceType] = "m5.large"
	w.Update(ready)
	w.Update(node)
	now := time.Now() // time of the condition
	w.SetSubnets(class, []cloud.Subnet{
		{ID: "s-1", Zone: "z", Free: 81, At: now}, {ID: "s-2", Zone: "z2", Free: 50, At: now},
	})
	free(61, 50)
	now = now.Add(settling + time.Second)
	read := func() {
		w.SetSubnets(class, []cloud.Subnet{
			{ID: "s-1", Zone: "z", Free: 80, At: now}, {ID: "s-2", Zone: "z2", Free: 50, At: now},
		})
	}
	read()
	free(60, 50) // none of its five pods has come
	for i := range 5 {
		p := podOf("late-"+strconv.Itoa(i), "n", "10m", 10+i)
		p.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now),
		}}
		w.Update(p)
	}
	read()
	free(60, 50) // they have just come
	now = now.Add(settling + 2*time.Second)
	read()
	free(80, 50)
	for i := range 5 {
		w.Delete(podOf("late-"+strconv.Itoa(i), "n", "10m", 20+i))
	}
	read()
	free(60, 50) // nobody knows that they had come
	now = now.Add(patience)
	read()
	free(80, 50)

	w.Update(awsNode(7, corev1.EnvVar{Name: "WARM_IP_TARGET", Value: "2"}))
	if s := w.Snapshot(); s.Pools[0].Types[0].Addresses[0] != (model.AddressStep{Pods: 0, Addresses: 3}) {
		t.Errorf("with a target of two addresses: %v", s.Pools[0].Types[0].Addresses)
	}
}

// A node that is configured to keep fewer addresses gives them back later. Until the cloud's numbers can reflect
// that, the node counts with the addresses it was launched for.
func TestAddressesComeBackLaterThanTheTargetsSay(t *testing.T) {
	w, c := fresh()
	w.Update(poolOf("p", 1))
	w.SetCatalog(class, m5Large(), "")
	w.Update(awsNode(2))
	w.SetSubnets(class, []cloud.Subnet{{ID: "s-1", Zone: "z", Free: 100, At: c.Now()}})
	w.Update(inFlight("5"))
	free := func(what string, want int64) {
		t.Helper()
		if s := w.Snapshot(); len(s.Subnets) != 1 || s.Subnets[0].Free != want {
			t.Errorf("%s: %+v, want %d free", what, s.Subnets, want)
		}
	}
	free("two interfaces of ten addresses", 80)
	w.Update(awsNode(4, corev1.EnvVar{Name: "WARM_IP_TARGET", Value: "1"}))
	free("the target has changed, the node has not", 80)
	w.SetSubnets(class, []cloud.Subnet{{ID: "s-1", Zone: "z", Free: 100, At: c.Now().Add(settling + time.Second)}})
	free("it is as the target says: its address and six", 93)
}
