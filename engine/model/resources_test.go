package model

import (
	"math"
	"testing"
)

func TestSumsStayWithinTheIntegers(t *testing.T) {
	huge := Resources{CPU: math.MaxInt64, Memory: math.MinInt64}
	if got := huge.Plus(huge); got[CPU] != math.MaxInt64 || got[Memory] != math.MinInt64 {
		t.Errorf("huge + huge = %v", got)
	}
	if got := (Resources{Memory: math.MaxInt64}).Minus(huge); got[CPU] != -math.MaxInt64 || got[Memory] != math.MaxInt64 {
		t.Errorf("0 - huge = %v", got)
	}
	if got := huge.Times(3); got[CPU] != math.MaxInt64 || got[Memory] != math.MinInt64 {
		t.Errorf("3 huge = %v", got)
	}
	if got := (Resources{CPU: 250}).Times(4); got[CPU] != 1000 {
		t.Errorf("4 × 250 = %v", got)
	}
}

func TestQuantity(t *testing.T) {
	for _, c := range []struct {
		resource string
		amount   int64
		want     string
	}{
		{"cpu", 1500, "1500m"},
		{"cpu", 2000, "2"},
		{"cpu", 0, "0"},
		{"memory", 900 << 30, "900Gi"},
		{"memory", 512 << 20, "512Mi"},
		{"memory", 14<<30 + 300<<20, "14.3Gi"},
		{"memory", 1 << 10, "1Ki"},
		{"memory", 7, "7"},
		{"ephemeral-storage", 1 << 30, "1Gi"},
		{"hugepages-2Mi", 4 << 20, "4Mi"},
		{"nvidia.com/gpu", 8, "8"},
	} {
		if got := Quantity(c.resource, c.amount); got != c.want {
			t.Errorf("%s %d is written %s, want %s", c.resource, c.amount, got, c.want)
		}
	}
}

func TestTolerations(t *testing.T) {
	taint := Taint{"gpu", "true", NoSchedule}
	for _, c := range []struct {
		t    Toleration
		want bool
	}{
		{Toleration{Exists: true}, true},
		{Toleration{Key: "gpu", Exists: true}, true},
		{Toleration{Key: "gpu", Value: "true"}, true},
		{Toleration{Key: "gpu", Value: "false"}, false},
		{Toleration{Key: "gpu", Exists: true, Effect: NoExecute}, false},
		{Toleration{}, false},
	} {
		if got := c.t.Tolerates(taint); got != c.want {
			t.Errorf("%+v tolerates %+v: %v", c.t, taint, got)
		}
	}
}
