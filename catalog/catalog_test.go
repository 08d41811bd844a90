package catalog

import "testing"

// Rows looked up by hand (aws.amazon.com/ec2/pricing/on-demand).
func TestKnownTypes(t *testing.T) {
	for _, want := range []struct {
		name                 string
		vcpu                 int
		memory               int64
		enis, ips, branch    int
		usEast1, apNortheast int64
	}{
		{"m5.large", 2, 8192, 3, 10, 9, 96_000, 118_000},
		{"c5.4xlarge", 16, 32768, 8, 30, 54, 680_000, 768_000},
		{"c7i.2xlarge", 8, 16384, 4, 15, 38, 357_000, 403_200},
		{"m7g.large", 2, 8192, 3, 10, 9, 81_600, 100_300},
		{"r6i.32xlarge", 128, 1048576, 15, 50, 0, 8_064_000, 9_728_000},
		{"g5.xlarge", 4, 16384, 4, 15, 4, 1_006_000, 1_237_000},
		{"i4i.large", 2, 16384, 3, 10, 9, 172_000, 201_000},
		{"p4d.24xlarge", 96, 1179648, 15, 50, 62, 21_957_642, 45_388_480},
	} {
		got, ok := Lookup(want.name)
		if !ok {
			t.Errorf("%s is missing", want.name)
			continue
		}
		if got.VCPU != want.vcpu || got.MemoryMiB != want.memory || got.MaxENIs != want.enis || got.IPv4PerENI != want.ips {
			t.Errorf("%s: %+v", want.name, got)
		}
		if want.branch > 0 && got.BranchENIs != want.branch {
			t.Errorf("%s: %d branch interfaces, want %d", want.name, got.BranchENIs, want.branch)
		}
		for region, price := range map[string]int64{"us-east-1": want.usEast1, "ap-northeast-2": want.apNortheast} {
			if p, ok := Of(region).OnDemand(want.name); !ok || p != price {
				t.Errorf("%s in %s costs %d micro-dollars, want %d", want.name, region, p, price)
			}
		}
	}
}

func TestEveryTypeIsSane(t *testing.T) {
	if n := len(load().types); n < 850 {
		t.Fatalf("%d types", n)
	}
	for _, x := range load().types {
		if x.VCPU <= 0 || x.MemoryMiB <= 0 || x.MaxENIs <= 0 || x.IPv4PerENI <= 0 ||
			(x.Arch != "amd64" && x.Arch != "arm64") || x.Category == "" || x.Size == "" {
			t.Errorf("%+v", x)
		}
	}
	for _, region := range []string{"ap-northeast-2", "us-east-1", "us-west-2", "eu-west-1"} {
		if len(Of(region).Zones()) < 3 || len(Of(region).Offers()) < 400 {
			t.Errorf("%s: zones %v, %d types", region, Of(region).Zones(), len(Of(region).Offers()))
		}
		dearer := 0
		for _, o := range Of(region).Offers() {
			if o.OnDemand <= 0 || len(o.Zones) == 0 || (len(o.Spot) != 0 && len(o.Spot) != len(o.Zones)) {
				t.Errorf("%s %s: %+v", region, o.Type.Name, o)
			}
			for _, s := range o.Spot {
				if s > o.OnDemand {
					dearer++
				}
			}
		}
		if dearer > len(Of(region).Offers())/10 {
			t.Errorf("%s: %d spot prices above on-demand", region, dearer)
		}
	}
	if Of("mars-1").Zones() != nil || Of("mars-1").Offers() != nil {
		t.Error("a region that is not there has zones or types")
	}
}

// Test vectors from the documents (amazon-vpc-cni-k8s and amazon-eks-ami).
func TestNodeResources(t *testing.T) {
	for _, want := range []struct {
		name              string
		cpu, memory, pods int64
		podENI            int64
	}{
		{"c7i.2xlarge", 7910, 14162, 58, 38},
		{"r7g.xlarge", 3920, 29258, 58, 18},
		{"t3.medium", 1930, 4096 - 308 - 442 - 100, 17, 0},
	} {
		x, _ := Lookup(want.name)
		n := NodeOf(x, Kubelet{})
		if n.AllocatableCPU != want.cpu || n.AllocatableMemoryBytes != want.memory*mib || n.Pods != want.pods ||
			n.PodENI != want.podENI {
			t.Errorf("%s: %+v, want cpu %d memory %d pods %d pod-eni %d", want.name, n, want.cpu, want.memory, want.pods,
				want.podENI)
		}
	}
	for name, want := range map[string]int64{
		"t3.nano": 4, "t3.micro": 4, "t3.small": 11, "t3.medium": 17, "t3.large": 35, "t3.xlarge": 58, "t3.2xlarge": 58,
		"c5a.large": 29, "m5.large": 29, "c7i.2xlarge": 58, "m5.4xlarge": 234,
	} {
		x, _ := Lookup(name)
		if got := MaxPods(x, 0, false); got != want {
			t.Errorf("%s takes %d pods, want %d", name, got, want)
		}
	}
	x, _ := Lookup("m5.large")
	if got := MaxPods(x, 1, false); got != 20 {
		t.Errorf("m5.large with one reserved interface takes %d pods, want 20", got)
	}
	if got := Pods(x, Kubelet{PodsPerCore: 4}); got != 8 {
		t.Errorf("m5.large with 4 pods per core takes %d pods, want 8", got)
	}
}

func TestADamagedTableIsAnError(t *testing.T) {
	for _, data := range [][]byte{nil, []byte("nonsense"), packed[:len(packed)/2]} {
		if _, err := read(data); err == nil {
			t.Errorf("%d bytes of nonsense were read", len(data))
		}
	}
}

// Measured on 2 cores of a shared machine: about 20 ms, once per process.
func BenchmarkLoad(b *testing.B) {
	b.ReportAllocs()
	for range b.N {
		if _, err := read(packed); err != nil {
			b.Fatal(err)
		}
	}
}
