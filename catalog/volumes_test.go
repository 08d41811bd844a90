package catalog

import "testing"

// Limits as reported by DescribeInstanceTypes.
func TestEBSVolumes(t *testing.T) {
	for name, want := range map[string]struct {
		most   int
		shared bool
	}{
		"m5.large": {27, true}, "t3.medium": {27, true}, "m7g.16xlarge": {27, true}, "c6a.48xlarge": {27, true},
		"c5d.large": {26, true}, "g4dn.xlarge": {25, true}, "g4dn.12xlarge": {22, true}, "inf1.6xlarge": {23, true},
		"inf2.48xlarge": {28, true},
		"m5.metal":      {31, true}, "t2.micro": {40, true}, "m4.large": {40, true},
		"m7i.large": {32, false}, "c7a.16xlarge": {48, false}, "r7i.24xlarge": {64, false}, "m7a.32xlarge": {88, false},
		"m7i.48xlarge":     {128, false},
		"m7i-flex.8xlarge": {32, false}, "r8g.12xlarge": {32, false}, "i7ie.18xlarge": {48, false},
		"r7iz.metal-16xl": {39, false}, "m7i.metal-48xl": {79, false},
		"g6.48xlarge": {128, false}, "p4d.24xlarge": {28, false}, "p5.48xlarge": {64, false},
	} {
		it, ok := Lookup(name)
		if !ok {
			t.Errorf("%s is not in the catalogue", name)
			continue
		}
		if most, shared := EBSVolumes(it); most != want.most || shared != want.shared {
			t.Errorf("%s: %d, %v, want %d, %v", name, most, shared, want.most, want.shared)
		}
	}
}

func TestEveryTypeTakesSomeVolumes(t *testing.T) {
	for _, it := range load().types {
		if most, _ := EBSVolumes(it); most < 3 || most > 128 {
			t.Errorf("%s: %d", it.Name, most)
		}
	}
}
