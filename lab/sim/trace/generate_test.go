package trace

import (
	"slices"
	"testing"
	"time"
)

// TestGenerated checks that each workload is the same for the same seed, differs between seeds, and keeps a cluster
// busy from its first quarter of an hour to its end.
func TestGenerated(t *testing.T) {
	const length = 2 * time.Hour
	for _, name := range Generated() {
		a, err := Generate(name, 1, length)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := Generate(name, 1, length)
		c, _ := Generate(name, 2, length)
		if !slices.Equal(a.Pods, b.Pods) || slices.Equal(a.Pods, c.Pods) {
			t.Errorf("%s: want equal pods for equal seeds only", name)
		}
		for i := range a.Pods {
			if p := &a.Pods[i]; p.valid() != nil || p.CPU == 0 || p.Memory == 0 || p.Life < time.Second ||
				p.Start+p.Life > length {
				t.Fatalf("%s: pod %+v", name, *p)
			}
		}
		for at := 30 * time.Minute; at < length; at += 15 * time.Minute {
			live := 0
			for i := range a.Pods {
				if p := &a.Pods[i]; p.Start <= at && at < p.Start+p.Life {
					live++
				}
			}
			if live < 20 || live > 1000 {
				t.Errorf("%s: %d pods run at %s", name, live, at)
			}
		}
	}
	if _, err := Generate("weather", 1, length); err == nil {
		t.Error("want an error for an unknown workload")
	}
}
