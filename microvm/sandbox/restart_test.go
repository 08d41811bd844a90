package sandbox

import (
	"fmt"
	"testing"

	"github.com/nodeless/nodeless/microvm/vmm"
	"github.com/nodeless/nodeless/microvm/wire"
)

// A container's rule restarts all of the pod's containers, init containers and sidecars included, on the volumes as they
// are. The others are killed at once.
func TestAllContainersRestart(t *testing.T) { withEachDriver(t, allContainersRestart) }

func allContainersRestart(t *testing.T, d vmm.Driver) {
	scripts := []struct {
		name   string
		kind   wire.ContainerKind
		script string
		ends   string // its last run but one, and its last
	}{
		{"first", wire.KindInit, "rm -f /shared/trap; echo once more >>/shared/log", "0 Completed, 0 Completed"},
		{
			"side", wire.KindSidecar, "trap 'exit 3' TERM; touch /shared/trap; while :; do sleep 0.1; done",
			"137 RestartingAllContainers, 3 Error",
		},
		{
			"source", wire.KindRegular,
			"until [ -e /shared/trap ]; do sleep 0.1; done; [ ! -e /shared/again ] || exit 0; " +
				"until [ -e /shared/up ]; do sleep 0.1; done; touch /shared/again; exit 42",
			"42 Error, 0 Completed",
		},
		{
			"victim", wire.KindRegular,
			"touch /shared/up; [ -e /shared/again ] || while :; do sleep 1; done; cat /shared/log",
			"137 RestartingAllContainers, 0 Completed",
		},
	}
	pod := wire.Pod{Volumes: []wire.Volume{{Name: "shared"}}}
	for _, s := range scripts {
		c := container(s.name, s.script)
		c.Kind, c.Mounts = s.kind, []wire.Mount{{Volume: "shared", Path: "/shared"}}
		pod.Containers = append(pod.Containers, c)
	}
	pod.Containers[2].RestartRules = []wire.RestartRule{{Codes: []int{42}, All: true}}
	w := workload("rounds", pod)
	w.ScratchBytes = 64 << 20
	vm := run(t, open(t, Config{Driver: d}), w)
	s := await(t, vm, "the end", ended)
	for i, c := range s.Pod.Containers {
		if c.Exit == nil || c.LastExit == nil || c.Restarts != 1 {
			t.Fatalf("%+v", c)
		}
		ends := fmt.Sprintf("%d %s, %d %s", c.LastExit.Code, c.LastExit.Reason, c.Exit.Code, c.Exit.Reason)
		if ends != scripts[i].ends {
			t.Errorf("%s: %s, want %s", c.Name, ends, scripts[i].ends)
		}
	}
	if got := log(t, vm, logOptions{Container: "victim"}); got != "once more\nonce more\n" {
		t.Errorf("it logged %q", got)
	}
}
