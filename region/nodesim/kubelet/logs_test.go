package kubelet

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestWhatACommandEchoes(t *testing.T) {
	for command, want := range map[string][]string{
		"sh|-c|echo hello there; sleep 1":        {"hello there"},
		"sh|-c|echo 'one' && echo \"two\"\nexit": {"one", "two"},
		"/bin/echo|a; b":                         {"a; b"},
		"sh|-c|echo $HOME; echo a > file":        nil,
		"nginx|-g|daemon off;":                   nil,
	} {
		if got := echoed(strings.Split(command, "|")); !slices.Equal(got, want) {
			t.Errorf("%q echoes %q, want %q", command, got, want)
		}
	}
}

func TestALogGrowsAndGoesWithItsPod(t *testing.T) {
	pod := func(name string, state corev1.ContainerState) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name)}}
		p.Spec = corev1.PodSpec{
			NodeName:   "n",
			Containers: []corev1.Container{{Name: "c", Image: "busybox", Command: []string{"echo", "hi"}}},
		}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", State: state}}
		return p
	}
	at := metav1.NewTime(time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC))
	running := pod("job", corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at}})
	ended := pod("job", corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		StartedAt:  at,
		FinishedAt: metav1.NewTime(at.Add(time.Second)),
	}})
	nodes := fixed{pods: map[string]*corev1.Pod{"job": running}}
	l, err := newLogs(t.TempDir(), nodes)
	if err != nil {
		t.Fatal(err)
	}
	read := func(p *corev1.Pod, wantRunning bool) (text, path string) {
		t.Helper()
		f, err := l.file(p, "c")
		if err != nil {
			t.Fatal(err)
		}
		if f.Running() != wantRunning {
			t.Errorf("it runs: %t, want %t", !wantRunning, wantRunning)
		}
		data, err := os.ReadFile(f.Path)
		if err != nil {
			t.Fatal(err)
		}
		return string(data), f.Path
	}
	const first = "2026-11-23T12:00:00Z stdout F [simulated] node n is a simulated node: image busybox does not run here, its process is simulated\n" +
		"2026-11-23T12:00:00Z stdout F [simulated] hi\n"
	const last = "2026-11-23T12:00:01Z stdout F [simulated] the simulated process has ended with exit code 0\n"
	for range 2 {
		if text, _ := read(running, true); text != first {
			t.Errorf("while it runs:\n%s", text)
		}
	}
	nodes.pods["job"] = ended
	var path string
	for range 2 {
		var text string
		if text, path = read(ended, false); text != first+last {
			t.Errorf("after its end:\n%s", text)
		}
	}
	delete(nodes.pods, "job")
	other := pod("other", running.Status.ContainerStatuses[0].State)
	nodes.pods["other"] = other
	read(other, true)
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the log of a pod that is gone: %v", err)
	}
}
