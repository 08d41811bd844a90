package catalog

import (
	"math"
	"strings"
	"testing"
)

// Price rows looked up by hand (aws.amazon.com/ec2/pricing/on-demand), in dollars per hour.
func TestPricesOfSeoul(t *testing.T) {
	for _, want := range []struct {
		name                    string
		usEast1, seoul, average float64
	}{
		{"t3.medium", .0416, .052, .01768},
		{"t4g.medium", .0336, .0416, .01622},
		{"m5.large", .096, .118, .03304},
		{"c5.4xlarge", .68, .768, .22272},
		{"c7i.2xlarge", .357, .4032, .13709},
		{"m7g.large", .0816, .1003, .02808},
		{"r6i.32xlarge", 8.064, 9.728, 2.52928},
		{"g5.xlarge", 1.006, 1.237, .48243},
		{"i4i.large", .172, .201, .04824},
		{"p4d.24xlarge", 21.957642, 45.38848, 4.99273},
	} {
		east, _ := Of("us-east-1").OnDemand(want.name)
		o, ok := Of("ap-northeast-2").Offer(want.name)
		if !ok {
			t.Errorf("%s is not offered in Seoul", want.name)
			continue
		}
		var sum float64
		for _, z := range o.Zones {
			p, ok := Of("ap-northeast-2").SpotAverage(z.Name, want.name)
			if !ok || p <= 0 {
				t.Errorf("%s has no spot price in %s", want.name, z.Name)
			}
			sum += float64(p)
		}
		mean := sum / float64(len(o.Zones)) / 1e6
		if !near(float64(east)/1e6, want.usEast1) || !near(float64(o.OnDemand)/1e6, want.seoul) {
			t.Errorf("%s costs %d in us-east-1 and %d in Seoul", want.name, east, o.OnDemand)
		}
		if !near(float64(o.SpotAverage)/1e6, want.average) || !near(mean, want.average) {
			t.Errorf("%s: spot average %d, mean over the zones %f, want %f", want.name, o.SpotAverage, mean, want.average)
		}
	}
}

func near(got, want float64) bool { return math.Abs(got-want) <= 1e-5 }

func TestDedicatedTenancyPricesAreNotTaken(t *testing.T) {
	if p, ok := Of("us-east-1").OnDemand("c6g.metal"); !ok || p != 2_176_000 {
		t.Errorf("c6g.metal costs %d micro-dollars, want 2176000, not the dedicated 2306600", p)
	}
}

func TestWhatIsNotOfferedHasNoPrice(t *testing.T) {
	if _, ok := Of("ap-northeast-2").OnDemand("a1.large"); ok {
		t.Error("a1.large, which Seoul lacks, has a price there")
	}
	if _, ok := Of("us-east-1").SpotAverage("eu-west-1a", "m5.large"); ok {
		t.Error("a zone of another region has a spot price")
	}
	for _, region := range []string{"us-east-1", "mars-1", ""} {
		if _, ok := Of(region).Offer("m5.imaginary"); ok {
			t.Errorf("a type that does not exist is offered in %q", region)
		}
	}
	if o, ok := Of("ap-northeast-2").Offer("m5.large"); !ok || o.InterruptionRate != "5-10%" {
		t.Errorf("m5.large in Seoul: %+v, want it interrupted at 5-10%%", o)
	}
}

func TestEveryZoneHasANameOfItsOwn(t *testing.T) {
	for _, region := range Regions() {
		names, ids := map[string]bool{}, map[string]bool{}
		for _, z := range Of(region).Zones() {
			if names[z.Name] || ids[z.ID] || !strings.HasPrefix(z.Name, region) {
				t.Errorf("%s: zone %+v", region, z)
			}
			names[z.Name], ids[z.ID] = true, true
		}
		if len(names) < 3 && region != "us-west-1" {
			t.Errorf("%s has %d zones", region, len(names))
		}
	}
}

// Categories and generations as in Karpenter's labels.
func TestNamesOfFamilies(t *testing.T) {
	for name, want := range map[string]struct {
		category   string
		generation int
	}{
		"c7i.2xlarge": {"c", 7}, "u-6tb1.56xlarge": {"u", 1}, "u7i-12tb.224xlarge": {"u", 7}, "inf2.xlarge": {"inf", 2},
		"trn1n.32xlarge": {"trn", 1}, "x2iedn.large": {"x", 2}, "m7i-flex.large": {"m", 7}, "is4gen.large": {"is", 4},
	} {
		family, _, _ := strings.Cut(name, ".")
		if category, generation := scheme(family); category != want.category || generation != want.generation {
			t.Errorf("%s: category %q generation %d, want %+v", name, category, generation, want)
		}
	}
	for _, x := range load().types {
		if x.Generation < 1 {
			t.Errorf("%s has no generation", x.Name)
		}
		if (x.Hypervisor == "") != x.BareMetal {
			t.Errorf("%s: hypervisor %q, bare metal %t", x.Name, x.Hypervisor, x.BareMetal)
		}
		if x.NetworkMbps < 50 || x.NetworkBaseMbps > x.NetworkMbps {
			t.Errorf("%s: network %d, sustained %d", x.Name, x.NetworkMbps, x.NetworkBaseMbps)
		}
		burst := x.Category == "t" && x.Generation >= 2
		if x.Burstable != burst {
			t.Errorf("%s: burstable %t", x.Name, x.Burstable)
		}
	}
	if x, _ := Lookup("u-12tb1.112xlarge"); x.Hypervisor != "nitro" {
		t.Errorf("u-12tb1.112xlarge has hypervisor %q", x.Hypervisor)
	}
	if x, _ := Lookup("t3.medium"); x.NetworkMbps != 5000 || x.NetworkBaseMbps != 256 {
		t.Errorf("t3.medium: network %d, sustained %d", x.NetworkMbps, x.NetworkBaseMbps)
	}
}

func TestDevices(t *testing.T) {
	for name, want := range map[string][2]Device{
		"g5.12xlarge":   {{Manufacturer: "nvidia", Name: "A10G", Count: 4, MiB: 24576}, {}},
		"p4d.24xlarge":  {{Manufacturer: "nvidia", Name: "A100", Count: 8, MiB: 40960}, {}},
		"g4ad.16xlarge": {{Manufacturer: "amd", Name: "Radeon Pro V520", Count: 4, MiB: 8192}, {}},
		"dl1.24xlarge":  {{Manufacturer: "habana", Name: "Gaudi HL-205", Count: 8, MiB: 32768}, {}},
		"inf2.24xlarge": {{}, {Manufacturer: "aws", Name: "Inferentia2", Count: 6, Cores: 2}},
		"trn1.32xlarge": {{}, {Manufacturer: "aws", Name: "Trainium", Count: 16, Cores: 2}},
		"m5.large":      {},
	} {
		x, ok := Lookup(name)
		if !ok || x.GPU != want[0] || x.Accelerator != want[1] {
			t.Errorf("%s: GPU %+v accelerator %+v, want %+v", name, x.GPU, x.Accelerator, want)
		}
	}
}
