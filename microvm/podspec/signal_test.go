package podspec

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestStopSignals(t *testing.T) {
	for name, want := range map[string]int{
		"": 0, "SIGQUIT": 3, "quit": 3, "15": 15, "SIGRTMIN": 34, "SIGRTMIN+3": 37, "RTMAX-1": 63,
		"SIGNONE": -1, "65": -1, "-1": -1, "SIGRTMIN-1": -1, "SIGRTMAX+1": -1, "SIGRTMIN+x": -1,
	} {
		got, err := stopSignal(&corev1.Container{}, name)
		if err != nil {
			got = -1
		}
		if got != want {
			t.Errorf("%q is %d, want %d", name, got, want)
		}
	}
	own := corev1.Signal("SIGUSR1")
	if got, err := stopSignal(&corev1.Container{Lifecycle: &corev1.Lifecycle{StopSignal: &own}},
		"SIGQUIT"); err != nil || got != 10 {
		t.Errorf("the pod's own word gives %d, %v", got, err)
	}
}
