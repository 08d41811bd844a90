package catalog

import (
	"strings"
	"testing"
)

const lab = `{"zones": ["lab-a", "lab-b"], "types": [
	{"name": "small", "vcpu": 2, "memoryMiB": 4096, "pods": 32, "onDemand": 0.05, "spot": 0.02},
	{"name": "big", "vcpu": 16, "memoryMiB": 65536, "arch": "arm64", "os": "windows", "onDemand": 0.5}]}`

func TestTypesOfOnesOwnAreOfferedInEveryZone(t *testing.T) {
	own, err := ReadOwn([]byte(lab))
	if err != nil {
		t.Fatal(err)
	}
	r, err := own.Region()
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Zones()) != 2 || len(r.Offers()) != 2 || r.Offers()[0].Type.Name != "big" {
		t.Fatalf("zones %v, offers %v", r.Zones(), r.Offers())
	}
	small, _ := r.Offer("small")
	if small.OnDemand != 50_000 || len(small.Zones) != 2 {
		t.Errorf("small costs %d in %v", small.OnDemand, small.Zones)
	}
	if price, ok := r.SpotAverage("lab-b", "small"); !ok || price != 20_000 {
		t.Errorf("small as spot in lab-b: %d, %v", price, ok)
	}
	if _, ok := r.SpotAverage("lab-b", "big"); ok {
		t.Error("big is sold as spot")
	}
	if n := NodeOf(small.Type, Kubelet{}); n.Pods != 32 || n.MemoryBytes != 4096*mib {
		t.Errorf("a small node takes %d pods and %d bytes, want 32 and 4 GiB", n.Pods, n.MemoryBytes)
	}
	big, _ := r.Offer("big")
	if n := NodeOf(big.Type, Kubelet{}); n.Pods != 110 || n.MemoryBytes != 65536*mib || big.Type.OS != "windows" {
		t.Errorf("a big node takes %d pods and %d bytes and runs %s", n.Pods, n.MemoryBytes, big.Type.OS)
	}
}

func TestATypeThatCannotBeIsNamed(t *testing.T) {
	for want, text := range map[string]string{
		"at least one zone":  `{"types": [{"name": "a", "vcpu": 1, "memoryMiB": 1024, "onDemand": 1}]}`,
		"unknown field":      `{"zones": ["a"], "typos": []}`,
		`type "a": vcpu 0`:   `{"zones": ["a"], "types": [{"name": "a", "memoryMiB": 1024, "onDemand": 1}]}`,
		`type "a": arch "x"`: `{"zones": ["a"], "types": [{"name": "a", "arch": "x", "vcpu": 1, "memoryMiB": 1024, "onDemand": 1}]}`,
		`type "a": onDemand`: `{"zones": ["a"], "types": [{"name": "a", "vcpu": 1, "memoryMiB": 1024}]}`,
		`type "a": spot 2`:   `{"zones": ["a"], "types": [{"name": "a", "vcpu": 1, "memoryMiB": 1024, "onDemand": 1, "spot": 2}]}`,
		"something follows":  `{"zones": ["a"], "types": []} {}`,
		"101 zones":          `{"types": [{}], "zones": ["a"` + strings.Repeat(`, "a"`, 100) + `]}`,
		`is there twice`: `{"zones": ["a"], "types": [{"name": "a", "vcpu": 1, "memoryMiB": 1024, "onDemand": 1},
			{"name": "a", "vcpu": 1, "memoryMiB": 1024, "onDemand": 1}]}`,
	} {
		own, err := ReadOwn([]byte(text))
		if err == nil {
			_, err = own.Region()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want a word on %s", text, err, want)
		}
	}
}
